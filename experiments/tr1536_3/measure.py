"""The response time of the naive approach and of TimeGram on uniform data."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.figures import Case, Parameters
from experiments.response_time import cases


def measure(parameters: Parameters) -> Iterator[Case]:
    """A case for each point of the figure."""
    yield from cases(parameters)
