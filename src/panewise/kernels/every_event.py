"""The answers of all windows after each new event, a block of events at a time.

Integer sums are differences of prefix sums. Everything else never subtracts, keeps the order, and shares its work
among all windows. The sequence is cut into blocks, and each place gets the fold from its block's beginning to it and
the fold from it to its block's end; a window is one of the latter, some whole blocks, and one of the former. While both
ends of a window stay in their blocks, its answers are one loop over neighbouring places: that makes them cheap. Windows
not wider than a block are joined from runs of 1, 2, 4, ... elements, the whole blocks in the middle of wider windows
from runs of blocks.
Cost: at most two combines an answer for wide windows, log2(BLOCK) for narrow ones, and two for each element.
Source: folds within blocks as in van Herk 1992 and Gil and Werman 1993, who cut at the width of one window.
"""

from __future__ import annotations

from threading import local
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import overload

from panewise.kernels.operations import ADD, MAX, MIN, USER
from panewise.kernels.pairs import add_near_pairs, add_pairs

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]

BLOCK_BITS = 7
BLOCK = 1 << BLOCK_BITS
"""Places of a block: enough for long loops, and few enough that most windows are wider."""

TILE = 16 * BLOCK
"""Places that kernels go through at a time: several blocks side by side, as no fold within one waits for another."""


def fold_at_every_event(
    operation: int, user: Any, identity: Any, before: Elements, new: Elements, windows: Ints
) -> Elements:
    """Each window's fold after each of the `new` elements that follow `before`: a row a window, a column an element.

    Window (left, right), counted back from the end, covers what lies from `left` to `right`. Places before the first
    element are left out; where nothing remains, the answer is `identity`.
    """
    # NumPy asks for large pages where the result is big, numba does not.
    out = np.empty((len(windows), len(new)), new.dtype)
    if out.size == 0:
        return out
    before = before[max(len(before) + 1 - int(windows[:, 0].max()), 0) :]
    if operation == ADD and new.dtype == np.int64:
        _sum_ints(before, new, windows, _scratch("prefix", len(before) + len(new) + 1, np.int64), out)
        return out
    how = {ADD: Sum(), MAX: Greatest(), MIN: Least(), USER: user}[operation]
    if operation == ADD and new.dtype == np.complex128 and _stay_near(before, new):
        how = NearSum()
    # Pad to whole tiles, so that kernels need not check for the end; no answer uses what is behind the last element.
    count = len(before) + len(new)
    elements = _scratch("elements", -(-count // TILE) * TILE, new.dtype)
    elements[: len(before)] = before
    elements[len(before) : count] = new
    elements[count:] = identity
    starts = _fold_starts(how, identity, elements, len(before), windows, out)
    filled = starts < len(new)
    wide = windows[:, 0] - windows[:, 1] > BLOCK
    _fold_narrow(how, elements, len(before), starts, windows, np.flatnonzero(filled & ~wide), out)
    onward = _scratch("onward", len(elements), new.dtype)
    _fold_wide(how, elements, onward, len(before), starts, windows, np.flatnonzero(filled & wide), out)
    return out


_kept = local()


def _scratch(name: str, count: int, dtype: npt.DTypeLike) -> Elements:
    """An array that the next call in this thread uses again: fresh memory would cost as much as the folds."""
    kept = _kept.__dict__.get(name)
    size = count * np.dtype(dtype).itemsize
    if kept is None or len(kept) < size:
        kept = np.empty(size, np.uint8)
        setattr(_kept, name, kept)
    return kept[:size].view(dtype)


def _stay_near(before: Elements, new: Elements) -> bool:
    """Whether no sum of some elements can be infinite, nor NaN, nor far as `kernels.pairs` has it."""
    limit = 2.0**990 / (len(before) + len(new))
    # A NaN is below nothing.
    return all(bool(np.abs(some.real).max(initial=0.0) < limit) for some in (before, new))


class Sum(NamedTuple):
    """Elements are added."""


class NearSum(NamedTuple):
    """Elements are added that are known to have sums that are doubles: without a branch, so that loops are fast."""


class Greatest(NamedTuple):
    """The greatest element, NaN above all numbers; of equal ones the first."""


class Least(NamedTuple):
    """The least element, NaN above all numbers; of equal ones the last."""


def joined(how: Any, a: Any, b: Any) -> Any:
    """`a` followed by `b`, for use inside kernels: `how` is a Sum, a Greatest, a Least or a function.

    Its type says which, so each kernel is compiled with one operation in its loops, without choices and branches.
    """
    raise NotImplementedError


@overload(joined)
def _joined(how: Any, a: Any, b: Any) -> Any:
    def add_near(how: Any, a: Any, b: Any) -> Any:
        high, low = add_near_pairs(a.real, a.imag, b.real, b.imag)
        return complex(high, low)

    def add_complex(how: Any, a: Any, b: Any) -> Any:
        high, low = add_pairs(a.real, a.imag, b.real, b.imag)
        return complex(high, low)

    def add(how: Any, a: Any, b: Any) -> Any:
        return a + b

    def greatest(how: Any, a: Any, b: Any) -> Any:
        return a if (a >= b) | (a != a) else b

    def least(how: Any, a: Any, b: Any) -> Any:
        return b if (a >= b) | (a != a) else a

    def call(how: Any, a: Any, b: Any) -> Any:
        return how(a, b)

    if isinstance(how, types.FunctionType):
        return call
    if how.instance_class is NearSum:
        return add_near
    if how.instance_class is Sum:
        return add_complex if isinstance(a, types.Complex) else add
    return greatest if how.instance_class is Greatest else least


@njit(cache=True, nogil=True)
def _sum_ints(before: Ints, new: Ints, windows: Ints, prefix: Ints, out: Ints) -> None:
    """Sums by differences of prefix sums. The prefix sums may wrap; their differences are still right."""
    prefix[0] = total = 0
    for i in range(len(before)):
        total += before[i]
        prefix[i + 1] = total
    behind = prefix[len(before) + 1 :]
    for i in range(len(new)):
        total += new[i]
        behind[i] = total
    count = len(new)
    for w in range(len(windows)):
        # After event i the window ends at high + i and begins at low + i, or at 0 where that is less.
        low = len(before) + 1 - windows[w, 0]
        high = len(before) + 1 - windows[w, 1]
        covers = min(max(-high, 0), count)
        full = min(max(-low, 0), count)
        row = out[w]
        row[:covers] = 0
        for i in range(covers, full):
            row[i] = prefix[high + i]
        if full < count:
            ends = prefix[high + full : high + count]
            begins = prefix[low + full : low + count]
            answers = row[full:]
            for i in range(len(answers)):
                answers[i] = ends[i] - begins[i]


@njit(cache=True, nogil=True)
def _fold_starts(how: Any, identity: Any, elements: Elements, held: int, windows: Ints, out: Elements) -> Ints:
    """Answer while a window begins before the first element; returns each window's first event at which it does not."""
    count = out.shape[1]
    full = np.empty(len(windows), np.int64)
    folded = elements[:0]
    for w in range(len(windows)):
        high = held + 1 - windows[w, 1]
        covers = min(max(1 - high, 0), count)
        full[w] = min(max(windows[w, 0] - held - 1, 0), count)
        row = out[w]
        row[:covers] = identity
        if covers < full[w]:
            if len(folded) == 0:
                folded = elements.copy()
                for i in range(1, held + count):
                    folded[i] = joined(how, folded[i - 1], elements[i])
            row[covers : full[w]] = folded[high - 1 + covers : high - 1 + full[w]]
    return full


@njit(cache=True, nogil=True)
def _fold_narrow(
    how: Any, elements: Elements, held: int, starts: Ints, windows: Ints, chosen: Ints, out: Elements
) -> None:
    """Windows not wider than a block: each consists of runs of 1, 2, 4, ... elements, which the windows share."""
    count = out.shape[1]
    widest = 0
    least = len(elements)
    most = 0
    for w in chosen:
        widest = max(widest, windows[w, 0] - windows[w, 1])
        least = min(least, held + 1 - windows[w, 0] + starts[w])
        most = max(most, held + 1 - windows[w, 0] + count)
    for begin in range(least, most, TILE):
        end = min(begin + TILE, most)
        runs = np.empty((0, 0), elements.dtype)
        for w in chosen:
            # The events after which the window begins in this tile.
            low = held + 1 - windows[w, 0]
            first = max(begin - low, starts[w])
            last = min(end - low, count)
            if first >= last:
                continue
            if len(runs) == 0:
                runs = _fold_runs(how, elements[begin : end + widest - 1], widest)
            row = out[w, first:last]
            at = low + first - begin
            width = windows[w, 0] - windows[w, 1]
            level = _lowest_bit(width)
            run = runs[level, at : at + len(row)]
            for i in range(len(row)):
                row[i] = run[i]
            while width > 1 << level:
                at += 1 << level
                width -= 1 << level
                level = _lowest_bit(width)
                _join_behind(how, row, runs[level, at : at + len(row)])


@njit(cache=True, nogil=True)
def _fold_wide(
    how: Any, elements: Elements, onward: Elements, held: int, starts: Ints, windows: Ints, chosen: Ints, out: Elements
) -> None:
    """Windows wider than a block, from folds within blocks that all of them share. Overwrites elements and onward."""
    if len(chosen) == 0:
        return
    count = out.shape[1]
    # Folds to the end of a block are needed only where windows begin.
    least = (held + 1 - np.max(windows[chosen, 0] - starts[chosen])) // TILE * TILE
    most = -((np.min(windows[chosen, 0]) - held - count - 1) // TILE) * TILE
    _fold_blocks_onward(how, elements[least:most], onward)
    # And those from the beginning of a block where windows end.
    ends = (held - np.max(windows[chosen, 1] - starts[chosen])) // TILE * TILE
    _fold_blocks_back(how, elements[ends:])
    back = elements
    runs = _fold_runs(how, _whole_blocks(how, elements, onward, least, most, ends), len(elements) // BLOCK)
    for w in chosen:
        i = starts[w]
        while i < count:
            # Events for which both the window's first and its last element stay in their blocks.
            a = held + 1 - windows[w, 0] + i
            b = held - windows[w, 1] + i
            steps = min(min(BLOCK - a % BLOCK, BLOCK - b % BLOCK), count - i)
            left = onward[a - least : a - least + steps]
            right = back[b : b + steps]
            row = out[w, i : i + steps]
            block = (a >> BLOCK_BITS) + 1
            blocks = (b >> BLOCK_BITS) - block
            if blocks == 0:
                _join(how, left, right, row)
            else:
                level = _lowest_bit(blocks)
                middle = runs[level, block]
                while blocks > 1 << level:
                    block += 1 << level
                    blocks -= 1 << level
                    level = _lowest_bit(blocks)
                    middle = joined(how, middle, runs[level, block])
                _join_around(how, left, middle, right, row)
            i += steps


@njit(cache=True, nogil=True)
def _fold_blocks_onward(how: Any, elements: Elements, onward: Elements) -> None:
    """The fold from each place to its block's end."""
    for begin in range(0, len(elements), TILE):
        end = begin + TILE
        for at in range(begin + BLOCK - 1, end, BLOCK):
            onward[at] = elements[at]
        for j in range(BLOCK - 2, -1, -1):
            for at in range(begin + j, end, BLOCK):
                onward[at] = joined(how, elements[at], onward[at + 1])


@njit(cache=True, nogil=True)
def _fold_blocks_back(how: Any, elements: Elements) -> None:
    """Replace each element by the fold from its block's beginning to it."""
    for begin in range(0, len(elements), TILE):
        for j in range(1, BLOCK):
            for at in range(begin + j, begin + TILE, BLOCK):
                elements[at] = joined(how, elements[at - 1], elements[at])


@njit(cache=True, nogil=True)
def _whole_blocks(how: Any, elements: Elements, onward: Elements, least: int, most: int, ends: int) -> Elements:
    """The fold of each block, taken from the folds within it where those exist."""
    whole = np.empty(len(elements) // BLOCK, elements.dtype)
    for block in range(len(whole)):
        begin = block << BLOCK_BITS
        if begin >= ends:
            whole[block] = elements[begin + BLOCK - 1]
        elif least <= begin < most:
            whole[block] = onward[begin - least]
        else:
            total = elements[begin]
            for at in range(begin + 1, begin + BLOCK):
                total = joined(how, total, elements[at])
            whole[block] = total
    return whole


@njit(cache=True, nogil=True)
def _fold_runs(how: Any, elements: Elements, longest: int) -> Elements:
    """[level, i] is the fold of 2**level elements from i on, for powers of two up to `longest`."""
    levels = 1
    while 1 << levels <= longest:
        levels += 1
    runs = np.empty((levels, len(elements)), elements.dtype)
    runs[0] = elements
    for level in range(1, levels):
        half = 1 << (level - 1)
        complete = len(elements) - 2 * half + 1
        if complete > 0:
            shorter = runs[level - 1]
            _join(how, shorter[:complete], shorter[half : half + complete], runs[level, :complete])
    return runs


@njit(cache=True, nogil=True)
def _join(how: Any, left: Elements, right: Elements, out: Elements) -> None:
    """Join left and right place by place; `out` must be neither of them, or the loop would not be a fast one."""
    for i in range(len(out)):
        out[i] = joined(how, left[i], right[i])


@njit(cache=True, nogil=True)
def _join_behind(how: Any, row: Elements, right: Elements) -> None:
    """Join what the row holds and right, place by place; the row takes the result."""
    for i in range(len(row)):
        row[i] = joined(how, row[i], right[i])


@njit(cache=True, nogil=True)
def _join_around(how: Any, left: Elements, middle: Any, right: Elements, out: Elements) -> None:
    """Join left, the one middle and right, place by place."""
    for i in range(len(out)):
        out[i] = joined(how, left[i], joined(how, middle, right[i]))


@njit(inline="always")
def _lowest_bit(number: int) -> int:
    """The place of the lowest set bit."""
    bit = 0
    while not number >> bit & 1:
        bit += 1
    return bit
