"""A structure is one file and one line in the list: a toy one is added here so, and conforms with no other change."""

from __future__ import annotations

from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.test_conformance import Run
from tests.thoroughness import examples

import panewise
from panewise import structures
from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.kernels.operations import ADD, MAX
from panewise.kernels.pool import write_rings
from panewise.structures import Structure, build, restore
from panewise.structures.column import Column, Elements, Operation
from panewise.structures.pool import Batch, Keys, Moves, Pool
from panewise.structures.sheet import FIXED_SIZE, Cost, DataSheet, Lookups


class ToyColumn(Column):
    """A ring of elements a key, folded by NumPy."""

    def __init__(self, operation: Operation, pool: Pool) -> None:
        super().__init__(operation, pool)
        self._rings = np.zeros(pool.size, operation.dtype)

    def append(self, batch: Batch, values: Elements) -> None:
        pool, b = self.pool, batch
        write_rings(self._rings, pool.offset, pool.shift, b.keys, b.bounds, b.begin, b.after, values)

    def fold(self, keys: Keys, low: Ints, high: Ints) -> Elements:
        folds = {ADD: np.sum, MAX: np.fmax.reduce}
        out = np.full(len(low), self.operation.identity, self.operation.dtype)
        for i in np.flatnonzero(low < high):
            positions = np.arange(low[i], high[i])
            places = self.pool.places(None if keys is None else np.full(len(positions), keys[i]), positions)
            out[i] = folds[self.operation.code](self._rings[places])
        return out

    def relocate(self, moves: Moves) -> None:
        self._rings = self._moved_rings(self._rings, moves)

    def arrays(self) -> list[Elements]:
        return [self._rings]


class Toy(Structure):
    """Any window, by folding it."""

    sheet: ClassVar[DataSheet] = DataSheet(
        name="toy",
        title="toy",
        source="none",
        kinds=FIXED_SIZE,
        needs_inverse=False,
        lookups=Lookups.ANY,
        update=Cost("1", lambda shape: 1.0),
        lookup=Cost("1/2", lambda shape: 0.5),
        space=Cost("Nmax", lambda shape: float(shape.largest)),
        takes_user_aggregates=False,
    )

    def _column(self, operation: Operation) -> Column:
        return ToyColumn(operation, self._pool)


LISTED = patch.dict(structures.BY_NAME, {"toy": Toy})


@pytest.mark.parametrize("has_groups", [False, True], ids=["one stream", "by key"])
@pytest.mark.parametrize("aggregate", ["SUM", "MAX", "COUNT"])
@settings(max_examples=examples(25))
@given(data=st.data())
def test_it_conforms(aggregate: str, has_groups: bool, data: st.DataObject) -> None:
    with LISTED:
        run = Run(Toy, aggregate, Type.BIGINT, has_groups, data.draw)
        for _ in range(data.draw(st.integers(1, 8))):
            run.step()


@LISTED
def test_it_is_built_restored_and_looked_up() -> None:
    toy = build("toy", "max", [(3, 0)])
    toy.update([5, 9, 2, 7], keys=[0, 1, 0, 0])
    assert restore(toy.snapshot()).lookup(2, keys=[0, 1]).tolist() == [7, 9]


@LISTED
@pytest.mark.parametrize("group_by", ["", " GROUP BY k"])
def test_the_planner_chooses_it_by_its_sheet_and_queries_are_answered(group_by: str) -> None:
    engine = panewise.Engine(
        "CREATE STREAM s (t TIMESTAMP, k BIGINT, n BIGINT) TIMESTAMP BY t WATERMARK 2 SECONDS;"
        f"CREATE QUERY q AS SELECT SUM(n), MAX(n), AVG(n) FROM s [ROWS 1000]{group_by};"
    )
    engine.push("s", {"t": [1, 2, 3, 9_000_000], "k": [1, 1, 1, 1], "n": [5, 9, 1, 3]})
    engine.advance("s")
    assert {one["structure"] for one in engine.statistics()["structures"]["s"]} == {"toy"}
    assert engine.lookup("q").select(["SUM(n)", "MAX(n)", "AVG(n)"]).to_pylist() == [
        {"SUM(n)": 18, "MAX(n)": 9, "AVG(n)": 4.5}
    ]
