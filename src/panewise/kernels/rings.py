"""Rings: the newest elements of a sequence in a circular array.

Element `i` lies at place `i mod size`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Elements = npt.NDArray[Any]


def write(ring: Elements, start: int, values: Elements) -> None:
    """Put values at positions start, start + 1, ...; if not all fit, the newest stay."""
    size = len(ring)
    if len(values) > size:
        start += len(values) - size
        values = values[-size:]
    at = start % size
    first = min(len(values), size - at)
    ring[at : at + first] = values[:first]
    ring[: len(values) - first] = values[first:]


def read(ring: Elements, start: int, end: int) -> Elements:
    """A copy of the values at positions start .. end - 1, which the ring must hold."""
    size = len(ring)
    assert end - start <= size, "the ring does not hold that many"
    at = start % size
    first = ring[at : min(at + end - start, size)]
    return np.concatenate([first, ring[: end - start - len(first)]])
