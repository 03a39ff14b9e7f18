"""`lookup_at` gives each key at its own time what `lookup_many` gives all keys at one time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.workloads import random_events, random_workload

import panewise
from panewise.engine.columns import arrow_type

SECOND = 1_000_000
WORKLOAD = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE) TIMESTAMP BY ts;
CREATE QUERY by_symbol AS SELECT COUNT(*) AS n, SUM(price) AS total FROM trades [RANGE 10 SECONDS] GROUP BY symbol;
CREATE QUERY overall AS SELECT COUNT(*) AS n, MAX(price) AS most FROM trades [RANGE 10 SECONDS];
CREATE QUERY slides AS SELECT COUNT(*) AS n FROM trades [RANGE 10 SECONDS SLIDE 1 SECOND];
"""
EVENTS = {"ts": [0, SECOND, 2 * SECOND], "symbol": ["A", "B", "A"], "price": [1.0, 2.0, 4.0]}


def engine_with_events() -> panewise.Engine:
    engine = panewise.Engine(WORKLOAD)
    engine.push("trades", EVENTS)
    return engine


def test_each_key_has_its_own_time() -> None:
    engine = engine_with_events()
    found = engine.lookup_at("by_symbol", ["A", "A", "B", "C", "A"], [0, 2 * SECOND, 0, SECOND, 11 * SECOND])
    assert found["n"].tolist() == [1, 2, None, None, 1]
    assert found["total"].tolist() == [1.0, 5.0, None, None, 4.0]
    overall = engine.lookup_at("overall", None, pa.array([-1, SECOND]))
    assert overall["n"].tolist() == [0, 2]
    assert overall["most"].tolist() == [None, 2.0]
    assert engine.lookup_at("by_symbol", {"symbol": []}, [])["n"].tolist() == []


@pytest.mark.filterwarnings("ignore::panewise.UnlikelyTimesWarning")
@pytest.mark.parametrize("seed", range(12))
def test_it_agrees_with_lookups_of_many(seed: int) -> None:
    workload = random_workload(seed, 6, ("range", "range between", "rows", "rows between"))
    (stream,) = workload.streams.values()
    rows = random_events(seed, stream, 80)
    engine = panewise.Engine(workload)
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in stream.attributes.items()])
    engine.push(stream.name, pa.Table.from_pylist(rows[:50], schema))
    engine.push(stream.name, pa.Table.from_pylist(rows[50:], schema))
    random = np.random.default_rng(seed)
    for query in workload.queries.values():
        if any(call.function.startswith("APPROX") for call in query.aggregates):
            continue
        some = [rows[place] for place in random.integers(0, len(rows), 25)]
        times = np.array([row[stream.timestamp] for row in some]) + random.integers(-2, 3, 25)
        keys = {
            name: pa.array([row[name] for row in some], arrow_type(stream.attributes[name])) for name in query.group_by
        }
        found = engine.lookup_at(query.name, keys or None, times)
        for place, at in enumerate(times.tolist()):
            if query.group_by:
                one = {name: column.slice(place, 1) for name, column in keys.items()}
                wanted = {name: array[0] for name, array in engine.lookup_many(query.name, one, at).items()}
            else:
                wanted = engine.lookup_one(query.name, at=at) or dict.fromkeys(found)
            for name, array in found.items():
                expected = None if wanted[name] is np.ma.masked else wanted[name]
                got = None if array[place] is np.ma.masked else array[place]
                assert got == expected or got == pytest.approx(expected, rel=1e-14, nan_ok=True), (query, at, name)


def test_a_time_before_what_is_held_is_refused() -> None:
    engine = panewise.Engine(WORKLOAD)
    for start in range(0, 100, 10):
        engine.push("trades", {"ts": [start * SECOND], "symbol": ["A"], "price": [1.0]})
        engine.advance("trades", start * SECOND)
    assert engine.lookup_at("overall", None, [90 * SECOND])["n"].tolist() == [1]
    with pytest.raises(panewise.HistoryError, match="needs events that are not held"):
        engine.lookup_at("overall", None, [90 * SECOND, 5 * SECOND])


def test_mistakes_are_named() -> None:
    engine = engine_with_events()
    with pytest.raises(panewise.KeysError, match="`times` has 1 times for 2 keys of 'symbol'"):
        engine.lookup_at("by_symbol", ["A", "B"], [0])
    with pytest.raises(panewise.TimeError, match="`times` are no times"):
        engine.lookup_at("by_symbol", ["A"], ["soon"])
    with pytest.raises(panewise.TimeError, match="one of `times` is NULL"):
        engine.lookup_at("by_symbol", ["A"], pa.array([None], pa.int64()))
    with pytest.raises(panewise.QueryKindError, match="slides"):
        engine.lookup_at("slides", None, [0])
    with pytest.raises(panewise.KeysError, match="no GROUP BY"):
        engine.lookup_at("overall", ["A"], [0])
