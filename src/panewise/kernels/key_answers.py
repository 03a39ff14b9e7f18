"""Answers of keys: what a window covers, the columns folded over it, and aggregates made of these, in one call.

The rows of two tables (`kernels.key_folds`) describe the columns: one table for the final events, and one for the
pending events that follow them. Answers are those of `aggregates.lowering`. There is a function for each kind of
aggregate, compiled when a query first needs it; requests have its address.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import carray, cfunc, njit, types  # type: ignore[attr-defined]

from panewise.kernels.addresses import address_of, call, pointer, pointer_to
from panewise.kernels.integer_squares import variance_of_integers
from panewise.kernels.integer_sums import mean_of_words, sum_of_words
from panewise.kernels.key_folds import DOUBLE, PAIR, WHOLE, find_positions, fold, operation_of
from panewise.kernels.operations import ADD, combine
from panewise.kernels.pairs import value_of_pair
from panewise.kernels.squares import variance

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

FUNCTION, SAMPLE, ANSWER, FINAL = range(4)
"""Places in the request for an aggregate: what it is, how many values are too few for it, the address of the function
that answers it, and from there on the rows of its columns among those of final events; those among pending events
follow at `PENDING`."""
SUMS, SQUARES, NULLS, PART_WIDTH = 0, 2, 6, 7
"""Places among the rows of a part, -1 for none: the first component, in one column or in two words; squares, in one
column, in two of pairs or in four words; and the count of NULLs."""
PENDING = FINAL + PART_WIDTH
ASKED_WIDTH = PENDING + PART_WIDTH
ROWS, COUNT, SUM, AVERAGE, EXTREME, VARIANCE, DEVIATION = range(7)
"""The aggregates; those up to `COUNT` only count."""

ANSWERED, UNSERVED = 0, -1
"""The outcomes: all is answered, or a column does not serve some range. Above 0: so many sums do not fit in int64."""


@lru_cache
def answer_function(function: int, element: int) -> Any:
    """The compiled function for an aggregate over columns of a type of elements; counts need none.

    Its arguments: the tables of final and pending events by address, 0 for none; the request; how many keys there are;
    keys, and their ranges among final and pending events, by address; how many values are not NULL; and where answers
    go.
    """
    ints, word = pointer_to(types.int64), types.int64
    values = pointer_to(types.int64 if element == WHOLE else types.float64)
    signature = word(word, word, ints, word, word, word, word, word, word, ints, values)
    return cfunc(signature, cache=True, nogil=True)(_ANSWERS[function, element])


@njit(nogil=True)
def _add_words(
    table: int, row: int, word: int, keys: int, low: int, high: int, folded: Ints, upper: Ints, lower: Ints
) -> bool:
    """Add sums of integers, held in one word or in two, to upper * 2**32 + lower; False if a range is not served."""
    size = len(folded)
    if not fold(table, row, size, keys, low, high, address_of(folded)):
        return False
    for j in range(size):
        upper[j] += folded[j] >> 32 if word < 0 else folded[j]
        lower[j] += folded[j] & 0xFFFFFFFF if word < 0 else 0
    if word < 0:
        return True
    if not fold(table, word, size, keys, low, high, address_of(folded)):
        return False
    for j in range(size):
        lower[j] += folded[j]
    return True


def _sum_ints(
    final: int, pending: int, asked: Any, size: int, keys: int, low: int, high: int, late_low: int, late_high: int,
    counts: Any, values: Any,
) -> int:  # fmt: skip
    """SUM and AVG of integers. A SUM that does not fit gets a count below 0, which makes it NULL."""
    folded, upper, lower = np.empty(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    row, word = asked[FINAL + SUMS], asked[FINAL + SUMS + 1]
    if not _add_words(final, row, word, keys, low, high, folded, upper, lower):
        return UNSERVED
    if pending:
        row, word = asked[PENDING + SUMS], asked[PENDING + SUMS + 1]
        if not _add_words(pending, row, word, keys, late_low, late_high, folded, upper, lower):
            return UNSERVED
    doubles = carray(pointer(address_of(carray(values, size))), size, np.float64)
    overflows = ANSWERED
    for j in range(size):
        if asked[FUNCTION] == AVERAGE:
            doubles[j] = mean_of_words(upper[j], lower[j], max(counts[j], 1))
            continue
        values[j], fits = sum_of_words(upper[j], lower[j])
        if not fits:
            counts[j] = -1
            overflows += 1
    return overflows


@njit(nogil=True)
def _add_square_words(table: int, rows: Ints, keys: int, low: int, high: int, folded: Ints, words: Ints) -> bool:
    """Add sums of squares of integers, held in one word or in four, to words; False if a range is not served."""
    is_narrow = rows[1] < 0
    for word in range(1 if is_narrow else 4):
        if not fold(table, rows[word], len(folded), keys, low, high, address_of(folded)):
            return False
        for j in range(len(folded)):
            if is_narrow:
                words[0, j] += folded[j] & 0xFFFFFFFF
                words[1, j] += folded[j] >> 32
            else:
                words[word, j] += folded[j]
    return True


def _vary_ints(
    final: int, pending: int, asked: Any, size: int, keys: int, low: int, high: int, late_low: int, late_high: int,
    counts: Any, values: Any,
) -> int:  # fmt: skip
    """Variances of integers."""
    folded, upper, lower = np.empty(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    words, rows = np.zeros((4, size), np.int64), carray(asked, ASKED_WIDTH)
    for part in range(2 if pending else 1):
        table, first = (pending, PENDING) if part else (final, FINAL)
        begin, end = (late_low, late_high) if part else (low, high)
        row, word = rows[first + SUMS], rows[first + SUMS + 1]
        if not _add_words(table, row, word, keys, begin, end, folded, upper, lower):
            return UNSERVED
        if not _add_square_words(table, rows[first + SQUARES : first + NULLS], keys, begin, end, folded, words):
            return UNSERVED
    doubles = carray(pointer(address_of(carray(values, size))), size, np.float64)
    for j in range(size):
        if counts[j] > asked[SAMPLE]:
            doubles[j] = variance_of_integers(
                counts[j], upper[j], lower[j], words[0, j], words[1, j], words[2, j], words[3, j],
                asked[SAMPLE], asked[FUNCTION] == DEVIATION,
            )  # fmt: skip
    return ANSWERED


def _sum_pairs(
    final: int, pending: int, asked: Any, size: int, keys: int, low: int, high: int, late_low: int, late_high: int,
    counts: Any, values: Any,
) -> int:  # fmt: skip
    """SUM and AVG of doubles."""
    totals, late = np.empty(size, np.complex128), np.empty(size, np.complex128)
    if not fold(final, asked[FINAL + SUMS], size, keys, low, high, address_of(totals)):
        return UNSERVED
    if pending and not fold(pending, asked[PENDING + SUMS], size, keys, late_low, late_high, address_of(late)):
        return UNSERVED
    for j in range(size):
        total = combine(ADD, None, totals[j], late[j]) if pending else totals[j]
        divisor = float(max(counts[j], 1)) if asked[FUNCTION] == AVERAGE else 1.0
        values[j] = value_of_pair(total.real, total.imag, divisor)
    return ANSWERED


def _vary_pairs(
    final: int, pending: int, asked: Any, size: int, keys: int, low: int, high: int, late_low: int, late_high: int,
    counts: Any, values: Any,
) -> int:  # fmt: skip
    """Variances of doubles: made of totals, squares and rests."""
    sums, late = np.empty((3, size), np.complex128), np.empty(size, np.complex128)
    for part in range(3):
        place = SUMS if part == 0 else SQUARES + part - 1
        if not fold(final, asked[FINAL + place], size, keys, low, high, address_of(sums) + 16 * size * part):
            return UNSERVED
        if pending:
            if not fold(pending, asked[PENDING + place], size, keys, late_low, late_high, address_of(late)):
                return UNSERVED
            for j in range(size):
                sums[part, j] = combine(ADD, None, sums[part, j], late[j])
    for j in range(size):
        total, square, rest = sums[0, j], sums[1, j], sums[2, j]
        if np.isinf(square.real):
            # Some value is too large or too small to be squared.
            return UNSERVED
        if counts[j] > asked[SAMPLE]:
            values[j] = variance(
                counts[j], total.real, total.imag, square.real, square.imag, rest.real, rest.imag,
                asked[SAMPLE], asked[FUNCTION] == DEVIATION,
            )  # fmt: skip
    return ANSWERED


def _find_extremes(
    final: int, pending: int, asked: Any, size: int, keys: int, low: int, high: int, late_low: int, late_high: int,
    counts: Any, values: Any,
) -> int:  # fmt: skip
    """MIN and MAX."""
    folded = carray(values, size)
    late = np.empty(size, folded.dtype)
    row = asked[FINAL + SUMS]
    if not fold(final, row, size, keys, low, high, address_of(folded)):
        return UNSERVED
    if pending and not fold(pending, asked[PENDING + SUMS], size, keys, late_low, late_high, address_of(late)):
        return UNSERVED
    for j in range(size if pending else 0):
        folded[j] = combine(operation_of(final, row), None, folded[j], late[j])
    return ANSWERED


_ANSWERS: dict[tuple[int, int], Callable[..., int]] = {
    (SUM, WHOLE): _sum_ints,
    (AVERAGE, WHOLE): _sum_ints,
    (VARIANCE, WHOLE): _vary_ints,
    (DEVIATION, WHOLE): _vary_ints,
    (SUM, PAIR): _sum_pairs,
    (AVERAGE, PAIR): _sum_pairs,
    (VARIANCE, PAIR): _vary_pairs,
    (DEVIATION, PAIR): _vary_pairs,
    (EXTREME, WHOLE): _find_extremes,
    (EXTREME, DOUBLE): _find_extremes,
}


@njit(nogil=True)
def _answer(final: int, pending: int, asked: Ints, keys: int, ranges: Ints, values: Ints, masked: Bools) -> int:
    """One aggregate of all keys, by its bits; masked where it is NULL. Returns the outcome."""
    size, function = len(values), asked[FUNCTION]
    low = address_of(ranges)
    high, late_low, late_high = low + 8 * size, low + 16 * size, low + 24 * size
    counts, nulls = np.empty(size, np.int64), np.empty(size, np.int64)
    for j in range(size):
        counts[j] = ranges[1, j] - ranges[0, j] + ranges[3, j] - ranges[2, j]
        # A count is never NULL, unless the key does not exist at all.
        masked[j] = counts[j] <= 0
    if function != ROWS and asked[FINAL + NULLS] >= 0:
        fold(final, asked[FINAL + NULLS], size, keys, low, high, address_of(nulls))
        for j in range(size):
            counts[j] -= nulls[j]
    if function != ROWS and pending != 0 and asked[PENDING + NULLS] >= 0:
        fold(pending, asked[PENDING + NULLS], size, keys, late_low, late_high, address_of(nulls))
        for j in range(size):
            counts[j] -= nulls[j]
    if function <= COUNT:
        for j in range(size):
            values[j] = 0 if masked[j] else counts[j]
        return ANSWERED
    went: int = call(
        asked[ANSWER],
        (
            final, pending, address_of(asked), size, keys, low, high, late_low, late_high,
            address_of(counts), address_of(values),
        ),
    )  # fmt: skip
    for j in range(size):
        masked[j] = counts[j] <= asked[SAMPLE]
        if masked[j]:
            values[j] = 0
    return went


@njit(cache=True, nogil=True)
def answer_keys(
    final: Ints,
    pending: Ints,
    has_pending: bool,
    asked: Ints,
    keys: Ints,
    from_number: Ints,
    to_number: Ints,
    values: Ints,
    masked: Bools,
) -> tuple[int, int, int]:
    """The aggregates of each key over its events with numbers in [from_number, to_number), by their bits.

    The bounds have one element for each key, or one for all. `masked` is true where there is no answer. Returns the
    outcome, how many keys have such events, and how many such events there are.
    """
    size = len(keys)
    ranges = np.zeros((4, size), np.int64)
    find_positions(final, keys, from_number, to_number, ranges[0], ranges[1])
    if has_pending:
        find_positions(pending, keys, from_number, to_number, ranges[2], ranges[3])
    present = covered = overflows = 0
    for j in range(size):
        width = ranges[1, j] - ranges[0, j] + ranges[3, j] - ranges[2, j]
        present += width > 0
        covered += width
    late = address_of(pending) if has_pending else 0
    for i in range(len(asked)):
        went = _answer(address_of(final), late, asked[i], address_of(keys), ranges, values[i], masked[i])
        if went == UNSERVED:
            return UNSERVED, present, covered
        overflows += went
    return overflows, present, covered
