"""The job file of `panewise run`: which queries, from which sources, into which sink, as values.

Parsing is strict. An unknown key is an error and never ignored, and every error names the file, the table and the key.
Paths are relative to the job file unless they carry a scheme such as `s3a:`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from panewise.cli.job_table import JobError as JobError
from panewise.cli.job_table import Table, read_table
from panewise.language.model import UNBOUNDED_US
from panewise.planning.sharing.names import METHODS
from panewise.spark.quotas import Quotas

if TYPE_CHECKING:
    from panewise.spark.layouts import By

MODES = ("stream", "batch")
LAYOUTS = ("long", "wide")
WIDE_BY = ("family", "query")
SINK_MODES = ("append", "overwrite", "error")
CODECS = ("json",)
TIME_UNITS = {"seconds": 1_000_000, "milliseconds": 1_000, "microseconds": 1}
"""Units of the numbers that give a time in a message, in microseconds."""
ANSWER_KEY, GROUP_KEY = "answer", "group"
"""Keys of messages by name: one for each answer, or one for each group in any window."""
KAFKA = "kafka"
DELTA = "delta"
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text", "avro", "xml")
"""Formats of files in a folder: they need a path, and Spark reads them with the schema of the stream."""
_TABLES = (
    *("queries", "name", "mode", "layout", "by", "source", "sink", "stream", "control", "lookups", "set_aside"),
    *("planning", "metrics", "log", "spark", "most_rows"),
)
_SINK_KEYS = ("format", "path", "mode", "encode", "key", "headers", "options")
LOG_LEVELS = ("off", "error", "warn", "info", "debug")
LOG_SUFFIX = ".spark.log"
AVAILABLE_NOW = "available now"
STOP_WITHIN_S = 60.0
"""Long enough for a batch of a job that keeps up, and short enough to be waited for."""

_INTERVAL = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")


@dataclass(frozen=True)
class EventSource:
    """Where a stream's events come from: the settings for `spark.readStream` or `spark.read`.

    If messages are decoded, `attributes` are those from outside the message's text: from a column of the source or from
    a header, by its name there. `times` is the unit of the numbers that give a time in a message.
    """

    format: str
    path: str | None = None
    decode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    times: str = "seconds"


@dataclass(frozen=True)
class Sink:
    """Where answers go. `mode` is for batch jobs; a stream only ever appends.

    `key` and `headers` are for messages: columns of the answers, or the name of a key.
    """

    format: str = "console"
    path: str | None = None
    mode: str = "error"
    encode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    key: str | tuple[str, ...] | None = None
    headers: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetAside:
    """Where events go that are set aside, and where a stream keeps the progress of writing them."""

    sink: Sink
    checkpoint: str | None = None


@dataclass(frozen=True)
class StreamSettings:
    """How a streaming job runs: where its progress is kept, when a batch starts, and what overrides the statements.

    None leaves a setting to Panewise. `watermarks_us` has one entry under "" if the file gives one delay for all
    streams.
    """

    checkpoint: str | None = None
    trigger: str = AVAILABLE_NOW
    buckets: int | None = None
    watermarks_us: Mapping[str, int] = field(default_factory=dict)
    changed_only: bool | None = None
    future_bound_us: int | None = None
    """Instead of the FUTURE BOUND of every stream."""
    stop_within_s: float = STOP_WITHIN_S
    """How long a stream that is asked to stop may take to end the running batch."""


@dataclass(frozen=True)
class MetricsSettings:
    """Where the metrics of each batch go: to a file, to an endpoint for Prometheus, to both or to none."""

    file: Path | None = None
    port: int | None = None
    address: str = "127.0.0.1"


@dataclass(frozen=True)
class LogSettings:
    """Where Spark's log of the driver goes, from which level on; without a file and a console, to a default file."""

    file: Path | None = None
    level: str = "warn"
    console: bool = False
    """Whether it goes to standard error."""


@dataclass(frozen=True)
class PlanningSettings:
    """How queries are planned: the arguments of `answers` with these names, None where the file says nothing."""

    rate: float | None = None
    groups: Mapping[str, int] | None = None
    method: str | None = None
    tolerance: float | None = None


@dataclass(frozen=True)
class JobFile:
    """A job file. `sources` has one entry under "" if the file does not name its stream."""

    file: Path
    queries: Path
    name: str
    mode: str
    sources: Mapping[str, EventSource]
    sink: Sink | None = Sink()
    """The sink of the answers; of wide tables, that of each table without one of its own. None if only single tables
    have sinks."""
    wide_by: By | None = None
    """What has a wide table of its own; None for one long table."""
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    """The sinks of single wide tables, and of row queries."""
    most_rows: int | None = None
    """The most rows that a window of an ORDER BY without LIMIT may have."""
    stream: StreamSettings = StreamSettings()
    control: EventSource | None = None
    """The source of statements that change the queries while the stream runs."""
    quotas: Quotas = field(default_factory=Quotas)
    """How much these statements may ask for."""
    lookups: str | None = None
    """The folder that the workers share with lookups; statements that came are kept there too."""
    set_aside: SetAside | None = None
    """Where events go that are set aside; None if they are only counted."""
    planning: PlanningSettings = PlanningSettings()
    metrics: MetricsSettings = MetricsSettings()
    log: LogSettings = LogSettings()
    spark: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        """Whether it runs as a stream; otherwise it runs as one batch over all events."""
        return self.mode == "stream"

    @property
    def log_file(self) -> Path | None:
        """The file of Spark's log: the named one, or one beside the checkpoint, or else beside the job file.

        None if the log is off, or goes to the console alone.
        """
        if self.log.level == "off" or (self.log.console and self.log.file is None):
            return None
        if self.log.file is not None:
            return self.log.file
        checkpoint = local_path(self.stream.checkpoint) if self.is_stream else None
        beside = self.file.absolute().with_suffix("") if checkpoint is None else Path(checkpoint)
        return beside.with_name(f"{beside.name}{LOG_SUFFIX}")

    @property
    def every_sink(self) -> list[Sink]:
        """All sinks of the answers."""
        return [*([] if self.sink is None else [self.sink]), *self.sinks.values()]

    def place_of_source(self, stream: str) -> str:
        """How the table of a stream's source is written in the file."""
        return f"[source.{stream}]" if stream in self.sources and stream else "[source]"


def local_path(path: str | None) -> str | None:
    """The path on this machine, or None if only Spark can look."""
    if path is None or path.startswith("/"):
        return path
    parts = urlsplit(path)
    return unquote(parts.path) if parts.scheme == "file" else None


def read_job(file: Path) -> JobFile:
    """The job that a file describes. Only the file itself is read, not the files that it names."""
    return _job(read_table(file))


def _job(root: Table) -> JobFile:
    root.expect_keys(_TABLES)
    queries = root.required_text("queries", '"queries.sql"')
    return JobFile(
        file=root.file,
        queries=root.file.parent / Path(queries).expanduser(),
        name=root.text("name") or root.file.stem,
        mode=root.choice("mode", MODES) or "stream",
        sources=_sources(root),
        sink=_sink(root),
        wide_by=_wide_by(root),
        sinks=_sinks_of_tables(root),
        most_rows=root.whole_number("most_rows", low=1),
        stream=_stream(root),
        control=_control(root),
        quotas=_quotas(root),
        lookups=_lookups(root),
        set_aside=_set_aside(root),
        planning=_planning(root.table("planning")),
        metrics=_metrics(root.table("metrics")),
        log=_log(root.table("log")),
        spark=_spark(root.table("spark")),
    )


def _sources(root: Table) -> dict[str, EventSource]:
    table = root.table("source")
    if not table.content:
        raise root.fail("[source]", "is missing; it says where events come from")
    if _is_one_source(table.content):
        return {"": _source(table, hint="; write one [source], or one [source.<stream>] for each stream")}
    return {stream: _source(table.table(stream)) for stream in table.content}


def _is_one_source(content: Mapping[str, Any]) -> bool:
    """Whether [source] itself describes a source; otherwise each of its keys is a stream's table."""
    if any(not isinstance(value, dict) for value in content.values()):
        return True
    return set(content) <= {"options", "attributes"} and not any("format" in table for table in content.values())


def _source(table: Table, hint: str = "") -> EventSource:
    table.expect_keys(("format", "path", "decode", "times", "attributes", "options"), hint)
    attributes = table.table("attributes")
    source = EventSource(
        format=table.required_text("format", '"parquet"'),
        path=table.path("path"),
        decode=table.choice("decode", CODECS),
        options=table.table("options").settings(),
        attributes={name: attributes.required_text(name, '"timestamp"') for name in attributes.content},
        times=table.choice("times", tuple(TIME_UNITS)) or EventSource.times,
    )
    if source.format in FILE_FORMATS and source.path is None:
        raise table.fail("path", f"is missing; format {source.format} reads files")
    for name in ("times", "attributes"):
        if source.decode is None and name in table.content:
            raise table.fail(name, 'is for messages that are decoded; write decode = "json" as well')
    return source


def _wide_by(root: Table) -> By | None:
    if root.choice("layout", LAYOUTS) != "wide":
        if "by" in root.content:
            raise root.fail("by", 'is for wide tables; write layout = "wide" as well')
        return None
    by = root.choice("by", WIDE_BY) or "family"
    if "control" in root.content and by == "family":
        raise root.fail(
            "by",
            'queries that come and go are not joined into families; write by = "query" (answers of queries that come '
            'later go to the table "long"), or leave [control] out',
        )
    return "query" if by == "query" else "family"


def _sink(root: Table) -> Sink | None:
    table = root.table("sink")
    table = _for_all_tables(table)
    if not table.content and root.table("sink").content:
        return None
    table.expect_keys(_SINK_KEYS)
    if _wide_by(root) is None:
        return _sink_of(root, table)
    return _sink_of_tables(root, table, needs_path=False)


def _sinks_of_tables(root: Table) -> dict[str, Sink]:
    """The sinks of single tables. A key that one leaves out is that of [sink], with the table's name after the path.

    Beside one long table, they are of row queries, and take nothing from [sink].
    """
    table = root.table("sink")
    single = [name for name in table.content if name not in _for_all_tables(table).content]
    common = Table(root.file, "sink", {}) if _wide_by(root) is None else _for_all_tables(table)
    sinks = {}
    for name in single:
        mine = table.table(name)
        mine.expect_keys(_SINK_KEYS)
        options = {**common.table("options").content, **mine.table("options").content}
        content = {**common.content, **mine.content, **({"options": options} if options else {})}
        if "path" not in mine.content and (path := common.path("path")) is not None:
            content["path"] = path_of_table(path, name)
        sinks[name] = _sink_of_tables(root, Table(root.file, f"sink.{name}", content))
    return sinks


def _sink_of_tables(root: Table, table: Table, *, needs_path: bool = True) -> Sink:
    if isinstance(table.content.get("key"), str):
        raise table.fail("key", 'names a key of the long table; give a list of columns, like ["window_end", "user"]')
    return _sink_of(root, table, needs_path=needs_path)


def _for_all_tables(table: Table) -> Table:
    """[sink] without the sinks of single tables."""
    content = {key: value for key, value in table.content.items() if not isinstance(value, dict) or key == "options"}
    return Table(table.file, table.name, content)


def path_of_table(path: str, table: str) -> str:
    """The folder of a wide table whose sink does not name one."""
    return f"{path.rstrip('/')}/{table}"


def _set_aside(root: Table) -> SetAside | None:
    """The sink of events that are set aside; each source is read twice for it."""
    if "set_aside" not in root.content:
        return None
    table = root.table("set_aside")
    table.expect_keys((*_SINK_KEYS, "checkpoint"))
    table.required_text("format", '"parquet"')
    if "key" in table.content and isinstance(table.content["key"], str):
        raise table.fail("key", 'names a key of answers; give a list of columns, like ["stream", "reason"]')
    checkpoint = table.path("checkpoint")
    if not _is_stream(root) and checkpoint is not None:
        raise table.fail("checkpoint", "is for streams; leave it out")
    if _is_stream(root) and checkpoint is None:
        beside = root.table("stream").path("checkpoint")
        checkpoint = None if beside is None else f"{beside.rstrip('/')}-set-aside"
    return SetAside(_sink_of(root, table), checkpoint)


def _sink_of(root: Table, table: Table, *, needs_path: bool = True) -> Sink:
    sink = Sink(
        format=table.text("format") or Sink.format,
        path=table.path("path"),
        mode=table.choice("mode", SINK_MODES) or Sink.mode,
        encode=table.choice("encode", CODECS),
        options=table.table("options").settings(),
        key=_key(table),
        headers=table.names("headers"),
    )
    if needs_path and sink.format in FILE_FORMATS and sink.path is None:
        raise table.fail("path", f"is missing; format {sink.format} writes files")
    if sink.encode is None and sink.format == KAFKA:
        raise table.fail("encode", 'is missing; a message is text: encode = "json"')
    for name in ("key", "headers"):
        if sink.encode is None and name in table.content:
            raise table.fail(name, 'is for messages; write encode = "json" as well')
    if root.content.get("mode") != "batch" and table.content.get("mode", "append") != "append":
        raise table.fail("mode", f'"{sink.mode}" is for batch jobs; a stream appends')
    return sink


def _key(table: Table) -> str | tuple[str, ...] | None:
    """The key of messages: by name, or a list of columns."""
    if isinstance(table.content.get("key"), str):
        return table.choice("key", (ANSWER_KEY, GROUP_KEY))
    return table.names("key") or None


def _stream(root: Table) -> StreamSettings:
    table = root.table("stream")
    table.expect_keys(("checkpoint", "trigger", "buckets", "watermark", "future_bound", "changed_only", "stop_within"))
    stop_within_us = table.duration_us("stop_within")
    settings = StreamSettings(
        checkpoint=table.path("checkpoint"),
        trigger=table.text("trigger") or AVAILABLE_NOW,
        buckets=table.whole_number("buckets", low=1),
        watermarks_us=_watermarks_us(table),
        changed_only=table.flag("changed_only"),
        future_bound_us=_future_bound_us(table),
        stop_within_s=STOP_WITHIN_S if stop_within_us is None else stop_within_us / 1e6,
    )
    if settings.trigger != AVAILABLE_NOW and not _INTERVAL.fullmatch(settings.trigger):
        raise table.fail("trigger", f'must be "{AVAILABLE_NOW}" or like "10 seconds", got "{settings.trigger}"')
    if _is_stream(root) and settings.checkpoint is None:
        raise table.fail("checkpoint", 'is missing; a stream keeps its progress there: checkpoint = "out/checkpoint"')
    return settings


def _future_bound_us(table: Table) -> int | None:
    if table.content.get("future_bound") == "none":
        return UNBOUNDED_US
    return table.duration_us("future_bound", or_word="none")


def _watermarks_us(table: Table) -> dict[str, int]:
    """The delay for all streams, or a table with a delay for each."""
    if isinstance(table.content.get("watermark"), dict):
        of_streams = table.table("watermark")
        given = {stream: of_streams.duration_us(stream) for stream in of_streams.content}
    else:
        given = {"": table.duration_us("watermark")}
    return {stream: us for stream, us in given.items() if us is not None}


def _control(root: Table) -> EventSource | None:
    if "control" not in root.content:
        return None
    if not _is_stream(root):
        raise root.fail("[control]", 'is for streams; leave it out, or write mode = "stream"')
    table = root.table("control")
    table.expect_keys(("format", "path", "options", "quotas"))
    control = EventSource(
        format=table.required_text("format", '"text"'),
        path=table.path("path"),
        options=table.table("options").settings(),
    )
    if control.format in FILE_FORMATS and control.format != "text":
        raise table.fail("format", f'files of statements are read as "text", got "{control.format}"')
    if control.format == "text" and control.path is None:
        raise table.fail("path", "is missing; format text reads files")
    if "lookups" not in root.content:
        raise root.fail("[lookups]", 'is missing; statements that came are kept in its folder: folder = "out/lookups"')
    return control


def _quotas(root: Table) -> Quotas:
    table = root.table("control").table("quotas")
    table.expect_keys(("queries", "range", "rows", "slots"))
    return Quotas(
        queries=table.whole_number("queries", low=0),
        range_us=table.duration_us("range"),
        rows=table.whole_number("rows", low=0),
        slots=table.whole_number("slots", low=0),
    )


def _lookups(root: Table) -> str | None:
    if "lookups" not in root.content:
        return None
    table = root.table("lookups")
    table.expect_keys(("folder",))
    table.required_text("folder", '"out/lookups"')
    return str(table.local_path("folder"))


def _planning(table: Table) -> PlanningSettings:
    table.expect_keys(("rate", "groups", "method", "tolerance"))
    groups = table.table("groups")
    given = {name: groups.whole_number(name, low=1) for name in groups.content}
    return PlanningSettings(
        rate=table.number("rate", low=0, is_open=True),
        groups={name: count for name, count in given.items() if count is not None} or None,
        method=table.choice("method", METHODS),
        tolerance=table.number("tolerance", low=0),
    )


def _metrics(table: Table) -> MetricsSettings:
    table.expect_keys(("file", "port", "address"))
    settings = MetricsSettings(
        file=table.local_path("file"),
        port=table.whole_number("port", low=0, high=65_535),
        address=table.text("address") or MetricsSettings.address,
    )
    if "address" in table.content and settings.port is None:
        raise table.fail("port", "is missing; the address is for the port that metrics are served at: port = 9464")
    return settings


def _log(table: Table) -> LogSettings:
    table.expect_keys(("file", "level", "console"))
    settings = LogSettings(
        file=table.local_path("file"),
        level=table.choice("level", LOG_LEVELS) or LogSettings.level,
        console=table.flag("console") or False,
    )
    if settings.level == "off" and (settings.file is not None or settings.console):
        raise table.fail("level", '"off" writes nothing; leave file and console out, or write level = "warn"')
    return settings


def _is_stream(root: Table) -> bool:
    return root.content.get("mode") != "batch"


def _spark(table: Table) -> dict[str, str]:
    settings = table.settings()
    for key in settings:
        if key != "master" and not key.startswith("spark."):
            raise table.fail(key, 'unknown key; write master, or a Spark setting such as "spark.executor.memory"')
        if key == "spark.log.level":
            raise table.fail(key, 'belongs to the table of the log: write level = "info" in [log]')
    return settings
