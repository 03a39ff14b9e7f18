"""The types of arrays that modules hand one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
"""Bits."""
Numbers = npt.NDArray[np.unsignedinteger[Any]]
"""Numbers in a table, in as few bytes as they need."""
Column = npt.NDArray[Any]
"""Values of any one type."""
