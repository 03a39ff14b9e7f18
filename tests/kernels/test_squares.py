"""Sums and sums of squares, combined in any order, give sums, means and variances that are right to the last digits."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.numbers import CASES, FUNCTIONS, LITERAL, doubles, integers
from tests.thoroughness import examples

from panewise.kernels.folding import fold_squares
from panewise.kernels.integer_squares import squares_in_words, variance_of_integers
from panewise.kernels.lifting import lift_squares, lift_sum_float
from panewise.kernels.pairs import add_pairs, value_of_pair
from panewise.kernels.squares import add_squares, squares_of, variance

seeds = st.integers(0, 2**32).map(Random)
NOTHING_NULL = np.empty(0, np.bool_)


class Call:
    def __init__(self, function: str) -> None:
        self.function, self.argument, self.parameter = function, "x", None


def exact(function: str, values: list) -> tuple:
    if function == "SUM":
        return oracle._sum(values)
    if function == "AVG":
        return oracle._average(values)
    find = oracle._variance if function.startswith("VAR") else oracle._deviation
    return find(values, len(values) - function.endswith("SAMP"))


def check(function: str, found: float, values: list) -> None:
    wanted, scale = exact(function, values)
    if wanted is not None:
        assert oracle.same_value(found, wanted, scale), (function, found, wanted)


def add_two_pairs(a: complex, b: complex) -> complex:
    return complex(*add_pairs(a.real, a.imag, b.real, b.imag))


def add_two_squares(a: tuple, b: tuple) -> tuple:
    return add_squares(*a, *b)


def value_of_one(pair: complex, divisor: float) -> float:
    return value_of_pair(pair.real, pair.imag, divisor)


def combined(parts: list, combine, random: Random):
    """All parts combined, each time two that chance picks."""
    while len(parts) > 1:
        one = parts.pop(random.randrange(len(parts)))
        place = random.randrange(len(parts))
        parts[place] = combine(parts[place], one)
    return parts[0]


def check_doubles(values: list[float], random: Random) -> None:
    total = combined([complex(value, 0.0) for value in values], add_two_pairs, random)
    squares = combined([squares_of(np.array([value])) for value in values], add_two_squares, random)
    n = len(values)
    check("SUM", value_of_one(total, 1.0), values)
    check("AVG", value_of_one(total, float(n)), values)
    for function in FUNCTIONS[2:]:
        sample = int(function.endswith("SAMP"))
        if n > sample:
            root = function.startswith("STDDEV")
            check(function, variance(n, total.real, total.imag, *squares, sample, root), values)


def check_integers(values: list[int], random: Random) -> None:
    words = [np.array(word) for word in zip(*(column.tolist() for column in squares_in_words(np.array(values))))]
    squares = combined(words, lambda one, other: one + other, random)
    assert sum(int(word) << 32 * place for place, word in enumerate(squares)) == sum(value**2 for value in values)
    total, n = sum(values), len(values)
    parts = sum(value >> 32 for value in values), sum(value & 0xFFFFFFFF for value in values)
    for function in FUNCTIONS[2:]:
        sample, root = int(function.endswith("SAMP")), function.startswith("STDDEV")
        if n > sample:
            found = variance_of_integers(n, *parts, *squares.tolist(), sample, root)
            check(function, found, values)
            assert found == variance_of_integers(n, total >> 32, total & 0xFFFFFFFF, *squares.tolist(), sample, root)


@pytest.mark.parametrize("name", CASES)
def test_the_cases(name: str) -> None:
    values = CASES[name]
    for seed in range(10):
        if isinstance(values[0], int):
            check_integers(values, Random(seed))
        else:
            check_doubles(values, Random(seed))


@pytest.mark.parametrize(("name", "function"), LITERAL)
def test_the_oracle_knows_them(name: str, function: str) -> None:
    assert math.isclose(exact(function, CASES[name])[0], LITERAL[name, function], rel_tol=1e-15)


@settings(max_examples=examples(400), deadline=None)
@given(doubles(), seeds)
def test_doubles_in_any_order(values: list[float], random: Random) -> None:
    check_doubles(values, random)


@settings(max_examples=examples(200), deadline=None)
@given(integers(), seeds)
def test_integers_in_any_order(values: list[int], random: Random) -> None:
    check_integers(values, random)


@settings(max_examples=examples(100), deadline=None)
@given(doubles(), st.lists(st.sampled_from([math.nan, math.inf, -math.inf]), min_size=1, max_size=3), seeds)
def test_not_a_number_and_infinities(values: list[float], odd: list[float], random: Random) -> None:
    every = values + odd
    random.shuffle(every)
    total = combined([complex(value, 0.0) for value in every], add_two_pairs, random)
    check("SUM", value_of_one(total, 1.0), every)
    squares = combined([squares_of(np.array([value])) for value in every], add_two_squares, random)
    assert math.isnan(variance(len(every), total.real, total.imag, *squares, 0, False))


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(doubles(), min_size=1, max_size=6), st.integers(1, 20))
def test_lifted_and_folded(lists: list[list[float]], width: int) -> None:
    values = np.array([value for several in lists for value in several])
    index = np.arange(len(values)) // 3
    size = int(index[-1]) + 1
    squares, total = tuple(np.zeros((4, size))), tuple(np.zeros((2, size)))
    lift_squares(index, values, NOTHING_NULL, squares)
    lift_sum_float(index, values, NOTHING_NULL, *total)
    low = np.arange(size)
    high = np.minimum(low + width, size)
    folded = fold_squares(squares, low, high)
    for place in range(size):
        covered = values[3 * low[place] : 3 * high[place]].tolist()
        pair = combined([complex(*one) for one in zip(*(part[low[place] : high[place]] for part in total))],
                        add_two_pairs, Random(1))  # fmt: skip
        one = tuple(float(part[place]) for part in folded)
        check("STDDEV_POP", variance(len(covered), pair.real, pair.imag, *one, 0, True), covered)
