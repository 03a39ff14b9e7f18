"""What a job file says about messages and about Kafka, as far as it is checked without Spark."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import Any

import pytest

from panewise.cli.job import EventSource, JobError, JobFile, read_job
from panewise.cli.kafka import check_sink, check_source, source_options

KAFKA = """
queries = "q.sql"
[source]
format = "kafka"
decode = "json"
times = "milliseconds"
[source.attributes]
at = "timestamp"
tenant = "headers.tenant"
[source.options]
kafka.bootstrap.servers = "SERVERS"
subscribe = "events"
[sink]
format = "kafka"
encode = "json"
key = "group"
headers = ["query", "aggregate"]
[sink.options]
kafka.bootstrap.servers = "SERVERS"
topic = "answers"
[stream]
checkpoint = "c"
"""


def read(folder: Path, text: str) -> JobFile:
    file = folder / "job.toml"
    file.write_text(text)
    return read_job(file)


def test_whole_job(tmp_path: Path) -> None:
    job = read(tmp_path, KAFKA)
    assert job.sources[""].attributes == {"at": "timestamp", "tenant": "headers.tenant"}
    assert job.sources[""].times == "milliseconds"
    assert (job.sink.key, job.sink.headers) == ("group", ("query", "aggregate"))
    columns = read(tmp_path, KAFKA.replace('"group"', '["query", "user"]'))
    assert columns.sink.key == ("query", "user")


def test_options_that_panewise_adds() -> None:
    assert source_options(EventSource("kafka")) == {"startingOffsets": "earliest"}
    with_headers = EventSource("kafka", options={"startingoffsets": "latest"}, attributes={"tenant": "headers.tenant"})
    assert source_options(with_headers) == {"startingoffsets": "latest", "includeHeaders": "true"}


def test_a_broker_that_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:1, PLAINTEXT://127.0.0.1:{server.getsockname()[1]}"
        job = read(tmp_path, KAFKA.replace("SERVERS", address))
        check_sink(job, "[sink]", job.sink)


def test_the_sink_of_a_cluster_is_left_to_its_executors(tmp_path: Path) -> None:
    job = read(tmp_path, KAFKA.replace("SERVERS", "127.0.0.1:1") + '[spark]\nmaster = "yarn"')
    check_sink(job, "[sink]", job.sink)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('encode = "json"\nkey', "key", '[sink] encode: is missing; a message is text: encode = "json"'),
        ('key = "group"', 'key = "gruop"', '[sink] key: must be "answer" or "group", got "gruop"; did you mean group?'),
        ('key = "group"', "key = [1]", "[sink] key: must be a list of names"),
        ('["query", "aggregate"]', '"query"', "[sink] headers: must be a list of names"),
        ('format = "kafka"\nencode = "json"\nkey', "key", '[sink] key: is for messages; write encode = "json" as well'),
        ('"milliseconds"', '"minutes"', '[source] times: must be "seconds" or "milliseconds" or "microseconds"'),
        ('decode = "json"\ntimes', "times", '[source] times: is for messages that are decoded; write decode = "json"'),
        ('at = "timestamp"', "at = 1", "[source.attributes] at: must be text in quotes"),
        (
            'decode = "json"\ntimes = "milliseconds"',
            "",
            '[source] attributes: is for messages that are decoded; write decode = "json" as well',
        ),
    ],
)
def test_mistakes_of_the_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in KAFKA
    with pytest.raises(JobError, match=re.escape(message)):
        read(tmp_path, KAFKA.replace(old, new, 1))


SERVERS = [
    ("kafka.bootstrap.servers", "kafka.servers", "options: kafka.bootstrap.servers is missing; write for example"),
    ('"SERVERS"', '"127.0.0.1:1"', "no broker answers (127.0.0.1:1: Connection refused); start it, or correct"),
    ('"SERVERS"', '"broker"', "no broker answers (broker: it is not written as host:port)"),
    ('"SERVERS"', '"broker.invalid:9092"', "no broker answers (broker.invalid:9092: "),
]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [*SERVERS, ("topic =", "tropic =", '[sink] options: name no topic; write for example: topic = "answers"')],
)
def test_mistakes_of_the_sink(tmp_path: Path, old: str, new: str, message: str) -> None:
    job = read(tmp_path, KAFKA.replace(old, new))
    with pytest.raises(JobError, match=re.escape(message)):
        check_sink(job, "[sink]", job.sink)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        *SERVERS,
        ("subscribe =", "subscribed =", '[source] options: name no topic; write for example: subscribe = "events"'),
        (
            KAFKA[KAFKA.index("decode") : KAFKA.index("[source.options]")],
            "",
            '[source] decode: is missing; a message is text: decode = "json"',
        ),
    ],
)
def test_mistakes_of_the_source(tmp_path: Path, old: str, new: str, message: str) -> None:
    job = read(tmp_path, KAFKA.replace(old, new))
    no_session: Any = None  # a session asks the brokers for topics; none of these mistakes gets that far
    with pytest.raises(JobError, match=re.escape(message)):
        check_source(no_session, job, "[source]", job.sources[""])
