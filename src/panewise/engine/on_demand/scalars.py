"""Scalars: the answers of one group as plain numbers."""

from __future__ import annotations

from panewise.aggregates.lowering import Lowered

Answer = tuple[float | None, int | None]
"""An answer as a double, and also as an exact integer if it is one; None and None for NULL."""

Values = dict[str, int | float | None]
"""The answers of one group by the names of SELECT; None for NULL."""

NULL: Answer = (None, None)


def as_scalars(lowered: Lowered) -> Answer:
    """The first of some answers."""
    if not lowered.valid[0]:
        return NULL
    return lowered.values.item(0), None if lowered.exact is None else lowered.exact.item(0)
