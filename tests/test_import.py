"""`import panewise` is quick and starts nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_import_starts_neither_spark_nor_numba_nor_arrow() -> None:
    program = (
        "import sys, panewise; heavy = ('pyspark', 'numba', 'pyarrow', 'numpy'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    import panewise

    assert all(getattr(panewise, name) is not None for name in panewise.__all__)
    assert set(panewise.__all__) <= set(dir(panewise))


SLIDING = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
CREATE QUERY q AS SELECT k, SUM(x) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] GROUP BY k;
"""
ON_DEMAND = "CREATE QUERY r AS SELECT MAX(x) FROM s [RANGE 1 HOUR];"
WITHIN = "CREATE QUERY r AS SELECT MAX(x) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE] WITHIN 0.1;"


@pytest.mark.parametrize(("queries", "loads"), [("", False), (ON_DEMAND, True), (WITHIN, True)])
def test_structures_are_loaded_only_for_the_queries_that_need_them(queries: str, loads: bool) -> None:
    """Spark's workers plan sliding queries, and do not need the compiled code of structures and filters."""
    program = (
        f"import sys, panewise; panewise.optimize(panewise.read({SLIDING + queries!r})); "
        "parts = ('panewise.structures', 'panewise.indexes', 'panewise.substreams', "
        "'panewise.planning.structure_choice', 'panewise.planning.having'); "
        "print(any(name in sys.modules for name in parts))"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == str(loads)
