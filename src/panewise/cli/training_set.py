"""`panewise training-set JOB.toml`: labels and events from files, and a file of labels with answers.

queries = "features.sql"
edge = "before"                 # or "at"; this may be left out
only = ["by_card"]              # the queries to answer; without it, all
memory_limit = 2_000_000_000    # read events in pieces, and hold about so many bytes of them; without it, all

[labels]
path = "labels.parquet"         # a file or a folder: Parquet, CSV or Arrow
time = "decided_at"             # the column with the times; without it, the stream's own name

[events]                        # or one [events.<stream>] for each stream
path = "payments/"

[output]
path = "training.parquet"
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet

from panewise.cli.job_table import Table, read_table
from panewise.cli.workload import read_workload
from panewise.errors import FileAccessError
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.training.training_set import training_set

FORMATS = ("parquet", "csv", "arrow")
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow"}


def format_of(path: Path) -> str:
    """The format that the name of a file tells; a folder has Parquet files."""
    return _SUFFIXES.get(path.suffix, "parquet")


def read_file_table(path: Path, form: str, columns: list[str] | None = None) -> pa.Table:
    """The table in a file or a folder, or those of its columns that are there."""
    try:
        found = pyarrow.dataset.dataset(path, format=form)
        return found.to_table(
            columns=None if columns is None else [name for name in columns if name in found.schema.names]
        )
    except (OSError, pa.ArrowException) as error:
        raise FileAccessError(f"{path} cannot be read as {form}: {error}") from error


def _pieces(path: Path, form: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        found = pyarrow.dataset.dataset(path, format=form)
        yield from found.to_batches(columns=[name for name in columns if name in found.schema.names])
    except (OSError, pa.ArrowException) as error:
        raise FileAccessError(f"{path} cannot be read as {form}: {error}") from error


@dataclass(frozen=True)
class FileTable:
    """A table in a file or a folder."""

    place: Table
    path: Path
    format: str

    @staticmethod
    def of(table: Table, known: tuple[str, ...] = ()) -> FileTable:
        """What a table of the job file names."""
        table.expect_keys(("path", "format", *known))
        table.required_text("path", '"data.parquet"')
        path, form = table.local_path("path"), table.choice("format", FORMATS)
        assert path is not None
        return FileTable(table, path, form or format_of(path))

    def read(self, columns: list[str] | None = None) -> pa.Table:
        """The table, or those of its columns that are there."""
        if not self.path.exists():
            raise self.place.fail("path", f"there is no file or folder {self.path}")
        return read_file_table(self.path, self.format, columns)

    def pieces(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Those of some columns that are there, piece by piece."""
        if not self.path.exists():
            raise self.place.fail("path", f"there is no file or folder {self.path}")
        return _pieces(self.path, self.format, columns)

    def write(self, table: pa.Table) -> None:
        """Write the whole table, or leave no file of this name behind."""
        part = self.path.with_name(f".{self.path.name}.part")
        write: dict[str, Any] = {
            "parquet": pyarrow.parquet.write_table,
            "csv": pyarrow.csv.write_csv,
            "arrow": pyarrow.feather.write_feather,
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write[self.format](table, part)
            part.replace(self.path)
        except (OSError, pa.ArrowException) as error:
            part.unlink(missing_ok=True)
            raise FileAccessError(f"{self.path} cannot be written as {self.format}: {error}") from error


@dataclass(frozen=True)
class TrainingJob:
    """What a job file asks for."""

    queries: Path
    labels: FileTable
    time: str | None
    events: dict[str, FileTable]
    """By stream; with the key "" for a workload with one stream."""
    output: FileTable
    edge: Literal["before", "at"]
    only: tuple[str, ...]
    memory_limit: int | None = None


def read_training_job(file: Path) -> TrainingJob:
    """The job that a file describes. Only the file itself is read."""
    root = read_table(file)
    root.expect_keys(("queries", "edge", "only", "memory_limit", "labels", "events", "output"))
    queries = root.required_text("queries", '"features.sql"')
    for name in ("labels", "events", "output"):
        if name not in root.content:
            raise root.fail(f"[{name}]", f"is missing; it has the path of the {name}")
    labels, events = root.table("labels"), root.table("events")
    is_one = isinstance(events.content.get("path"), str) or not events.content
    return TrainingJob(
        queries=file.parent / Path(queries).expanduser(),
        labels=FileTable.of(labels, ("time",)),
        time=labels.text("time"),
        events={"": FileTable.of(events)}
        if is_one
        else {name: FileTable.of(events.table(name)) for name in events.content},
        output=FileTable.of(root.table("output")),
        edge="at" if root.choice("edge", ("before", "at")) == "at" else "before",
        only=root.names("only"),
        memory_limit=root.whole_number("memory_limit", low=1),
    )


def write_training_set(file: Path, *, as_json: bool = False) -> str:
    """Do what a job file asks for, and say what was done."""
    job = read_training_job(file)
    workload = read_workload(job.queries)
    labels = job.labels.read()
    events = _events(job, workload)
    start = perf_counter()
    result = training_set(
        labels,
        events,
        workload,
        time=job.time,
        edge=job.edge,
        queries=job.only or None,
        memory_limit=job.memory_limit,
    )
    seconds = perf_counter() - start
    job.output.write(result)
    added = result.num_columns - labels.num_columns
    if as_json:
        told = {"labels": labels.num_rows, "columns": added, "seconds": round(seconds, 3)}
        return dumps({**told, "output": str(job.output.path)})
    return f"{job.output.path}: {labels.num_rows:,} labels with {added:,} columns more, computed in {seconds:.1f} s"


def _events(job: TrainingJob, workload: Workload) -> dict[str, Any]:
    """The events of each stream, with its attributes only."""
    if "" in job.events:
        if len(workload.declared) != 1:
            first = next(iter(workload.declared), "stream")
            raise job.events[""].place.fail(
                "path", f"{job.queries} declares {len(workload.declared)} streams; write one [events.{first}] for each"
            )
        return {name: _read(job, job.events[""], stream) for name, stream in workload.declared.items()}
    for name, source in job.events.items():
        if name not in workload.streams:
            raise source.place.fail("", f"{job.queries} declares no stream {name}; {_streams(workload)}")
    return {name: _read(job, source, workload.streams[name]) for name, source in job.events.items()}


def _read(job: TrainingJob, source: FileTable, stream: Stream) -> Any:
    """The events of a stream: a table, or pieces of it that are read when they are needed."""
    names = list(stream.attributes)
    return source.read(names) if job.memory_limit is None else source.pieces(names)


def _streams(workload: Workload) -> str:
    return f"its streams are {', '.join(workload.declared) or 'none'}"
