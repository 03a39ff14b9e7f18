"""Settings for all tests: of hypothesis, of Java, and which files begin first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from tests.thoroughness import examples

settings.register_profile(
    "panewise", max_examples=examples(100), deadline=None, derandomize=os.environ.get("CI") == "true"
)
settings.load_profile("panewise")

# Jobs here are short: compiling Java well would take longer than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

LONGEST = ("cli", "kafka", "spark", "cluster", "connect", "test_docs.py", "benchmarks", "experiments")
"""The tests that start Spark: while one process waits for Spark, another can work, unless these come last."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    here = Path(__file__).parent

    def turn(item: pytest.Item) -> int:
        place = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        return LONGEST.index(place) if place in LONGEST else len(LONGEST)

    items.sort(key=turn)
