"""Answers of all windows after each event, against slices of plain lists."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numba import cfunc

from panewise.kernels.every_event import BLOCK, TILE, fold_at_every_event
from panewise.kernels.operations import ADD, MAX, MIN, USER

Window = tuple[int, int]

LEAST, MOST = -(2**63), 2**63 - 1

# Sizes around those at which the kernels go another way, and tiny ones.
lengths = st.one_of(
    st.integers(0, 12),
    st.integers(BLOCK - 2, BLOCK + 2),
    st.integers(2 * BLOCK, 4 * BLOCK),
    st.integers(TILE - 2, TILE + 2),
    st.integers(0, TILE + 3 * BLOCK),
)
widths = st.one_of(st.integers(1, 12), st.integers(BLOCK - 2, 2 * BLOCK + 2), st.integers(1, TILE), st.just(10**12))
rights = st.one_of(st.just(0), lengths)
windows = st.lists(st.builds(lambda width, right: (right + width, right), widths, rights), max_size=3)
seeds = st.integers(0, 10**6)
slopes = st.sampled_from([-1, 0, 1])


@dataclass
class Answer:
    """The answer given for a window after an event, and the positions [low, high) that it then covers."""

    value: Any
    low: int
    high: int


def answers(
    operation: int, user: Any, identity: Any, elements: list[Any], held: int, windows: list[Window], dtype: type
) -> list[Answer]:
    """The answers of all windows; with many events, those after some of them."""
    before, new = np.array(elements[:held], dtype), np.array(elements[held:], dtype)
    copies = before.copy(), new.copy()
    found = fold_at_every_event(
        operation, user, dtype(identity), before, new, np.array(windows, np.int64).reshape(-1, 2)
    )
    assert found.dtype == dtype
    assert found.shape == (len(windows), len(new))
    assert all(a.tobytes() == b.tobytes() for a, b in zip((before, new), copies)), "the input was changed"
    events = range(len(new))
    if len(new) > 30:
        events = sorted({0, len(new) - 1, *random.Random(held).sample(events, 25)})
    return [
        Answer(found[w, i].item(), max(held + i + 1 - left, 0), max(held + i + 1 - right, 0))
        for w, (left, right) in enumerate(windows)
        for i in events
    ]


def drifting(seed: int, length: int, slope: int) -> list[int]:
    """Integers whose extremes lie now at the beginning of a window, now in the middle, now at its end."""
    choose = random.Random(seed)
    return [choose.randrange(-500, 500) + slope * i for i in range(length)]


@given(seeds, lengths, lengths, windows)
@example(0, 0, 5, [(3, 0), (3, 0), (1, 0), (4, 3)])
@example(0, 5, 0, [(3, 0)])
@example(0, 0, 0, [])
def test_sums_of_integers(seed: int, held: int, count: int, windows: list[Window]) -> None:
    elements = drifting(seed, held + count, 1)
    for answer in answers(ADD, None, 0, elements, held, windows, np.int64):
        assert answer.value == sum(elements[answer.low : answer.high])


@given(st.lists(st.integers(LEAST, MOST), max_size=20), st.integers(0, 20), windows)
def test_sums_of_integers_wrap(elements: list[int], held: int, windows: list[Window]) -> None:
    for answer in answers(ADD, None, 0, elements, min(held, len(elements)), windows, np.int64):
        assert (answer.value - sum(elements[answer.low : answer.high])) % 2**64 == 0


@given(seeds, lengths, lengths, windows, slopes, st.booleans())
def test_extremes_of_integers(
    seed: int, held: int, count: int, windows: list[Window], slope: int, greatest: bool
) -> None:
    elements = drifting(seed, held + count, slope)
    operation, identity, pick = (MAX, LEAST, max) if greatest else (MIN, MOST, min)
    for answer in answers(operation, None, identity, elements, held, windows, np.int64):
        assert answer.value == pick(elements[answer.low : answer.high], default=identity)


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def check_extremes(elements: list[float], held: int, windows: list[Window], greatest: bool) -> None:
    operation, identity = (MAX, -math.inf) if greatest else (MIN, math.nan)
    for answer in answers(operation, None, identity, elements, held, windows, np.float64):
        window = elements[answer.low : answer.high]
        numbers = [x for x in window if x == x]
        if not window:
            expected = identity
        elif greatest:
            expected = max(numbers) if len(numbers) == len(window) else math.nan
        else:
            expected = min(numbers, default=math.nan)
        assert same(answer.value, expected)


@given(seeds, lengths, lengths, windows, slopes, st.sampled_from([0, 0.002, 0.3]), st.booleans())
def test_extremes_of_floats(
    seed: int, held: int, count: int, windows: list[Window], slope: int, odd: float, greatest: bool
) -> None:
    choose = random.Random(seed)
    elements = [
        choose.choice([math.nan, math.inf, -math.inf, 1e308, 5e-324]) if choose.random() < odd else x / 7
        for x in drifting(seed, held + count, slope)
    ]
    check_extremes(elements, held, windows, greatest)


@given(st.lists(st.floats(), max_size=20), st.integers(0, 20), windows, st.booleans())
def test_extremes_of_any_floats(elements: list[float], held: int, windows: list[Window], greatest: bool) -> None:
    check_extremes(elements, min(held, len(elements)), windows, greatest)


def check_pairs(elements: list[complex], held: int, windows: list[Window]) -> None:
    highs, lows = [pair.real for pair in elements], [pair.imag for pair in elements]
    sizes = [abs(high) + abs(low) for high, low in zip(highs, lows)]
    odd = [i for i, high in enumerate(highs) if not math.isfinite(high)]
    for answer in answers(ADD, None, 0, elements, held, windows, np.complex128):
        window = slice(answer.low, answer.high)
        odd_here = [highs[i] for i in odd if answer.low <= i < answer.high]
        if odd_here:
            assert same(answer.value.real, sum(odd_here))
            assert answer.value.imag == 0
        else:
            error = math.fsum(highs[window] + lows[window] + [-answer.value.real, -answer.value.imag])
            assert abs(error) <= 4 * math.ulp(math.fsum(sizes[window]))


@given(seeds, lengths, lengths, windows, st.sampled_from([0, 0.001, 0.02]), st.sampled_from([0, 0.001, 0.02]))
def test_sums_of_pairs(seed: int, held: int, count: int, windows: list[Window], far: float, odd: float) -> None:
    choose = random.Random(seed)

    def element() -> complex:
        if choose.random() < odd:
            return complex(choose.choice([math.nan, math.inf, -math.inf]), 0.0)
        exponent = choose.uniform(-290, 290) if choose.random() < far else choose.uniform(-3, 3)
        high = choose.choice([-1, 1]) * 10.0**exponent
        return complex(high, high * 2.0**-54 * choose.uniform(-1, 1))

    check_pairs([element() for _ in range(held + count)], held, windows)


@given(st.lists(st.floats(-1e306, 1e306), max_size=20), st.integers(0, 20), windows)
def test_sums_of_any_floats(elements: list[float], held: int, windows: list[Window]) -> None:
    check_pairs([complex(x, 0.0) for x in elements], min(held, len(elements)), windows)


def test_what_has_left_the_window_leaves_no_trace() -> None:
    """A sum kept by subtracting what leaves would be wrong, or not a number, from the large elements on."""
    elements = [0.1] * 300 + [1e300, math.inf, math.nan] + [0.1] * 700
    pairs = np.array(elements, np.complex128)
    windows = np.array([(180, 0), (20, 0)], np.int64)
    found = fold_at_every_event(ADD, None, np.complex128(0), pairs[:500], pairs[500:], windows)[:, -300:]
    assert set(found[0].real) == {math.fsum([0.1] * 180)}
    assert set(found[1].real) == {math.fsum([0.1] * 20)}


def last_not_zero(a: Any, b: Any) -> Any:
    """Associative, not commutative; zero is neutral."""
    return b if b != 0 else a


def compiled(type_name: str, function: Callable[[Any, Any], Any]) -> Any:
    return cfunc(f"{type_name}({type_name}, {type_name})")(function)


LAST_NOT_ZERO = {np.int64: compiled("int64", last_not_zero), np.float64: compiled("float64", last_not_zero)}
PLUS = compiled("float64", lambda a, b: a + b)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@given(seed=seeds, held=lengths, count=lengths, windows=windows, share=st.sampled_from([0.001, 0.02, 0.5]))
def test_functions_keep_the_order(
    dtype: type, seed: int, held: int, count: int, windows: list[Window], share: float
) -> None:
    choose = random.Random(seed)
    elements = [i + 1 if choose.random() < share else 0 for i in range(held + count)]
    for answer in answers(USER, LAST_NOT_ZERO[dtype], 0, elements, held, windows, dtype):
        # The last that is not zero is the greatest, as each is its own place.
        assert answer.value == max(elements[answer.low : answer.high], default=0)


@given(seeds, lengths, lengths, windows)
def test_functions_get_every_element_once(seed: int, held: int, count: int, windows: list[Window]) -> None:
    elements = drifting(seed, held + count, 0)
    for answer in answers(USER, PLUS, 0, elements, held, windows, np.float64):
        assert answer.value == sum(elements[answer.low : answer.high])


def test_widths_about_a_block_at_every_event() -> None:
    elements = drifting(3, 6 * BLOCK, 0)
    sizes = [size + more for size in (BLOCK, 2 * BLOCK) for more in (-1, 0, 1)]
    windows = np.array([(right + size, right) for size in sizes for right in (0, 1, BLOCK)], np.int64)
    floats = np.array(elements, np.float64)
    found = fold_at_every_event(USER, PLUS, np.float64(0), floats[: 3 * BLOCK], floats[3 * BLOCK :], windows)
    ends = range(3 * BLOCK + 1, 6 * BLOCK + 1)
    assert found.tolist() == [[sum(elements[end - left : end - right]) for end in ends] for left, right in windows]


def test_blocks_of_uneven_size_give_what_one_block_gives() -> None:
    elements = np.array(drifting(1, 3 * TILE, 0), np.float64)
    windows = np.array([(7, 0), (BLOCK + 5, 3), (TILE + 1, 0), (2 * TILE, BLOCK)], np.int64)
    whole = fold_at_every_event(MAX, None, np.float64(-np.inf), elements[:0], elements, windows)
    edges = [0, 1, 2, 130, 131, TILE, TILE + 777, 3 * TILE]
    parts = [
        fold_at_every_event(MAX, None, np.float64(-np.inf), elements[:begin], elements[begin:end], windows)
        for begin, end in pairwise(edges)
    ]
    assert np.array_equal(np.hstack(parts), whole)


@pytest.mark.parametrize("operation", [ADD, MAX])
def test_arrays_may_be_read_only_and_have_gaps(operation: int) -> None:
    elements = drifting(2, 800, 0)
    gaps = np.repeat(np.array(elements, np.int64), 2)[::2]
    gaps.flags.writeable = False
    windows = [(5, 0), (300, 20)]
    found = fold_at_every_event(operation, None, np.int64(LEAST), gaps[:400], gaps[400:], np.array(windows))
    fold: Callable[[list[int]], int] = sum if operation == ADD else max
    assert found.tolist() == [
        [fold(elements[end - left : end - right]) for end in range(401, 801)] for left, right in windows
    ]


def test_of_equal_elements_the_first_is_greatest_and_the_last_is_least() -> None:
    """As in `combine`, so that all kernels give the same zero."""
    elements = np.array([0.0, -0.0] * 400)
    windows = np.array([(2, 0), (301, 0)], np.int64)
    greatest = fold_at_every_event(MAX, None, np.float64(-np.inf), elements[:400], elements[400:], windows)
    least = fold_at_every_event(MIN, None, np.float64(np.nan), elements[:400], elements[400:], windows)
    ends = np.arange(401, 801)
    assert np.signbit(greatest).tolist() == [(((ends - left) % 2) == 1).tolist() for left, _ in windows]
    assert np.signbit(least).tolist() == [(((ends - 1) % 2) == 1).tolist()] * 2
