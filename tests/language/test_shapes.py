"""Statements that differ in constants and names alone: the same queries and the same errors as if each were parsed."""

from __future__ import annotations

import random
from unittest import mock

import pyarrow as pa
import pytest

import panewise
from panewise.errors import ArgumentError, StatementError
from panewise.language import reader
from panewise.language.binder import bind
from panewise.language.parser import parse
from panewise.language.workload import Workload

STREAM = (
    "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t GRANULARITY 1 SECOND;\n"
    "CREATE STREAM r (t TIMESTAMP, k STRING) TIMESTAMP BY t;\n"
)


def statement(number: int, dice: random.Random) -> str:
    """A query of one of some shapes, with constants that are sometimes wrong or hard to read."""
    whole, text = dice.choice([0, 7, 12, 12, 1000, 2**63, 10**18]), dice.choice(["a", "it''s", "5", ""])
    window = dice.choice(
        [f"RANGE {1 + whole % 50} MINUTES SLIDE {1 + whole % 7} SECONDS", "RANGE 1.5 HOURS", f"RANGE {whole} SECONDS"]
    )
    where = dice.choice(
        [
            f"x > {whole}",
            f"x BETWEEN -{whole} AND - {whole % 9} OR k = '{text}'",
            f"k IN ('{text}', 'z') AND NOT y < {whole}.5",
            f"k LIKE '{text}%' AND ABS(x - {whole}) > 3 AND t > TIMESTAMP '2013-01-0{1 + number % 9}'",
            f"x + {whole} > y * 2e{number % 3} -- {text}\n",
        ]
    )
    ending = dice.choice(
        ["", f" GROUP BY k HAVING COUNT(*) > {whole} AND total <= {number}.25", f" GROUP BY k /* {whole} */"]
    )
    return f"CREATE QUERY q{number} AS SELECT SUM(x + {number % 2}) AS total FROM s [{window}] WHERE {where}{ending};\n"


def outcome(read: object, text: str) -> object:
    try:
        return read(text)
    except StatementError as error:
        return (error.message, error.line, error.column, error.text, error.hint)


@pytest.mark.parametrize("seed", range(3))
def test_random_statements_give_the_same_queries_or_the_same_error(seed: int) -> None:
    dice = random.Random(seed)
    kept: list[str] = []
    for number in range(60):
        one = statement(number, dice)
        # First alone, so that errors do not end it all.
        found, expected = outcome(panewise.read, STREAM + one), outcome(lambda t: bind(parse(t), t), STREAM + one)
        assert found == expected
        if isinstance(found, Workload):
            kept.append(one)
        else:
            text = STREAM + "".join(kept) + one
            assert outcome(panewise.read, text) == outcome(lambda t: bind(parse(t), t), text)
    assert len(kept) > 20
    assert panewise.read(STREAM + "".join(kept)) == bind(parse(STREAM + "".join(kept)), "")


def test_each_shape_is_parsed_once_and_errors_keep_their_place() -> None:
    row = "CREATE QUERY {} AS SELECT COUNT(*) FROM s [RANGE {} SECONDS SLIDE 10 SECONDS] WHERE k = '{}' GROUP BY k;\n"
    text = STREAM + "".join(row.format(f"q{n}", 10 + n, "k" * (n % 9)) for n in range(99))
    with mock.patch.object(reader, "parse_checked", wraps=reader.parse_checked) as parsed:
        workload = panewise.read(text)
    assert parsed.call_count == 3
    assert len(workload.queries) == 99
    assert workload.queries["q7"].window.range_us == 17_000_000
    for wrong, place, message in [
        (row.format("q3", 20, ""), "q3", "the query 'q3' already exists"),
        (row.format("z", 0, ""), "0 SECONDS", "RANGE must be positive"),
        (row.format("z", 10**30, ""), "1000", "too long"),
        (row.format("z", 20, "").replace("k = ''", "k = 5"), "5 GROUP", "cannot compare"),
        (row.format("z", 20, "").replace("GROUP", "GRUOP"), "GRUOP", "unexpected 'GRUOP'"),
    ]:
        with pytest.raises(StatementError, match=message) as caught:
            panewise.read(text + wrong)
        assert (caught.value.line, caught.value.column) == (102, wrong.index(place) + 1)


@pytest.mark.parametrize(
    "form",
    [
        "SUM(x) FROM s [CUMULATE {} MINUTES SLIDE {} MINUTES]",
        "SUM(x) FROM s [SESSION GAP {1} MINUTES MAX {0} MINUTES]",
        "SUM(x) FROM s [RANGE {} MINUTES SLIDE {} MINUTES OFFSET {} MINUTES]",
        "SUM(x) FROM s [RANGE {} DAYS SLIDE {} DAYS ALIGN TO TIME ZONE 'Europe/Berlin']",
        "SUM(x), MAX(x) OVER [RANGE {2} MINUTES] FROM s [RANGE {} MINUTES SLIDE {} MINUTES]",
        "SUM(x) OVER [RANGE {} MINUTES] FROM s SLIDE {} MINUTES",
        "EWM_AVG(x, HALF LIFE {} MINUTES) FROM s [RANGE {} MINUTES]",
    ],
)
def test_every_form_of_window_is_read_as_if_it_came_alone(form: str) -> None:
    form = form if "{2}" not in form else form.replace("{}", "{0}", 1).replace("{}", "{1}", 1)
    numbers = [
        (60, 5, 20),
        (60, 5, 20),
        (30, 5, 4),
        (60, 10, 20),
        (60, 10, 3),
        (30, 10, 4),
        (60, 7, 9),
        (7, 60, 70),
        (0, 5, 0),
    ]
    texts = [f"CREATE QUERY q{n} AS SELECT k, {form.format(*some)} GROUP BY k;\n" for n, some in enumerate(numbers)]
    right = [text for text in texts if isinstance(outcome(panewise.read, STREAM + text), Workload)]
    assert len(right) > 2
    for second in texts:
        for text in (STREAM + second, *(STREAM + first + second for first in right if first != second)):
            assert outcome(panewise.read, text) == outcome(lambda t: bind(parse(t), t), text)


def test_a_stream_that_comes_between_is_seen() -> None:
    row = "CREATE QUERY q{} AS SELECT COUNT(*) FROM s [RANGE 1 MINUTE] WHERE x = {} GROUP BY k;"
    text = STREAM + row.format(1, 1) + "CREATE STREAM u (t TIMESTAMP, k BIGINT) TIMESTAMP BY t;" + row.format(2, 2)
    text += "CREATE QUERY z AS SELECT COUNT(*) FROM u [RANGE 1 MINUTE] GROUP BY k;"
    with pytest.raises(StatementError, match="'k' is BIGINT here, and STRING in the stream 's'"):
        panewise.read(text)


TEMPLATE = (
    "CREATE QUERY {name} AS SELECT COUNT(*) FROM s [RANGE {r} SECONDS SLIDE 1 SECOND] "
    "WHERE k IN ({k}, 'z') AND x > {x} GROUP BY k HAVING SUM(x) > {y}"
)
COLUMNS = {"name": ["a", "b b", "C"], "r": [10, 20, 30], "k": ["x", "it's", "5"], "x": [-3, 0, 7], "y": [0.5, -1.0, 2]}


def test_a_table_of_parameters_gives_the_queries_that_their_texts_give() -> None:
    stream = panewise.read(STREAM)
    text = STREAM
    for n, k, r, x, y in zip(*(COLUMNS[name] for name in ("name", "k", "r", "x", "y")), strict=True):
        shown = {"name": f'"{n}"', "r": r, "k": "'" + k.replace("'", "''") + "'", "x": x, "y": float(y)}
        text += TEMPLATE.format(**shown) + ";\n"
    rows = [dict(zip(COLUMNS, row)) for row in zip(*COLUMNS.values())]
    for table in (COLUMNS, pa.table({**COLUMNS, "y": [0.5, -1.0, 2.0]}), rows):
        assert panewise.fill(TEMPLATE, table, stream) == panewise.read(text)
    assert panewise.fill(TEMPLATE, {name: [] for name in COLUMNS}, stream) is stream
    assert len(panewise.optimize(panewise.fill(TEMPLATE, COLUMNS, stream)).trees) >= 1


@pytest.mark.parametrize(
    ("changes", "template", "message"),
    [
        ({"name": ["a", "a", "b"]}, TEMPLATE, "row 1 of the parameters: the query 'a' already exists"),
        ({"name": ["a", 3, "b"]}, TEMPLATE, "row 1 of the parameters: a query's name is a text, got 3"),
        ({"r": [10, 0, 5]}, TEMPLATE, "row 1 of the parameters: RANGE must be positive"),
        ({"x": [1, 2, 10**25]}, TEMPLATE, "row 2 of the parameters: the integer '1000.*is out of range"),
        ({"x": [1, "a", 3]}, TEMPLATE, "the column 'x' of the parameters has values of int, str"),
        ({"x": [1, 2]}, TEMPLATE, "different lengths"),
        (
            {},
            TEMPLATE.replace("{x}", "{z}"),
            r"the template has \{z\}, but the parameters have no such column: name, r",
        ),
        ({}, TEMPLATE.replace("COUNT(*)", "SUM(x + {x})"), r"\{x\} stands where no value can go; values go into RANGE"),
        ({}, TEMPLATE.replace("{name}", "a"), "a template begins with the column of names in braces"),
    ],
)
def test_what_cannot_be_filled_in_is_named(changes: dict[str, list], template: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        panewise.fill(template, {**COLUMNS, **changes}, panewise.read(STREAM))
