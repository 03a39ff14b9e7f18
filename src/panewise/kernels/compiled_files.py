"""Make the numbers of compiled functions unique: many processes share the files in which numba keeps them.

numba numbers the functions that a process compiles 1, 2, 3, puts the number in the names of symbols, and takes two
symbols of one name for one function. Within a process that holds. But a process also reads files that others wrote, and
each of those counted from 1: `np.sort` of doubles in one file then has the name of `np.argsort` of doubles in another,
and a process that reads both runs one of them for both: answers are wrong (numba's issue 10486). Likewise two processes
that compile one kernel for two types at the same moment may choose the same number for their two files, and the table
of contents then leads to the wrong one. Spark starts workers side by side, so both happen. Numbers drawn at random from
64 bits do not collide.
"""

from __future__ import annotations

import secrets

from numba.core.bytecode import FunctionIdentity
from numba.core.caching import IndexDataCacheFile


def number_at_random() -> None:
    """Draw the numbers of functions and of files at random, in this process and in those forked from it."""
    FunctionIdentity._unique_ids = _RandomNumbers()  # type: ignore[assignment]
    IndexDataCacheFile._data_name = _draw_data_name  # type: ignore[method-assign]


class _RandomNumbers:
    """Random numbers, each drawn when it is needed: forked processes would otherwise go on from the same number."""

    def __next__(self) -> int:
        return secrets.randbits(64)


def _draw_data_name(self: IndexDataCacheFile, number: int) -> str:
    """The name of a new file. This process saw `number` free, but another process may have taken it since."""
    return str(self._data_name_pattern.format(number=secrets.randbits(64)))
