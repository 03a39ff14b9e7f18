"""FOR EACH: a template in a text stands for the queries of its rows, and says where a row or the template is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import panewise
from panewise.cli.main import app
from panewise.errors import StatementError
from panewise.language.layout import laid_out

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE, b BOOLEAN) TIMESTAMP BY t GRANULARITY 1 SECOND;\n"
TEMPLATE = """-- alerts by key
CREATE QUERY {name}_of_{k} AS SELECT SUM(x) AS "sum {k}", MAX(x) FILTER (WHERE x < {x}) AS most -- not {this}
  FROM s [RANGE {r} SECONDS SLIDE 1 SECOND] WHERE k IN ({k}, '{z}') AND b = {b} AND t > {from} HAVING SUM(x) > {x}
  FOR EACH (name, k, r, x, b, from) IN (
    ('a', 'x', 10, -3, TRUE, TIMESTAMP '2020-01-01 00:00:00'),
    ('b', 'it''s', 20, .5, false, TIMESTAMP '2020-01-02 00:00:00'), -- a name with a quote in it
    ('select', '', 30, 7e2, TRUE, TIMESTAMP'2020-01-01 00:00:00') /* the last */
  );
"""
ROWS = [
    ("a_of_x", "'x'", "10", "-3", "TRUE", "TIMESTAMP '2020-01-01 00:00:00'"),
    ('"b_of_it\'s"', "'it''s'", "20", ".5", "FALSE", "TIMESTAMP '2020-01-02 00:00:00'"),
    ("select_of_", "''", "30", "7e2", "TRUE", "TIMESTAMP '2020-01-01 00:00:00'"),
]
QUERY = "CREATE QUERY q_{k} AS SELECT COUNT(*) FROM s [RANGE {r} SECONDS] WHERE k = {k}"
WHOLE = f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('b', 2));"


def test_a_template_stands_for_the_queries_of_its_rows() -> None:
    text = "".join(
        f'CREATE QUERY {name} AS SELECT SUM(x) AS "sum {{k}}", MAX(x) FILTER (WHERE x < {x}) AS most '
        f"FROM s [RANGE {r} SECONDS SLIDE 1 SECOND] WHERE k IN ({k}, '{{z}}') AND b = {b} AND t > {start} "
        f"HAVING SUM(x) > {x};"
        for name, k, r, x, b, start in ROWS
    )
    assert panewise.read(STREAM + TEMPLATE) == panewise.read(STREAM + text)


def test_it_stands_among_other_statements_and_engines_take_it() -> None:
    after = "DROP QUERY q_a; CREATE QUERY last AS SELECT COUNT(*) FROM s [RANGE 1 SECOND]"
    assert list(panewise.read(f"{STREAM}{WHOLE}{after}").queries) == ["q_b", "last"]
    engine = panewise.Engine(STREAM + WHOLE)
    engine.add(WHOLE.replace("q_", "other_"))
    assert list(engine.workload.queries) == ["q_a", "q_b", "other_a", "other_b"]
    with pytest.raises(StatementError, match="row 1 of FOR EACH: the query 'q_a' already exists"):
        engine.add(WHOLE)


def test_rows_may_be_many_but_statements_stay_short() -> None:
    rows = ", ".join(f"('{n}', {n})" for n in range(1, 8000))
    long = panewise.read(f"{STREAM}{QUERY} FOR EACH (k, r) IN ({rows})")
    assert len(rows) > 65_536
    assert len(long.queries) == 7999
    assert long.queries["q_7999"].window.range_us == 7_999_000_000
    for text in (
        f"{QUERY} FOR EACH (k, r) IN (('{'a' * 70_000}', 1))",
        f"{QUERY} AND k <> '{'a' * 70_000}' FOR EACH (k, r) IN (('a', 1))",
    ):
        with pytest.raises(StatementError, match="the statement is too long"):
            panewise.read(STREAM + text)


MISTAKES = [
    # What is wrong begins at the last place of the third column.
    (f"{QUERY};", "a query with names in braces needs FOR EACH", "{k} AS"),
    (f"{QUERY} FOR EACH k, r IN (('a', 1));", "FOR EACH needs columns and rows", " k, r IN"),
    (f"{QUERY} FOR EACH (k, r, k) IN (('a', 1, 'a'));", "two columns of FOR EACH have one name", "k, r, k"),
    (f"{QUERY} FOR EACH (k, range) IN (('a', 1));", "FOR EACH has no column 'r'", "{r}"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('b'));", "row 2 of FOR EACH has 1 values, and there are 2", "('b')"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('b', c));", "row 2 of FOR EACH cannot be read", "('b', c)"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), );", "row 2 of FOR EACH cannot be read", ");"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1)) GROUP BY k;", "nothing may follow the rows of FOR EACH", " GROUP"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('a', 2));", "row 2 of FOR EACH: the query 'q_a' already ex", "('a', 2)"),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('b', 0));", "row 2 of FOR EACH: RANGE must be positive", "('b', 0)"),
    (
        f"{QUERY} FOR EACH (k, r) IN (('a', 1), ('b', .5));",
        "row 2 of FOR EACH: RANGE 500 MILLISECONDS is no",
        "('b', .5)",
    ),
    (f"{QUERY} FOR EACH (k, r) IN (('a', 1), (5, 1));", "row 2 of FOR EACH: cannot compare k ", "(5, 1)"),
    (WHOLE.replace("k =", "j ="), "row 1 of FOR EACH: unknown attribute 'j'", "j ="),
    (WHOLE.replace("q_{k}", "q"), "each row of FOR EACH makes a query, and all would have one name", "q AS"),
    (WHOLE.replace("= {k}", "= {}"), "'{}' is no column in braces", "{}"),
]


@pytest.mark.parametrize(("text", "message", "wrong"), MISTAKES)
def test_a_mistake_has_a_place_and_a_cure(text: str, message: str, wrong: str) -> None:
    with pytest.raises(StatementError) as raised:
        panewise.read(STREAM + text)
    assert raised.value.message.startswith(message)
    assert (raised.value.line, raised.value.column) == (2, text.rindex(wrong) + 1)
    assert raised.value.hint


def test_check_and_format_know_templates(tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    wrong = "CREATE QUERY w AS SELECT SUM(y) FROM s [RANGE 1 SECOND];\n"
    mistaken = WHOLE.replace("k =", "j =")
    file.write_text(f"{STREAM}{wrong}{mistaken}\n{TEMPLATE}")
    done = CliRunner().invoke(app, ["check", str(file)])
    lines = done.stdout.splitlines()
    assert done.exit_code == 2
    assert [line.partition(" error: ")[0] for line in lines] == [
        f"{file}:2:30:",
        f"{file}:3:{mistaken.index('j =') + 1}:",
    ]
    text = laid_out(f"{TEMPLATE}create query z as select count(*) from s [range 1 SECOND]")
    assert text == f"{TEMPLATE}CREATE QUERY z AS SELECT count(*) FROM s [RANGE 1 SECOND];\n"
    assert laid_out(text) == text
