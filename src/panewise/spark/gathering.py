"""Gathers Arrow batches until they are worth being made one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa


def gathered(
    batches: Iterable[pa.RecordBatch], size_of: Callable[[pa.RecordBatch], int], enough: int
) -> Iterator[list[pa.RecordBatch]]:
    """Batches in their order, as lists that each have `enough`, but for the last."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += size_of(batch)
        if size >= enough:
            yield held
            held, size = [], 0
    if size:
        yield held
