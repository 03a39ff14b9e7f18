"""The job file of `weft run`: which queries, from which sources, into which sink, as values.

Parsing is strict. A key that is not known is an error, never ignored, and every error names the file, the
table and the key. Paths are relative to the job file unless they carry a scheme such as `s3a:`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.cli.nearest import did_you_mean
from weft.errors import WeftError

MODES = ("stream", "batch")
SINK_MODES = ("append", "overwrite", "error")
CODECS = ("json",)
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml")
"""Formats of files in a folder: they need a path, and Spark reads them with the schema of the stream."""
AVAILABLE_NOW = "available now"

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


class JobError(WeftError):
    """A job file that cannot be run, and where in it."""

    def __init__(self, file: Path, place: str, message: str) -> None:
        self.file = file
        self.place = place
        super().__init__(f"{file}: {place}: {message}" if place else f"{file}: {message}")


@dataclass(frozen=True)
class Source:
    """Where a stream's events come from: what `spark.readStream` or `spark.read` is told."""

    format: str
    path: str | None = None
    decode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Sink:
    """Where answers go. `mode` is for batch jobs; a stream only ever appends."""

    format: str = "console"
    path: str | None = None
    mode: str = "error"
    encode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamSettings:
    """How a streaming job runs: where its progress is kept and when a batch starts."""

    checkpoint: str | None = None
    trigger: str = AVAILABLE_NOW


@dataclass(frozen=True)
class Job:
    """A job file. `sources` has one entry under "" when the file does not say which stream it is for."""

    file: Path
    queries: Path
    name: str
    mode: str
    sources: Mapping[str, Source]
    sink: Sink = Sink()
    stream: StreamSettings = StreamSettings()
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        """Whether it runs as a stream; else as one batch over all there is."""
        return self.mode == "stream"

    def place_of_source(self, stream: str) -> str:
        """How the table of a stream's source is written in the file."""
        return f"[source.{stream}]" if stream in self.sources and stream else "[source]"


def read_job(file: Path) -> Job:
    """The job that a file describes. Only the file itself is looked at, not what it names."""
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise JobError(file, "", "there is no such job file") from None
    except OSError as error:
        raise JobError(file, "", f"the job file cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise JobError(file, "", f"the job file is not UTF-8: byte {error.start} is {error.reason}") from error
    except tomllib.TOMLDecodeError as error:
        raise JobError(file, "", f"the job file is not TOML: {error}") from error
    return _job(_Table(file, "", content))


@dataclass(frozen=True)
class _Table:
    """A table of the file, with the place to name in errors."""

    file: Path
    name: str
    content: Mapping[str, Any]

    def fail(self, key: str, message: str) -> JobError:
        place = f"[{self.name}] {key}".strip() if self.name else key
        return JobError(self.file, place, message)

    def expect_keys(self, known: Iterable[str], hint: str = "") -> None:
        known = list(known)
        for key in self.content:
            if key not in known:
                raise self.fail(key, f"unknown key{did_you_mean(key, known)}{hint}")

    def text(self, key: str) -> str | None:
        """A string that is not empty, or None when the key is absent."""
        value = self.content.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"must be text in quotes and not empty, got {value!r}")
        return value

    def required_text(self, key: str, example: str) -> str:
        value = self.text(key)
        if value is None:
            raise self.fail(key, f"is missing; write for example: {key} = {example}")
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str | None:
        value = self.text(key)
        if value is not None and value not in choices:
            one_of = " or ".join(f'"{choice}"' for choice in choices)
            raise self.fail(key, f'must be {one_of}, got "{value}"{did_you_mean(value, choices)}')
        return value

    def path(self, key: str) -> str | None:
        """A path, made absolute from the folder of the job file unless it carries a scheme."""
        value = self.text(key)
        if value is None or _SCHEME.match(value):
            return value
        return str(self.file.absolute().parent / Path(value).expanduser())

    def table(self, key: str) -> _Table:
        """A table in this one; empty when absent."""
        value = self.content.get(key, {})
        name = f"{self.name}.{key}" if self.name else key
        if not isinstance(value, dict):
            raise self.fail(key, f"must be a table, written as [{name}], got {value!r}")
        return _Table(self.file, name, value)

    def settings(self) -> dict[str, str]:
        """The table as Spark settings: `a.b = 1` without quotes is a table in TOML, and is meant as "a.b"."""
        found: dict[str, str] = {}
        for key, value in self.content.items():
            if isinstance(value, dict):
                inner = _Table(self.file, f"{self.name}.{key}", value).settings()
                found |= {f"{key}.{name}": setting for name, setting in inner.items()}
            elif isinstance(value, bool):
                found[key] = str(value).lower()
            elif isinstance(value, str | int | float):
                found[key] = str(value)
            else:
                raise self.fail(key, f"must be text, a number, true or false, got {value!r}")
        return found


def _job(root: _Table) -> Job:
    root.expect_keys(("queries", "name", "mode", "source", "sink", "stream", "spark"))
    queries = root.required_text("queries", '"queries.sql"')
    return Job(
        file=root.file,
        queries=root.file.parent / Path(queries).expanduser(),
        name=root.text("name") or root.file.stem,
        mode=root.choice("mode", MODES) or "stream",
        sources=_sources(root),
        sink=_sink(root),
        stream=_stream(root),
        spark=_spark(root.table("spark")),
    )


def _sources(root: _Table) -> dict[str, Source]:
    table = root.table("source")
    if not table.content:
        raise root.fail("[source]", "is missing; it says where events come from")
    if _is_one_source(table.content):
        return {"": _source(table, hint="; write one [source], or one [source.<stream>] for each stream")}
    return {stream: _source(table.table(stream)) for stream in table.content}


def _is_one_source(content: Mapping[str, Any]) -> bool:
    """Whether [source] itself describes a source; else each of its keys is a stream's table."""
    if any(not isinstance(value, dict) for value in content.values()):
        return True
    return set(content) == {"options"} and "format" not in content["options"]


def _source(table: _Table, hint: str = "") -> Source:
    table.expect_keys(("format", "path", "decode", "options"), hint)
    source = Source(
        format=table.required_text("format", '"parquet"'),
        path=table.path("path"),
        decode=table.choice("decode", CODECS),
        options=table.table("options").settings(),
    )
    if source.format in FILE_FORMATS and source.path is None:
        raise table.fail("path", f"is missing; format {source.format} reads files")
    return source


def _sink(root: _Table) -> Sink:
    table = root.table("sink")
    table.expect_keys(("format", "path", "mode", "encode", "options"))
    sink = Sink(
        format=table.text("format") or Sink.format,
        path=table.path("path"),
        mode=table.choice("mode", SINK_MODES) or Sink.mode,
        encode=table.choice("encode", CODECS),
        options=table.table("options").settings(),
    )
    if sink.format in FILE_FORMATS and sink.path is None:
        raise table.fail("path", f"is missing; format {sink.format} writes files")
    if root.content.get("mode") != "batch" and table.content.get("mode", "append") != "append":
        raise table.fail("mode", f'"{sink.mode}" is for batch jobs; a stream appends')
    return sink


def _stream(root: _Table) -> StreamSettings:
    table = root.table("stream")
    table.expect_keys(("checkpoint", "trigger"))
    settings = StreamSettings(table.path("checkpoint"), table.text("trigger") or AVAILABLE_NOW)
    if settings.trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(settings.trigger):
        raise table.fail("trigger", f'must be "{AVAILABLE_NOW}" or like "10 seconds", got "{settings.trigger}"')
    if root.content.get("mode") != "batch" and settings.checkpoint is None:
        raise table.fail("checkpoint", 'is missing; a stream keeps its progress there: checkpoint = "out/checkpoint"')
    return settings


def _spark(table: _Table) -> dict[str, str]:
    settings = table.settings()
    for key in settings:
        if key != "master" and not key.startswith("spark."):
            raise table.fail(key, 'unknown key; write master, or a Spark setting such as "spark.executor.memory"')
    return settings
