"""Answers of keys: what a window covers, the columns folded over it, and aggregates made of these, in one call.

Columns are described by the rows of tables (`kernels.key_folds`), of which there are two: of final events, and of the
pending ones that follow them. Answers are those of `aggregates.lowering`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from weft.kernels.key_folds import ELEMENT, OPERATION, WHOLE, find_positions, fold_doubles, fold_ints, fold_pairs
from weft.kernels.keyed_pairs import variance_of_one
from weft.kernels.operations import ADD, combine

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.complex128]
Elements = npt.NDArray[Any]

FUNCTION, SAMPLE, ROW, WORD, NULLS = range(5)
"""Places in what is asked for an aggregate: what it is; how many values are too few for it; the row of its column, of
its second column (the low words of a sum, or squares), and of the count of NULLs, -1 for none. The three rows are there
twice: of final events, then of pending ones."""
ASKED_WIDTH = 8
ROWS, COUNT, SUM, AVERAGE, EXTREME, VARIANCE, DEVIATION = range(7)

ANSWERED, UNSERVED, OVERFLOWN = range(3)
"""How it went: a landmark column has no partition for a range; a sum is no int64."""


@njit(nogil=True)
def _join(operation: int, folded: Elements, late: Elements) -> None:
    """Combine what final and pending events make."""
    for j in range(len(folded)):
        folded[j] = combine(operation, None, folded[j], late[j])


@njit(nogil=True)
def _count(final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints) -> Ints:
    """How many values of each key are not NULL."""
    low, high, late_low, late_high = ranges
    counts: Ints = high - low + late_high - late_low
    if asked[NULLS] >= 0:
        counts -= fold_ints(final, asked[NULLS], keys, low, high)
    if has_pending and asked[NULLS + 3] >= 0:
        counts -= fold_ints(pending, asked[NULLS + 3], keys, late_low, late_high)
    return counts


@njit(nogil=True)
def _add_words(table: Ints, row: int, word: int, keys: Ints, low: Ints, high: Ints, upper: Ints, lower: Ints) -> bool:
    """Add sums of integers, held in one word or in two, to upper * 2**32 + lower; False where one is not served."""
    first = fold_ints(table, row, keys, low, high)
    second = first if word < 0 else fold_ints(table, word, keys, low, high)
    if len(first) < len(keys) or len(second) < len(keys):
        return False
    for j in range(len(keys)):
        upper[j] += first[j] >> 32 if word < 0 else first[j]
        lower[j] += first[j] & 0xFFFFFFFF if word < 0 else second[j]
    return True


@njit(nogil=True)
def _sum_ints(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, counts: Ints, values: Ints
) -> int:
    """SUM and AVG of integers."""
    low, high, late_low, late_high = ranges
    upper, lower = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
    is_served = _add_words(final, asked[ROW], asked[WORD], keys, low, high, upper, lower)
    if is_served and has_pending:
        row, word = asked[ROW + 3], asked[WORD + 3]
        is_served = _add_words(pending, row, word, keys, late_low, late_high, upper, lower)
    if not is_served:
        return UNSERVED
    averages = values.view(np.float64)
    for j in range(len(keys)):
        if asked[FUNCTION] == AVERAGE:
            averages[j] = (float(upper[j]) * 2.0**32 + float(lower[j])) / max(counts[j], 1)
            continue
        # The lower word may exceed 32 bits: it is itself a sum.
        carried = upper[j] + (lower[j] >> 32)
        if carried < -(2**31) or carried >= 2**31:
            return OVERFLOWN
        values[j] = (carried << 32) | (lower[j] & 0xFFFFFFFF)
    return ANSWERED


@njit(nogil=True)
def _pairs_of(
    final: Ints, pending: Ints, has_pending: bool, row: int, late_row: int, keys: Ints, ranges: Ints
) -> Pairs:
    """Sums of pairs of final and pending events; of no length where some range is not served."""
    low, high, late_low, late_high = ranges
    folded = fold_pairs(final, row, keys, low, high)
    if has_pending and len(folded) == len(keys):
        _join(ADD, folded, fold_pairs(pending, late_row, keys, late_low, late_high))
    return folded


@njit(nogil=True)
def _sum_pairs(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, counts: Ints, values: Floats
) -> int:
    """SUM and AVG of doubles, and variances."""
    function, sample = asked[FUNCTION], asked[SAMPLE]
    totals = _pairs_of(final, pending, has_pending, asked[ROW], asked[ROW + 3], keys, ranges)
    if len(totals) < len(keys):
        return UNSERVED
    if function in (SUM, AVERAGE):
        for j in range(len(keys)):
            total = totals[j].real + totals[j].imag if np.isfinite(totals[j].real) else totals[j].real
            values[j] = total / max(counts[j], 1) if function == AVERAGE else total
        return ANSWERED
    squares = _pairs_of(final, pending, has_pending, asked[WORD], asked[WORD + 3], keys, ranges)
    if len(squares) < len(keys):
        return UNSERVED
    for j in range(len(keys)):
        if counts[j] > sample:
            variance = variance_of_one(counts[j], totals[j], squares[j], sample)
            values[j] = np.sqrt(variance) if function == DEVIATION else variance
    return ANSWERED


@njit(nogil=True)
def _extremes(
    final: Ints, pending: Ints, has_pending: bool, asked: Ints, keys: Ints, ranges: Ints, values: Ints
) -> int:
    """MIN and MAX."""
    low, high, late_low, late_high = ranges
    row, late_row = asked[ROW], asked[ROW + 3]
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
    """One aggregate of all keys, by its bits; masked where it is NULL. Returns how it went."""
    function, row = asked[FUNCTION], asked[ROW]
    widths = ranges[1] - ranges[0] + ranges[3] - ranges[2]
    counts = widths if function == ROWS else _count(final, pending, has_pending, asked, keys, ranges)
    went, least = ANSWERED, asked[SAMPLE]
    if function in (ROWS, COUNT):
        values[:] = counts
        # A count is no NULL, unless the key is not there at all.
        counts = widths
    elif function == EXTREME:
        went = _extremes(final, pending, has_pending, asked, keys, ranges, values)
    elif final[row, ELEMENT] == WHOLE:
        went = _sum_ints(final, pending, has_pending, asked, keys, ranges, counts, values)
    else:
        went = _sum_pairs(final, pending, has_pending, asked, keys, ranges, counts, values.view(np.float64))
    for j in range(len(keys)):
        masked[j] = counts[j] <= least
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

    `order` has the places of the keys in the order in which they are taken; it is empty where this is their own. The
    bounds have one element for each key, or one for all. `masked` is true where there is no answer. Returns how it
    went, how many keys have such events, and how many events these are.
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
    present = covered = 0
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
        if went != ANSWERED:
            return went, present, covered
    return ANSWERED, present, covered
