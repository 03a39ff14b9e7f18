"""OrderedSharing: the extremes of many windows as a stack of runs of windows that share an answer.

Windows are sorted by size, and a larger window's extreme is never beaten by a smaller one's. So windows with the same
answer are neighbours: a run is (index of its largest window, answer, stamp of the element that holds it), the largest
windows at the bottom of the stack. Stamps are times, or positions counted from 1; a window of size s at clock c covers
stamps in (c - s, c]. A stored answer that has left a window is still at least as extreme as what the window has now. An
update needs no more than that: the runs that the new element beats become one run, and the order holds.

State words: height of the stack, recalculations, elements read by them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.operations import is_greater
from panewise.kernels.searching import first_above

Elements = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

HEIGHT, RECALCULATIONS, ELEMENTS_READ = range(3)

BLOCK = 64
"""Elements of a block, whose extreme is kept: a recalculation skips the whole block if nothing in it matters."""

UNKNOWN = -(2**63)
"""The stamp of a run that was never calculated."""
EMPTY = 2**63 - 1
"""The stamp of windows that are known to cover nothing; it is right until the next element comes."""


@njit(inline="always")
def beats(greatest: bool, a: Any, b: Any) -> bool:
    """Whether a is more extreme than b."""
    return bool(is_greater(a, b) if greatest else is_greater(b, a))


@njit(inline="always")
def stamp_of(times: Ints, base: int, slot: int) -> int:
    """The time of a slot; without times, its position counted from 1."""
    return times[slot] if len(times) else base + slot + 1


@njit(cache=True, nogil=True)
def close_blocks(greatest: bool, values: Elements, blocks: Elements, start: int, end: int) -> None:
    """The extremes of the blocks that end in slots (start, end]."""
    for block in range(start // BLOCK, end // BLOCK):
        best = values[block * BLOCK]
        for slot in range(block * BLOCK + 1, (block + 1) * BLOCK):
            if beats(greatest, values[slot], best):
                best = values[slot]
        blocks[block] = best


@njit(nogil=True)
def _recalculate(
    greatest: bool,
    lowest: Any,
    width: int,
    clock: int,
    base: int,
    first: int,
    end: int,
    values: Elements,
    times: Ints,
    blocks: Elements,
    sizes: Ints,
    run_ends: Ints,
    run_answers: Elements,
    run_stamps: Ints,
    state: Ints,
) -> tuple[Any, int]:
    """The answer of a window from the elements in slots first .. end - 1, and with it those of all smaller windows.

    From the newest element back: whenever one beats all newer ones, windows too small for it have the answer so far.
    """
    state[RECALCULATIONS] += 1
    served = first_above(sizes, 0, len(sizes), width)
    height = state[HEIGHT]
    while height > 0 and run_ends[height - 1] < served:
        height -= 1
    bottom = height
    begin = clock - width
    # Every element beats or equals this; it stands for windows that cover nothing.
    best = lowest
    best_stamp = EMPTY
    done = 0
    slot = end - 1
    while slot >= first:
        stamp = stamp_of(times, base, slot)
        if stamp <= begin:
            break
        state[ELEMENTS_READ] += 1
        # A block that reaches back beyond the window is passed over as well: nothing in it matters either.
        is_whole = slot % BLOCK == BLOCK - 1 and best_stamp != EMPTY
        if is_whole and not beats(greatest, blocks[slot // BLOCK], best):
            slot -= BLOCK
            continue
        if best_stamp == EMPTY or beats(greatest, values[slot], best):
            until = first_above(sizes, done, served, clock - stamp)
            if until > done:
                run_ends[height] = until - 1
                run_answers[height] = best
                run_stamps[height] = best_stamp
                height += 1
                done = until
            best = values[slot]
            best_stamp = stamp
        slot -= 1
    if served > done:
        run_ends[height] = served - 1
        run_answers[height] = best
        run_stamps[height] = best_stamp
        height += 1
    state[HEIGHT] = height
    # They were found from small windows to large ones, and are kept from large to small.
    top = height - 1
    while bottom < top:
        run_ends[bottom], run_ends[top] = run_ends[top], run_ends[bottom]
        run_answers[bottom], run_answers[top] = run_answers[top], run_answers[bottom]
        run_stamps[bottom], run_stamps[top] = run_stamps[top], run_stamps[bottom]
        bottom += 1
        top -= 1
    return best, best_stamp


@njit(cache=True, nogil=True)
def replay(
    greatest: bool,
    lowest: Any,
    base: int,
    held: int,
    start: int,
    end: int,
    clock: int,
    values: Elements,
    times: Ints,
    blocks: Elements,
    sizes: Ints,
    run_ends: Ints,
    run_answers: Elements,
    run_stamps: Ints,
    state: Ints,
    after: Ints,
    widths: Ints,
) -> tuple[Elements, Bools]:
    """Take in slots start .. end - 1, and answer window i after `after[i]` of them; also says where answers exist.

    `clock` is the time of lookups before the first new element, `held` the first slot whose element is held.
    """
    out = np.zeros(len(widths), values.dtype)
    valid = np.zeros(len(widths), np.bool_)
    now = start
    height = state[HEIGHT]
    index = len(sizes)
    run = 0
    for i in range(len(widths) + 1):
        until = start + after[i] if i < len(widths) else end
        while now < until:
            # The windows whose answer the new element equals or beats become one run that it holds.
            value = values[now]
            end_of_run = -1
            while height > 0 and not beats(greatest, run_answers[height - 1], value):
                height -= 1
                end_of_run = run_ends[height]
            if end_of_run >= 0:
                run_ends[height] = end_of_run
                run_answers[height] = value
                run_stamps[height] = stamp_of(times, base, now)
                height += 1
            now += 1
        if now > start:
            clock = stamp_of(times, base, now - 1)
        state[HEIGHT] = height
        if i == len(widths):
            break
        width = widths[i]
        # Lookups often come in the order of sizes: try the places of the one before, and the next ones, first.
        if index > 0 and sizes[index - 1] >= width:
            index -= 1
        if index >= len(sizes) or sizes[index] < width or (index > 0 and sizes[index - 1] >= width):
            index = first_above(sizes, 0, len(sizes), width - 1)
        answer = lowest
        stamp = UNKNOWN
        if index < len(sizes):
            # The run that has the smallest window at least as large: the highest one that reaches as far.
            if run + 1 < height and run_ends[run + 1] >= index:
                run += 1
            if run >= height or run_ends[run] < index or (run + 1 < height and run_ends[run + 1] >= index):
                run = 0
                high = height - 1
                while run < high:
                    middle = (run + high + 1) >> 1
                    if run_ends[middle] >= index:
                        run = middle
                    else:
                        high = middle - 1
            answer = run_answers[run]
            stamp = run_stamps[run]
        if stamp <= clock - width or stamp == UNKNOWN:
            first = held
            if len(times) == 0:
                first = max(held, now - width)
            answer, stamp = _recalculate(
                greatest, lowest, width, clock, base, first, now, values, times, blocks, sizes, run_ends, run_answers,
                run_stamps, state,
            )  # fmt: skip
            height = state[HEIGHT]
        out[i] = answer
        valid[i] = stamp != EMPTY
    return out, valid
