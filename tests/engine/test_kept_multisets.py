"""Multisets kept in order are what came in less what was taken off."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.engine.kept_multisets import KeptMultisets
from panewise.engine.rows import Multisets

KEYS = 4
row = st.tuples(st.integers(0, KEYS - 1), st.lists(st.integers(0, 9).map(float) | st.just(math.inf), max_size=5))
steps = st.lists(st.tuples(st.lists(row, max_size=6), st.integers(0, 8)), max_size=12)


def multisets_of(rows: list[tuple[int, list[float]]]) -> tuple[np.ndarray, Multisets]:
    pairs = [sorted(Counter(values).items()) for _, values in rows]
    flat = [pair for some in pairs for pair in some]
    offsets = np.concatenate([[0], np.cumsum([len(some) for some in pairs])]).astype(np.int64)
    items, counts = np.array([item for item, _ in flat], np.float64), np.array([count for _, count in flat], np.int64)
    return np.array([key for key, _ in rows], np.uint32), Multisets(items, counts, offsets)


@settings(max_examples=examples(60), deadline=None)
@given(steps=steps)
def test_what_came_and_went_is_held(steps) -> None:
    kept, held = KeptMultisets(0, np.float64), []
    kept.cover(KEYS)
    for coming, leaving in steps:
        if coming:
            kept.change(*multisets_of(coming), 1)
        held += coming
        gone, held = held[:leaving], held[leaving:]
        if gone:
            kept.change(*multisets_of(gone), -1)
        found, low, high = kept.of(np.arange(KEYS))
        for key in range(KEYS):
            here = slice(found.offsets[low[key]], found.offsets[high[key]])
            wanted = Counter(value for owner, values in held if owner == key for value in values)
            assert list(zip(found.items[here].tolist(), found.counts[here].tolist())) == sorted(wanted.items())


def test_a_key_that_grows_alone_finds_room() -> None:
    kept = KeptMultisets(0, np.int64)
    kept.cover(1)
    for value in range(300):
        kept.change(np.zeros(1, np.uint32), Multisets(np.array([value]), np.array([1]), np.array([0, 1])), 1)
    found, low, high = kept.of(np.zeros(1, np.int64))
    assert found.items[found.offsets[low[0]] : found.offsets[high[0]]].tolist() == list(range(300))
