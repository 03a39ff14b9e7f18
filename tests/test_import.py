"""`import weft` is quick and starts nothing."""

from __future__ import annotations

import subprocess
import sys


def test_import_starts_neither_spark_nor_numba_nor_arrow() -> None:
    program = (
        "import sys, weft; print([name for name in ('pyspark', 'numba', 'pyarrow', 'numpy') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_every_public_name_can_be_had() -> None:
    import weft

    assert all(getattr(weft, name) is not None for name in weft.__all__)
    assert set(weft.__all__) <= set(dir(weft))
