"""Outputs: answers that leave as windows close, to Parquet or Arrow files, or to a function."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self, get_args

import pyarrow as pa

from panewise.engine.closed_tables import Answers
from panewise.errors import ArgumentError, FileAccessError

Layout = Literal["families", "tables", "long"]
Format = Literal["parquet", "arrow"]
Taker = Callable[[str, pa.Table], object]
"""Takes the name of a table and the next rows of it."""


def output_of(to: str | PathLike[str] | Taker, layout: str, kind: str, empty: Answers) -> Output:
    """What takes the answers; `empty` has the schemas of its tables."""
    _check("layout", layout, get_args(Layout))
    _check("format", kind, get_args(Format))
    if callable(to):
        return Output(to, layout, empty)
    if not isinstance(to, str | PathLike):
        raise ArgumentError(f"`to` is a folder or a function, not {type(to).__name__}")
    return FileOutput(Path(to), layout, kind, empty)


def _check(what: str, given: object, known: tuple[str, ...]) -> None:
    if given not in known:
        raise ArgumentError(f"there is no {what} {given!r}; it is one of {', '.join(known)}")


class Output:
    """Hands tables to a function, and counts their rows."""

    def __init__(self, take: Taker, layout: str, empty: Answers) -> None:
        self._take, self._layout = take, layout
        self.rows: dict[str, int] = dict.fromkeys(self._names(empty), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def take(self, answers: Answers) -> None:
        """Hand over the next answers; tables without rows are left out."""
        for name, table in self._tables(answers):
            if table.num_rows:
                self._take(name, table)
                self.rows[name] += table.num_rows

    def _names(self, answers: Answers) -> list[str]:
        return ["long"] if self._layout == "long" else list(self._mapping(answers))

    def _tables(self, answers: Answers) -> Iterator[tuple[str, pa.Table]]:
        if self._layout == "long":
            yield "long", answers.long()
        else:
            yield from self._mapping(answers).items()

    def _mapping(self, answers: Answers) -> Mapping[str, pa.Table]:
        return answers.families if self._layout == "families" else answers.tables


class FileOutput(Output):
    """Writes each table to a file of its name. What was written when an error stops it can be read.

    A thread writes one table while the next is computed, so two are in memory at a time.
    """

    def __init__(self, folder: Path, layout: str, kind: str, empty: Answers) -> None:
        super().__init__(self._write, layout, empty)
        self._folder = folder
        self._files = {name: folder / f"{name}.{kind}" for name in self.rows}
        self._open = ExitStack()
        self._thread = self._open.enter_context(ThreadPoolExecutor(1, "panewise-output"))
        self._written: Future[None] | None = None
        """The table that the thread has, or had last."""
        with self._failures(), ExitStack() as undone:
            undone.push(self._open)
            for file in self._files.values():
                if file.exists():
                    raise FileAccessError(f"the file {file} is already there; name another folder, or remove it")
            folder.mkdir(parents=True, exist_ok=True)
            self._writers = {
                name: self._open.enter_context(_writer(self._files[name], kind, table.schema))
                for name, table in self._tables(empty)
            }
            undone.pop_all()

    def __exit__(self, *_: object) -> None:
        with self._failures(), self._open:
            self._wait()

    def _write(self, name: str, table: pa.Table) -> None:
        with self._failures():
            self._wait()
        self._written = self._thread.submit(self._writers[name].write_table, table)

    def _wait(self) -> None:
        """Wait until the thread has written what it has, and raise its error."""
        if self._written is not None:
            self._written.result()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Name the folder in errors of the file system."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise FileAccessError(f"cannot write answers to the folder {self._folder}: {error}") from None


def _writer(file: Path, kind: str, schema: pa.Schema) -> Any:
    if kind == "arrow":
        return pa.ipc.new_file(str(file), schema)
    # Only a file of this kind needs Parquet, which takes a while to load.
    from pyarrow.parquet import ParquetWriter

    return ParquetWriter(file, schema)
