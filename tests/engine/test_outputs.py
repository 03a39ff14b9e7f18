"""Answers go to files and functions as windows close."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engine.test_closed_tables import FAMILY, engine_of

import panewise

US = 1_000_000


@pytest.mark.parametrize("layout", ["families", "tables", "long"])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_hold_what_advance_returns(tmp_path: Path, layout: str, kind: str) -> None:
    whole = engine_of().advance("s", panewise.END_OF_STREAM)
    expected = {"long": whole.long()} if layout == "long" else dict(getattr(whole, layout))
    with patch("panewise.engine.cuts.CELLS", 4):
        rows = engine_of().write("s", tmp_path / "new", panewise.END_OF_STREAM, layout=layout, format=kind)
    assert rows == {name: table.num_rows for name, table in expected.items()}
    for name, table in expected.items():
        file = tmp_path / "new" / f"{name}.{kind}"
        written = pq.read_table(file) if kind == "parquet" else pa.ipc.open_file(file).read_all()
        if layout == "long":
            by = [(name, "ascending") for name in ("query", "aggregate", "window_end", "k")]
            written, table = written.sort_by(by), table.sort_by(by)
        assert written.equals(table), name


def test_a_function_takes_the_rows_as_they_come() -> None:
    taken: list[tuple[str, pa.Table]] = []
    with patch("panewise.engine.cuts.CELLS", 4):
        rows = engine_of().write("s", lambda *given: taken.append(given), 10 * US)
    assert len(taken) > len(rows)
    mine = pa.concat_tables(table for name, table in taken if name == FAMILY)
    assert mine.equals(engine_of().advance("s", 10 * US).families[FAMILY])
    assert rows[FAMILY] == mine.num_rows


def test_only_changes_are_written(tmp_path: Path) -> None:
    engine_of().write("s", tmp_path, panewise.END_OF_STREAM, changed_only=True)
    expected = engine_of().advance("s", panewise.END_OF_STREAM, changed_only=True).families[FAMILY]
    assert pq.read_table(tmp_path / f"{FAMILY}.parquet").equals(expected)


def test_what_was_written_before_an_error_can_be_read(tmp_path: Path) -> None:
    engine = engine_of()
    file = tmp_path / f"{FAMILY}.parquet"
    real = panewise.Engine._advance

    def failing(self: panewise.Engine, state: object, watermark_us: int, changed_only: bool) -> panewise.Answers:
        if watermark_us > 8 * US:
            raise panewise.PanewiseError("no more")
        return real(self, state, watermark_us, changed_only)

    with (
        patch("panewise.engine.cuts.CELLS", 4),
        patch.object(panewise.Engine, "_advance", failing),
        pytest.raises(panewise.PanewiseError, match="no more"),
    ):
        engine.write("s", tmp_path, panewise.END_OF_STREAM)
    rest = engine.advance("s", panewise.END_OF_STREAM).families[FAMILY]
    joined = pa.concat_tables([pq.read_table(file), rest])
    assert joined.equals(engine_of().advance("s", panewise.END_OF_STREAM).families[FAMILY])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_full_disk_is_named(tmp_path: Path, kind: str) -> None:
    real = Path.exists
    (tmp_path / f"{FAMILY}.{kind}").symlink_to("/dev/full")
    with (
        patch("panewise.engine.cuts.CELLS", 4),
        patch.object(Path, "exists", lambda self: self.name != f"{FAMILY}.{kind}" and real(self)),
        pytest.raises(panewise.FileAccessError, match=r"cannot write answers to the folder .*No space left"),
    ):
        engine_of().write("s", tmp_path, panewise.END_OF_STREAM, format=kind)


@pytest.mark.parametrize(
    ("to", "options", "error"),
    [
        ("there", {}, "already there; name another folder"),
        ("new", {"layout": "wide"}, "no layout 'wide'; it is one of families, tables, long"),
        ("new", {"format": "csv"}, "no format 'csv'; it is one of parquet, arrow"),
        ("file/below", {}, "cannot write answers to the folder"),
        ("zero\0", {}, "cannot write answers to the folder"),
        (None, {}, "`to` is a folder or a function, not NoneType"),
    ],
)
def test_a_wrong_output_is_refused_before_windows_close(tmp_path: Path, to, options, error: str) -> None:
    engine_of().write("s", tmp_path / "there", 10 * US)
    (tmp_path / "file").write_text("a file")
    engine = engine_of()
    with pytest.raises(panewise.PanewiseError, match=error):
        engine.write("s", to if to is None else f"{tmp_path}/{to}", 10 * US, **options)
    assert engine.advance("s", 10 * US).num_rows > 0
