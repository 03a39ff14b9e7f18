from __future__ import annotations

import importlib.resources
import re
import subprocess
import sys
from pathlib import Path

import pytest

from panewise.aggregates.types import Type
from panewise.errors import PanewiseError, StatementError
from panewise.language.binder import bind
from panewise.language.expressions import (
    AggregateCall,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
)
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.parser import parse
from panewise.language.printer import print_name
from panewise.language.reader import apply, read
from panewise.language.words import RESERVED, TYPES
from panewise.language.workload import Workload
from panewise.windows import RowWindow, SessionWindow, TimeWindow, Window

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, j BIGINT, n BIGINT, x DOUBLE, b BOOLEAN) TIMESTAMP BY t;\n"
FLIGHTS = """
CREATE STREAM flights (dep TIMESTAMP, origin STRING, carrier STRING, delay DOUBLE)
  TIMESTAMP BY dep WATERMARK 2 HOURS GRANULARITY 1 MINUTE;

CREATE QUERY delay_by_origin AS
  SELECT origin, AVG(delay), MAX(delay) FROM flights [RANGE 6 HOURS SLIDE 30 MINUTES]
  WHERE carrier <> 'AA' GROUP BY origin HAVING COUNT(*) > 10;

CREATE QUERY last_hour AS SELECT QUANTILE(delay, 0.9) FROM flights [RANGE 1 HOUR];
DROP QUERY last_hour;
"""


def where(condition: str) -> Expression | None:
    text = f"{STREAM}CREATE QUERY q AS SELECT COUNT(*) FROM s [ROWS 1] WHERE {condition}"
    return read(text).queries["q"].where


def query(select: str = "COUNT(*)", window: str = "[ROWS 1]", rest: str = "") -> Query:
    return read(f"{STREAM}CREATE QUERY q AS SELECT {select} FROM s {window} {rest}").queries["q"]


def test_the_example_of_the_design_is_read() -> None:
    delay = Attribute("delay")
    flights = Stream(
        "flights",
        {"dep": Type.TIMESTAMP, "origin": Type.STRING, "carrier": Type.STRING, "delay": Type.DOUBLE},
        "dep",
        2 * HOUR,
        MINUTE,
    )
    by_origin = Query(
        "delay_by_origin",
        "flights",
        TimeWindow(6 * HOUR, slide_us=30 * MINUTE),
        (
            SelectItem(Attribute("origin")),
            SelectItem(AggregateCall("AVG", delay)),
            SelectItem(AggregateCall("MAX", delay)),
        ),
        Comparison("<>", Attribute("carrier"), Literal("AA", Type.STRING)),
        ("origin",),
        Comparison(">", AggregateCall("COUNT_ALL"), Literal(10, Type.BIGINT)),
    )
    assert read(FLIGHTS) == Workload({"flights": flights}, {"delay_by_origin": by_origin})


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("[RANGE 6 HOURS SLIDE 30 MINUTES]", TimeWindow(6 * HOUR, slide_us=30 * MINUTE)),
        ("[RANGE 1 HOUR]", TimeWindow(HOUR)),
        ("[RANGE BETWEEN 1 HOUR PRECEDING AND 60 SECONDS PRECEDING]", TimeWindow(HOUR, MINUTE)),
        ("[RANGE BETWEEN 1 HOUR PRECEDING AND 0 SECONDS PRECEDING]", TimeWindow(HOUR)),
        ("[SESSION GAP 60 SECONDS MAX 1 HOUR]", SessionWindow(MINUTE, HOUR)),
        ("[range 1.5 seconds slide 250 Milliseconds]", TimeWindow(1_500_000, slide_us=250_000)),
        ("[RANGE 1 WEEK SLIDE 1 DAY]", TimeWindow(168 * HOUR, slide_us=24 * HOUR)),
        ("[RANGE 5e-6 SECONDS]", TimeWindow(5)),
        ("[RANGE 7 MICROSECONDS]", TimeWindow(7)),
        ("[ROWS 100]", RowWindow(100)),
        ("[ROWS 100 SLIDE 10]", RowWindow(100, slide=10)),
        ("[ROWS BETWEEN 100 PRECEDING AND 10 PRECEDING]", RowWindow(100, 10)),
        ("[ROWS BETWEEN 100 PRECEDING AND 0 PRECEDING]", RowWindow(100)),
        ("[PARTITION BY k ROWS 5]", RowWindow(5, partition_by=("k",))),
        (
            "[PARTITION BY k, j ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING]",
            RowWindow(5, 2, partition_by=("k", "j")),
        ),
    ],
)
def test_every_form_of_window(text: str, window: Window) -> None:
    assert query(window=text, rest="GROUP BY k, j").window == window


def test_conditions() -> None:
    n, x, k = Attribute("n"), Attribute("x"), Attribute("k")
    one, two = Literal(1, Type.BIGINT), Literal(2, Type.BIGINT)
    low, high = Comparison(">=", n, one), Comparison("<=", n, two)
    cases: dict[str, Expression] = {
        "n BETWEEN 1 AND 2": Logical("AND", low, high),
        "n not between 1 and 2": Not(Logical("AND", low, high)),
        "n BETWEEN 1 AND 2 AND b": Logical("AND", Logical("AND", low, high), Attribute("b")),
        "n IN (1, -2, 2.5)": InList(n, (one, Literal(-2, Type.BIGINT), Literal(2.5, Type.DOUBLE))),
        "k NOT IN ('it''s')": InList(k, (Literal("it's", Type.STRING),), True),
        "k LIKE 'a%'": Like(k, "a%"),
        "k NOT LIKE '_'": Like(k, "_", True),
        "x IS NULL": IsNull(x),
        "x IS NOT NULL": IsNull(x, True),
        "NOT b": Not(Attribute("b")),
        "n != 1": Comparison("<>", n, one),
        "b OR b AND b": Logical("OR", Attribute("b"), Logical("AND", Attribute("b"), Attribute("b"))),
        "n = 1 OR n = 2 OR b": Logical(
            "OR", Logical("OR", Comparison("=", n, one), Comparison("=", n, two)), Attribute("b")
        ),
        "x + 1 * 2 > -x": Comparison(">", Arithmetic("+", x, Arithmetic("*", one, two)), Negate(x)),
        "n - 1 - 2 = - - 1": Comparison("=", Arithmetic("-", Arithmetic("-", n, one), two), one),
        "n = -9223372036854775808": Comparison("=", n, Literal(-(2**63), Type.BIGINT)),
        "x > 1e3 AND x < .5": Logical(
            "AND",
            Comparison(">", x, Literal(1000.0, Type.DOUBLE)),
            Comparison("<", x, Literal(0.5, Type.DOUBLE)),
        ),
        "b = TRUE": Comparison("=", Attribute("b"), Literal(True, Type.BOOLEAN)),
        "NULL": Literal(None, None),
    }
    for text, expression in cases.items():
        assert where(text) == expression, text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01 00:00:01", SECOND),
        ("1970-01-01", 0),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1969-12-31 23:00:00 -0100", 0),
        ("2013-01-01 05:00:00.000001", 1_357_016_400_000_001),
    ],
)
def test_timestamps(text: str, value: int) -> None:
    assert where(f"t > TIMESTAMP '{text}'") == Comparison(">", Attribute("t"), Literal(value, Type.TIMESTAMP))


def test_every_function_and_synonym() -> None:
    x = Attribute("x")
    plain = [
        "COUNT",
        "SUM",
        "AVG",
        "MIN",
        "MAX",
        "VAR_POP",
        "VAR_SAMP",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "MEDIAN",
    ]
    cases = {f"{name}(x)": AggregateCall(name, x) for name in plain} | {
        "count(*)": AggregateCall("COUNT_ALL"),
        "Count(Distinct x)": AggregateCall("COUNT_DISTINCT", x),
        "mean(x)": AggregateCall("AVG", x),
        "VARIANCE(x)": AggregateCall("VAR_SAMP", x),
        "STDDEV(x)": AggregateCall("STDDEV_SAMP", x),
        "QUANTILE(t, 1)": AggregateCall("QUANTILE", Attribute("t"), 1.0),
        "COUNT(x > 1)": AggregateCall("COUNT", Comparison(">", x, Literal(1, Type.BIGINT))),
    }
    for text, call in cases.items():
        assert query(text).select == (SelectItem(call),), text
    both = "SUM(x), sum(x) AS again, QUANTILE(x, 0.5), QUANTILE(x, 0.9)"
    assert len(query(both).select) == 4


@pytest.mark.parametrize(("text", "width"), [("0.05", 0.05), ("5 PERCENT", 0.05), ("12.5 %", 0.125), ("5%", 0.05)])
def test_within(text: str, width: float) -> None:
    assert query(rest=f"WITHIN {text}").within == width


def test_types_and_their_synonyms() -> None:
    attributes = ", ".join(f"a{n} {word.lower()}" for n, word in enumerate(TYPES))
    stream = read(f"CREATE STREAM s ({attributes}, t TIMESTAMP) TIMESTAMP BY t GRANULARITY 1 SECOND WATERMARK 1 DAY")
    assert list(stream.streams["s"].attributes.values())[:-1] == list(TYPES.values())
    assert (stream.streams["s"].granularity_us, stream.streams["s"].watermark_us) == (SECOND, 24 * HOUR)


def test_comments_empty_statements_and_line_ends() -> None:
    text = STREAM.replace("\n", "\r\n") + ";; -- a comment; with 'quotes\n/* another; ' \n one **/ ;"
    assert list(read(text).streams) == ["s"]


def test_keywords_can_be_names_where_they_are_no_keywords() -> None:
    text = (
        "CREATE STREAM range (timestamp TIMESTAMP, count BIGINT, day STRING) TIMESTAMP BY timestamp;"
        "CREATE QUERY query AS SELECT SUM(count) AS rows FROM range [RANGE 1 DAY] "
        "WHERE timestamp > TIMESTAMP '2013-01-01' GROUP BY day"
    )
    assert read(text).queries["query"].select[0].alias == "rows"


def test_reserved_words_of_the_grammar_and_of_the_printer_are_the_same() -> None:
    grammar = importlib.resources.files("panewise.language").joinpath("grammar.lark").read_text()
    excluded = re.search(r"NAME: /\(\?!\(\?:([a-z|]+)\)", grammar)
    assert excluded is not None
    assert {word.upper() for word in excluded[1].split("|")} == RESERVED
    for word in RESERVED:
        with pytest.raises(StatementError):
            parse(f"DROP QUERY {word}")
        assert parse(f"DROP QUERY {print_name(word)}")[0].name.text == word


def test_statements_carry_their_places() -> None:
    first, second = parse("DROP QUERY a;\n  DROP QUERY bcd")
    assert (first.span.line, first.span.column) == (1, 1)
    assert (second.name.span.line, second.name.span.column) == (2, 14)
    assert (second.name.span.start, second.name.span.end) == (27, 30)


def test_statements_are_applied_on_top_of_a_workload() -> None:
    base = read(STREAM)
    more = apply(base, "CREATE QUERY q AS SELECT COUNT(*) FROM s [ROWS 1]")
    assert list(more.queries) == ["q"]
    assert not base.queries
    assert apply(more, "DROP QUERY q") == base
    replaced = apply(more, "DROP QUERY q; CREATE QUERY q AS SELECT SUM(x) FROM s [ROWS 1]")
    assert replaced.queries["q"] != more.queries["q"]
    assert bind(parse("DROP QUERY q"), "DROP QUERY q", more) == base


def test_a_file_is_read_like_its_text(tmp_path: Path) -> None:
    path = tmp_path / "queries.sql"
    path.write_bytes(b"\xef\xbb\xbf" + FLIGHTS.encode())
    assert read(path) == read(str(path)) == read(FLIGHTS)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(PanewiseError, match=r"no such file: 'nowhere\.sql'"):
        read("nowhere.sql")
    with pytest.raises(PanewiseError, match="cannot read"):
        read("a\0b")
    with pytest.raises(PanewiseError, match="cannot read"):
        read("x" * 5000)


def test_importing_the_language_imports_neither_lark_nor_arrow() -> None:
    program = (
        "import sys, panewise.language.reader, panewise.language.printer;"
        "assert not {'lark', 'pyarrow', 'pyspark'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
