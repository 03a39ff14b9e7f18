"""The log of lookups: what was asked, what was answered, and what was known then; one JSON line for each lookup.

    {"event": "open", "format": 1, "writer": "5f...", "number": 0, "statements": "CREATE STREAM ..."}
    {"event": "lookup", "writer": "5f...", "number": 1, "query": "by_card", ...}

A writer appends, and never changes what is there. It writes its statements when it opens the file and whenever they
change. A line goes to the operating system in one piece before the lookup returns, so a killed process loses no line
of a lookup that returned. The disk has it within `SYNC_EVERY_S` while lookups go on. A line that a full disk or a lost
machine cut off is no JSON; and the lines of a writer are numbered. So a reader knows of every line that is broken or
missing.

Cost: encoding a line, and one write.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from json import JSONDecodeError, dumps, loads
from pathlib import Path
from time import monotonic
from time import time as now_s
from typing import Any
from uuid import uuid4

import pyarrow as pa

from panewise.errors import LookupLogError
from panewise.language.reader import read
from panewise.language.workload import Workload, print_workload

FORMAT = 1
SYNC_EVERY_S = 1.0
"""How old the oldest line may be that is not yet on the disk when the next one is written."""

Columns = dict[str, list[Any]]


@dataclass(frozen=True)
class LoggedLookup:
    """One lookup of a log."""

    query: str
    asked: Columns | None
    """The keys that were asked for, by attribute; None for all groups."""
    answer: Columns
    """The columns of the answer. If it has those of GROUP BY, a row for each group with an answer; else one a key."""
    at_us: int | None
    """The time that was asked for, if any."""
    time_us: int | None
    """The time of the answer: the window is that of a lookup at this very time. None if there was no window yet."""
    watermark_us: int | None
    batches: tuple[int, int]
    """All batches up to the first one had been read, and none behind the last."""
    logged_us: int
    """When it was logged, by the clock."""
    ties: list[str] | None = None
    """For a query over rows, the attributes by whose values rows of equal time were ordered."""


@dataclass
class LogLine:
    """One line: a lookup, with the statements that held for it."""

    number: int
    """From 1, as editors count."""
    lookup: LoggedLookup
    statements: str


@dataclass
class LogReport:
    """What is wrong with a log."""

    broken: list[int] = field(default_factory=list)
    """The numbers of lines that are not whole."""
    missing: int = 0
    """How many lines are not there, or are among the broken ones."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.broken and not self.missing


class LookupLog:
    """Appends lookups to a file, which is made if it is missing."""

    def __init__(self, path: str | os.PathLike[str], workload: Workload) -> None:
        self._path = Path(path)
        self._writer, self._number = uuid4().hex[:12], 0
        self._lead = b""
        self._synced_s = monotonic()
        self._workload: Workload | None = None
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o600)
        except OSError as error:
            raise LookupLogError(f"cannot write the log {self._path}: {error.strerror}; name another file") from error
        try:
            size = os.fstat(self._file).st_size
            # Somebody was cut off in the middle of a line. It stays as it is, and ours begin behind it.
            self._lead = b"\n" if size and os.pread(self._file, 1, size - 1) != b"\n" else b""
            self.follow(workload)
        except BaseException:
            os.close(self._file)
            raise

    def follow(self, workload: Workload) -> None:
        """Write the statements down if they are others than before."""
        if workload is not self._workload:
            self._put({"event": "open", "format": FORMAT, **self._place(), "statements": print_workload(workload)})
            self._workload = workload

    def put(self, lookup: LoggedLookup) -> None:
        """Append a lookup; raises `LookupLogError` if the whole line cannot be written."""
        self._put(
            {
                "event": "lookup",
                **self._place(),
                "query": lookup.query,
                "asked": lookup.asked,
                "at_us": lookup.at_us,
                "time_us": lookup.time_us,
                "watermark_us": lookup.watermark_us,
                "batches": lookup.batches,
                "logged_us": lookup.logged_us,
                "ties": lookup.ties,
                "answer": lookup.answer,
            }
        )

    def close(self) -> None:
        """Bring everything to the disk, and close the file."""
        if self._file >= 0:
            try:
                os.fsync(self._file)
            finally:
                os.close(self._file)
                self._file = -1

    def _place(self) -> dict[str, object]:
        return {"writer": self._writer, "number": self._number}

    def _put(self, line: dict[str, Any]) -> None:
        if self._file < 0:
            raise LookupLogError(f"the log {self._path} is closed; open a new client")
        rest = self._lead + _encoded(line) + b"\n"
        try:
            while rest:
                written = os.write(self._file, rest)
                # What was begun and not ended must not swallow the next line.
                self._lead = b"\n"
                rest = rest[written:]
            self._lead = b""
            self._number += 1
            if monotonic() - self._synced_s >= SYNC_EVERY_S:
                os.fsync(self._file)
                self._synced_s = monotonic()
        except OSError as error:
            raise LookupLogError(
                f"the lookup was answered, but the log {self._path} cannot be written: {error.strerror}; make room, or "
                f"look up without a log"
            ) from error


def logged_us() -> int:
    """The time by the clock."""
    return int(now_s() * 1e6)


def plain_columns(table: pa.Table, leave_out: Sequence[str] = ()) -> Columns:
    """A table's columns as JSON has them; times are integers of microseconds."""
    return {
        name: plain_column(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
        if name not in leave_out
    }


def plain_column(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """One column as JSON has it."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_list(kind) and pa.types.is_timestamp(kind.value_type):
        column = column.cast(pa.list_(pa.int64()))
    found: list[Any] = column.to_pylist()
    return found


def read_log(path: str | os.PathLike[str], report: LogReport) -> Iterator[LogLine]:
    """The lookups of a log, in their order; `report` says afterwards what is wrong with it."""
    statements: dict[str, str] = {}
    numbers: dict[str, set[int]] = {}
    try:
        with Path(path).open("rb") as file:
            for place, line in enumerate(file, 1):
                if line == b"\n":
                    continue
                content = _decoded(line)
                if content is None:
                    report.broken.append(place)
                    continue
                try:
                    numbers.setdefault(content["writer"], set()).add(content["number"])
                    if content["event"] == "open":
                        statements[content["writer"]] = content["statements"]
                        continue
                    yield LogLine(place, _lookup(content), statements.get(content["writer"], ""))
                except (KeyError, TypeError, ValueError) as error:
                    raise LookupLogError(
                        f"{path}, line {place}: this is no line of a log of lookups ({error})"
                    ) from None
    except OSError as error:
        raise LookupLogError(f"cannot read {path}: {error.strerror}") from error
    report.missing = sum(max(some) + 1 - len(some) for some in numbers.values())


def read_statements(text: str, path: str | os.PathLike[str]) -> Workload:
    """The workload of a log's statements."""
    if not text:
        raise LookupLogError(f"{path}: the line with the statements is missing; name them with --queries FILE.sql")
    return read(text)


def _lookup(content: Mapping[str, Any]) -> LoggedLookup:
    least, newest = content["batches"]
    names = ("query", "asked", "answer", "at_us", "time_us", "watermark_us", "logged_us", "ties")
    return LoggedLookup(**{name: content[name] for name in names}, batches=(int(least), int(newest)))


def _encoded(line: dict[str, Any]) -> bytes:
    try:
        return dumps(line, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return dumps(_finite(line), allow_nan=False, separators=(",", ":")).encode()


def _finite(value: Any) -> Any:
    """JSON has no infinities and no NaN: they are texts, and the type of their column says what they mean."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return value


def _decoded(line: bytes) -> dict[str, Any] | None:
    """The content of a line; None if it is not whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        content = loads(line)
    except (JSONDecodeError, UnicodeDecodeError):
        return None
    return content if isinstance(content, dict) and content.get("event") in ("open", "lookup") else None
