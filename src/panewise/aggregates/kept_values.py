"""Kept values: the least or the greatest values of a window, at most so many, whatever their length.

Each is bytes that compare as the values do. A pair has 8 bytes for its order in front: the event time of FIRST, LAST
and lists, the second argument of ARG_MIN and ARG_MAX. A string is its UTF-8; anything else is 8 bytes, too. So strings
of all processes compare alike, and no table of strings has to travel or to be tidied up.

Laws: combining is associative and commutative, and nothing can be taken off again.
Cost: O(kept) to combine. Space: the bytes of what is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice

import numpy as np

from panewise.aggregates.components import Kind
from panewise.arrays import Ints

ORDER_BYTES = 8
"""The bytes of a number, and so of the order in front of a value."""
_HEAD = struct.Struct("<II")
_SIGN = np.uint64(1 << 63)


@dataclass(frozen=True, slots=True)
class KeptValues:
    """The best of some values, the best first; `most` says how many are kept."""

    most: int
    values: tuple[bytes, ...]

    @property
    def nbytes(self) -> int:
        """About how much memory it takes: each value is an object, with a reference to it."""
        return 72 + sum(41 + len(value) for value in self.values)

    @staticmethod
    def merged(kind: Kind, parts: Sequence[KeptValues]) -> KeptValues:
        """The best of several."""
        most, is_greatest = parts[0].most, kind is Kind.GREATEST_VALUES
        if most == 1:
            best = max if is_greatest else min
            return best(parts, key=_first)
        together = merge(*(part.values for part in parts), reverse=is_greatest)
        return KeptValues(most, tuple(islice(together, most)))

    def serialised(self) -> bytes:
        """As bytes: how many are kept and how many there are, their lengths, and the values end to end."""
        count = len(self.values)
        return b"".join((_HEAD.pack(self.most, count), struct.pack(f"<{count}I", *map(len, self.values)), *self.values))

    @staticmethod
    def opened(content: bytes) -> KeptValues:
        """The inverse of `serialised`."""
        most, count = _HEAD.unpack_from(content)
        at, values = _HEAD.size + 4 * count, []
        for length in struct.unpack_from(f"<{count}I", content, _HEAD.size):
            values.append(content[at : at + length])
            at += length
        return KeptValues(most, tuple(values))


def _first(kept: KeptValues) -> bytes:
    return kept.values[0]


def bytes_of_words(words: Ints) -> list[bytes]:
    """Words as bytes in their order."""
    content = (words.view(np.uint64) ^ _SIGN).astype(">u8").tobytes()
    return [content[at : at + ORDER_BYTES] for at in range(0, len(content), ORDER_BYTES)]


def words_of_bytes(values: Iterable[bytes]) -> Ints:
    """The inverse of `bytes_of_words`."""
    return (np.frombuffer(b"".join(values), ">u8").astype(np.uint64) ^ _SIGN).view(np.int64)
