"""Job files: what they mean, and that every mistake is named with its file, table and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.cli.job import Job, JobError, read_job

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


def read(folder: Path, text: str) -> Job:
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
        (START + 'color = "q"', "color: unknown key; known are queries, name"),
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
