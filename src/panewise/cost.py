"""Costs as data sheets declare them: a formula for people, and a function of a shape for the planner."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")


@dataclass(frozen=True)
class Cost(Generic[S]):
    """The cost of something, in the unit that its data sheet names, as a function of the numbers in a shape."""

    formula: str
    of: Callable[[S], float] = field(compare=False)


@dataclass(frozen=True)
class Sheet:
    """What every data sheet begins with."""

    name: str
    """By which it is chosen."""
    title: str
    """By which the paper calls it."""
    source: str
    """The paper, and the section there."""


def log2(value: float) -> float:
    """The logarithm as costs use it: at least one step.

    >>> log2(0.0), log2(8.0)
    (1.0, 3.0)
    """
    return max(1.0, math.log2(max(1.0, value)))
