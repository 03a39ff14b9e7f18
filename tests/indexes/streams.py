"""Random runs over windows: batches of values of a type, and attached basic windows between them."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

TYPES = ("int64", "float64", "string")
ODD = {
    "int64": [0, 1, -1, 2**63 - 1, -(2**63), 2**63 - 2, 7, 7, 7],
    "float64": [0.0, -0.0, float("nan"), -float("nan"), float("inf"), -float("inf"), 5e-324, -1.5, 1e308],
    "string": ["", "a", "aa", "b", "ä", "zz", "\U0001f600", "￿", "\x00"],
}


def make(type, number):
    """A value of a type, the same for the same number."""
    if type == "int64":
        return number * 37 % 1009 - 500
    if type == "float64":
        return (number * 37 % 1009 - 500) / 8
    return f"v{number * 37 % 1009}"


def column(type, values):
    """Values as they are given to a window."""
    return pa.array(values, pa.string()) if type == "string" else np.array(values, type)


@st.composite
def batches(draw, type):
    """A batch: odd values, one value many times, a few values, or many different ones."""
    chance = random.Random(draw(st.integers(0, 10**6)))
    kind = draw(st.sampled_from(["odd", "equal", "few", "many", "none"]))
    size = draw(st.integers(1, 40))
    if kind == "odd":
        return chance.choices(ODD[type], k=size)
    if kind == "equal":
        return [make(type, 3)] * size
    if kind == "few":
        return [make(type, chance.randrange(6)) for _ in range(size)]
    if kind == "many":
        start = chance.randrange(500)
        return [make(type, start + chance.randrange(300)) for _ in range(5 * size)]
    return []


@st.composite
def runs(draw, type, sides=1):
    """Steps: (side, batch, how many basic windows to attach after it)."""
    attach = st.sampled_from([0, 1, 1, 1, 2, 9])
    return draw(st.lists(st.tuples(st.integers(0, sides - 1), batches(type), attach), min_size=1, max_size=14))
