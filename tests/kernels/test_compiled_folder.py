"""Compiled kernels are shared by equal sources, never stale, and kept where nobody else may write."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import panewise
from panewise.cache import VARIABLE
from panewise.kernels import compiled_folder

PACKAGE = Path(panewise.__file__).parent

COUNT_COMPILED = """
import numpy as np
from numba.core import event
from panewise.kernels.pairs import add_pairs
from panewise.kernels.multisets import count_distinct

with event.install_recorder("numba:compile") as compiled:
    found = count_distinct(np.array([2.0, 1.0, 2.0]), np.array([0, 3]), np.array([0]), np.array([1]))
assert found.tolist() == [2]
print(len(compiled.buffer))
"""


def compiled_by(checkout: Path, folder: Path) -> int:
    """How much a new process compiles that uses the package of a checkout."""
    ran = subprocess.run(
        [sys.executable, "-c", COUNT_COMPILED],
        env={**os.environ, "PYTHONPATH": str(checkout), VARIABLE: str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(ran.stdout)


def test_equal_sources_share_compiled_kernels_and_a_change_below_compiles_again(tmp_path: Path) -> None:
    for checkout in ("one", "other"):
        shutil.copytree(PACKAGE, tmp_path / checkout / "panewise", ignore=shutil.ignore_patterns("__pycache__"))
    folder = tmp_path / "compiled"
    assert compiled_by(tmp_path / "one", folder) > 0
    assert compiled_by(tmp_path / "other", folder) == 0
    sorting = tmp_path / "other" / "panewise" / "kernels" / "sorting.py"
    sorting.write_text(sorting.read_text(encoding="utf-8") + "\n# changed\n", encoding="utf-8")
    assert compiled_by(tmp_path / "other", folder) > 0
    assert compiled_by(tmp_path / "one", folder) == 0


def test_every_import_between_kernels_counts() -> None:
    """The digest finds imports by their text; no kernel may import another in a way that it does not see."""
    for file in compiled_folder._SOURCES.glob("*.py"):
        if file.stem == "__init__":
            continue
        text = file.read_text(encoding="utf-8")
        imported = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
            elif isinstance(node, ast.Import):
                imported.update(name.name for name in node.names)
        of_kernels = {name for name in imported if name.startswith("panewise.kernels")}
        assert of_kernels == {f"panewise.kernels.{name}" for name in compiled_folder._IMPORT.findall(text)}, file.name


def test_what_older_sources_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    root = tmp_path / "kernels"
    for name in ("sorting-old", "sorting-new", "pairs-old"):
        (root / name).mkdir(parents=True)
    long_ago = time.time() - compiled_folder._UNUSED_S - 1
    for name in ("sorting-old", "pairs-old"):
        os.utime(root / name, (long_ago, long_ago))
    assert compiled_folder._can_be_used(root / "sorting-3")
    assert sorted(folder.name for folder in root.iterdir()) == ["pairs-old", "sorting-3", "sorting-new"]
