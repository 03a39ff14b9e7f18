"""Answers by kernel: many groups at once in any order, and structures that change between lookups."""

from __future__ import annotations

import gc
import math
import statistics
import weakref

import numpy as np
import pytest

import panewise
from panewise.kernels.key_answers import answer_function
from panewise.kernels.key_folds import fold_function

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT, x DOUBLE) TIMESTAMP BY t WATERMARK 20 SECONDS;"
PLAIN = "COUNT(*), COUNT(x), SUM(n), AVG(n), MIN(n), MAX(x), SUM(x), AVG(x), VAR_SAMP(x), STDDEV_POP(n)"
USING = ["", " USING base_intervals", " USING landmark_intervals", " USING recompute"]

Rows = list[tuple[int, int, int, float | None]]


def engine_of(*queries: str) -> panewise.Engine:
    texts = [f"CREATE QUERY q{place} AS SELECT {query};" for place, query in enumerate(queries)]
    return panewise.Engine(panewise.read(STREAM + " ".join(texts)))


def push(engine: panewise.Engine, rows: Rows) -> None:
    t, k, n, x = zip(*rows)
    engine.push("s", {"t": [second * US for second in t], "k": list(k), "n": list(n), "x": list(x)})


def plain_answers(rows: Rows, key: int, after: int) -> list[float | None] | None:
    """The answers of `PLAIN` over the rows of a key after a second, by Python."""
    own = [row for row in rows if row[1] == key and row[0] > after]
    if not own:
        return None
    n, x = [row[2] for row in own], [row[3] for row in own if row[3] is not None]
    of_x = [max(x), math.fsum(x), math.fsum(x) / len(x)] if x else [None] * 3
    variance = statistics.variance(x) if len(x) > 1 else None
    return [len(own), len(x), sum(n), sum(n) / len(n), min(n), *of_x, variance, statistics.pstdev(n)]


@pytest.mark.parametrize("using", USING)
def test_groups_in_any_order_twice_or_not_there(using: str) -> None:
    engine = engine_of(f"k, {PLAIN} FROM s [RANGE 30 SECONDS] GROUP BY k{using}")
    random = np.random.default_rng(5)
    rows: Rows = []
    for batch in range(6):
        # A key that comes once keeps its first segment; others move to larger ones between two lookups.
        seconds = np.sort(random.integers(10 * batch, 10 * batch + 10, 1_500)).tolist()
        keys = (random.integers(0, 400, 1_500) ** 2 // 400).tolist()
        values = [None if random.random() < 0.1 else float(v) for v in random.integers(-9, 9, 1_500)]
        fresh = list(zip(seconds, keys, random.integers(-50, 50, 1_500).tolist(), values))
        push(engine, fresh)
        rows += fresh
        engine.advance("s")
        wanted = np.concatenate([random.permutation(410), random.integers(0, 410, 40)])
        after = max(row[0] for row in rows) - 30
        for asked in (wanted, wanted[:30]):
            found = list(engine.lookup_many("q0", asked).values())
            for place, key in enumerate(asked.tolist()):
                answers = plain_answers(rows, key, after) or [None] * len(found)
                assert [array.tolist()[place] for array in found] == pytest.approx(answers, abs=1e-9)
        one = engine.lookup_one("q0", int(wanted[0]))
        answers = plain_answers(rows, int(wanted[0]), after)
        assert one is None if answers is None else list(one.values()) == pytest.approx(answers, abs=1e-9)


def test_sums_that_need_a_second_word_between_two_lookups() -> None:
    engine = engine_of("k, SUM(n), AVG(n) FROM s [ROWS 900] GROUP BY k")
    push(engine, [(1, 1, 7, None), (1, 2, 8, None)])
    engine.advance("s", 2 * US)
    assert engine.lookup_one("q0", 1) == {"SUM(n)": 7, "AVG(n)": 7.0}
    push(engine, [(3, 1, 2**62, None), (3, 1, 2**62, None), (3, 2, -(2**63), None)])
    for watermark in (2, 9):
        engine.advance("s", watermark * US)
        assert engine.lookup_one("q0", 2) == {"SUM(n)": 8 - 2**63, "AVG(n)": (8 - 2**63) / 2}
        # Only a requested group can overflow.
        assert engine.lookup_many("q0", [2] * 300)["SUM(n)"].tolist() == [8 - 2**63] * 300
        average = (2 * 2**62 + 7) / 3
        assert engine.lookup_one("q0", 1) == {"SUM(n)": None, "AVG(n)": average}
        both = engine.lookup_many("q0", [2, 1, 3])
        assert both["SUM(n)"].tolist() == [8 - 2**63, None, None]
        assert both["AVG(n)"].tolist() == [(8 - 2**63) / 2, average, None]
    # Two lookups of the group at each watermark, and no other.
    assert engine.statistics()["streams"]["s"]["overflown_answers"] == {"q0": 4}


def test_nulls_and_infinities_that_first_come_between_two_lookups() -> None:
    engine = engine_of("k, COUNT(x), SUM(x), AVG(x) FROM s [ROWS 900] GROUP BY k USING running_intervals")
    expected: list[tuple[Rows, list[float]]] = [
        ([(1, 1, 0, 2.0), (1, 1, 0, 3.0)], [2, 5.0, 2.5]),
        ([(2, 1, 0, None), (2, 2, 0, None)], [2, 5.0, 2.5]),
        ([(3, 1, 0, 4.0), (3, 2, 0, math.inf)], [3, 9.0, 3.0]),
        ([(4, 1, 0, -math.inf)], [4, -math.inf, -math.inf]),
    ]
    for rows, answers in expected:
        push(engine, rows)
        for _ in range(2):
            assert list(engine.lookup_one("q0", 1).values()) == answers
            assert [array[0] for array in engine.lookup_many("q0", [1]).values()] == answers
            engine.advance("s", rows[-1][0] * US + 1)
    assert engine.lookup_one("q0", 2) == {"COUNT(x)": 1, "SUM(x)": math.inf, "AVG(x)": math.inf}


def test_what_only_a_removed_query_needed_is_let_go() -> None:
    engine = engine_of("k, SUM(n) FROM s [ROWS 9] GROUP BY k", "k, MAX(x) FROM s [ROWS 9] GROUP BY k")
    push(engine, [(1, 1, 7, 1.5), (1, 2, 8, 2.5)])
    engine.advance("s", 2 * US)
    assert engine.lookup_one("q1", 1) == {"MAX(x)": 1.5}
    structures = engine._streams["s"].structures
    served = structures.served("q1")
    ((column,),) = served.sequence.final._structures[served.columns[0]].components
    array = weakref.ref(column.arrays()[0])
    del served, column
    engine.remove("q1")
    assert engine.lookup_one("q0", 1) == {"SUM(n)": 7}
    gc.collect()
    assert array() is None
    structures.check_invariants()


def test_groups_that_are_not_there_beside_those_of_partitions() -> None:
    engine = engine_of("k, COUNT(*), SUM(n) FROM s [PARTITION BY k ROWS 2] GROUP BY k")
    assert engine.lookup_many("q0", [1, 2])["SUM(n)"].tolist() == [None, None]
    engine.advance("s", 0)
    assert engine.lookup_many("q0", [1, 2])["SUM(n)"].tolist() == [None, None]
    push(engine, [(1, 1, 7, None), (2, 1, 8, None), (3, 1, 9, None), (3, 3, 1, None)])
    for watermark in (2, 9):
        engine.advance("s", watermark * US)
        found = engine.lookup_many("q0", [2, 3, 4, 1])
        assert found["SUM(n)"].tolist() == [None, 1, None, 17]
        assert found["COUNT(*)"].tolist() == [None, 1, None, 2]


def test_a_lookup_compiles_what_its_query_needs() -> None:
    answer_function.cache_clear()
    fold_function.cache_clear()
    engine = engine_of("SUM(n), AVG(n), COUNT(*) FROM s [RANGE 30 SECONDS] GROUP BY k USING base_intervals")
    push(engine, [(1, 1, 5, 0.5), (2, 1, 6, 0.5), (2, 2, 7, 0.5)])
    engine.advance("s", 20 * US)
    assert engine.lookup_one("q0", 1) == {"SUM(n)": 11, "AVG(n)": 5.5, "COUNT(*)": 2}
    assert answer_function.cache_info().currsize == 2  # of SUM and of AVG, which are one function
    assert fold_function.cache_info().currsize == 1
