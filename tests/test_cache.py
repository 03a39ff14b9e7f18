"""What Panewise keeps in the user's cache lies where nobody else may write, and is used by the next process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lark import Lark
from lark.parsers.lalr_analysis import LALR_Analyzer

from panewise.cache import VARIABLE, cache_folder
from panewise.errors import CacheWarning
from panewise.language.parser import lark_of

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
    from panewise.language.layout import laid_out
    laid_out("DROP QUERY a;")
    print(len(made), error.line, error.column)
"""


def read(folder: Path) -> list[int]:
    """How many tables a new process makes to read a text and lay it out, and where it finds an error."""
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


def test_tables_are_made_again_where_the_file_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "own"))
    Lark('start: "a"', parser="lalr")  # it first makes tables for the language of grammars
    made: list[object] = []
    compute = LALR_Analyzer.compute_lalr
    monkeypatch.setattr(LALR_Analyzer, "compute_lalr", lambda self: (made.append(self), compute(self))[1])

    def tables_made() -> int:
        before = len(made)
        assert lark_of('start: "a"+').parse("aa").data == "start"
        return len(made) - before

    assert (tables_made(), tables_made()) == (1, 0)
    (kept,) = (tmp_path / "own").glob("grammar-*")
    kept.write_bytes(kept.read_bytes()[:100])
    assert (tables_made(), tables_made()) == (1, 0), "half a file is made again"
    claim = kept.with_name(f"{kept.name}.claim")
    claim.touch()
    assert (tables_made(), tables_made()) == (1, 1), "another process is writing the file"
    os.utime(claim, (0, 0))
    assert tables_made() == 0, "the other process died long ago"
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
