"""What Panewise keeps in the user's cache lies where nobody else may write, and is used by the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from panewise.cache import VARIABLE, cache_folder
from panewise.errors import CacheWarning

READ = """
import lark.parsers.lalr_analysis as analysis
made = []
compute = analysis.LALR_Analyzer.compute_lalr
analysis.LALR_Analyzer.compute_lalr = lambda self: (made.append(self), compute(self))[1]
import panewise
assert list(panewise.read("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY t;").streams) == ["s"]
try:
    panewise.read("CREATE STREAM s (t TIMESTAMP, x BIGINT) TIMESTAMP BY;")
except panewise.StatementError as error:
    print(len(made), error.line, error.column)
"""


def read(folder: Path) -> list[int]:
    """How many tables a new process makes to read a text, and where it finds an error."""
    ran = subprocess.run(
        [sys.executable, "-c", READ],
        env={**os.environ, VARIABLE: str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(number) for number in ran.stdout.split()]


def test_the_next_process_finds_the_tables_of_the_parser(tmp_path: Path) -> None:
    made, *place = read(tmp_path / "own")
    assert made > 0
    assert read(tmp_path / "own") == [0, *place]
    (kept,) = (tmp_path / "own").glob("grammar-*")
    kept.write_bytes(kept.read_bytes()[:1000])
    assert read(tmp_path / "own") == [made, *place], "half a file is made again"
    assert read(tmp_path / "own") == [0, *place]
    claim = kept.with_name(f"{kept.name}.claim")
    claim.touch()
    assert read(tmp_path / "own") == [made, *place], "another process is writing the file"
    os.utime(claim, (0, 0))
    assert read(tmp_path / "own") == [0, *place], "the other process died long ago"
    assert not claim.exists()


def test_a_folder_in_which_others_may_write_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "open"))
    with pytest.warns(CacheWarning, match=r"others may write in .*open.*chmod go-w.*PANEWISE_CACHE"):
        assert cache_folder() is None
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "below"))
    assert cache_folder() is None
