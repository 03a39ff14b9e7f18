"""Lookups on Spark by structures over slots: any that USING names, WITHIN by TimeGrams, and what is refused."""

from __future__ import annotations

import math
import random
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
from panewise.language.printer import label_of
from panewise.spark.job import Job
from panewise.structures import EVERY_STRUCTURE
from panewise.structures.sheet import Lookups

MINUTE_US = 60_000_000
STREAM = """CREATE STREAM s (t TIMESTAMP, k STRING, n BIGINT, x DOUBLE)
    TIMESTAMP BY t WATERMARK 2 MINUTES GRANULARITY 1 MINUTE;"""
ABLE = {
    "running_intervals": "COUNT(*), COUNT(n), SUM(n), AVG(x), VAR_POP(n)",
    "base_intervals": "COUNT(*), SUM(n), MAX(x), MIN(n), STDDEV_SAMP(x)",
    "landmark_intervals": "SUM(x), MAX(n), AVG(n)",
    "recompute": "COUNT(x), SUM(n), MIN(x), VAR_SAMP(n)",
    "search_tree": "SUM(n), MAX(x)",
}


def value(chance: random.Random) -> float | None:
    return chance.choice([None, 0.0, 1.5, -2.25, 1e-3, 1e3, 7.125] * 5 + [math.nan, math.inf, 1e300, -1e300])


def random_batches(chance: random.Random, strange: bool) -> list[list[Event]]:
    minute, batches = 100.0, []
    for _ in range(12):
        minute += chance.choice([0.3, 1.0, 2.5])
        batches.append(
            [
                {
                    "t": int((minute - chance.choice([0.0, 0.5, 1.9, 3.0])) * MINUTE_US),
                    "k": chance.choice("aab"),
                    "n": chance.choice([None, 0, 3, -4, 2**40, -(2**62) if strange else 9]),
                    "x": value(chance) if strange else chance.choice([None, 0.5, 40.0, 17.25, 99.5]),
                }
                for _ in range(chance.choice([0, 2, 9]))
            ]
        )
    return batches


@settings(max_examples=examples(8), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 100_000), st.booleans())
def test_every_structure_that_using_names_agrees_with_the_oracle(seed: int, strange: bool) -> None:
    chance = random.Random(seed)
    texts = [
        f"CREATE QUERY {name}{place} AS SELECT {select} FROM s [RANGE {chance.choice([1, 4, 9])} MINUTES]{rest}"
        f" USING {name};"
        for name, select in ABLE.items()
        for place, rest in enumerate([" GROUP BY k", " WHERE n > 0", ""])
    ]
    workload = panewise.read(
        STREAM + "".join(text.replace("SELECT", "SELECT k,") if "GROUP" in text else text for text in texts)
    )
    with TemporaryDirectory() as scratch:
        writer = LogWriter(Path(scratch), workload)
        client = panewise.LookupClient(scratch, refresh_every_s=0)
        for batch in random_batches(chance, strange):
            writer.run(batch)
            if writer.seen_us is None or chance.random() < 0.5:
                continue
            for query in workload.queries.values():
                wanted = oracle.lookup(query, "t", writer.accepted, writer.seen_us - 1)
                found = to_answers(client.lookup(query.name), workload, query.name)
                oracle.assert_same_answers(found, wanted, query)
            client.check_invariants()
        assert {one["structure"] for one in client.statistics()["structures"]} <= ABLE.keys()
        if writer.accepted:
            assert {one["structure"] for one in client.statistics()["structures"]} == ABLE.keys()


@pytest.mark.filterwarnings("ignore::panewise.SlowerLookupsWarning")
@settings(max_examples=examples(8), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(st.integers(0, 100_000), st.booleans())
def test_intervals_contain_the_exact_answer(seed: int, strange: bool) -> None:
    chance = random.Random(seed)
    texts = [
        f"CREATE QUERY q{place} AS SELECT COUNT(*), SUM(n), AVG(x), MAX(n), MIN(x), SUM(x), COUNT(x) FROM s "
        f"[RANGE {minutes} MINUTES] {where} WITHIN {within} USING timegram;"
        for place, (minutes, where, within) in enumerate([(3, "", 0.5), (9, "WHERE n > 0", 0.2), (20, "", 0.05)])
    ]
    workload = panewise.read(STREAM + "".join(texts))
    narrow = 0
    with TemporaryDirectory() as scratch:
        writer = LogWriter(Path(scratch), workload)
        client = panewise.LookupClient(scratch, refresh_every_s=0)
        for batch in random_batches(chance, strange):
            writer.run(batch)
            if writer.seen_us is None:
                continue
            for query in workload.queries.values():
                assert query.within is not None
                exact = {one.item: one for one in oracle.lookup(query, "t", writer.accepted, writer.seen_us - 1)}
                (row,) = client.lookup(query.name).to_pylist()
                for place, item in enumerate(query.select):
                    wanted, label = exact[place].value, label_of(item)
                    if label.startswith("COUNT"):
                        # A count is exact, so it has no bounds.
                        assert row[label] == wanted
                        continue
                    if wanted is None:
                        assert row[label] is row[f"{label} low"] is row[f"{label} high"] is None
                        continue
                    low, high = row[f"{label} low"], row[f"{label} high"]
                    if low == high or math.isnan(wanted):
                        assert oracle.same_value(low, wanted, exact[place].scale)
                        continue
                    narrow += 1
                    assert low <= wanted <= high
                    assert high - low <= query.within * max(abs(low), abs(high))
    assert narrow or strange


def test_sums_that_are_too_large_for_intervals_are_told_and_answered_exactly(tmp_path: Path) -> None:
    workload = panewise.read(
        STREAM + "CREATE QUERY q AS SELECT SUM(n) AS total FROM s [RANGE 9 MINUTES] WITHIN 0.1 USING timegram;"
    )
    writer = LogWriter(tmp_path, workload)
    client = panewise.LookupClient(tmp_path, refresh_every_s=0)
    writer.run([{"t": minute * MINUTE_US, "k": "a", "n": 2**61, "x": None} for minute in (100, 101)])
    with pytest.warns(panewise.SlowerLookupsWarning, match=r"query q with WITHIN is answered exactly .* 2\*\*61"):
        (row,) = client.lookup("q").to_pylist()
    assert (row["total low"], row["total high"]) == (2.0**62, 2.0**62)
    client.lookup("q")  # and told once


def test_what_structures_over_slots_cannot_is_refused() -> None:
    for query, why in (
        ("SELECT MAX(n) FROM s [RANGE 1 HOUR] USING running_intervals", r"running_intervals .*USING .* can"),
        (
            "SELECT MEDIAN(n) FROM s [RANGE 1 HOUR] USING sorted_base_intervals",
            "needs all values of a slot",
        ),
        ("SELECT SUM(n) FROM s [RANGE 1 HOUR] USING materialize_all", "fixed width"),
        ("SELECT k, SUM(n) FROM s [RANGE 1 HOUR] GROUP BY k WITHIN 0.1 USING timegram", "the query has groups"),
    ):
        with pytest.raises(panewise.StructureChoiceError, match=why):
            Job.of(panewise.read(f"{STREAM} CREATE QUERY q AS {query};"), range(4))


def test_the_list_of_able_structures_is_complete() -> None:
    sheets = [structure.sheet for structure in EVERY_STRUCTURE]
    able = {sheet.name for sheet in sheets if sheet.lookups is not Lookups.REGISTERED and sheet.served_types("SUM")}
    assert able == ABLE.keys()
