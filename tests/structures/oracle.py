"""What every structure must answer, in plain Python: a list of all elements, and the window cut out of it."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

Value = int | float | None


def covered(elements: list[Value], left: int, right: int) -> list[Any]:
    """The values of window [left, right] that are not NULL."""
    m = len(elements)
    return [value for value in elements[max(m - left, 0) : max(m - right, 0)] if value is not None]


def _ordered(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (value != value, value if value == value else 0))


def answer(aggregate: str, values: list[Any], phi: float | None = None, rows: int | None = None) -> Value:
    """The aggregate of the values that are not NULL; `rows` counts the NULLs too."""
    match aggregate:
        case "COUNT_ALL":
            return rows
        case "COUNT":
            return len(values)
        case "COUNT_DISTINCT":
            return len({"nan" if value != value else value for value in values})
    if not values:
        return None
    match aggregate:
        case "SUM":
            return _sum(values)
        case "AVG":
            return _mean(values)
        case "MIN":
            return _ordered(values)[0]
        case "MAX":
            return _ordered(values)[-1]
        case "QUANTILE":
            assert phi is not None
            return _ordered(values)[max(1, math.floor(Fraction(repr(phi)) * len(values))) - 1]
        case "MEDIAN":
            return _ordered(values)[(len(values) + 1) // 2 - 1]
        case "MODE":
            return max(_ordered(values), key=lambda one: sum(v == one or (v != v and one != one) for v in values))
    sample = aggregate.endswith("SAMP")
    if len(values) <= sample:
        return None
    if not all(math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    variance = Fraction(sum((value - mean) ** 2 for value in exact)) / (len(exact) - sample)
    if not aggregate.startswith("STDDEV"):
        return _to_float(variance)
    # The root of an integer with so many digits that cutting off the rest does not show.
    places = max(0, 128 - (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2)
    return _to_float(Fraction(math.isqrt((variance.numerator << 2 * places) // variance.denominator), 1 << places))


def _sum(values: list[Any]) -> Any:
    if all(isinstance(value, int) for value in values):
        return sum(values)
    if any(not math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    return _to_float(sum(Fraction(value) for value in values))


def _mean(values: list[Any]) -> Any:
    if any(not math.isfinite(value) for value in values):
        return _sum(values)
    return _to_float(sum(Fraction(value) for value in values) / len(values))


def _to_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def agrees(aggregate: str, got: Value, wanted: Value, values: list[Any]) -> bool:
    """Exactly, but for sums of doubles and variances.

    Sums are within a few ulps of what their magnitudes add up to, variances and deviations within a few of their own.
    """
    if got is None or wanted is None:
        return got is wanted
    if wanted != wanted or got != got:
        return wanted != wanted and got != got
    if got == wanted:
        return True
    if (
        math.isinf(wanted)
        or math.isinf(got)
        or (aggregate not in ("SUM", "AVG") and not aggregate.startswith(("VAR", "STDDEV")))
    ):
        return False
    scale = Fraction(wanted)
    if aggregate in ("SUM", "AVG"):
        scale = sum(abs(Fraction(value)) for value in values) / (len(values) if aggregate == "AVG" else 1)
        if aggregate == "SUM" and not isinstance(wanted, float):
            return False
    return abs(Fraction(got) - Fraction(wanted)) <= 4 * Fraction(2) ** -52 * abs(scale) + Fraction(2) ** -1060
