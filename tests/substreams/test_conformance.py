"""Every filter gives the keys that plain Python gives, and an approximate answer keeps its guarantee."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.substreams.plain import COMPARE, Plain
from tests.thoroughness import examples

from panewise.substreams import EVERY_FILTER, build

FILTERS = [
    ("collective_count", "COUNT", {"levels_per_size": 1}),
    ("collective_count", "COUNT", {"levels_per_size": 2}),
    ("collective_count", "COUNT", {"levels_per_size": 3}),
    ("collective_count", "COUNT", {"error": 0.3}),
    ("collective_count", "COUNT", {"levels_per_size": 2, "least_threshold": 6}),
    ("collective_sum", "SUM", {"levels_per_size": 1}),
    ("collective_sum", "SUM", {"levels_per_size": 2}),
    ("collective_sum", "SUM", {"error": 0.25}),
    ("collective_sum", "SUM", {"levels_per_size": 3, "least_threshold": 40}),
    ("collective_max", "MAX", {}),
    ("collective_max", "MAX", {"doubles": True}),
    ("collective_min", "MIN", {}),
    ("collective_min", "MIN", {"doubles": True}),
    ("scan_substreams", "COUNT", {"aggregate": "count"}),
    ("scan_substreams", "COUNT", {"aggregate": "count", "by_probe": True}),
    ("scan_substreams", "SUM", {"aggregate": "sum"}),
    ("scan_substreams", "MAX", {"aggregate": "max"}),
    ("scan_substreams", "MIN", {"aggregate": "min", "doubles": True}),
]
every_filter = pytest.mark.parametrize(
    ("name", "aggregate", "options"), FILTERS, ids=lambda part: part if isinstance(part, str) else str(part)
)


def test_every_filter_is_tested() -> None:
    assert {name for name, _, _ in FILTERS} == {each.sheet.name for each in EVERY_FILTER}


def test_every_ability_is_tested() -> None:
    tested = {(name, aggregate) for name, aggregate, _ in FILTERS}
    assert tested == {(each.sheet.name, aggregate) for each in EVERY_FILTER for aggregate in each.sheet.aggregates}


@dataclass(frozen=True)
class Event:
    key: int
    value: int
    gap: int


@dataclass(frozen=True)
class Lookup:
    gap: int
    range_us: int
    comparison: str
    threshold: float


LARGEST = 60
gaps = st.one_of(st.just(0), st.integers(0, 4), st.integers(0, 90))
events = st.builds(Event, st.integers(0, 5), st.integers(1, 30), gaps)
lookups = st.builds(
    Lookup,
    st.integers(0, 5),
    st.integers(1, LARGEST),
    st.sampled_from(list(COMPARE)),
    st.one_of(st.integers(-1, 12), st.integers(0, 200), st.floats(-1, 40)),
)


@st.composite
def bursts(draw):
    """Runs of events of one key or of several, and lookups between: enough of them to fill levels."""
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        chance = random.Random(draw(st.integers(0, 10**6)))
        keys = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
        fastest, most = draw(st.integers(0, 2)), draw(st.integers(1, 30))
        steps += [
            Event(chance.choice(keys), chance.randint(1, most), chance.randint(0, fastest))
            for _ in range(draw(st.integers(1, 40)))
        ]
        steps += draw(st.lists(st.one_of(lookups, events), max_size=8))
    return steps


@every_filter
@settings(max_examples=examples(40))
@given(steps=bursts())
def test_exact_answers_and_guarantees(name, aggregate, options, steps) -> None:
    tested, plain = build(name, LARGEST, **options), Plain(aggregate)
    relaxed = 1 - tested.error
    now = 0
    for step in steps:
        now += step.gap
        if isinstance(step, Event):
            tested.update([step.key], [step.value], [now])
            plain.update(step.key, step.value, now)
            continue
        asked = (now, step.range_us, step.comparison, step.threshold)
        expected = plain.lookup(*asked)
        exact = tested.lookup(*asked).of(0).tolist()
        assert sorted(exact) == sorted(expected)
        near = tested.lookup(*asked, exact=False).of(0).tolist()
        assert len(near) == len(set(near))
        assert set(near) >= expected
        if aggregate in ("COUNT", "SUM"):
            # The bound of the paper is that of the least count or sum that passes, or the greatest.
            values = plain.aggregates(now, step.range_us)
            for key in set(near) - expected:
                if step.comparison in (">", ">="):
                    least = _least_that_passes(step.comparison, step.threshold)
                    assert values[key] >= relaxed * least
                else:
                    greatest = _least_that_passes(">=" if step.comparison == "<" else ">", step.threshold) - 1
                    assert values[key] * relaxed <= greatest
        else:
            assert set(near) == expected
    tested.check_invariants()


def _least_that_passes(comparison, threshold):
    least = int(threshold) - 2
    while not COMPARE[comparison](least, threshold):
        least += 1
    return least


@every_filter
@settings(max_examples=examples(15))
@given(seed=st.integers(0, 10**6), fastest=st.integers(0, 3), keys=st.sampled_from([1, 7, 60]))
def test_long_streams(name, aggregate, options, seed, fastest, keys) -> None:
    """Thousands of events in batches: rings go around, blocks fill, expire and are purged, keys leave and return."""
    chance = random.Random(seed)
    largest = 700
    tested, plain = build(name, largest, **options), Plain(aggregate)
    now = 0
    for _ in range(12):
        size = chance.choice([1, 50, 300, 700])
        own = [chance.randrange(keys) for _ in range(chance.randint(1, keys))]
        batch = []
        for _ in range(size):
            now += chance.randint(0, fastest)
            batch.append((chance.choice(own), chance.randint(1, 1000), now))
        tested.update(*([row[column] for row in batch] for column in range(3)))
        plain.events += batch
        if chance.random() < 0.3:
            now += chance.choice([10, largest, 5 * largest])
            tested.advance(now)
        plain.events = [event for event in plain.events if event[2] > now - largest]
        tested.check_invariants()
        assert tested.live_keys == len({event[0] for event in plain.events})
        asked = [
            (now, chance.randint(1, largest), chance.choice(list(COMPARE)), _threshold(chance, aggregate))
            for _ in range(8)
        ]
        matches = tested.lookup(*([row[column] for row in asked] for column in range(4)))
        for place, row in enumerate(asked):
            assert sorted(matches.of(place).tolist()) == sorted(plain.lookup(*row)), row


def _threshold(chance, aggregate):
    if aggregate == "COUNT":
        return chance.choice([0, 1, 2, 5, chance.randint(0, 300)])
    return chance.randint(0, 1001) if aggregate in ("MAX", "MIN") else chance.choice([5, 500, 20_000, 200_000])


@every_filter
@settings(max_examples=examples(15))
@given(steps=bursts())
def test_replay_is_the_calls_one_by_one(name, aggregate, options, steps) -> None:
    together, single = build(name, LARGEST, **options), build(name, LARGEST, **options)
    now, rows, expected = 0, [], []
    for step in steps:
        now += step.gap
        if isinstance(step, Event):
            rows.append((False, step.key, step.value, now, 1, ">", 0.0))
            single.update([step.key], [step.value], [now])
        else:
            rows.append((True, -7, -7, now, step.range_us, step.comparison, float(step.threshold)))
            found = single.lookup(now, step.range_us, step.comparison, step.threshold)
            expected.append(sorted(found.of(0).tolist()))
    matches = together.replay(*([row[column] for row in rows] for column in range(7)))
    assert [sorted(matches.of(place).tolist()) for place in range(len(expected))] == expected
    together.check_invariants()
