"""Answers of keys: what a window covers, the columns folded over it, and aggregates made of these, in one call.

The rows of two tables (`kernels.key_folds`) describe the columns: one table for the final events, and one for the
pending events that follow them. Answers are those of `aggregates.lowering`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.integer_squares import variance_of_integers
from panewise.kernels.key_folds import ELEMENT, OPERATION, WHOLE, find_positions, fold_doubles, fold_ints, fold_pairs
from panewise.kernels.operations import ADD, combine
from panewise.kernels.pairs import value_of_pair
from panewise.kernels.squares import variance

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.complex128]
Elements = npt.NDArray[Any]

FUNCTION, SAMPLE, FINAL = range(3)
"""Places in the request for an aggregate: what it is, how many values are too few for it, and from there on the rows
of its columns among those of final events; those among pending events follow at `PENDING`."""
SUMS, SQUARES, NULLS, PART_WIDTH = 0, 2, 6, 7
"""Places among the rows of a part, -1 for none: the first component, in one column or in two words; squares, in one
column, in two of pairs or in four words; and the count of NULLs."""
PENDING = FINAL + PART_WIDTH
ASKED_WIDTH = PENDING + PART_WIDTH
ROWS, COUNT, SUM, AVERAGE, EXTREME, VARIANCE, DEVIATION = range(7)

ANSWERED, UNSERVED = 0, -1
"""The outcomes: all is answered, or a column does not serve some range. Above 0: so many sums do not fit in int64."""


@njit(nogil=True)
def _join(operation: int, folded: Elements, late: Elements) -> None:
    """Combine the folds of final and of pending events."""
    for j in range(len(folded)):
        folded[j] = combine(operation, None, folded[j], late[j])


@njit(nogil=True)
def _count(final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints) -> Ints:
    """How many values of each key are not NULL."""
    low, high, late_low, late_high = ranges
    counts: Ints = high - low + late_high - late_low
    row, late_row = asked[FINAL + NULLS], asked[PENDING + NULLS]
    if row >= 0:
        counts -= fold_ints(final, row, keys, low, high)
    if has_pending and late_row >= 0:
        counts -= fold_ints(pending, late_row, keys, late_low, late_high)
    return counts


@njit(nogil=True)
def _add_words(table: Ints, rows: Ints, keys: Ints, low: Ints, high: Ints, upper: Ints, lower: Ints) -> bool:
    """Add sums of integers, held in one word or in two, to upper * 2**32 + lower; False if a range is not served."""
    row, word = rows[SUMS], rows[SUMS + 1]
    first = fold_ints(table, row, keys, low, high)
    second = first if word < 0 else fold_ints(table, word, keys, low, high)
    if len(first) < len(keys) or len(second) < len(keys):
        return False
    for j in range(len(keys)):
        upper[j] += first[j] >> 32 if word < 0 else first[j]
        lower[j] += first[j] & 0xFFFFFFFF if word < 0 else second[j]
    return True


@njit(nogil=True)
def _add_square_words(table: Ints, rows: Ints, keys: Ints, low: Ints, high: Ints, words: Ints) -> bool:
    """Add sums of squares of integers, held in one word or in four, to words; False if a range is not served."""
    if rows[SQUARES + 1] < 0:
        narrow = fold_ints(table, rows[SQUARES], keys, low, high)
        if len(narrow) < len(keys):
            return False
        words[0] += narrow & 0xFFFFFFFF
        words[1] += narrow >> 32
        return True
    for word in range(4):
        folded = fold_ints(table, rows[SQUARES + word], keys, low, high)
        if len(folded) < len(keys):
            return False
        words[word] += folded
    return True


@njit(nogil=True)
def _sum_ints(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, counts: Ints, values: Ints,
    masked: Bools,
) -> int:  # fmt: skip
    """SUM and AVG of integers, and variances. A SUM that does not fit is masked."""
    low, high, late_low, late_high = ranges
    rows, late_rows = asked[FINAL:PENDING], asked[PENDING:]
    function, sample = asked[FUNCTION], asked[SAMPLE]
    upper, lower = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    is_served = _add_words(final, rows, keys, low, high, upper, lower)
    if is_served and has_pending:
        is_served = _add_words(pending, late_rows, keys, late_low, late_high, upper, lower)
    is_variance = function in (VARIANCE, DEVIATION)
    words = np.zeros((4, len(keys) if is_variance else 0), np.int64)
    if is_served and is_variance:
        is_served = _add_square_words(final, rows, keys, low, high, words)
        if is_served and has_pending:
            is_served = _add_square_words(pending, late_rows, keys, late_low, late_high, words)
    if not is_served:
        return UNSERVED
    doubles = values.view(np.float64)
    overflows = ANSWERED
    for j in range(len(keys)):
        if is_variance:
            if counts[j] > sample:
                doubles[j] = variance_of_integers(
                    counts[j], upper[j], lower[j], words[0, j], words[1, j], words[2, j], words[3, j],
                    sample, function == DEVIATION,
                )  # fmt: skip
            continue
        # The lower word may exceed 32 bits: it is itself a sum.
        carried, rest = upper[j] + (lower[j] >> 32), lower[j] & 0xFFFFFFFF
        if function == AVERAGE:
            doubles[j] = (float(carried) * 2.0**32 + float(rest)) / max(counts[j], 1)
            continue
        if carried < -(2**31) or carried >= 2**31:
            masked[j] = True
            overflows += 1
        values[j] = (carried << 32) | rest
    return overflows


@njit(nogil=True)
def _pairs_of(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, place: int, keys: Ints, ranges: Ints
) -> Pairs:
    """Sums of pairs of final and pending events; an empty array if some range is not served."""
    low, high, late_low, late_high = ranges
    folded = fold_pairs(final, asked[FINAL + place], keys, low, high)
    if has_pending and len(folded) == len(keys):
        _join(ADD, folded, fold_pairs(pending, asked[PENDING + place], keys, late_low, late_high))
    return folded


@njit(nogil=True)
def _sum_pairs(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, counts: Ints, values: Floats
) -> int:
    """SUM and AVG of doubles, and variances."""
    function, sample = asked[FUNCTION], asked[SAMPLE]
    totals = _pairs_of(final, pending, has_pending, asked, SUMS, keys, ranges)
    if len(totals) < len(keys):
        return UNSERVED
    if function in (SUM, AVERAGE):
        for j in range(len(keys)):
            divisor = float(max(counts[j], 1)) if function == AVERAGE else 1.0
            values[j] = value_of_pair(totals[j].real, totals[j].imag, divisor)
        return ANSWERED
    squares = _pairs_of(final, pending, has_pending, asked, SQUARES, keys, ranges)
    rests = _pairs_of(final, pending, has_pending, asked, SQUARES + 1, keys, ranges)
    if len(squares) < len(keys) or len(rests) < len(keys):
        return UNSERVED
    for j in range(len(keys)):
        if np.isinf(squares[j].real):
            # Some value is too large or too small to be squared.
            return UNSERVED
        if counts[j] > sample:
            values[j] = variance(
                counts[j], totals[j].real, totals[j].imag,
                squares[j].real, squares[j].imag, rests[j].real, rests[j].imag, sample, function == DEVIATION,
            )  # fmt: skip
    return ANSWERED


@njit(nogil=True)
def _extremes(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, values: Ints
) -> int:
    """MIN and MAX."""
    low, high, late_low, late_high = ranges
    row, late_row = asked[FINAL + SUMS], asked[PENDING + SUMS]
    if final[row, ELEMENT] == WHOLE:
        folded = fold_ints(final, row, keys, low, high)
        if len(folded) < len(keys):
            return UNSERVED
        if has_pending:
            _join(final[row, OPERATION], folded, fold_ints(pending, late_row, keys, late_low, late_high))
        values[:] = folded
        return ANSWERED
    doubles = fold_doubles(final, row, keys, low, high)
    if len(doubles) < len(keys):
        return UNSERVED
    if has_pending:
        _join(final[row, OPERATION], doubles, fold_doubles(pending, late_row, keys, late_low, late_high))
    values.view(np.float64)[:] = doubles
    return ANSWERED


@njit(nogil=True)
def _answer(
    final: Ints,
    pending: Ints,
    has_pending: bool,
    asked: Ints,
    keys: Ints,
    ranges: Ints,
    values: Ints,
    masked: Bools,
) -> int:
    """One aggregate of all keys, by its bits; masked where it is NULL. Returns the outcome."""
    function, row = asked[FUNCTION], asked[FINAL + SUMS]
    widths = ranges[1] - ranges[0] + ranges[3] - ranges[2]
    counts = widths if function == ROWS else _count(final, pending, has_pending, asked, keys, ranges)
    went, least = ANSWERED, asked[SAMPLE]
    # A count is never NULL, unless the key does not exist at all.
    deciding = widths if function in (ROWS, COUNT) else counts
    for j in range(len(keys)):
        masked[j] = deciding[j] <= least
    if function in (ROWS, COUNT):
        values[:] = counts
    elif function == EXTREME:
        went = _extremes(final, pending, has_pending, asked, keys, ranges, values)
    elif final[row, ELEMENT] == WHOLE:
        went = _sum_ints(final, pending, has_pending, asked, keys, ranges, counts, values, masked)
    else:
        went = _sum_pairs(final, pending, has_pending, asked, keys, ranges, counts, values.view(np.float64))
    for j in range(len(keys)):
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
    order: Ints,
    from_number: Ints,
    to_number: Ints,
    values: Ints,
    masked: Bools,
) -> tuple[int, int, int]:
    """The aggregates of each key over its events with numbers in [from_number, to_number), by their bits.

    `order` has the places of the keys in the order in which they are taken; empty means their own order. The bounds
    have one element for each key, or one for all. `masked` is true where there is no answer. Returns the outcome, how
    many keys have such events, and how many such events there are.
    """
    size, is_ordered = len(keys), len(order) > 0
    if is_ordered:
        keys = keys[order]
        if len(from_number) == size:
            from_number, to_number = from_number[order], to_number[order]
    ranges = np.zeros((4, size), np.int64)
    find_positions(final, keys, from_number, to_number, ranges[0], ranges[1])
    if has_pending:
        find_positions(pending, keys, from_number, to_number, ranges[2], ranges[3])
    present = covered = overflows = 0
    for j in range(size):
        width = ranges[1, j] - ranges[0, j] + ranges[3, j] - ranges[2, j]
        present += width > 0
        covered += width
    answers = np.empty(size if is_ordered else 0, np.int64)
    nulls = np.empty(len(answers), np.bool_)
    for i in range(len(asked)):
        if not is_ordered:
            went = _answer(final, pending, has_pending, asked[i], keys, ranges, values[i], masked[i])
        else:
            went = _answer(final, pending, has_pending, asked[i], keys, ranges, answers, nulls)
            for j in range(size):
                values[i, order[j]] = answers[j]
                masked[i, order[j]] = nulls[j]
        if went == UNSERVED:
            return UNSERVED, present, covered
        overflows += went
    return overflows, present, covered
