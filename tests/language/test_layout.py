"""Layout: what is laid out means the same, keeps every comment, and stays as it is when it is laid out again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples
from tests.workloads import workloads

import panewise
from panewise.language.layout import laid_out
from panewise.language.parser import parse
from panewise.language.workload import print_workload

DOCS = Path(__file__).parents[2] / "docs"
IN_DOCS = [
    found.group(1)
    for page in sorted(DOCS.glob("*.md"))
    for found in re.finditer(r"```sql\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
]
COMMENTS = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(--[^\n]*|/\*.*?\*/)", re.DOTALL)


def meaning(text: str) -> str:
    """The statements of a text, wherever they stand."""
    return re.sub(r"Span\([^)]*\)", "", repr(parse(text)))


def check(text: str) -> None:
    once = laid_out(text)
    assert meaning(once) == meaning(text)
    assert laid_out(once) == once
    assert [found.strip() for found in COMMENTS.findall(once)] == [found.strip() for found in COMMENTS.findall(text)]


@pytest.mark.parametrize("text", IN_DOCS)
def test_statements_of_the_docs(text: str) -> None:
    try:
        parse(text)
    except panewise.StatementError:
        return  # it shows a form, or a part of a statement
    check(text)


@settings(max_examples=examples(15), deadline=None)
@given(workloads(), st.sampled_from([" ", "\n", "\n\n  ", " -- a comment\n", " /* another */ "]))
def test_any_statements_with_anything_between_words(workload: panewise.Workload, between: str) -> None:
    text = print_workload(workload)
    # These words look ahead to the next, over spaces only.
    parts = re.split(r"(TIMESTAMP '[^']*'|CASE WHEN|HALF LIFE|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|;| )", text)
    check("".join(between if part == " " else part for part in parts))


def test_the_manner() -> None:
    text = """create stream s (t timestamp,k STRING, "range" DOUBLE) timestamp by t   watermark 5 seconds;
    -- how much, and how often
    create query much as select k, sum("range")*-1 as total, count(*) filter(where k like 'a%')
    from s [range 1 HOUR slide 5 minutes]
      where k is not null group by k having total>5; drop query much"""
    assert laid_out(text) == (
        'CREATE STREAM s (t timestamp, k STRING, "range" DOUBLE) TIMESTAMP BY t WATERMARK 5 seconds;\n'
        "-- how much, and how often\n"
        "CREATE QUERY much AS\n"
        "  SELECT k, sum(\"range\") * -1 AS total, count(*) FILTER (WHERE k LIKE 'a%')\n"
        "  FROM s [RANGE 1 HOUR SLIDE 5 minutes]\n"
        "  WHERE k IS NOT NULL\n"
        "  GROUP BY k\n"
        "  HAVING total > 5;\n"
        "DROP QUERY much;\n"
    )


@pytest.mark.parametrize("word", ["INTERSECT", "UNION", "EXCEPT"])
def test_both_sides_of_a_set_operation_begin_a_line(word: str) -> None:
    side = "select symbol from trades [range 1 hour slide 5 minutes] where price > 100000000"
    lines = laid_out(f"create query both as {side} {word.lower()} {side}").splitlines()
    assert [line.split()[:2] for line in lines if word in line] == [[word, "SELECT"]]
