"""Dice: the source of random choices in tests, a seed or hypothesis."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


class Dice(Protocol):
    """Where choices come from. Hypothesis shrinks to the first option and to the lowest integer."""

    def integer(self, low: int, high: int) -> int:
        """An integer from low to high."""

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""


class SeededDice:
    """Choices from a seed, the same on every run."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)


class HypothesisDice:
    """Choices that hypothesis can shrink and replay."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        result: int = self._draw(st.integers(low, high))
        return result

    def pick(self, options: Sequence[T]) -> T:
        result: T = self._draw(st.sampled_from(options))
        return result


def one_in(dice: Dice, n: int) -> bool:
    """True once in n draws."""
    return dice.integer(0, n - 1) == n - 1


def subset(dice: Dice, options: Sequence[T], low: int, high: int) -> list[T]:
    """From low to high different options, in the order of the draws."""
    left, chosen = list(options), []
    for _ in range(dice.integer(low, min(high, len(left)))):
        choice = dice.integer(0, len(left) - 1)
        chosen.append(left.pop(choice))
    return chosen
