"""Row queries agree with their oracle on random streams, watermarks, snapshots and lookups."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import windowed_oracle as oracle
from tests.answers import microseconds
from tests.thoroughness import examples

import panewise
from panewise.engine.columns import arrow_type
from panewise.language.model import Stream

STREAMS = """
CREATE STREAM a (t TIMESTAMP, k BIGINT, x DOUBLE, s STRING, b BOOLEAN) TIMESTAMP BY t;
CREATE STREAM c (u TIMESTAMP, k BIGINT, x DOUBLE, s STRING) TIMESTAMP BY u;
"""

# Windows whose basic windows are the slide, the window itself, or shorter than both; and a window that leaves gaps.
TIME = ("[RANGE 8 MICROSECONDS SLIDE 2 MICROSECONDS]", "[RANGE 6 MICROSECONDS SLIDE 4 MICROSECONDS]")
TIME += ("[RANGE 3 MICROSECONDS SLIDE 3 MICROSECONDS]", "[RANGE 2 MICROSECONDS SLIDE 6 MICROSECONDS]")
ROWS = ("[ROWS 6 SLIDE 2]", "[ROWS 5 SLIDE 3]", "[ROWS 2 SLIDE 5]")
WHERE = ("", "WHERE k > 1", "WHERE x <> 0.5 OR s IS NULL")
SETS = [
    f"USING {index} OVER {storage}"
    for index in ("l_index", "t_index", "h_index")
    for storage in ("list", "aggr", "hash")
]
RINGS = [
    f"USING {ring} OVER {index}"
    for ring in ("forward", "auxiliary", "backward", "dirty_bits")
    for index in ("l_index", "t_index", "h_index")
]
OPERATIONS = ("INTERSECT", "UNION", "EXCEPT")
INTO = ("", "INTO [RANGE 5 MICROSECONDS]", "INTO [ROWS 4]")


def _pick(draw: st.DrawFn, *options: str) -> str:
    return draw(st.sampled_from(options))


@st.composite
def histograms(draw: st.DrawFn) -> str:
    window, where, using = _pick(draw, *TIME, *ROWS), _pick(draw, *WHERE), _pick(draw, "", "", *SETS)
    value = _pick(draw, "k", "x", "s", "b", "t", "k + x")
    groups = _pick(draw, "", "", "", "GROUP BY s", "GROUP BY x, b")
    if draw(st.integers(0, 3)) == 0:
        value = _pick(draw, "k, 2", "x, 0.75", "x, 3", "k, -1, 1, 2", "x, 0, 0.5, 2.5")
        using = "" if groups else _pick(draw, "", "USING g_index OVER group")
    return f"SELECT HISTOGRAM({value}) FROM a {window} {where} {groups} {_pick(draw, *INTO)} {using}"


@st.composite
def tops(draw: st.DrawFn) -> str:
    window, where, using = _pick(draw, *TIME, *ROWS), _pick(draw, *WHERE), _pick(draw, "", "", *SETS)
    value = _pick(draw, "k", "x", "s")
    shown = _pick(draw, f"TOP_K({value}, {draw(st.integers(1, 4))})", f"DISTINCT {value}")
    groups = _pick(draw, "", "", "GROUP BY s", "GROUP BY k, x", "GROUP BY b")
    return f"SELECT {shown} FROM a {window} {where} {groups} {_pick(draw, *INTO)} {using}"


@st.composite
def orders(draw: st.DrawFn) -> str:
    window, where, using = _pick(draw, *TIME, *ROWS), _pick(draw, *WHERE), _pick(draw, "", "", *RINGS)
    by = _pick(draw, "k", "x", "s", "b", "t") + _pick(draw, "", " ASC", " DESC")
    limit = _pick(draw, "", "", " LIMIT 3")
    source = f"SELECT s, x, t AS at, k * 2 AS twice FROM a {window} {where}"
    groups = _pick(draw, "", "", "GROUP BY s", "GROUP BY x, b")
    return f"{source} {groups} ORDER BY {by}{limit} {_pick(draw, *INTO)} {using}"


@st.composite
def intersections(draw: st.DrawFn) -> str:
    pairs = [
        ("[RANGE 8 MICROSECONDS SLIDE 2 MICROSECONDS]", "[RANGE 4 MICROSECONDS SLIDE 2 MICROSECONDS]"),
        ("[RANGE 5 MICROSECONDS SLIDE 3 MICROSECONDS]", "[RANGE 8 MICROSECONDS SLIDE 3 MICROSECONDS]"),
        ("[ROWS 6 SLIDE 2]", "[ROWS 6 SLIDE 2]"),
        ("[ROWS 4 SLIDE 3]", "[ROWS 7 SLIDE 3]"),
    ]
    left, right = draw(st.sampled_from(pairs))
    value, using, ranges = _pick(draw, "k", "x", "s"), _pick(draw, "", "", *SETS), ""
    if value != "s" and draw(st.integers(0, 2)) == 0:
        ranges, using = "BY RANGES OF 2", _pick(draw, "", "USING g_index OVER group")
    other, operation = _pick(draw, "c", "a"), _pick(draw, *OPERATIONS)
    return (
        f"SELECT {value} FROM a {left} {_pick(draw, *WHERE)} {operation} SELECT {value} FROM {other} {right} "
        f"{_pick(draw, *WHERE)} {ranges} {_pick(draw, *INTO)} {using}"
    )


@st.composite
def joins(draw: st.DrawFn) -> str:
    windows = ("[RANGE 7 MICROSECONDS]", "[RANGE 1 MICROSECOND]", "[RANGE 120 MICROSECONDS]", "[ROWS 3]", "[ROWS 1]")
    left, right = _pick(draw, *windows), _pick(draw, *windows)
    other = _pick(draw, "c", "c", "a")
    on = _pick(draw, "l.k = r.k", "r.s = l.s", "l.x = r.x", "l.k = r.x", "l.k = r.x AND r.s = l.s")
    where = _pick(draw, "", "WHERE l.x >= r.x", "WHERE r.k > 1 OR l.s IS NULL")
    return (
        f"SELECT l.k, r.k AS other, l.x + r.x AS sum, r.s FROM a {left} AS l JOIN {other} {right} AS r ON {on} {where} "
        f"{_pick(draw, *INTO)} {_pick(draw, '', '', *RINGS)}"
    )


@st.composite
def selections(draw: st.DrawFn) -> str:
    return f"SELECT k, x * 2 AS double, t AS at FROM a {_pick(draw, *WHERE)} {_pick(draw, *INTO)}"


EVERY_OPERATOR = {
    "histogram": histograms(),
    "top_k": tops(),
    "sorted": orders(),
    "intersection": intersections(),
    "join": joins(),
    "selection": selections(),
}

NUMBERS = st.none() | st.integers(-2, 3)
DOUBLES = st.none() | st.sampled_from([0.5, -0.0, 0.0, math.nan, 2.0, -1.25, 3.0])
INFINITE = DOUBLES | st.sampled_from([math.inf, -math.inf])
TEXTS = st.none() | st.sampled_from(["", "a", "b,\\c", "é", "zz"])


@st.composite
def events(draw: st.DrawFn, stream: Stream, around: int, doubles: Any) -> dict[str, Any]:
    far = draw(st.integers(0, 20)) == 0
    values: dict[str, Any] = {stream.timestamp: around + draw(st.integers(-4, 4)) + (100 if far else 0)}
    values |= {"k": draw(NUMBERS), "x": draw(doubles), "s": draw(TEXTS)}
    return {name: values.get(name, draw(st.booleans() | st.none())) for name in stream.attributes}


@st.composite
def programs(draw: st.DrawFn, operator: str) -> tuple[str, list[Any]]:
    """Some queries, and steps: ("push", stream, rows), ("advance", stream, by) or ("snapshot",)."""
    selects = draw(st.lists(EVERY_OPERATOR[operator], min_size=1, max_size=3))
    text = STREAMS + ";\n".join(f"CREATE QUERY q{i} AS {select}" for i, select in enumerate(selects))
    streams = panewise.read(text).streams
    # The oracle leaves ranges of infinities to a test by hand.
    doubles = DOUBLES if any(word in text for word in ("RANGES", "x, ")) else INFINITE
    steps: list[Any] = []
    around = draw(st.sampled_from([0, -7, 1_000_000]))
    for _ in range(draw(st.integers(1, 10))):
        name = draw(st.sampled_from(["a", "c"]))
        match draw(st.integers(0, 6)):
            case 0 | 1 | 2 | 3:
                rows = draw(st.lists(events(streams[name], around, doubles), max_size=9))
                steps.append(("push", name, rows))
                around += draw(st.integers(0, 5))
            case 4 | 5:
                steps.append(("advance", name, around + draw(st.integers(-5, 3))))
            case _:
                steps.append(("snapshot",))
    ends = draw(st.sampled_from([["a", "c"], ["c", "a"], ["a"]]))
    return text, steps + [("advance", name, panewise.END_OF_STREAM) for name in ends]


def as_table(stream: Stream, rows: list[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])
    return pa.Table.from_pylist(rows, schema)


def as_rows(table: pa.Table) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in table.to_pylist()]


def plain(value: Any) -> Any:
    """A value that compares as in Panewise: times as microseconds, NaN as a word, no sign on zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return microseconds(value)


def expected(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in row.items()} for row in rows]


@pytest.mark.parametrize("operator", EVERY_OPERATOR)
@settings(max_examples=examples(50), deadline=None)
@given(data=st.data())
def test_row_queries_agree_with_the_oracle(operator: str, data: st.DataObject) -> None:
    # Joined in bulk, or by turning the rings.
    with patch("panewise.engine.windowed.join.MOST_TURNS", data.draw(st.sampled_from([0, 64]))):
        _agrees_with_the_oracle(operator, data)


def _agrees_with_the_oracle(operator: str, data: st.DataObject) -> None:
    text, steps = data.draw(programs(operator))
    engine = panewise.Engine(text)
    streams = engine.workload.streams
    given_so_far = oracle.Input(
        {name: stream.timestamp for name, stream in streams.items()},
        {name: [] for name in streams},
        dict.fromkeys(streams),
        {},
    )
    fetched: dict[str, list[dict[str, Any]]] = {name: [] for name in engine.workload.row_queries}
    for step in steps:
        match step:
            case ("push", name, rows):
                engine.push(name, as_table(streams[name], rows))
                watermark, timestamp = given_so_far.watermarks[name], given_so_far.timestamps[name]
                given_so_far.events[name].extend(
                    row for row in rows if watermark is None or row[timestamp] >= watermark
                )
            case ("advance", name, to):
                watermark = given_so_far.watermarks[name]
                if watermark is not None and to < watermark:
                    continue
                engine.advance(name, to)
                given_so_far.watermarks[name] = to
                if to != panewise.END_OF_STREAM:
                    given_so_far.before_end[name] = to
            case ("snapshot",):
                engine = panewise.Engine.restore(engine.snapshot())
        engine._row_queries.check_invariants()
        for name, query in engine.workload.row_queries.items():
            if query.into is not None:
                assert as_rows(engine.lookup(name)) == expected(oracle.held(query, given_so_far))
                continue
            fetched[name] += as_rows(engine.rows(name))
            assert fetched[name] == expected(oracle.rows_of(query, given_so_far))
            if operator not in ("join", "selection"):
                assert as_rows(engine.lookup(name)) == expected(oracle.newest(query, given_so_far))
