"""Values as integers in the same order, so that every index has one kind of key.

Integers stand for themselves. Doubles become their bits, turned so that they sort as numbers do: NaN is one value above
all, and -0.0 is 0.0. Strings get numbers from a dictionary, which takes a number back when its value leaves the index;
these numbers say nothing about order, so the dictionary also sorts. Groups are ranges of one width; each number falls
into one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from difflib import get_close_matches
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.arrays import Ints
from panewise.errors import IndexingError

Width = float | tuple[float, ...]
"""How values are put into ranges: by one width, or by the bounds between them, in order."""
Values = Any
"""A NumPy array of numbers, or an Arrow array of strings."""

_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_OUTERMOST = 1 << 52
"""Doubles beyond this many widths are one group on each side: there, they lie further apart than a width."""
_NAN_GROUP = _OUTERMOST + 1


class ValueRanges(NamedTuple):
    """Ranges of values. Integers lie in [low, high]; doubles in [low, high), NaN in a range of its own."""

    low: npt.NDArray[Any]
    high: npt.NDArray[Any]


class ValueCodes(ABC):
    """How values of a type become integers, and integers values again."""

    sorts_by_code: ClassVar[bool] = True
    """Whether codes are in the order of values."""

    @abstractmethod
    def encode(self, values: Values) -> Ints:
        """The code of each value; if a value has none, raises an error and changes nothing."""

    def find(self, values: Values) -> Ints:
        """The code of each value if it is known; -1 for a value that cannot be in an index."""
        return self.encode(values)

    @abstractmethod
    def decode(self, codes: Ints) -> Values:
        """The values that codes stand for."""

    def order(self, codes: Ints) -> Ints:
        """The places of codes in the order of their values."""
        return np.argsort(codes, kind="stable")

    def release(self, codes: Ints) -> None:  # noqa: B027
        """Take back codes that are no longer in any index; does nothing unless codes were given out."""

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return 0


class IntegerCodes(ValueCodes):
    """Integers are their own codes."""

    def encode(self, values: Values) -> Ints:
        """The integers as int64."""
        array = _numbers(values)
        if array.dtype.kind not in "iu" and array.size:
            raise IndexingError(f"the window holds int64, got values of type {array.dtype}; cast them, or use float64")
        if array.dtype.kind == "u" and array.size and int(array.max()) > _GREATEST:
            raise IndexingError(f"{array.max()} does not fit in int64; use float64 or strings")
        return np.ascontiguousarray(array, np.int64)

    def decode(self, codes: Ints) -> npt.NDArray[np.int64]:
        """The integers."""
        return codes


class DoubleCodes(ValueCodes):
    """Doubles as their bits; those of negative numbers are turned around.

    >>> codes = DoubleCodes()
    >>> codes.decode(np.sort(codes.encode([2.5, float("nan"), -0.0, -3.0, float("inf"), 0.0]))).tolist()
    [-3.0, 0.0, 0.0, 2.5, inf, nan]
    """

    def encode(self, values: Values) -> Ints:
        """The ordered bits of each double."""
        array = _numbers(values)
        if array.dtype.kind not in "iuf" and array.size:
            raise IndexingError(f"the window holds float64, got values of type {array.dtype}; cast them")
        # Adding zero turns -0.0 into 0.0.
        doubles = np.asarray(array, np.float64) + 0.0
        doubles[np.isnan(doubles)] = np.nan
        return _turned(doubles.view(np.int64))

    def decode(self, codes: Ints) -> npt.NDArray[np.float64]:
        """The doubles."""
        return _turned(codes).view(np.float64)


class StringCodes(ValueCodes):
    """Strings numbered by a dictionary; a number that is given back is the next to be given out.

    Sorting uses Python's order of strings, by code point, which is that of their UTF-8 bytes.
    """

    sorts_by_code: ClassVar[bool] = False

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str | None] = []
        self._free: list[int] = []
        self._ranks: Ints | None = None

    def encode(self, values: Values) -> Ints:
        """The number of each string; new strings get numbers."""
        places, texts = _dictionary(values)
        numbers = np.empty(len(texts), np.int64)
        for i, text in enumerate(texts):
            known = self._numbers.get(text)
            numbers[i] = self._enter(text) if known is None else known
        return numbers[places]

    def _enter(self, text: str) -> int:
        if self._free:
            number = self._free.pop()
            self._texts[number] = text
        else:
            number = len(self._texts)
            self._texts.append(text)
        self._numbers[text] = number
        self._ranks = None
        return number

    def find(self, values: Values) -> Ints:
        """The number of each string, -1 if it has none."""
        places, texts = _dictionary(values)
        return np.array([self._numbers.get(text, -1) for text in texts], np.int64)[places]

    def decode(self, codes: Ints) -> pa.Array:
        """The strings, as an Arrow array."""
        return pa.array([self._texts[code] for code in codes.tolist()], pa.string())

    def order(self, codes: Ints) -> Ints:
        """The places of numbers in the order of their strings; ranks are kept until a new string comes."""
        if self._ranks is None:
            ranked = sorted(self._numbers.items())
            self._ranks = np.zeros(len(self._texts), np.int64)
            self._ranks[[number for _, number in ranked]] = np.arange(len(ranked))
        return np.argsort(self._ranks[codes], kind="stable")

    def release(self, codes: Ints) -> None:
        """Take numbers back. The ranks of the others stay as they are."""
        for code in codes.tolist():
            text = self._texts[code]
            if text is not None:
                del self._numbers[text]
                self._texts[code] = None
                self._free.append(code)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def nbytes(self) -> int:
        """Bytes held: the length of each string, and a fixed amount for what Python adds to each."""
        return 8 * len(self._texts) + sum(150 + len(text) for text in self._numbers)


class IntegerGroups(IntegerCodes):
    """Integers in ranges of one width; a code is a range's number."""

    def __init__(self, width: int) -> None:
        self._width = width

    def encode(self, values: Values) -> Ints:
        """The range of each integer."""
        return super().encode(values) // self._width

    def decode(self, codes: Ints) -> Any:
        """The ranges, ends included; the outermost ones end where int64 ends."""
        low = [max(_LEAST, code * self._width) for code in codes.tolist()]
        high = [min(_GREATEST, (code + 1) * self._width - 1) for code in codes.tolist()]
        return ValueRanges(np.array(low, np.int64), np.array(high, np.int64))


class DoubleGroups(DoubleCodes):
    """Doubles in ranges of one width; the outermost ranges reach to infinity, NaN is a range of its own."""

    def __init__(self, width: float) -> None:
        self._width = width

    def encode(self, values: Values) -> Ints:
        """The range of each double."""
        doubles = super().decode(super().encode(values))
        with np.errstate(invalid="ignore", over="ignore"):
            group = np.clip(np.floor(doubles / self._width), -_OUTERMOST, _OUTERMOST)
            # A quotient may be rounded up to the next range, or down from it.
            group -= (group * self._width > doubles) & (group > -_OUTERMOST)
            group += ((group + 1) * self._width <= doubles) & (group < _OUTERMOST)
        group[np.isnan(doubles)] = _NAN_GROUP
        return group.astype(np.int64)

    def decode(self, codes: Ints) -> Any:
        """The ranges."""
        with np.errstate(over="ignore"):
            low, high = codes * self._width, (codes + 1) * self._width
        low[codes == -_OUTERMOST], high[codes == _OUTERMOST] = -np.inf, np.inf
        low[codes == _NAN_GROUP], high[codes == _NAN_GROUP] = np.nan, np.nan
        return ValueRanges(low, high)


class IntegerBounds(IntegerCodes):
    """Integers between bounds; a code is the number of bounds that are not above."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = np.array(bounds, np.int64)

    def encode(self, values: Values) -> Ints:
        """The range of each integer."""
        return np.searchsorted(self._bounds, super().encode(values), side="right")

    def decode(self, codes: Ints) -> Any:
        """The ranges, ends included."""
        low, high = np.append(_LEAST, self._bounds), np.append(self._bounds - 1, _GREATEST)
        return ValueRanges(low[codes], high[codes])


class DoubleBounds(DoubleCodes):
    """Doubles between bounds; the outermost ranges reach to infinity, NaN is a range of its own."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = np.array(bounds, np.float64)

    def encode(self, values: Values) -> Ints:
        """The range of each double."""
        # NaN sorts above all bounds, infinity included.
        doubles = super().decode(super().encode(values))
        codes = np.searchsorted(self._bounds, doubles, side="right")
        codes[np.isnan(doubles)] = len(self._bounds) + 1
        return codes

    def decode(self, codes: Ints) -> Any:
        """The ranges."""
        low = np.concatenate([[-np.inf], self._bounds, [np.nan]])
        high = np.concatenate([self._bounds, [np.inf, np.nan]])
        return ValueRanges(low[codes], high[codes])


_TYPES: dict[str, type[ValueCodes]] = {"int64": IntegerCodes, "float64": DoubleCodes, "string": StringCodes}


def codes_of(type: str, group_width: Width | None = None) -> ValueCodes:
    """The codes of a type, or of ranges of a width or between bounds."""
    known(type, _TYPES, "type")
    if group_width is None:
        return _TYPES[type]()
    if type == "string":
        raise IndexingError(
            "strings have no ranges of a width; leave group_width out and use l_index, t_index or h_index"
        )
    if isinstance(group_width, tuple):
        if not group_width or any(low >= high for low, high in pairwise(group_width)):
            raise IndexingError(f"bounds must be in order, each once, got {group_width}")
        return DoubleBounds(group_width) if type == "float64" else IntegerBounds(group_width)
    if not 0 < group_width < np.inf:
        raise IndexingError(f"group_width must be above 0, got {group_width}")
    if type == "float64":
        return DoubleGroups(float(group_width))
    if group_width != int(group_width):
        raise IndexingError(f"group_width of int64 values must be a whole number, got {group_width}")
    return IntegerGroups(int(group_width))


def known(name: str, names: Any, what: str) -> None:
    """Raise an error with the nearest name if there is no such thing."""
    if name not in names:
        near = get_close_matches(str(name), list(names), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names)}"
        raise IndexingError(f"there is no {what} {name!r}; {hint}")


def _turned(bits: Ints) -> Ints:
    """Bits of doubles to integers of the same order, and back."""
    return bits ^ ((bits >> 63) & _GREATEST)


def _numbers(values: Values) -> npt.NDArray[Any]:
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        if values.null_count:
            raise IndexingError(f"a window takes no NULLs, got {values.null_count}; drop them first")
        values = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    array = np.asarray(values)
    if array.ndim != 1:
        raise IndexingError(f"values must be one column, got {array.ndim} dimensions")
    return array


def _dictionary(values: Values) -> tuple[Ints, list[str]]:
    """Strings as places in the list of different ones."""
    if not isinstance(values, (pa.Array, pa.ChunkedArray)):
        try:
            values = pa.array(values, pa.string())
        except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
            raise IndexingError(f"the window holds strings: {problem}") from None
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values.type, pa.DictionaryType):
        values = values.dictionary_decode()
    if not (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type) or values.type == pa.string_view()
    ):
        raise IndexingError(f"the window holds strings, got values of type {values.type}; cast them")
    if values.null_count:
        raise IndexingError(f"a window takes no NULLs, got {values.null_count}; drop them first")
    encoded = values.cast(pa.large_string()).dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
