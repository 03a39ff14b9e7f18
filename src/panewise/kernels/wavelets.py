"""Wavelet matrices by key: the k-th least symbol of any range, and how many symbols of it are below a bound.

Level by level from the highest bit, the symbols of a key are split stably: those with a 0 come first. A level keeps the
bits in 64-bit words, and the number of ones before each word, so a range is followed from level to level in O(1).
Cost: O(n log s) to build for s different symbols, O(log s) for a range, 2 log s bits for each symbol.
Source: Claude, Navarro and Ordonez, The wavelet matrix, Information Systems 47, 2015.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from panewise.kernels.sorting import sort_with_places

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

Wavelets = tuple[Words, Ints, Ints, Ints, Ints]
"""Bits, ones before each word, zeros of each level, and for each key where its words and its levels begin."""

_PAIRS, _NIBBLES = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _FACTOR = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_ONE, _TWO, _FOUR, _TOP = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


@njit(inline="always")
def _ones_in(word: np.uint64) -> Any:
    word = word - ((word >> _ONE) & _PAIRS)
    word = (word & _NIBBLES) + ((word >> _TWO) & _NIBBLES)
    word = (word + (word >> _FOUR)) & _BYTES
    return np.int64((word * _FACTOR) >> _TOP)


@njit(inline="always")
def _ones_before(bits: Words, ones: Ints, at: int, place: int) -> Any:
    """How many of the first `place` bits of a level are ones; the level's words begin at `at`."""
    word = at + (place >> 6)
    return ones[word] + _ones_in(bits[word] & ((_ONE << np.uint64(place & 63)) - _ONE))


@njit(cache=True, nogil=True)
def rank_values(words: Ints, segments: Ints) -> tuple[Ints, Ints, Ints]:
    """Number the different words of each key in ascending order.

    The number of each word, the different words of each key from the beginning of its segment on, and how many these
    are.
    """
    ranks, different = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    counts = np.zeros(len(segments) - 1, np.int64)
    for key in range(len(segments) - 1):
        begin, end = segments[key], segments[key + 1]
        if begin == end:
            continue
        ordered, places = sort_with_places(words[begin:end])
        rank = -1
        for i in range(end - begin):
            if i == 0 or ordered[i] != ordered[i - 1]:
                rank += 1
                different[begin + rank] = ordered[i]
            ranks[begin + places[i]] = rank
        counts[key] = rank + 1
    return ranks, different, counts


@njit(cache=True, nogil=True)
def previous_equal(ranks: Ints, segments: Ints) -> Ints:
    """For each place 1 more than the last place of its key before it with the same rank, counted from the segment's
    beginning; 0 if there is none."""
    previous = np.empty(len(ranks), np.int64)
    seen = np.zeros(len(ranks) + 1, np.int64)
    for key in range(len(segments) - 1):
        begin, end = segments[key], segments[key + 1]
        for i in range(begin, end):
            seen[ranks[i]] = 0
        for i in range(begin, end):
            previous[i] = seen[ranks[i]]
            seen[ranks[i]] = i - begin + 1
    return previous


@njit(cache=True, nogil=True)
def build_wavelets(symbols: Ints, segments: Ints, highest: Ints) -> Wavelets:
    """Wavelet matrices of symbols that lie in 0 .. highest[key]."""
    keys = len(segments) - 1
    words_from, levels_from = np.zeros(keys + 1, np.int64), np.zeros(keys + 1, np.int64)
    for key in range(keys):
        levels = 0
        while highest[key] >> levels > 0:
            levels += 1
        levels_from[key + 1] = levels_from[key] + levels
        words_from[key + 1] = words_from[key] + levels * (((segments[key + 1] - segments[key]) >> 6) + 1)
    bits, ones = np.zeros(words_from[keys], np.uint64), np.zeros(words_from[keys], np.int64)
    zeros = np.zeros(levels_from[keys], np.int64)
    now, then = np.empty(len(symbols), np.int64), np.empty(len(symbols), np.int64)
    for key in range(keys):
        begin, size = segments[key], segments[key + 1] - segments[key]
        for i in range(size):
            now[i] = symbols[begin + i]
        levels = levels_from[key + 1] - levels_from[key]
        for level in range(levels):
            shift = levels - 1 - level
            at = words_from[key] + level * ((size >> 6) + 1)
            count = 0
            for i in range(size):
                if i & 63 == 0:
                    ones[at + (i >> 6)] = count
                bit = (now[i] >> shift) & 1
                count += bit
                bits[at + (i >> 6)] |= np.uint64(bit) << np.uint64(i & 63)
            if size & 63 == 0:
                ones[at + (size >> 6)] = count
            zeros[levels_from[key] + level] = size - count
            zero, one = 0, size - count
            for i in range(size):
                if (now[i] >> shift) & 1:
                    then[one] = now[i]
                    one += 1
                else:
                    then[zero] = now[i]
                    zero += 1
            now, then = then, now
    return bits, ones, zeros, words_from, levels_from


@njit(cache=True, nogil=True)
def select_symbols(wavelets: Wavelets, segments: Ints, keys: Ints, begins: Ints, ends: Ints, ranks: Ints) -> Ints:
    """The symbol at each range's 1-based rank."""
    bits, ones, zeros, words_from, levels_from = wavelets
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        key = keys[i]
        start = segments[key]
        stride = ((segments[key + 1] - start) >> 6) + 1
        begin, end, rank = begins[i] - start, ends[i] - start, ranks[i] - 1
        at, symbol = words_from[key], 0
        for level in range(levels_from[key], levels_from[key + 1]):
            left, right = _ones_before(bits, ones, at, begin), _ones_before(bits, ones, at, end)
            below = (end - begin) - (right - left)
            symbol <<= 1
            if rank < below:
                begin, end = begin - left, end - right
            else:
                rank -= below
                symbol |= 1
                begin, end = zeros[level] + left, zeros[level] + right
            at += stride
        out[i] = symbol
    return out


@njit(cache=True, nogil=True)
def count_first(wavelets: Wavelets, segments: Ints, keys: Ints, begins: Ints, ends: Ints) -> Ints:
    """How many places of each range have no equal before them in the range; symbols are those of `previous_equal`.

    That is, how many symbols are at most the place where the range begins.
    """
    bits, ones, zeros, words_from, levels_from = wavelets
    out = np.empty(len(keys), np.int64)
    for i in range(len(keys)):
        key = keys[i]
        start = segments[key]
        stride = ((segments[key + 1] - start) >> 6) + 1
        begin, end = begins[i] - start, ends[i] - start
        bound = begin + 1
        levels = levels_from[key + 1] - levels_from[key]
        if bound >> levels > 0:
            out[i] = end - begin
            continue
        at, count = words_from[key], 0
        for level in range(levels):
            left, right = _ones_before(bits, ones, at, begin), _ones_before(bits, ones, at, end)
            if (bound >> (levels - 1 - level)) & 1:
                count += (end - begin) - (right - left)
                zero = zeros[levels_from[key] + level]
                begin, end = zero + left, zero + right
            else:
                begin, end = begin - left, end - right
            at += stride
        out[i] = count
    return out
