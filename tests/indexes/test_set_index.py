"""Indexes by themselves, with many values: nodes are found, scanned in order, taken out and used again."""

from __future__ import annotations

import random

import numpy as np
import pytest

from panewise.indexes import EVERY_INDEX
from panewise.indexes.set_index import NO_ENTRIES, Entries, NodeIndex

NODE_INDEXES = [each for each in EVERY_INDEX if issubclass(each, NodeIndex)]
every_index = pytest.mark.parametrize("kind", NODE_INDEXES, ids=lambda kind: kind.sheet.name)


def entries(keys):
    return Entries(keys, np.ones(len(keys), np.int64))


@every_index
@pytest.mark.parametrize("purge", ["periodic", "zero_list"])
@pytest.mark.parametrize("pattern", ["random", "ascending", "descending", "thinned"])
def test_values_come_and_go(kind, purge, pattern) -> None:
    chance = random.Random(f"{pattern}")
    index = kind(1, purge)
    held = {}
    for step in range(12):
        low = step * 400
        codes = {
            "random": lambda: chance.sample(range(-5_000, 5_000), 700),
            "ascending": lambda low=low: list(range(low, low + 700)),
            "descending": lambda low=low: list(range(-low, -low - 700, -1)),
            "thinned": lambda low=low: list(range(low, low + 700)),
        }[pattern]()
        nodes = index.locate(np.array(codes))
        index.pin(nodes)
        index.change(0, entries(nodes), NO_ENTRIES)
        for code in codes:
            held[code] = held.get(code, 0) + 1
        # When values are thinned, one in fifty stays, so that pages of a tree keep one value or none.
        gone = [code for code in held if (code % 50 if pattern == "thinned" else chance.random() < 0.6)]
        nodes = index.find(np.array(gone))
        index.change(0, NO_ENTRIES, Entries(nodes, np.array([held.pop(code) for code in gone])))
        index.check_invariants()
        assert index.nodes_held() > len(held)
        assert sorted(index.purge().tolist()) == sorted(gone)
        index.check_invariants()
        codes, counts = index.scan()
        assert dict(zip(codes.tolist(), counts[0].tolist())) == held
        assert not index.scans_in_order or codes.tolist() == sorted(held)
        assert (index.find(np.array(gone)) == -1).all()
        assert index.present(0) == len(held)


@every_index
def test_the_same_number_of_values_takes_the_same_memory(kind) -> None:
    """Nodes and pages are used again: a hundred generations of values in the room of the first few."""
    index = kind(1, "zero_list")
    sizes = []
    for generation in range(100):
        nodes = index.locate(np.arange(generation * 300, generation * 300 + 300))
        index.pin(nodes)
        index.change(0, entries(nodes), NO_ENTRIES)
        index.change(0, NO_ENTRIES, entries(nodes))
        assert len(index.purge()) == 300
        sizes.append(index.nbytes)
    index.check_invariants()
    assert sizes[5] == sizes[-1]


@every_index
def test_an_empty_index(kind) -> None:
    index = kind()
    index.check_invariants()
    assert index.find(np.array([1, 2])).tolist() == [-1, -1]
    assert len(index.scan()[0]) == len(index.purge()) == index.nodes_held() == 0
    index.locate(np.arange(100))
    index.clear()
    index.check_invariants()
    assert index.locate(np.array([7, 7])).tolist() == [0, 0]
