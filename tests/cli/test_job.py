"""Job files: what they mean, and that every mistake is named with its file, table and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.cli.job import EventSource, JobError, JobFile, LogSettings, MetricsSettings, read_job
from panewise.language.model import UNBOUNDED_US
from panewise.spark.quotas import Quotas

WHOLE = """
queries = "queries.sql"
name = "flights"
mode = "stream"
[source]
format = "parquet"
path = "data/flights"
[source.options]
maxFilesPerTrigger = 1
recursiveFileLookup = true
[sink]
format = "kafka"
encode = "json"
[sink.options]
kafka.bootstrap.servers = "somewhere:9092"
topic = "answers"
[stream]
checkpoint = "s3a://bucket/checkpoint"
trigger = "10 seconds"
[spark]
master = "local[2]"
"spark.sql.shuffle.partitions" = 4
spark.executor.memory = "2g"
"""


def read(folder: Path, text: str) -> JobFile:
    file = folder / "job.toml"
    file.write_text(text)
    return read_job(file)


def test_whole_job(tmp_path: Path) -> None:
    job = read(tmp_path, WHOLE)

    assert (job.name, job.mode, job.is_stream) == ("flights", "stream", True)
    assert job.queries == tmp_path / "queries.sql"
    assert job.sources[""].path == str(tmp_path / "data" / "flights")
    assert job.sources[""].options == {"maxFilesPerTrigger": "1", "recursiveFileLookup": "true"}
    assert (job.sink.format, job.sink.path, job.sink.encode) == ("kafka", None, "json")
    assert job.sink.options == {"kafka.bootstrap.servers": "somewhere:9092", "topic": "answers"}
    assert job.stream.checkpoint == "s3a://bucket/checkpoint"
    assert job.stream.trigger == "10 seconds"
    assert job.spark == {
        "master": "local[2]",
        "spark.sql.shuffle.partitions": "4",
        "spark.executor.memory": "2g",
    }


def test_shortest_jobs(tmp_path: Path) -> None:
    stream = read(tmp_path, 'queries="q.sql"\nsource.format="rate"\nstream.checkpoint="c"')
    assert (stream.name, stream.mode, stream.sink.format, stream.stream.trigger) == (
        "job",
        "stream",
        "console",
        "available now",
    )
    batch = read(tmp_path, 'queries="q.sql"\nmode="batch"\nsource.format="rate"')
    assert (batch.is_stream, batch.sink.mode, batch.stream.checkpoint) == (False, "error", None)


def test_operations(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """
        queries = "q.sql"
        source.format = "rate"
        [stream]
        checkpoint = "c"
        buckets = 16
        watermark = "10 minutes"
        changed_only = true
        stop_within = "2 MINUTES"
        [control]
        format = "text"
        path = "statements"
        options.maxFilesPerTrigger = 1
        quotas.queries = 20
        quotas.range = "7 days"
        [lookups]
        folder = "out/lookups"
        [metrics]
        file = "out/metrics.jsonl"
        port = 9464
        address = "0.0.0.0"
        [log]
        file = "out/spark.log"
        level = "info"
        console = true
        """,
    )
    assert job.log == LogSettings(tmp_path / "out" / "spark.log", "info", console=True)
    assert (job.stream.buckets, job.stream.changed_only, job.stream.stop_within_s) == (16, True, 120.0)
    assert job.stream.watermarks_us == {"": 600_000_000}
    assert job.control == EventSource("text", str(tmp_path / "statements"), options={"maxFilesPerTrigger": "1"})
    assert job.quotas == Quotas(queries=20, range_us=7 * 86_400_000_000)
    assert job.lookups == str(tmp_path / "out" / "lookups")
    assert job.metrics == MetricsSettings(tmp_path / "out" / "metrics.jsonl", 9464, "0.0.0.0")


def test_operations_are_left_to_panewise_when_nothing_is_said(tmp_path: Path) -> None:
    job = read(tmp_path, 'queries="q.sql"\nsource.format="rate"\nstream.checkpoint="c"')
    assert (job.stream.buckets, job.stream.changed_only, job.stream.watermarks_us) == (None, None, {})
    assert (job.control, job.lookups, job.metrics) == (None, None, MetricsSettings(None, None, "127.0.0.1"))


def test_a_watermark_for_each_stream(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """
        queries = "q.sql"
        source.format = "rate"
        stream.checkpoint = "c"
        [stream.watermark]
        flights = "1 hour"
        trades = "0 seconds"
        """,
    )
    assert job.stream.watermarks_us == {"flights": 3_600_000_000, "trades": 0}


def test_a_source_for_each_stream(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        """
        queries = "q.sql"
        mode = "batch"
        [source.flights]
        format = "parquet"
        path = "file:///data/flights"
        [source.options]
        format = "kafka"
        decode = "json"
        """,
    )
    assert list(job.sources) == ["flights", "options"]  # a stream may be called options
    assert job.sources["flights"].path == "file:///data/flights"
    assert job.sources["options"].decode == "json"
    assert job.place_of_source("flights") == "[source.flights]"


START = 'queries = "q.sql"\n'
SOURCE = START + '[source]\nformat = "rate"\n'
STREAM = SOURCE + '[stream]\ncheckpoint = "c"\n'
CONTROL = '[lookups]\nfolder = "l"\n[control]\nformat = "rate"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "queries: is missing; write for example"),
        ("queries = 3", "queries: must be text in quotes and not empty, got 3"),
        ('queries = " "', "queries: must be text in quotes and not empty"),
        ('queries = "q.sql', "the job file is not TOML"),
        (START, r"\[source\]: is missing"),
        (START + 'mode = "steam"', 'mode: must be "stream" or "batch", got "steam"; did you mean stream?'),
        (START + 'querys = "q"', "querys: unknown key; did you mean queries?"),
        (START + 'color = "q"', "color: unknown key; the known ones are queries, name"),
        (START + "source = 3", r"source: must be a table, written as \[source\], got 3"),
        (START + '[source]\npath = "x"', r"\[source\] format: is missing"),
        (START + '[source.options]\nheader = "x"', r"\[source\] format: is missing"),
        (START + '[source]\nformat = "csv"', r"\[source\] path: is missing; format csv reads files"),
        (SOURCE + 'fromat = "x"', r"\[source\] fromat: unknown key; did you mean format?"),
        (
            SOURCE + '[source.flights]\nformat = "x"',
            r"\[source\] flights: unknown key.*one \[source\.<stream>\]",
        ),
        (START + '[source.s]\nfromat = "x"', r"\[source\.s\] fromat: unknown key; did you mean format?"),
        (SOURCE + 'decode = "avro"', r'\[source\] decode: must be "json", got "avro"'),
        (
            SOURCE + "[source.options]\nx = [1]",
            r"\[source\.options\] x: must be text, a number, true or false",
        ),
        (SOURCE + "[source.options]\na.b = [1]", r"\[source\.options\.a\] b: must be text"),
        (SOURCE, r"\[stream\] checkpoint: is missing"),
        (
            SOURCE + '[stream]\ncheckpont = "c"',
            r"\[stream\] checkpont: unknown key; did you mean checkpoint?",
        ),
        (STREAM + 'trigger = "soon"', r'\[stream\] trigger: must be "available now" or like "10 seconds"'),
        (STREAM + "buckets = 0", r"\[stream\] buckets: must be a whole number of at least 1, got 0"),
        (STREAM + "buckets = true", r"\[stream\] buckets: must be a whole number of at least 1, got True"),
        (STREAM + "buckets = 1.5", r"\[stream\] buckets: must be a whole number"),
        (STREAM + 'changed_only = "yes"', r"\[stream\] changed_only: must be true or false, got 'yes'"),
        (STREAM + 'watermark = "10 minuts"', r'\[stream\] watermark: must be like "10 minutes", got "10 minuts"'),
        (STREAM + 'watermark = "-1 day"', r'\[stream\] watermark: must be like "10 minutes"'),
        (STREAM + "watermark = 3", r"\[stream\] watermark: must be text in quotes"),
        (STREAM + 'watermark = "99999999 weeks"', r"\[stream\] watermark: 99999999 weeks is too long"),
        (STREAM + '[stream.watermark]\ns = "soon"', r'\[stream\.watermark\] s: must be like "10 minutes", got "soon"'),
        (STREAM + 'stop_within = ""', r"\[stream\] stop_within: must be text in quotes and not empty"),
        (
            STREAM + 'future_bound = "soon"',
            r'\[stream\] future_bound: must be like "10 minutes", or "none", got "soon"',
        ),
        (STREAM + "[set_aside]", r"\[set_aside\] format: is missing"),
        (STREAM + '[set_aside]\nformat = "json"', r"\[set_aside\] path: is missing; format json writes files"),
        (STREAM + '[set_aside]\nformat = "kafka"', r"\[set_aside\] encode: is missing; a message is text"),
        (STREAM + '[set_aside]\nformt = "json"', r"\[set_aside\] formt: unknown key; did you mean format"),
        (
            STREAM + '[set_aside]\nformat = "json"\npath = "p"\nmode = "overwrite"',
            r'\[set_aside\] mode: "overwrite" is for batch jobs; a stream appends',
        ),
        (
            STREAM + '[set_aside]\nformat = "kafka"\nencode = "json"\nkey = "answer"',
            r"\[set_aside\] key: names a key of answers; give a list of columns",
        ),
        (
            START + 'mode = "batch"\nsource.format = "rate"\n[set_aside]\nformat = "console"\ncheckpoint = "c"',
            r"\[set_aside\] checkpoint: is for streams",
        ),
        (STREAM + "[control]", r"\[control\] format: is missing"),
        (STREAM + '[control]\nformat = "text"', r"\[control\] path: is missing; format text reads files"),
        (
            STREAM + '[control]\nformat = "csv"',
            r'\[control\] format: files of statements are read as "text", got "csv"',
        ),
        (STREAM + '[control]\ndecode = "json"', r"\[control\] decode: unknown key"),
        (STREAM + CONTROL + "quotas.slot = 1", r"\[control.quotas\] slot: unknown key"),
        (STREAM + CONTROL + 'quotas.range = "long"', r"\[control.quotas\] range: must be like"),
        (
            STREAM + '[control]\nformat = "kafka"',
            r"\[lookups\]: is missing; statements that came are kept in its folder",
        ),
        (STREAM + '[log]\nlevel = "warning"', r'\[log\] level: must be .*, got "warning"; did you mean warn'),
        (STREAM + '[log]\nfile = "s3a://b/l"', r"\[log\] file: must be a path without a scheme"),
        (STREAM + '[log]\nconsole = "yes"', r"\[log\] console: must be true or false"),
        (STREAM + '[log]\nfil = "x"', r"\[log\] fil: unknown key; did you mean file"),
        (STREAM + '[log]\nlevel = "off"\nfile = "x"', r'\[log\] level: "off" writes nothing; leave file'),
        (STREAM + '[spark]\n"spark.log.level" = "INFO"', r'\[spark\] spark.log.level: .*write level = "info" in \[log'),
        (STREAM + "[lookups]", r"\[lookups\] folder: is missing"),
        (STREAM + '[lookups]\nfolder = "s3a://b/l"', r"\[lookups\] folder: must be a path without a scheme"),
        (SOURCE + '[lookups]\nfoldr = "x"\n[stream]\ncheckpoint = "c"', r"\[lookups\] foldr: unknown key"),
        (START + 'mode = "batch"\nsource.format = "rate"\n[control]\nformat = "text"', r"\[control\]: is for streams"),
        (STREAM + "[metrics]\nport = 65536", r"\[metrics\] port: must be a whole number from 0 to 65535, got 65536"),
        (STREAM + '[metrics]\naddress = "::1"', r"\[metrics\] port: is missing; the address is for the port"),
        (STREAM + '[metrics]\nfile = "hdfs://m"', r"\[metrics\] file: must be a path without a scheme"),
        (STREAM + '[planning]\nmethod = "weave"', r'\[planning\] method: must be .*"weave_share".*, got "weave"'),
        (STREAM + "[planning]\ntolerance = -1", r"\[planning\] tolerance: must be a number of at least 0, got -1"),
        (STREAM + "[planning]\nrate = 0", r"\[planning\] rate: must be a number above 0, got 0"),
        (STREAM + "[planning]\ngroups.k = 0", r"\[planning.groups\] k: must be a whole number of at least 1, got 0"),
        (STREAM + "[metrics]\nfiles = 3", r"\[metrics\] files: unknown key; did you mean file?"),
        (STREAM + '[sink]\nmode = "overwrite"', r'\[sink\] mode: "overwrite" is for batch jobs'),
        (STREAM + '[sink]\nmode = "apend"', r"\[sink\] mode: must be .* did you mean append?"),
        (STREAM + '[sink]\nformat = "parquet"', r"\[sink\] path: is missing; format parquet writes files"),
        (STREAM + '[sink]\nfolder = "x"', r"\[sink\] folder: unknown key"),
        (STREAM + "[spark]\nmemory = 1", r"\[spark\] memory: unknown key; write master, or a Spark setting"),
    ],
)
def test_every_mistake_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "job.toml"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(JobError, match=r"missing\.toml: there is no such job file"):
        read_job(tmp_path / "missing.toml")
    with pytest.raises(JobError, match="the job file cannot be read"):
        read_job(tmp_path)


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_bytes(b'queries = "\xff"')
    with pytest.raises(JobError, match="not UTF-8: byte 11"):
        read_job(tmp_path / "job.toml")


def test_set_aside_and_the_bound(tmp_path: Path) -> None:
    job = read(tmp_path, WHOLE)
    assert (job.set_aside, job.stream.future_bound_us) == (None, None)
    bound = WHOLE.replace('trigger = "10 seconds"', 'trigger = "10 seconds"\nfuture_bound = "2 hours"')
    job = read(tmp_path, bound + '[set_aside]\nformat = "json"\npath = "aside"\noptions.compression = "gzip"\n')
    assert job.stream.future_bound_us == 7_200_000_000
    assert job.set_aside is not None
    assert job.set_aside.checkpoint == "s3a://bucket/checkpoint-set-aside"
    assert job.set_aside.sink.path == str(tmp_path / "aside")
    assert job.set_aside.sink.options == {"compression": "gzip"}
    named = '[set_aside]\nformat = "console"\ncheckpoint = "other"\n'
    job = read(tmp_path, bound.replace("2 hours", "none") + named)
    assert job.stream.future_bound_us == UNBOUNDED_US
    assert job.set_aside is not None
    assert job.set_aside.checkpoint == str(tmp_path / "other")


WIDE = 'queries = "q.sql"\nsource.format = "rate"\nstream.checkpoint = "c"\nlayout = "wide"\n'


def test_wide_tables_share_a_sink_or_have_their_own(tmp_path: Path) -> None:
    job = read(
        tmp_path,
        WIDE
        + """
        [sink]
        format = "parquet"
        path = "out"
        options.compression = "zstd"
        [sink.first]
        options.maxRecordsPerFile = 5
        [sink.second]
        format = "delta"
        path = "s3a://bucket/second"
        """,
    )
    assert job.wide_by == "family"
    assert job.sink is not None
    assert (job.sink.format, job.sink.path) == ("parquet", str(tmp_path / "out"))
    first, second = job.sinks["first"], job.sinks["second"]
    assert (first.format, first.path) == ("parquet", str(tmp_path / "out" / "first"))
    assert first.options == {"compression": "zstd", "maxRecordsPerFile": "5"}
    assert (second.format, second.path) == ("delta", "s3a://bucket/second")
    assert job.every_sink == [job.sink, first, second]


def test_wide_tables_without_a_sink_for_all(tmp_path: Path) -> None:
    named = read(tmp_path, WIDE + 'by = "query"\n[sink.a]\nformat = "orc"\npath = "a"')
    assert (named.wide_by, named.sink, list(named.sinks)) == ("query", None, ["a"])
    console = read(tmp_path, WIDE)
    assert console.sink is not None
    assert console.sink.format == "console"
    long = read(tmp_path, WIDE.replace("wide", "long"))
    assert (long.wide_by, long.sinks) == (None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WIDE.replace("wide", "wied"), r'layout: must be "long" or "wide", got "wied"; did you mean wide\?'),
        (WIDE + 'by = "families"', r'by: must be "family" or "query", got "families"; did you mean family\?'),
        (WIDE.replace('layout = "wide"', 'by = "query"'), 'by: is for wide tables; write layout = "wide" as well'),
        (WIDE + '[sink.a]\nformat = "orc"', r"\[sink.a\] path: is missing; format orc writes files"),
        (WIDE + '[sink.a]\nformta = "orc"', r"\[sink.a\] formta: unknown key; did you mean format\?"),
        (
            WIDE + '[sink]\nformat = "kafka"\nencode = "json"\nkey = "group"',
            r'\[sink\] key: names a key of the long table; give a list of columns, like \["window_end", "user"\]',
        ),
        (
            WIDE + '[lookups]\nfolder = "f"\n[control]\nformat = "text"\npath = "c"',
            'by: queries that come and go are not joined into families; write by = "query"',
        ),
    ],
)
def test_mistakes_in_wide_jobs(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        read(tmp_path, text)
