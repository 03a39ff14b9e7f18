"""Blocks of events: how few entries they keep, and that a heap stays one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from panewise.kernels import collective_extremes as kernel
from panewise.kernels.segments import HEAP_OFFSET, HEAP_SIZE
from panewise.substreams.collective_extremes import CollectiveMax


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=60))
def test_sinking_from_the_last_makes_a_heap(values) -> None:
    heap, seats = np.array(values), np.arange(len(values), dtype=np.int32)
    for at in range(len(values) - 1, -1, -1):
        kernel._sink(heap, seats, at)
    assert [values[seat] for seat in seats] == heap.tolist()
    assert sorted(heap.tolist()) == sorted(values)
    for at in range(1, len(values)):
        assert heap[(at - 1) >> kernel.CHILDREN_LOG] >= heap[at]


@pytest.mark.parametrize("order", ["rising", "falling", "random"])
def test_entries(order) -> None:
    """Rising values leave one entry a key in the newest blocks; falling ones stay in all of them."""
    count, keys = 20_000, 10
    values = {
        "rising": np.arange(count),
        "falling": np.arange(count)[::-1],
        "random": np.random.default_rng(5).integers(0, count, count),
    }[order]
    index = CollectiveMax(10**9)
    index.update(np.arange(count) % keys, values, np.arange(count))
    index.check_invariants()
    blocks = index._blocks
    first = blocks.blocks[: blocks.rows[1]]
    held = first[first[:, HEAP_OFFSET] >= 0, HEAP_SIZE]
    assert len(held) == -(-count // (1 << kernel.FIRST_LOG))
    filling = keys if count % (1 << kernel.FIRST_LOG) else 0
    if order == "rising":
        # The newest full block, and the one that is being filled.
        assert held.sum() == keys + filling
    elif order == "falling":
        assert held.sum() == keys * len(held)
    else:
        assert held.sum() < keys * len(held) / 2


def test_old_blocks_are_used_again() -> None:
    index = CollectiveMax(5_000)
    rng = np.random.default_rng(2)
    sizes = []
    for start in range(0, 100_000, 5_000):
        index.update(rng.integers(0, 40, 5_000), rng.integers(0, 10**6, 5_000), np.arange(start, start + 5_000))
        sizes.append(index.nbytes)
    index.check_invariants()
    assert sizes[-1] == sizes[3]
