"""The greatest word of any range, from blocks and a sparse table over them.

A block has 32 words. Each place knows the greatest word from the block's beginning up to it, and from it to the
block's end; a sparse table has the greatest word of each 1, 2, 4, ... whole blocks. The least word is the complement
of the greatest complement.
Cost: O(n) to build, O(1) for a range, and up to 32 comparisons within one block; 2 words for each word, and
log2(n) / 32 more. Source: Bender and Farach-Colton, LATIN 2000, with blocks as in Fischer and Heun, CPM 2006.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]

BLOCK_BITS = 5
BLOCK = 1 << BLOCK_BITS


@njit(cache=True, nogil=True)
def build_blocks(words: Ints) -> tuple[Ints, Ints, npt.NDArray[np.int64]]:
    """The greatest words from the beginning of each block, to its end, and of whole blocks by level."""
    n = len(words)
    blocks = (n + BLOCK - 1) >> BLOCK_BITS
    levels = 1
    while (2 << (levels - 1)) <= blocks:
        levels += 1
    forward, backward = np.empty(n, np.int64), np.empty(n, np.int64)
    table = np.empty((levels, blocks), np.int64)
    for block in range(blocks):
        begin, end = block << BLOCK_BITS, min(n, (block + 1) << BLOCK_BITS)
        forward[begin] = words[begin]
        for i in range(begin + 1, end):
            forward[i] = max(forward[i - 1], words[i])
        backward[end - 1] = words[end - 1]
        for i in range(end - 2, begin - 1, -1):
            backward[i] = max(backward[i + 1], words[i])
        table[0, block] = forward[end - 1]
    for level in range(1, levels):
        half = 1 << (level - 1)
        for block in range(blocks - 2 * half + 1):
            table[level, block] = max(table[level - 1, block], table[level - 1, block + half])
    return forward, backward, table


@njit(cache=True, nogil=True)
def greatest_of_ranges(
    words: Ints, forward: Ints, backward: Ints, table: npt.NDArray[np.int64], begins: Ints, ends: Ints
) -> Ints:
    """The greatest word of each range; none is empty."""
    out = np.empty(len(begins), np.int64)
    for i in range(len(begins)):
        first, last = begins[i], ends[i] - 1
        left, right = first >> BLOCK_BITS, last >> BLOCK_BITS
        if left == right:
            best = words[first]
            for j in range(first + 1, last + 1):
                best = max(best, words[j])
        else:
            best = max(backward[first], forward[last])
            blocks = right - left - 1
            if blocks:
                level = 0
                while (2 << level) <= blocks:
                    level += 1
                best = max(best, max(table[level, left + 1], table[level, right - (1 << level)]))
        out[i] = best
    return out
