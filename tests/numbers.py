"""Numbers that sums and variances used to get wrong, and how far from the exact answer any may be.

`CASES` are named lists of values of one type. What they must give is computed from fractions by `tests.oracle`, whose
bound for doubles is 8 * 2**-53 of the sum of |x| for SUM, of its mean for AVG, and of the answer itself for variances
and deviations; what is exact of integers but for its last rounding is within the same.
"""

from __future__ import annotations

from random import Random

from hypothesis import strategies as st

_random = Random(1)

CASES: dict[str, list[int] | list[float]] = {
    "integers at 1.7e15": [1_700_000_000_000_000 + _random.randrange(4) for _ in range(400)],
    "integers at 2**53": [2**53 + offset for offset in (0, 1, 2, 3, 4, 5, 0, 5)],
    "integers at 1e17": [10**17 + offset for offset in (0, 1, 2, 3)],
    "integers at both ends": [-(2**63), 2**63 - 1, -(2**63), 5],
    "integers at one end": [-(2**63), -(2**63) + 1, -(2**63) + 7],
    "doubles at 1.7e15": [1.7e15 + _random.randrange(4) for _ in range(400)],
    "doubles an ulp apart": [1.0 + _random.randrange(3) * 2**-52 for _ in range(50)],
    "large and equal": [1e155, 1e155],
    "large": [1e155, -3e155, 2e155, 1e10],
    "deviations of 1e-170": [1e-170, 3e-170],
    "nearly nothing": [5e-324, 1e-310, 0.0, -1e-315],
    "the largest": [1.7e308, 1.7e308],
    "beyond on the way": [1e308, 1e308, -1e308],
    "far beyond on the way": [1.7e308] * 60 + [3.0] + [-1.7e308] * 59,
    "both signs of the largest": [1.7976931348623157e308, -1.7976931348623157e308, 1.0],
    "small beside large": [1e-200, 1e200, 1.0, -1e200],
}

LITERAL = {
    ("integers at 2**53", "VAR_POP"): 3.75,
    ("large and equal", "VAR_POP"): 0.0,
    ("deviations of 1e-170", "STDDEV_POP"): 1e-170,
    ("the largest", "AVG"): 1.7e308,
    ("beyond on the way", "SUM"): 1e308,
    ("far beyond on the way", "SUM"): 1.7e308,
}
"""Some answers written out, so that no mistake of the oracle goes unseen."""

FUNCTIONS = ["SUM", "AVG", "VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"]

magnitudes = st.one_of(st.just(0), st.integers(-300, 307)).map(lambda exponent: 10.0**exponent)


@st.composite
def doubles(draw: st.DrawFn) -> list[float]:
    """Doubles of any magnitude, of both signs, or close around a number of any magnitude."""
    parts = st.floats(-1, 1, allow_subnormal=False)
    center = draw(st.just(0.0) | st.builds(lambda part, scale: part * scale, parts, magnitudes))
    if draw(st.booleans()):
        steps = st.integers(-(2 ** draw(st.integers(0, 30))), 2 ** draw(st.integers(0, 30)))
        values = st.builds(lambda step: center * (1.0 + step * 2.0**-52), steps)
    else:
        values = st.builds(lambda part, scale: part * scale, parts, magnitudes) | st.just(center)
    return draw(st.lists(values, min_size=1, max_size=40))


@st.composite
def integers(draw: st.DrawFn) -> list[int]:
    """Integers anywhere in 64 bits, or close around one."""
    center = draw(st.integers(-(2**63), 2**63 - 1))
    width = 2 ** draw(st.integers(0, 64))
    near = st.integers(max(center - width, -(2**63)), min(center + width, 2**63 - 1))
    return draw(st.lists(near, min_size=1, max_size=40))
