"""HAVING through collective indexes in the lookup client gives what folding every group gives, and the oracle."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.spark.log_writing import Event, LogWriter
from tests.thoroughness import examples

import panewise
from panewise.errors import HistoryError, PanewiseWarning
from panewise.spark import slot_compaction
from panewise.spark.lookup_client import LookupClient
from panewise.spark.lookup_structures import LookupStructures
from panewise.spark.slot_structures import FOLD_ROWS

MINUTE_US = 60_000_000
STREAM = """CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT, x DOUBLE)
    TIMESTAMP BY t WATERMARK 2 MINUTES GRANULARITY 1 MINUTE{correct};"""
CONDITIONS = (
    "COUNT(*) > 1", "COUNT(*) >= 4", "3 < COUNT(*)", "COUNT(*) < 2", "COUNT(*) <= 3.5",
    "COUNT(n) > 2", "COUNT(n) >= 0", "COUNT(n) < 3", "COUNT(x) > 0 AND MIN(x) < 1",
    "MAX(n) > 3", "MAX(n) <= 2.5", "MIN(n) >= 2", "MIN(n) < 2", "MAX(x) > 2", "MAX(x) < 1e300", "MIN(x) > 0.5",
    "MIN(x) <= 1",
    "SUM(n) > 7", "SUM(n) >= 12 AND COUNT(*) < 9", "SUM(n) < 6", "SUM(n) > 0",
)  # fmt: skip
WHERES = ("", " WHERE n > 0", " WHERE x > 0 OR n = 2", " WHERE n > 0 AND k <> 'k1'")


@pytest.fixture(autouse=True)
def built_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LookupStructures, "_is_worth", lambda *_: True)


class CorrectingWriter(LogWriter):
    """A job that also keeps events that correct what has closed."""

    def _is_late(self, event: Event) -> bool:
        slot_end_us = (event[self.stream.timestamp] // self.slot_us + 1) * self.slot_us
        return self.watermark_us is not None and slot_end_us <= self.watermark_us - self.stream.correct_us


def having(name: str, condition: str, minutes: int = 10, where: str = "") -> str:
    return (
        f"CREATE QUERY {name} AS SELECT k, COUNT(*), SUM(n), MAX(x) FROM s [RANGE {minutes} MINUTES]{where} "
        f"GROUP BY k HAVING {condition};"
    )


def written(folder: Path, queries: str, correct: str = "") -> LogWriter:
    return CorrectingWriter(folder, panewise.read(STREAM.format(correct=correct) + queries))


def event(minute: float, key: str, n: int | None = 1, x: float | None = 1.0) -> Event:
    return {"t": int(minute * MINUTE_US), "k": key, "n": n, "x": x}


def through_index(client: LookupClient) -> int:
    found = client.statistics()["index_lookups"]
    assert isinstance(found, int)
    return found


def check(client: LookupClient, writer: LogWriter, at_us: int | None = None) -> int:
    """All queries against folding all keys by name, and the oracle; how many lookups went through an index."""
    client.refresh()
    before = through_index(client)
    keys = sorted({event["k"] for event in writer.accepted})
    ends_us = writer.seen_us if at_us is None else at_us + 1
    if ends_us is None:
        return 0
    instant_us = ends_us // writer.slot_us * writer.slot_us - 1
    for query in writer.workload.queries.values():
        wanted = oracle.lookup(query, writer.stream.timestamp, writer.accepted, instant_us)
        try:
            found = to_answers(client.lookup(query.name, at=at_us), writer.workload, query.name)
        except HistoryError:
            assert at_us is not None
            continue
        folded = to_answers(client.lookup(query.name, keys=keys, at=at_us), writer.workload, query.name)
        oracle.assert_same_answers(found, wanted, query)
        oracle.assert_same_answers(folded, wanted, query)
    client.check_invariants()
    return through_index(client) - before


def random_batches(chance: random.Random, correct: bool) -> Iterator[list[Event]]:
    """Batches whose keys come, stay for a while and fall silent; some events are late."""
    minute = 100.0
    for _ in range(chance.choice([8, 25])):
        minute += chance.choice([0.0, 0.3, 1.0, 4.0])
        batch = []
        for _ in range(chance.choice([0, 1, 6, 15])):
            back = chance.choice([0.0, 0.5, 1.9, 2.5, 4.0, 7.0 if correct else 3.0])
            key = f"k{int(minute) // 8 * 3 + chance.choice([0, 0, 0, 1, 1, 2, 3, 4])}"
            n = chance.choice([None, 0, 1, 1, 2, 3, 5])
            x = chance.choice([None, -3.5, 0.5, 1.0, 2.5, math.nan, math.inf, -math.inf])
            batch.append(event(minute - back, key, n, x))
        yield batch


@settings(max_examples=examples(10), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 100_000), st.booleans(), st.booleans())
def test_random_runs_agree(seed: int, correct: bool, merges_early: bool) -> None:
    chance = random.Random(seed)
    queries = [
        having(f"q{i}", chance.choice(CONDITIONS), chance.choice([1, 3, 5, 12]), chance.choice(WHERES))
        for i in range(8)
    ]
    # These always use an index, and the last two share one.
    queries += [having("above", "COUNT(*) > 1", 5), having("below", "COUNT(*) <= 2", 12)]
    used = 0
    with TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        if merges_early:
            patch.setattr(slot_compaction, "KEPT_APART", 2)
            patch.setattr(slot_compaction, "MERGE_AT", 4)
        writer = written(Path(scratch), "".join(queries), " ON LATE CORRECT 4 MINUTES" if correct else "")
        client = LookupClient(scratch, refresh_every_s=0)
        for batch in random_batches(chance, correct):
            writer.run(batch)
            if chance.random() < 0.1:
                client = LookupClient(scratch, refresh_every_s=0)
            if chance.random() < 0.5:
                used += check(client, writer)
            if chance.random() < 0.2:
                check(client, writer, int(chance.uniform(98, 130) * MINUTE_US))
        writer.run([])
        used += check(client, writer)
        if writer.watermark_us is not None:
            assert used


def test_few_groups_are_folded_and_queries_share(tmp_path: Path) -> None:
    queries = [
        having("busy", "COUNT(*) > 12", 10),
        having("busier", "COUNT(*) >= 8", 5),
        having("any_sign", "SUM(n) > 15", 10),
        having("positive", "SUM(n) > 15", 10, " WHERE n > 0"),
    ]
    writer = written(tmp_path, "".join(queries))
    client = LookupClient(tmp_path, refresh_every_s=0)
    for minute in range(10):
        writer.run([event(minute, f"k{i}") for i in range(200)] + [event(minute, "k7", n=2)] * (minute % 2))
    writer.run([])
    assert check(client, writer) == 3, "sums of any sign have no index"
    assert client.statistics()["index_groups"] == 3 * 200, "all have slots that may still change"
    assert set(client.lookup("busier").column("k").to_pylist()) == {"k7"}
    assert check(client, writer, 5 * MINUTE_US) == 0, "the indexes have passed this time"
    assert check(client, writer, 8 * MINUTE_US) == 3, "but not this one"
    assert sorted(index.key.function for index in client._structures.indexes) == ["COUNT_ALL", "SUM"]
    writer.run([event(12, "k1")])
    writer.run([])
    assert check(client, writer) == 3
    assert client.statistics()["index_groups"] == 7 * 200 + 3, "of one group more may come, and no other passes"


def test_what_is_not_final_counts_with_what_is(tmp_path: Path) -> None:
    writer = written(
        tmp_path, having("busy", "COUNT(*) > 50", 30) + having("sums", "SUM(n) >= 100", 30, " WHERE n > 0")
    )
    client = LookupClient(tmp_path, refresh_every_s=0)
    writer.run([event(1, f"k{i}", n=2) for i in range(100) for _ in range(2)] + [event(2, "k3", n=2)] * 46)
    writer.run([event(9, "k1")])
    writer.run([event(9, "k3", n=2), event(9, "k9", n=200), event(9.5, "k3", n=1)])
    assert check(client, writer) == 2
    assert client.lookup("busy").num_rows == 0
    writer.run([event(8, "k3", n=1)])
    assert check(client, writer) == 2
    assert set(client.lookup("busy").column("k").to_pylist()) == {"k3"}
    assert set(client.lookup("sums").column("k").to_pylist()) == {"k3", "k9"}
    assert client.statistics()["index_groups"] < 40


def test_numbers_that_are_given_back(tmp_path: Path) -> None:
    writer = written(tmp_path, having("busy", "COUNT(*) > 1", 5) + having("low", "MAX(n) < 3", 5))
    client = LookupClient(tmp_path, refresh_every_s=0)
    tables = []
    for minute in range(0, 120, 3):
        keys = [f"k{minute // 12}.{i}" for i in range(10)]
        writer.run([event(minute, key, n=len(key) % 4) for key in keys for _ in range(1 + minute % 2)])
        check(client, writer)
        lookup = client.state.lookups["busy"]
        table = client.state.store(lookup.family).key_table
        if not tables or tables[-1] is not table:
            tables.append(table)
    assert len(tables) > 2, "numbers were given back, and the index was built anew"
    assert through_index(client) > 20


def test_a_client_that_slept_builds_anew(tmp_path: Path) -> None:
    writer = written(tmp_path, having("busy", "COUNT(*) > 3", 5))
    client = LookupClient(tmp_path, refresh_every_s=None)
    writer.run([event(1, "a"), event(1, "b")])
    client.refresh()
    for minute in range(45):
        writer.run([event(minute, key) for key in ("abcd"[minute % 4], "e")])
    client.refresh()
    assert client.statistics()["rebuilds"] == 1
    assert check(client, writer) == 1


def test_structures_must_be_earned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    queries = having("busy", "COUNT(*) > 1") + having("busier", "COUNT(*) > 2") + having("low", "MIN(n) < 1")
    writer = written(tmp_path, queries)
    client = LookupClient(tmp_path, refresh_every_s=0)
    for minute in (1, 2, 9):
        writer.run([event(minute, f"k{i}") for i in range(FOLD_ROWS)])
    built = []
    for query in ("busy", "busy", "busier", "low", "low", "low", "low"):
        client.lookup(query, None if query == "busy" else {"k": "k1"})
        built.append(max((one["queries"] for one in client.statistics()["structures"]), default=0))
    assert built == [0, 1, 2, 2, 2, 2, 3], "busier needs nothing new, and low has to earn a column"
    assert check(client, writer) == 3


def test_sums_beyond_an_index(tmp_path: Path) -> None:
    writer = written(tmp_path, having("large", "SUM(n) > 5", 10, " WHERE n > 0"))
    client = LookupClient(tmp_path, refresh_every_s=0)
    writer.run([event(1, "a", n=2**60), event(2, "b", n=3)])
    writer.run([event(9, "a", n=2**60 + 5), event(9, "b", n=3)])
    writer.run([event(12, "c")])
    writer.run([])
    with pytest.warns(PanewiseWarning, match="every group of a HAVING is checked from now on"):
        client.lookup("large")
    assert check(client, writer) == 0
    assert check(client, writer, 10 * MINUTE_US - 1) == 0


def test_a_bound_that_is_a_large_double(tmp_path: Path) -> None:
    queries = having("large", f"SUM(n) >= {float(2**60)!r}", 10, " WHERE n > 0") + having("never", "COUNT(*) > 1e30")
    writer = written(tmp_path, queries)
    client = LookupClient(tmp_path, refresh_every_s=0)
    writer.run([event(1, "a", n=2**60 - 1), event(1, "b", n=2**59)])
    writer.run([event(5, "b")])
    writer.run([])
    assert client.lookup("large").column("k").unique().to_pylist() == ["a"], "as doubles they are equal"
    assert client.lookup("never").num_rows == 0
    assert through_index(client) == 0, "an index would compare integers"


def test_groups_of_nothing_but_nulls(tmp_path: Path) -> None:
    writer = written(tmp_path, having("none", "COUNT(n) < 2") + having("some", "COUNT(n) >= 1"))
    client = LookupClient(tmp_path, refresh_every_s=0)
    for minute in (1, 3, 9):
        writer.run([event(minute, "a", n=None), event(minute, "b")])
    assert check(client, writer) == 1
    assert client.lookup("none").column("k").unique().to_pylist() == ["a"]


def test_the_longest_range_reaches_its_first_slot(tmp_path: Path) -> None:
    writer = written(tmp_path, having("busy", "COUNT(*) >= 2", 10))
    client = LookupClient(tmp_path, refresh_every_s=0)
    writer.run([event(0, "a"), event(9, "a"), event(9, "b")])
    writer.run([event(12.5, "b")])
    writer.run([])
    assert check(client, writer, 10 * MINUTE_US - 1) == 1
    assert set(client.lookup("busy", at=10 * MINUTE_US - 1).column("k").to_pylist()) == {"a"}
