"""Every way to get a statement wrong: the place, the words, the hint."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.errors import StatementError
from panewise.language.limits import MAX_DEPTH, MAX_STATEMENT_CHARACTERS, check_text
from panewise.language.parser import parse
from panewise.language.reader import apply, read
from panewise.language.source import EXCERPT_LENGTH

# Two lines, so that the statements under test begin on line 3.
STREAM = (
    "CREATE STREAM s (t TIMESTAMP, k STRING, j BIGINT, x DOUBLE, b BOOLEAN)\n  TIMESTAMP BY t GRANULARITY 1 MINUTE;\n"
)
Q = "CREATE QUERY q AS SELECT "


def error_of(text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        read(text)
    return caught.value


# Each statement is on line 3; « » mark what is wrong in it, and their place is the expected column.
BOUND = [
    ("COUNT(*) FROM «z» [ROWS 1]", "unknown stream 'z'", "known: s"),
    ("COUNT(*) FROM «S» [ROWS 1]", "unknown stream 'S'", "did you mean s?"),
    ("SUM(«X») FROM s [ROWS 1]", "unknown attribute 'X'", "did you mean x?"),
    ("COUNT(*) FROM s [ROWS 1] WHERE «y» > 1", "unknown attribute 'y'", "known: t, k, j, x, b"),
    ("COUNT(*) FROM s [ROWS 1] GROUP BY «kk»", "unknown attribute 'kk'", "did you mean k?"),
    ("«SUMM»(x) FROM s [ROWS 1]", "unknown function 'SUMM'", "did you mean SUM?"),
    ("«GAMMA»(x) FROM s [ROWS 1]", "unknown function 'GAMMA'", "known: COUNT, SUM"),
    ("«COUNT_ALL»(x) FROM s [ROWS 1]", "unknown function 'COUNT_ALL'", ""),
    ("SUM(«k») FROM s [ROWS 1]", "SUM needs BIGINT or DOUBLE, k is STRING", "COUNT"),
    ("MAX(«b») FROM s [ROWS 1]", "MAX needs BIGINT or DOUBLE or STRING or TIMESTAMP, b is BOOLEAN", "COUNT"),
    ("MEDIAN(«x > 1») FROM s [ROWS 1]", "MEDIAN needs", "COUNT"),
    ("«CORR(x)» FROM s [ROWS 1]", "CORR takes two arguments, got 1", "write CORR(delay, distance)"),
    ("CORR(x, «k») FROM s [ROWS 1]", "the second argument of CORR must be BIGINT or DOUBLE, k is STRING", "attribute"),
    ("ARG_MAX(x, «NULL») FROM s [ROWS 1]", "the second argument of ARG_MAX must be", "attribute"),
    ("MEDIAN(«k») FROM s [ROWS 1]", "MEDIAN needs BIGINT or DOUBLE or TIMESTAMP, k is STRING", "COUNT"),
    ("«LAST_K(k)» FROM s [ROWS 1]", "LAST_K takes two arguments, got 1", "write LAST_K(delay, 10)"),
    ("COLLECT(k, «0») FROM s [ROWS 1]", "must be a whole number from 1 to 10000", "at most ten values"),
    (
        "LENGTH(«COLLECT(k, 2)») FROM s [ROWS 1]",
        "COLLECT gives a list, and nothing is computed from lists",
        "by itself",
    ),
    ("COUNT(*) FROM s [ROWS 1] HAVING «LAST_K(k, 2)» = 'a'", "LAST_K gives a list", "LAST, FIRST"),
    ("BOOL_OR(«x») FROM s [ROWS 1]", "BOOL_OR needs BOOLEAN, x is DOUBLE", "COUNT"),
    ("«EWM_AVG(x, 5)» FROM s [ROWS 1]", "EWM_AVG takes a value and a half life", "HALF LIFE 10 MINUTES"),
    ("«EWM_SUM(x, HALF LIFE 0 SECONDS)» FROM s [ROWS 1]", "a half life must be positive", "HALF LIFE 10 MINUTES"),
    ("«SUM(x, HALF LIFE 1 HOUR)» FROM s [ROWS 1]", "SUM has no half life", "EWM_SUM and EWM_AVG have one"),
    ("COUNT(«NULL») FROM s [ROWS 1]", "NULL, which has no type", "attribute"),
    ("COUNT(*) FROM s [ROWS 1] WHERE «x»", "WHERE needs a condition, x is DOUBLE", "x > 0"),
    ("COUNT(*) FROM s [ROWS 1] WHERE b AND «x + 1»", "AND needs a condition, x + 1 is DOUBLE", "compare"),
    ("COUNT(*) FROM s [ROWS 1] WHERE NOT «k»", "NOT needs a condition, k is STRING", "compare"),
    ("COUNT(*) FROM s [ROWS 1] WHERE x = «'1'»", "cannot compare x (DOUBLE) with '1' (STRING)", "STRING"),
    ("COUNT(*) FROM s [ROWS 1] WHERE «'1'» = x", "cannot compare '1' (STRING) with x (DOUBLE)", "STRING"),
    ("COUNT(*) FROM s [ROWS 1] WHERE t > «'2013-01-01'»", "cannot compare t (TIMESTAMP)", "TIMESTAMP '2013"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j IN (1, «'a'»)", "cannot compare j (BIGINT)", "STRING"),
    ("COUNT(*) FROM s [ROWS 1] WHERE b = «x»", "cannot compare b (BOOLEAN) with x (DOUBLE)", "one type"),
    ("COUNT(*) FROM s [ROWS 1] WHERE «x» LIKE 'a'", "LIKE needs a STRING, x is DOUBLE", "BETWEEN"),
    ("COUNT(*) FROM s [ROWS 1] WHERE x + «k» > 1", "the operator + needs numbers, k is STRING", "BIGINT"),
    (
        "COUNT(*) FROM s [ROWS 1] WHERE «t» - 1 > 1",
        "the operator - needs numbers, t is TIMESTAMP",
        "TIMESTAMP",
    ),
    ("COUNT(*) FROM s [ROWS 1] WHERE -«b» = 1", "a minus sign needs numbers, b is BOOLEAN", "BIGINT"),
    ("COUNT(*) FROM s [ROWS 1] WHERE («x > 1») BETWEEN FALSE AND TRUE", "left side of BETWEEN", "AND and OR"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j IN (1, «NULL»)", "an IN list cannot hold NULL", "IS NULL"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j IN (-«'a'»)", "only a number can be negative", "minus"),
    ("COUNT(*) FROM s [ROWS 1] WHERE k LIKE «'a\\'»", "lone backslash", "escapes"),
    (
        "COUNT(*) FROM s [RANGE «0 SECONDS» SLIDE 1 MINUTE]",
        "RANGE must be positive, got 0 SECONDS",
        "RANGE 5",
    ),
    ("COUNT(*) FROM s [RANGE «-5 MINUTES»]", "RANGE must be positive, got -5 MINUTES", "RANGE 5"),
    ("COUNT(*) FROM s [RANGE 1 HOUR SLIDE «0 DAYS»]", "SLIDE must be positive, got 0 SECONDS", "SLIDE 5"),
    ("COUNT(*) FROM s [RANGE 1 HOUR SLIDE «-1 DAY»]", "SLIDE must be positive, got -1 DAY", "SLIDE 5"),
    ("COUNT(*) FROM s [RANGE 1 DAY SLIDE 1 DAY OFFSET «26 HOURS»]", "OFFSET must be less than", "OFFSET 2 HOURS"),
    ("COUNT(*) FROM s [RANGE 1 DAY SLIDE 1 DAY OFFSET «-1 HOUR»]", "OFFSET must be less than", "whole slides"),
    ("COUNT(*) FROM s [RANGE 1 DAY SLIDE 1 DAY OFFSET «5 SECONDS»]", "OFFSET 5 SECONDS is not a multiple", "finer"),
    ("COUNT(*) FROM s [RANGE 1 DAY SLIDE 1 DAY ALIGN TO TIME ZONE «'Berlin'»]", "unknown time zone 'Berlin'", "Berlin"),
    ("COUNT(*) FROM s [RANGE 1 DAY SLIDE «1 HOUR» ALIGN TO TIME ZONE 'Europe/Berlin']", "no whole number of", "days"),
    ("COUNT(*) FROM s [RANGE «1 HOUR» SLIDE 1 DAY ALIGN TO TIME ZONE 'Europe/Berlin']", "no whole number of", "days"),
    ("COUNT(*) FROM s [CUMULATE «1 HOUR» SLIDE 7 MINUTES]", "CUMULATE 1 HOUR is not a multiple of SLIDE", "divides"),
    ("COUNT(*) FROM s [«SESSION» GAP 30 MINUTES]", "sessions need a MAX", "SESSION GAP 30 MINUTES MAX 1 DAY"),
    ("COUNT(*) FROM s [SESSION GAP «0 MINUTES» MAX 1 DAY]", "GAP must be positive", "GAP 5 MINUTES"),
    ("COUNT(*) FROM s [SESSION GAP 30 MINUTES MAX «-1 DAY»]", "MAX must be positive", "MAX 5 MINUTES"),
    ("COUNT(*) FROM s [SESSION GAP 2 HOURS MAX «1 HOUR»]", "MAX 1 HOUR is shorter than the GAP, 2 HOURS", "one event"),
    ("COUNT(*) FROM s [SESSION GAP «90 SECONDS» MAX 1 DAY]", "GAP 90 SECONDS is not a multiple", "1 MINUTE"),
    ("«SUM(x) OVER [RANGE 1 HOUR]» FROM s [SESSION GAP 1 HOUR MAX 1 DAY]", "OVER is for queries that", "SLIDE 5"),
    ("HISTOGRAM(x) FROM s [SESSION GAP «1 HOUR» MAX 1 DAY]", "needs a window of a fixed length", "SLIDE"),
    ("«SUM(x)» FROM s SLIDE 5 MINUTES", "an aggregate has no window", "OVER [RANGE 1 HOUR]"),
    ("SUM(x) OVER [RANGE 1 HOUR], «MAX(x)» FROM s SLIDE 5 MINUTES", "an aggregate has no window", "add OVER"),
    ("«SUM(x) OVER [RANGE 1 HOUR]» FROM s SLIDE 7 MINUTES", "RANGE 1 HOUR is not a multiple of SLIDE 7", "divides"),
    ("«SUM(x) OVER [RANGE 1 HOUR]» FROM s [RANGE 1 DAY]", "OVER is for queries that slide over time", "SLIDE 5 MIN"),
    ("«SUM(x) OVER [ROWS 5]» FROM s SLIDE 5 MINUTES", "OVER takes a plain range of time", "RANGE 1 HOUR"),
    ("«ABS(x)» OVER [RANGE 1 HOUR] FROM s SLIDE 5 MINUTES", "ABS is no aggregate, and cannot take OVER", "SUM(x)"),
    ("HISTOGRAM(x) FROM s SLIDE «5 MINUTES»", "HISTOGRAM needs a window with a RANGE", "SLIDE"),
    ("COUNT(*) OVER [RANGE 1 HOUR] FROM s SLIDE «5 SECONDS»", "SLIDE 5 SECONDS is not a multiple", "finer"),
    ("HISTOGRAM(x) FROM «s» [CUMULATE 1 HOUR SLIDE 1 HOUR]", "needs a window that is counted from 1970", "RANGE"),
    ("COUNT(*) FROM s [ROWS «0»]", "ROWS must be positive, got 0", "ROWS 100"),
    ("COUNT(*) FROM s [ROWS 5 SLIDE «-2»]", "SLIDE must be positive, got -2", "SLIDE 100"),
    ("COUNT(*) FROM s [ROWS «1.5»]", "a number of rows must be whole, got 1.5", "ROWS 100"),
    ("COUNT(*) FROM s [ROWS «9223372036854775807»]", "is too large", "2**60"),
    ("COUNT(*) FROM s [ROWS BETWEEN 5 PRECEDING AND «5» PRECEDING]", "must begin before it ends", "larger"),
    ("COUNT(*) FROM s [ROWS BETWEEN 5 PRECEDING AND «-1» PRECEDING]", "must not be negative", "last row"),
    ("COUNT(*) FROM s [RANGE BETWEEN 1 HOUR PRECEDING AND «2 HOURS» PRECEDING]", "begin before", "larger"),
    ("COUNT(*) FROM s [RANGE BETWEEN 1 HOUR PRECEDING AND «-1 HOUR» PRECEDING]", "not be negative", "now"),
    (
        "COUNT(*) FROM s [RANGE «90 SECONDS»]",
        "RANGE 90 SECONDS is not a multiple of the granularity",
        "1 MINUTE",
    ),
    ("COUNT(*) FROM s [RANGE 1 HOUR SLIDE «90 SECONDS»]", "SLIDE 90 SECONDS is not a multiple", "1 MINUTE"),
    ("COUNT(*) FROM s [RANGE BETWEEN 1 HOUR PRECEDING AND «1 SECOND» PRECEDING]", "not a multiple", "1 MINUTE"),
    ("COUNT(*) FROM s [RANGE «1.5 MICROSECONDS»]", "not a whole number of microseconds", "microseconds"),
    ("COUNT(*) FROM s [RANGE «1e-99 WEEKS»]", "not a whole number of microseconds", "microseconds"),
    ("COUNT(*) FROM s [RANGE «1e99 HOURS»]", "is too long", "2**60"),
    ("COUNT(*) FROM s [RANGE «1e99999999999999999999 HOURS»]", "is too long", "2**60"),
    ("COUNT(*) FROM s [RANGE 5 «MINUTS»]", "unknown unit of time 'MINUTS'", "did you mean MINUTES?"),
    ("COUNT(*) FROM s [RANGE 5 «FORTNIGHTS»]", "unknown unit of time", "units are"),
    ("COUNT(*) FROM s [RANGE 1«h» SLIDE 5m]", "unknown unit of time 'h'", "write 1 HOUR"),
    ("COUNT(*) FROM s [RANGE 1 HOUR SLIDE 5«min»]", "unknown unit of time 'min'", "write 5 MINUTES"),
    ("COUNT(*) FROM s [RANGE 10 «secs»]", "unknown unit of time 'secs'", "write 10 SECONDS"),
    ("COUNT(*) FROM s [RANGE 1 «MONTH»]", "unknown unit of time 'MONTH'", "no fixed length: write a number of DAYS"),
    (
        "k, COUNT(*) AS n FROM s [RANGE 1 HOUR SLIDE 1 HOUR] GROUP BY «k» ORDER BY n DESC",
        "GROUP BY is for aggregates",
        "leave out ORDER BY: answers have no order: sort the table",
    ),
    ("COUNT(*) FROM s [PARTITION BY «k» ROWS 5]", "partitions by 'k' without grouping by it", "GROUP BY k"),
    ("COUNT(*) FROM s [PARTITION BY «z» ROWS 5] GROUP BY k", "unknown attribute 'z'", "known"),
    ("COUNT(*) FROM s [PARTITION BY k, «k» ROWS 5] GROUP BY k", "'k' is named twice", "remove"),
    ("COUNT(*) FROM s [ROWS 1] WHERE x > 1 AND «MAX(x)» > 2", "WHERE cannot use an aggregate", "HAVING"),
    ("SUM(1 + «MAX(x)») FROM s [ROWS 1]", "an aggregate cannot be inside another aggregate", "itself"),
    ("«k», COUNT(*) FROM s [ROWS 1]", "'k' is neither grouped by nor aggregated", "GROUP BY"),
    ("COUNT(*) FROM s [ROWS 1] GROUP BY k HAVING «x» > 1", "'x' is neither grouped by nor", "MAX(x)"),
    ("COUNT(*) FROM s [ROWS 1] HAVING «COUNT(*)»", "HAVING needs a condition, COUNT(*) is BIGINT", "compare"),
    ("COUNT(*) AS n FROM s [ROWS 1] HAVING «n» LIKE 'a'", "LIKE needs a STRING, COUNT(*) is BIGINT", "other types"),
    ("«MAX(x) > 1» FROM s [ROWS 1]", "an answer is a number, a time or a text, MAX(x) > 1 is BOOLEAN", "CASE WHEN"),
    ("MAX(x) + «APPROX_QUANTILE(x, 0.5)» FROM s [ROWS 1]", "nothing is computed from its answers", "use QUANTILE"),
    ("«MAX(x) - MIN(x)» FROM s [ROWS 1] WITHIN 0.1", "nothing is computed from these", "leave out WITHIN"),
    ("COUNT(*) FILTER (WHERE «MAX(x)» > 1) FROM s [ROWS 1]", "FILTER cannot use an aggregate", "single events"),
    ("«HISTOGRAM(x)» FILTER (WHERE b) FROM s [ROWS 1]", "cannot take FILTER", "into WHERE"),
    ("SUM(CASE WHEN «x» THEN 1 END) FROM s [ROWS 1]", "this place needs a condition, x is DOUBLE", "compare it"),
    ("COUNT_IF(«x») FROM s [ROWS 1]", "this place needs a condition, x is DOUBLE", "compare it"),
    ("«COUNT_IF(b, b)» FROM s [ROWS 1]", "COUNT_IF takes one argument, got 2", "write COUNT_IF(delay > 15)"),
    (
        "COUNT(CASE WHEN b THEN 1 ELSE «k» END) FROM s [ROWS 1]",
        "k is STRING, not BIGINT",
        "one type",
    ),
    ("COUNT(*) FROM s [ROWS 1] HAVING «n» > 1", "unknown attribute 'n'", "known"),
    ("SUM(«ROUND()») FROM s [ROWS 1]", "ROUND takes 1 to 2 arguments, got 0", "ROUND(delay, 2)"),
    ("SUM(ROUND(x, «x»)) FROM s [ROWS 1]", "must be a whole number from 0 to 15", "write ROUND"),
    ("SUM(ABS(«k»)) FROM s [ROWS 1]", "ABS needs numbers, k is STRING", "use BIGINT"),
    ("SUM(LENGTH(«x»)) FROM s [ROWS 1]", "LENGTH needs STRING, x is DOUBLE", "CAST(x AS STRING)"),
    ("SUM(EXTRACT(«HOURS» FROM t)) FROM s [ROWS 1]", "takes the name of a unit, got 'HOURS'", "did you mean HOUR?"),
    ("SUM(COALESCE(x, «k»)) FROM s [ROWS 1]", "the arguments of COALESCE have one type", "one type"),
    ("COUNT(CAST(«x» AS STRING)) FROM s [ROWS 1]", "which is DOUBLE, into STRING", "it takes BOOLEAN, BIGINT"),
    ("COUNT(CAST(x AS «DECIMAL»)) FROM s [ROWS 1]", "unknown type 'DECIMAL'", "exact"),
    ("«ABS(x)» FILTER (WHERE b) FROM s [ROWS 1]", "ABS is no aggregate, and cannot take FILTER", "behind an aggregate"),
    ("«1» FROM s [ROWS 1]", "must be a grouped attribute or hold an aggregate", "add an aggregate"),
    ("«k» FROM s [ROWS 1] GROUP BY k", "SELECT needs at least one aggregate", "COUNT(*)"),
    ("COUNT(*), «count(*)» FROM s [ROWS 1]", "two SELECT items are called 'COUNT(*)'", "AS"),
    ("k, COUNT(*) AS «k» FROM s [ROWS 1] GROUP BY k", "two SELECT items are called 'k'", "AS"),
    ("COUNT(*) FROM s [ROWS 1] GROUP BY k, «k»", "GROUP BY attribute 'k' is named twice", "remove"),
    ("QUANTILE(x, «1.5») FROM s [ROWS 1]", "must be a number from 0 to 1", "0.9"),
    ("QUANTILE(x, «j») FROM s [ROWS 1]", "must be a number from 0 to 1", "0.9"),
    ("QUANTILE(x, «TRUE») FROM s [ROWS 1]", "must be a number from 0 to 1", "0.9"),
    ("«QUANTILE(x)» FROM s [ROWS 1]", "QUANTILE takes two arguments, got 1", "QUANTILE(delay, 0.9)"),
    ("«SUM(x, x)» FROM s [ROWS 1]", "SUM takes one argument, got 2", "SUM(attribute)"),
    ("«COUNT()» FROM s [ROWS 1]", "COUNT takes one argument, got 0", "COUNT(*)"),
    ("«SUM(*)» FROM s [ROWS 1]", "SUM(*) has no meaning", "only COUNT"),
    ("«SUM(DISTINCT x)» FROM s [ROWS 1]", "SUM cannot take DISTINCT", "COUNT(DISTINCT e)"),
    ("COUNT(*) FROM s [ROWS 1] WITHIN «0»", "WITHIN must be above 0 and below 1, got 0", "WITHIN 0.05"),
    ("COUNT(*) FROM s [ROWS 1] WITHIN «100» PERCENT", "WITHIN must be above 0 and below 1", "5 PERCENT"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j = «9223372036854775808»", "is out of range", "integers go from"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j > -«99999999999999999999»", "is out of range", "decimal point"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j > «- - 9223372036854775808»", "is out of range", "decimal point"),
    ("COUNT(*) FROM s [ROWS 1] WHERE j IN («9223372036854775808»)", "is out of range", "decimal point"),
    ("COUNT(*) FROM s [ROWS 1] WHERE x > «1e999»", "is out of range", "1.8e308"),
    ("COUNT(*) FROM s [ROWS 1] WHERE t > «TIMESTAMP 'noon'»", "'noon' is not a timestamp", "TIMESTAMP '2013"),
    ("COUNT(*) FROM s [ROWS 1] WHERE t > «TIMESTAMP '2013-02-30'»", "is not a timestamp", "TIMESTAMP '2013"),
    ("COUNT(*) FROM s [ROWS 1] WHERE t > «TIMESTAMP '0001-01-01 00:00:00+01:00'»", "years 1 to 9999", ""),
    ("COUNT(*) FROM «s» WHERE b", "'s' needs a window here", "needs a window, for instance [RANGE"),
    ("COUNT(*) FROM s [ROWS 1] AS «z»", "only the streams of a JOIN can have other names", "leave out AS"),
    ("COUNT(*) FROM s [ROWS 1] «INTO» [ROWS 5]", "INTO is for queries that answer with rows", "ORDER BY"),
    ("COUNT(*) FROM s [ROWS 1] «USING» t_index OVER list", "USING is for queries that answer with rows", "ORDER BY"),
    ("«s.x» FROM s", "unknown attribute 's.x'", "known: t, k"),
    ("x, «x» FROM s", "two SELECT items are called 'x'", "AS"),
    ("x AS «time» FROM s", "the rows already have a column 'time'", "AS"),
    ("«SUM(x)» + 1 AS y FROM s [ROWS 2 SLIDE 1] ORDER BY x", "an aggregate cannot be used here", "of their own"),
    ("x FROM s «USING» t_index OVER list", "this query needs no index", "leave out USING"),
    ("SUM(x) FROM s [ROWS 5] USING «timegram»", "answers with intervals", "add WITHIN 5 PERCENT"),
    ("HISTOGRAM(x) FROM «s» [ROWS 5]", "HISTOGRAM needs a window that slides", "SLIDE 1 MINUTE"),
    ("HISTOGRAM(x) FROM «s»", "HISTOGRAM needs a window", "SLIDE 1 MINUTE"),
    ("HISTOGRAM(x, «0») FROM s [ROWS 5 SLIDE 1]", "must be a positive number", "HISTOGRAM(x, 10)"),
    ("HISTOGRAM(x, «j») FROM s [ROWS 5 SLIDE 1]", "must be a positive number", "HISTOGRAM(x, 10)"),
    ("«HISTOGRAM(k, 5)» FROM s [ROWS 5 SLIDE 1]", "ranges are of BIGINT or DOUBLE, these values are STRING", "width"),
    ("«HISTOGRAM(j, 0.5)» FROM s [ROWS 5 SLIDE 1]", "ranges of BIGINT need whole numbers", "10"),
    ("HISTOGRAM(x, 1, 3, «2») FROM s [ROWS 5 SLIDE 1]", "the bounds of value ranges must ascend", "HISTOGRAM(x, 0, 10"),
    ("HISTOGRAM(x, 1, «j») FROM s [ROWS 5 SLIDE 1]", "a bound of value ranges must be a number", "HISTOGRAM(x, 0, 10"),
    ("HISTOGRAM(x), «j» FROM s [ROWS 5 SLIDE 1]", "must be alone in SELECT", "two queries"),
    ("HISTOGRAM(x) AS «h» FROM s [ROWS 5 SLIDE 1]", "the columns of HISTOGRAM have fixed names", "AS"),
    ("HISTOGRAM(«MAX(x)») FROM s [ROWS 5 SLIDE 1]", "an aggregate cannot be inside", "itself"),
    ("COUNT(*) FROM s [ROWS 5] WHERE «HISTOGRAM(x)» > 1", "HISTOGRAM gives rows, not a value", "alone"),
    ("TOP_K(x, «0») FROM s [ROWS 5 SLIDE 1]", "must be a whole number from 1 on", "TOP_K(symbol, 10)"),
    ("«TOP_K(x)» FROM s [ROWS 5 SLIDE 1]", "TOP_K takes two arguments, got 1", "TOP_K(symbol, 10)"),
    ("TOP_K(x, 3) FROM s [ROWS 5 SLIDE 1] GROUP BY «z»", "unknown attribute 'z'", ""),
    ("«j», TOP_K(x, 3), k FROM s [ROWS 5 SLIDE 1] GROUP BY k", "must be alone in SELECT", "GROUP BY"),
    (
        "x FROM s [ROWS 5 SLIDE 1] GROUP BY «k» INTERSECT SELECT x FROM s [ROWS 5 SLIDE 1]",
        "GROUP BY is for",
        "leave out",
    ),
    ("TOP_K(x, 3) FROM s [ROWS 5 SLIDE 1] HAVING «b»", "HAVING is for aggregates", "leave out HAVING"),
    ("TOP_K(x, 3) FROM s [ROWS 5 SLIDE 1] USING «g_index» OVER list", "USING cannot take 'g_index'", "t_index"),
    ("TOP_K(x, 3) FROM s [ROWS 5 SLIDE 1] USING t_index OVER «group»", "USING cannot take 'group'", "hash"),
    ("x FROM s [ROWS 5 SLIDE 1] ORDER BY «z»", "unknown attribute 'z'", "known"),
    ("x FROM s [ROWS 5 SLIDE 1] ORDER BY j LIMIT «0»", "LIMIT must be positive, got 0", "LIMIT 100"),
    ("x FROM «s» [ROWS 5] ORDER BY j", "ORDER BY needs a window that slides", "SLIDE"),
    ("x FROM s [ROWS 4 SLIDE 1] INTERSECT SELECT x FROM «s» [RANGE 1 HOUR SLIDE 1 HOUR]", "cannot mix", "both"),
    ("x FROM s [ROWS 4 SLIDE 1] INTERSECT SELECT x FROM «s» [ROWS 4 SLIDE 2]", "need the same SLIDE", "first"),
    (
        "x FROM s [RANGE 3 MINUTES SLIDE 2 MINUTES] INTERSECT SELECT x FROM «s» [RANGE 4 MINUTES SLIDE 2 MINUTES]",
        "never end together",
        "multiple of the slide",
    ),
    ("x FROM s [ROWS 4 SLIDE 1] INTERSECT SELECT «j» FROM s [ROWS 4 SLIDE 1]", "values of one type", "same type"),
    ("x FROM s [ROWS 4 SLIDE 1] INTERSECT SELECT x FROM s [ROWS 4 SLIDE 1] BY RANGES OF «-1»", "positive number", ""),
    ("x FROM «s» [ROWS 2000001 SLIDE 1] ORDER BY x", "needs 2,000,001 basic windows", "slide"),
    ("s.x FROM s [ROWS 5] JOIN «s» [ROWS 5] ON s.j = s.j", "both sides of the JOIN are called 's'", "AS a"),
    ("a.x FROM s [ROWS 5] AS a JOIN s [ROWS 5] AS b ON a.j = b.j WHERE «x» > 1", "'x' needs its stream", "a.x or b.x"),
    ("«c.x» FROM s [ROWS 5] AS a JOIN s [ROWS 5] AS b ON a.j = b.j", "the JOIN has no stream 'c'", "a, b"),
    ("a.x FROM s [ROWS 5] AS a JOIN s [ROWS 5] AS b ON «a.j > b.j»", "ON must equate one attribute", "WHERE"),
    ("a.x FROM s [ROWS 5] AS a JOIN s [ROWS 5] AS b ON «a.j = a.x»", "ON must equate one attribute", "WHERE"),
    ("a.x FROM s [ROWS 5] AS a JOIN s [ROWS 5] AS b ON a.j = «b.k»", "cannot compare a.j (BIGINT)", ""),
    ("a.x FROM s [ROWS 5] AS a JOIN «s» AS b ON a.j = b.j", "'s' needs a window to be joined", "[ROWS 1000]"),
    ("a.x FROM «s» [ROWS 5 SLIDE 1] AS a JOIN s [ROWS 5] AS b ON a.j = b.j", "JOIN needs a plain window", "[ROWS"),
    ("x FROM s «INTO» [ROWS 5 SLIDE 1]", "INTO needs a plain window", "[ROWS 1000]"),
    ('COUNT(*) FROM s [ROWS 1] WHERE «""» > 1', "a name cannot be empty", "between the double quotes"),
]


@pytest.mark.parametrize(("marked", "message", "hint"), BOUND)
def test_queries_that_are_wrong(marked: str, message: str, hint: str) -> None:
    statement = (Q + marked).replace("«", "").replace("»", "")
    error = error_of(STREAM + statement)
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column) == (3, (Q + marked).index("«") + 1)
    assert error.text == statement or len(statement) > EXCERPT_LENGTH
    assert str(error).startswith(f"line 3, column {error.column}: ")


SYNTAX = [
    (Q + "SUM(CASE «k» WHEN 'a' THEN 1 END) FROM s [ROWS 1]", "unexpected 'k'", "write CASE WHEN"),
    (Q + "SUM(x) FROM s [ROWS 1] «FILTER» (WHERE b)", "unexpected 'FILTER'", "behind an aggregate"),
    (Q + "COUNT(*) FROM TUMBLE«(»s, 1 HOUR)", "unexpected '('", "s [RANGE 1 HOUR SLIDE 1 HOUR] tumbles"),
    (Q + "COUNT(*) FROM s GROUP BY TUMBLE«(»t, 1)", "unexpected '('", "a window stands in brackets"),
    (Q + "COUNT(*) FROM s [«TUMBLING» 1 HOUR]", "unexpected 'TUMBLING'", "a window stands in brackets"),
    (Q + "SUM(x) OVER «(»ORDER BY t) FROM s [ROWS 1]", "unexpected '('", "OVER stands behind an aggregate"),
    (Q + "COUNT(*) FROM s [RANGE «INTERVAL» '1' HOUR]", "unexpected 'INTERVAL'", "without quotes: 1 HOUR"),
    (Q + "COUNT(*) FROM s [RANGE «'1 hour'»]", "unexpected \"'1 hour'\"", "without quotes: 1 HOUR"),
    (Q + "k, COUNT(*) FROM s [ROWS 1] GROUP BY k ORDER BY COUNT«(»*)", "unexpected '('", "answers have no order: sort"),
    (Q + "k, COUNT(*) FROM s [ROWS 1] GROUP BY k «LIMIT» 3", "unexpected 'LIMIT'", "LIMIT is for ORDER BY over rows"),
    ("CREATE STREAM z (t TIMESTAMP, p «DECIMAL»(10, 2)) TIMESTAMP BY t", "unknown type 'DECIMAL'", "such as cents"),
    ("CREATE STREAM z (t «DATETIME») TIMESTAMP BY t", "unknown type 'DATETIME'", "TIMESTAMP(ms)"),
    ("CREATE STREAM z (t TIMESTAMP(«3»)) TIMESTAMP BY t", "'3' is not a unit of TIMESTAMP", "one of s, ms, us, ns"),
    ("CREATE STREAM z (t TIMESTAMP(«ms», us)) TIMESTAMP BY t", "'ms' is not a unit", "as in TIMESTAMP(ms)"),
    ("CREATE STREAM z (t TIMESTAMP, k VARCHAR(«20»)) TIMESTAMP BY t", "VARCHAR takes no parameter", "VARCHAR alone"),
    ("«CRETE» STREAM z", "unexpected 'CRETE', expected CREATE, DROP or the end", "did you mean CREATE?"),
    ("CREATE «QEURY» q", "unexpected 'QEURY', expected QUERY or STREAM", "did you mean QUERY?"),
    ("CREATE QUERY «from» AS", "unexpected 'from', expected a name", 'write "from" in double quotes'),
    (Q + "«FROM» s [ROWS 1]", "unexpected 'FROM', expected an expression", ""),
    (Q + "«*» FROM s [ROWS 1]", "unexpected '*', expected an expression", "one by one"),
    (Q + "COUNT(*) «FORM» s", "unexpected 'FORM', expected AS, FILTER, FROM", "did you mean FROM?"),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE x = «;»", "the statement ends too early, expected an expr", ""),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE x =« »", "the text ends too early, expected an expression", ""),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE x =«=» 1", "unexpected '=', expected an expression", ""),
    (Q + "COUNT(*) FROM s [RANGE 1 HOUR «SLID» 1 HOUR]", "expected SLIDE or ']'", "did you mean SLIDE?"),
    (Q + "COUNT(*) FROM s [ROWS 1] GROUP BY k «HAVIN» b", "expected HAVING", "did you mean HAVING?"),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE x IN («y»)", "unexpected 'y', expected a constant", ""),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE x IS «5»", "unexpected '5', expected NOT or NULL", ""),
    ("CREATE STREAM z (a BIGINT «b» DOUBLE)", "unexpected 'b', expected '(', ')' or ','", ""),
    ("CREATE STREAM z (a BIGINT) «PARTITION» BY a", "expected TIMESTAMP", ""),
    ("DROP «STREAM» s", "unexpected 'STREAM', expected QUERY", ""),
    ("DROP QUERY «#»", "unexpected character '#'", "remove it"),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE k = «‘»a", "unexpected character '‘'", "write strings in '...'"),
    (Q + "COUNT(*) FROM s [ROWS 1] WHERE k = «'»abc", "unterminated string", "close it with '"),
    (
        Q + "COUNT(*) FROM s [ROWS 1] WHERE k = 'a' OR k = «'»abc''",
        "unterminated string",
        "'' stands for one quote",
    ),
    (Q + 'COUNT(*) FROM «"»s [ROWS 1]', "unterminated quoted name", 'close it with "'),
    (Q + "COUNT(*) «/»* FROM s [ROWS 1]", "unterminated comment", "close it with */"),
    ("DROP QUERY «z»", "unknown query 'z'", "there are no queries"),
    ("CREATE STREAM «s» (t TIMESTAMP) TIMESTAMP BY t", "the stream 's' already exists", "another name"),
    ("CREATE STREAM z (t TIMESTAMP, «t» BIGINT) TIMESTAMP BY t", "attribute 't' is named twice", "remove"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY «u»", "unknown attribute 'u'", "known: t"),
    (
        "CREATE STREAM z (t BIGINT) TIMESTAMP BY «t»",
        "TIMESTAMP BY needs a TIMESTAMP, 't' is BIGINT",
        "declare",
    ),
    ("CREATE STREAM z (t «TIMESTMP») TIMESTAMP BY t", "unknown type 'TIMESTMP'", "did you mean TIMESTAMP?"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t WATERMARK «-1 DAY»", "must not be negative", "no delay"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t GRANULARITY «0 DAYS»", "must be positive", "1 SECOND"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t ON LATE CORRECT «0 DAYS»", "must be positive", "1 HOUR"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t WATERMARK 1 DAY WATERMARK «1 DAY»", "given twice", "keep"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t FUTURE BOUND «-1 HOUR»", "must not be negative", "BOUND NONE"),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t FUTURE BOUND «NON»", "unexpected 'NON'", "did you mean NONE?"),
    (
        "CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t FUTURE BOUND 1 HOUR «FUTURE BOUND NONE»",
        "FUTURE BOUND is given twice",
        "keep",
    ),
    ("CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t FUTURE «BOND» 1 HOUR", "expected BOUND", "did you mean BOUND?"),
    (Q + "SUM(x) FROM s [ROWS 1] ON OVERFLOW «FAIL»", "unexpected 'FAIL', expected ERROR or NULL", ""),
    (Q + "SUM(x) FROM s [ROWS 1] ON «OVERFLW» NULL", "unexpected 'OVERFLW'", "did you mean OVERFLOW?"),
    (
        Q + "k FROM s [ROWS 1] ON «OVERFLOW ERROR» ORDER BY k",
        "ON OVERFLOW is for aggregates, and this query answers with rows",
        "leave out ON OVERFLOW",
    ),
    ("DROP QUERY \ud800«»", "cannot be written as UTF-8", "encoding"),
]


@pytest.mark.parametrize(("marked", "message", "hint"), SYNTAX)
def test_statements_that_are_wrong(marked: str, message: str, hint: str) -> None:
    column = marked.index("«") + (1 if "\ud800" not in marked else 0)
    error = error_of(STREAM + marked.replace("«", "").replace("»", ""))
    assert message in error.message
    assert hint in error.hint
    assert (error.line, error.column) == (3, column)


def test_a_query_cannot_be_created_twice() -> None:
    one = "CREATE QUERY q AS SELECT COUNT(*) FROM s [ROWS 1]"
    error = error_of(f"{STREAM}{one};\n{one}")
    assert "the query 'q' already exists" in error.message
    assert (error.line, error.column) == (4, 14)
    with pytest.raises(StatementError, match="already exists"):
        apply(read(STREAM + one), one)


def test_one_key_has_one_type_in_all_queries() -> None:
    text = (
        "CREATE STREAM a (t TIMESTAMP, k STRING) TIMESTAMP BY t;\n"
        "CREATE STREAM b (t TIMESTAMP, k BIGINT) TIMESTAMP BY t;\n"
        "CREATE QUERY p AS SELECT COUNT(*) FROM a [ROWS 1] GROUP BY k;\n"
        "CREATE QUERY q AS SELECT COUNT(*) FROM b [ROWS 1]"
    )
    assert len(read(text).queries) == 2
    error = error_of(text + " GROUP BY k")
    assert "'k' is BIGINT here, and STRING in the stream 'a'" in error.message
    assert (error.line, error.column) == (4, 60)


def test_a_missing_quote_is_placed_where_its_string_runs_over_a_line() -> None:
    query = (
        Q
        + "COUNT(*) FROM s [ROWS 1] WHERE k = 'a;\n"
        + "CREATE QUERY r AS SELECT COUNT(*) FROM s [ROWS 1] WHERE k = 'b'"
    )
    error = error_of(STREAM + query)
    assert "unterminated string" in error.message
    assert (error.line, error.column) == (3, 61)


@pytest.mark.parametrize("text", ["", "  \n", "-- nothing\n", ";;"])
def test_nothing_is_no_workload(text: str) -> None:
    assert "there is no statement here" in error_of(text).message
    with pytest.raises(StatementError, match="no statement"):
        apply(read(STREAM), text)


def test_a_statement_of_a_megabyte_is_refused() -> None:
    long = Q + "COUNT(*) FROM s [ROWS 1] WHERE x IN (" + ", ".join(["1"] * 350_000) + ")"
    error = error_of(STREAM + "/* first */ " + long)
    assert "the statement is too long: 1,0" in error.message
    assert (error.line, error.column) == (3, 13)
    assert len(error.text) < 2 * EXCERPT_LENGTH
    # Long comments and long files are not long statements.
    padding = f"/*{' ' * MAX_STATEMENT_CHARACTERS}*/"
    assert len(read(STREAM + padding + padding + Q + "COUNT(*) FROM s [ROWS 1]").queries) == 1
    for unclosed in ("'", '"', "/*", "(", "[", "- ", "NOT "):
        with pytest.raises(StatementError):
            read(STREAM + Q + unclosed * 500_001)


@pytest.mark.parametrize(
    ("condition", "column"),
    [
        ("NOT " * 15_000 + "b", None),
        ("x > " + "- " * 20_000 + "x", None),
        (" OR ".join(["b"] * 10_000), None),
        (" + ".join(["x"] * 10_000) + " > 1", None),
        ("NOT " * MAX_DEPTH + "b", 57 + 4 * MAX_DEPTH),
    ],
)
def test_deep_nesting_is_refused(condition: str, column: int | None) -> None:
    error = error_of(STREAM + Q + "COUNT(*) FROM s [ROWS 1] WHERE " + condition)
    assert f"nested too deeply, more than {MAX_DEPTH} levels" in error.message
    assert error.line == 3
    assert column is None or error.column == column


@pytest.mark.parametrize("opened", [MAX_DEPTH + 1, 30_000])
def test_parentheses_are_levels_too(opened: int) -> None:
    error = error_of(STREAM + Q + "COUNT(*) FROM s [ROWS 1] WHERE " + "(" * opened + "b" + ")" * opened)
    assert f"nested too deeply, more than {MAX_DEPTH} levels" in error.message
    assert (error.line, error.column) == (3, 57 + MAX_DEPTH)


def test_a_chain_is_refused_before_the_rest_of_it_is_parsed() -> None:
    """An error behind the level that is too deep is never reached."""
    for chain in ("x + ", "x * ", "b OR ", "b AND "):
        text = STREAM + Q + "COUNT(*) FROM s [ROWS 1] WHERE " + chain * (MAX_DEPTH + 2) + "= = ="
        assert "nested too deeply" in error_of(text).message


def test_empty_statements_never_reach_the_parser() -> None:
    text = STREAM + "; ;/* ; */;\n-- ;\n" * 3 + Q + "';;' " + ";" * 100_000
    cleaned = check_text(text)
    assert len(cleaned) == len(text)
    assert cleaned.count(";") == STREAM.count(";") + 3
    error = error_of(STREAM + ";;\n" * 5 + "DROP QUERY;;; x")
    assert (error.line, error.column) == (STREAM.count("\n") + 6, 11)
    assert len(parse(STREAM + ";" * 1000 + "DROP QUERY a" + ";\n;" * 1000)) == len(parse(STREAM)) + 1


def test_parentheses_and_the_depth_allowed_are_fine() -> None:
    where = Q + "COUNT(*) FROM s [ROWS 1] WHERE "
    assert read(STREAM + where + "(" * MAX_DEPTH + "b" + ")" * MAX_DEPTH).queries
    assert read(STREAM + where + "(b) AND " * (MAX_DEPTH - 2) + "'(((' <> '('").queries
    assert read(STREAM + where + "NOT " * (MAX_DEPTH - 1) + "b").queries
    nested = "x"
    for _ in range(60):
        nested = f"({nested}) BETWEEN 0 AND 1"
    assert "left side of BETWEEN" in error_of(STREAM + where + nested).message


def test_bytes_that_are_not_utf_8_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "latin.sql"
    path.write_bytes(STREAM.encode() + "-- é caf".encode() + b"\xe9\n")
    with pytest.raises(StatementError) as caught:
        read(path)
    error = caught.value
    assert error.message == f"the byte 0xe9 at offset {len(STREAM) + 9} is not UTF-8"
    assert (error.line, error.column, error.text) == (3, 9, "-- é caf")


def test_a_long_line_is_shown_shortened() -> None:
    error = error_of(STREAM + Q + "COUNT(*) FROM s [ROWS 1] WHERE j IN (" + "1, " * 500 + "'a')")
    assert "'a'" in error.text
    assert len(error.text) <= EXCERPT_LENGTH + 6


WORDS = re.findall(
    r"\S+",
    """CREATE STREAM QUERY AS SELECT FROM WHERE GROUP BY HAVING WITHIN DROP RANGE ROWS SLIDE BETWEEN AND
    JOIN ON INTERSECT RANGES OF ORDER DESC LIMIT INTO USING OVER HISTOGRAM TOP_K
    PRECEDING PARTITION TIMESTAMP NOT IN IS NULL LIKE OR TRUE COUNT SUM QUANTILE DISTINCT ( ) [ ] , ; * + -
    / = < <> 'a' '2013-01-01' s t k x b q "k" 1 0 0.5 1e400 99999999999999999999 HOURS
    SECOND -- /* */ ' " . é # \0""",
)
STARTS = [
    "",
    STREAM,
    STREAM + Q,
    STREAM + Q + "COUNT(*) FROM s [",
    STREAM + Q + "COUNT(*) FROM s [ROWS 1] WHERE ",
]
FUZZ = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))


@FUZZ
@given(
    st.sampled_from(STARTS),
    st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30),
)
def test_any_text_is_read_or_refused_with_a_place(start: str, rest: str) -> None:
    place = (1, 1)
    try:
        apply(read(STREAM), start.replace("STREAM s", "STREAM z") + rest)
    except StatementError as error:
        place = (error.line, error.column)
    assert min(place) >= 1


@FUZZ
@given(st.text(max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(StatementError):
        parse(text)
