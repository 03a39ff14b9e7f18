"""What a paper claims, as data: a sentence, a ratio from a figure's rows, and the bounds in which it must lie."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isnan
from typing import Any

from experiments.tables import NotMeasuredError, Table


@dataclass(frozen=True)
class Claim:
    """A sentence that holds if its ratio lies within the bounds. `of` names what the ratio compares."""

    text: str
    of: str
    ratio: Callable[[Table], float]
    at_least: float = -inf
    at_most: float = inf

    def check(self, table: Table) -> Verdict:
        """What the rows say about it."""
        try:
            ratio = self.ratio(table)
        except NotMeasuredError as missing:
            return Verdict(self, None, str(missing))
        return Verdict(self, ratio)

    @property
    def bounds(self) -> str:
        """The bounds as text."""
        if self.at_least == -inf:
            return f"at most {number(self.at_most)}"
        if self.at_most == inf:
            return f"at least {number(self.at_least)}"
        return f"{number(self.at_least)} to {number(self.at_most)}"


@dataclass(frozen=True)
class Verdict:
    """A claim, and the measured ratio; None if the scale does not measure it."""

    claim: Claim
    ratio: float | None
    reason: str = ""

    @property
    def holds(self) -> bool:
        """Whether the ratio lies within the bounds."""
        ratio = self.ratio
        return ratio is not None and not isnan(ratio) and self.claim.at_least <= ratio <= self.claim.at_most

    @property
    def word(self) -> str:
        """The verdict in one to three words."""
        if self.ratio is None:
            return "not measured"
        return "holds" if self.holds else "does not hold"

    def __str__(self) -> str:
        if self.ratio is None:
            return f"not measured: {self.claim.text} ({self.reason})"
        found = f"ratio {number(self.ratio)}, wanted {self.claim.bounds}: {self.claim.of}"
        return f"{self.word}: {self.claim.text} ({found})"


def number(value: float) -> str:
    """A ratio as text: three digits, or all digits before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def worst(ratios: Sequence[float]) -> float:
    """The greatest of some ratios that should be small."""
    if not ratios:
        raise NotMeasuredError("there are no two rows to compare")
    return max(ratios)


def least(ratios: Sequence[float]) -> float:
    """The least of some ratios that should be great."""
    if not ratios:
        raise NotMeasuredError("there are no two rows to compare")
    return min(ratios)


def average(ratios: Sequence[float]) -> float:
    """The mean of some ratios."""
    if not ratios:
        raise NotMeasuredError("there are no two rows to compare")
    return sum(ratios) / len(ratios)


def steps(values: Sequence[float]) -> list[float]:
    """The ratio of each value to the one before it: all at most 1 where values fall, at least 1 where they rise."""
    return [after / before for before, after in pairwise(values)]


def ends(values: Sequence[Any]) -> tuple[Any, Any]:
    """The first and the last of at least two."""
    if len(values) < 2:
        raise NotMeasuredError("there are no two values to compare")
    return values[0], values[-1]
