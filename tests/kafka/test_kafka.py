"""Kafka as source and sink, against a real broker, with the job of docs/kafka.md."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.answers import microseconds, to_answer
from tests.kafka.driver import ROOT, Driver, Message
from tests.oracle import Answer, assert_same_answers, closed_answers
from tests.test_docs import blocks_of

import panewise

pytestmark = pytest.mark.spark

PAGE = ROOT / "docs" / "kafka.md"
WORKLOAD = "\n".join(block.content for block in blocks_of(PAGE, "sql"))
JOB = blocks_of(PAGE, "toml")[0].content
START_US = microseconds(datetime(2024, 1, 1, tzinfo=UTC))
SECOND_US = 1_000_000
WATERMARK_US = 120 * SECOND_US
MALFORMED = ["no JSON", '{"at": "2024-01-01T00:21:00Z", "sensor": "a", "value": "much"}', "[1]", "", None]
Event = dict[str, Any]


@dataclass
class Topic:
    """A topic of readings, and the events that are in it."""

    driver: Driver
    name: str
    events: list[Event]

    def append(self, events: list[Event], more: Iterable[Message] = ()) -> None:
        """Write events to the partitions in turn, and other messages among them."""
        messages = [Message(text(event), partition=place % 3) for place, event in enumerate(events)]
        for message in more:
            messages.insert(len(messages) // 2, message)
        self.driver.produce(self.name, messages)
        self.events += events


def readings(first_s: int, last_s: int, seed: int) -> list[Event]:
    """A reading every two seconds, out of order by up to 40 seconds."""
    dice = random.Random(seed)
    events = [
        {"at": START_US + second * SECOND_US, "sensor": dice.choice("abc"), "value": float(dice.randrange(1000)) / 8}
        for second in range(first_s, last_s, 2)
    ]
    return sorted(events, key=lambda event: event["at"] + dice.uniform(0, 40 * SECOND_US))


def iso(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).isoformat()


def text(event: Event) -> str:
    return json.dumps(event | {"at": iso(event["at"])})


def write_job(folder: Path, driver: Driver, job: str, **changes: str) -> Path:
    """The job of the page, or another, with this broker, this session, and some texts replaced by others."""
    (folder / "readings.sql").write_text(WORKLOAD)
    job = job[: job.index("[spark]")] if "[spark]" in job else job
    job = job.replace("broker:9092", driver.address) + driver.spark_table
    for old, new in changes.items():
        assert f'"{old}"' in job, old
        job = job.replace(f'"{old}"', f'"{new}"')
    file = folder / "job.toml"
    file.write_text(job)
    return file


def expected(events: list[Event], watermark: int | None) -> list[Answer]:
    queries = panewise.read(WORKLOAD).queries.values()
    return [answer for query in queries for answer in closed_answers(query, "at", events, watermark)]


def to_answers(messages: Iterable[Message]) -> list[Answer]:
    workload = panewise.read(WORKLOAD)
    columns = ("query", "window_start", "window_end", "sensor", "aggregate", "value", "exact")
    rows = [dict.fromkeys(columns) | json.loads(message.value or "") for message in messages]
    for row in rows:
        row |= {name: datetime.fromisoformat(row[name]) for name in ("window_start", "window_end")}
    return [to_answer(row, workload) for row in rows]


@pytest.fixture(scope="module")
def topic(driver: Driver) -> Topic:
    """Twenty minutes of readings."""
    made = Topic(driver, "readings", [])
    made.append(readings(0, 1200, seed=1))
    return made


def test_a_killed_stream_goes_on_without_loss(driver: Driver, topic: Topic, tmp_path: Path) -> None:
    job = JOB.replace("1_000_000", "120")
    file = write_job(tmp_path, driver, job, answers="answers-of-stream", **{"10 seconds": "1 second"})
    kill_after_batches(file, 2)
    topic.append(readings(1200, 2400, seed=2), [Message(value) for value in MALFORMED])
    file = write_job(
        tmp_path, driver, job.replace("120", "600"), answers="answers-of-stream", **{"10 seconds": "available now"}
    )
    ran = driver.run(file)

    assert ran.code == 0, ran.err
    assert f"events without a time, dropped: {len(MALFORMED)}\n" in ran.out
    assert f"could not be decoded: {len(MALFORMED)}\n" in ran.out
    assert " 0 late" in ran.out
    messages = driver.consume("answers-of-stream")
    by_key = {message.key: message for message in messages}
    # What was written again after the kill is exactly the same.
    assert all(by_key[message.key].value == message.value for message in messages)
    watermark = max(event["at"] for event in topic.events) - WATERMARK_US
    assert_same_answers(to_answers(by_key.values()), expected(topic.events, watermark))
    assert len({message.partition for message in messages}) == 3
    for message in messages:
        assert message.headers == (("query", json.loads(message.value or "")["query"]),)

    again = driver.run(file)
    assert again.code == 0, again.err
    assert len(driver.consume("answers-of-stream")) == len(messages)


def kill_after_batches(job: Path, count: int) -> None:
    """`panewise run` in its own process, which is killed once it has shown some batches."""
    command = [sys.executable, "-c", "from panewise.cli.main import app; app()", "run", str(job)]
    # To a file: nobody reads the errors while the job runs, and a full pipe would stop it.
    errors = job.with_suffix(".err")
    with (
        errors.open("w") as to_errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=to_errors, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            shown = 0
            for line in process.stdout:
                shown += line.startswith("batch ")
                if shown == count:
                    break
            assert shown == count, errors.read_text()[-3000:]
        finally:
            # Spark's own processes end when the one that started them is gone.
            process.kill()


def test_a_batch_answers_over_the_whole_topic(driver: Driver, topic: Topic, tmp_path: Path) -> None:
    job = JOB.replace("[source]", 'mode = "batch"\n[source]', 1)
    ran = driver.run(write_job(tmp_path, driver, job, answers="answers-of-batch", answer="group"))

    assert ran.code == 0, ran.err
    messages = driver.consume("answers-of-batch")
    assert_same_answers(to_answers(messages), expected(topic.events, None))
    # A compacted topic keeps the last message of a key: the newest window of the group.
    windows = defaultdict(list)
    for message in messages:
        answer = json.loads(message.value or "")
        assert json.loads(message.key or "") == {
            name: answer[name] for name in ("query", "sensor", "aggregate") if name in answer
        }
        windows[message.key].append(answer["window_end"])
    assert len(windows) == 3 * 2 + 1
    assert all(ends == sorted(ends) for ends in windows.values())


def test_wide_tables_go_to_topics(driver: Driver, topic: Topic, tmp_path: Path) -> None:
    job = JOB.replace("[source]", 'layout = "wide"\n[source]', 1).replace('headers = ["query"]\n', "")
    job = job.replace('key = "answer"', 'key = ["window_end"]')
    own = '[sink.readings_by_sensor_every_5_minutes]\nkey = ["window_end", "sensor"]\n'
    own += 'options."kafka.bootstrap.servers" = "broker:9092"\noptions.topic = "by-sensor"\n'
    job = job.replace("[stream]", f"{own}[stream]")
    ran = driver.run(write_job(tmp_path, driver, job, answers="overall", **{"10 seconds": "available now"}))

    assert ran.code == 0, ran.err
    engine = panewise.Engine(WORKLOAD)
    engine.push("readings", {name: [event[name] for event in topic.events] for name in ("at", "sensor", "value")})
    families = engine.advance("readings", max(event["at"] for event in topic.events) - WATERMARK_US).families
    for family, to, key in (
        ("readings_by_sensor_every_5_minutes", "by-sensor", ("window_end", "sensor")),
        ("readings_every_5_minutes", "overall", ("window_end",)),
    ):
        messages = driver.consume(to)
        rows = [json.loads(message.value or "") for message in messages]
        assert [json.loads(message.key or "") for message in messages] == [
            {name: row[name] for name in key} for row in rows
        ]
        wanted = [row | {"window_end": row["window_end"].isoformat()} for row in families[family].to_pylist()]
        for row in rows:
            row["window_end"] = datetime.fromisoformat(row["window_end"]).isoformat()
        assert wanted
        assert sorted(map(str, rows)) == sorted(map(str, wanted))


def test_the_watermark_is_that_of_the_newest_partition(driver: Driver, tmp_path: Path) -> None:
    late = Topic(driver, "skewed", [])
    file = write_job(
        tmp_path, driver, JOB, readings="skewed", answers="skewed-answers", **{"10 seconds": "available now"}
    )
    in_time = readings(0, 1200, seed=3)
    driver.produce("skewed", [Message(text(event), partition=0) for event in in_time])
    first = driver.run(file)
    assert first.code == 0, first.err
    # Two partitions are empty, and windows close all the same.
    watermark = max(event["at"] for event in in_time) - WATERMARK_US
    assert_same_answers(to_answers(driver.consume("skewed-answers")), expected(in_time, watermark))

    behind = readings(0, 300, seed=4)
    late.append([event | {"sensor": "late"} for event in behind])
    second = driver.run(file)
    assert second.code == 0, second.err
    assert f"{len(behind)} late" in second.out


FORMS = [
    ('{"at": "2024-01-01T00:00:00Z", "sensor": "a", "value": 1}', {"sensor": "a", "value": 1.0}),
    ('{"at": "2024-01-01T02:00:00+02:00", "sensor": "zone"}', {"sensor": "zone"}),
    ('{"at": 1704067200000, "sensor": 7, "more": [1]}', {"sensor": "7"}),
    ('{"at": 1704067200000.0, "sensor": "fraction"}', {"sensor": "fraction"}),
    ('{"at": "1704067200000", "sensor": "quoted"}', {"sensor": "quoted"}),
    ('{"sensor": "untimed"}', {"at": None, "sensor": "untimed"}),
    ("{}", {"at": None}),
]
UNREADABLE = [
    "no JSON",
    "",
    None,
    "3",
    "null",
    '[{"at": 1704067200000}]',
    '{"at": 1704067200000',
    '{"at": "soon"}',
    '{"at": 1704067200000000000}',  # microseconds: far beyond the year 10000
    '{"at": 99999999999999999999999999}',
    '{"at": 1704067200000, "value": "much"}',
]


def test_forms_of_messages(driver: Driver, tmp_path: Path) -> None:
    driver.produce("forms", [Message(form) for form, _ in FORMS] + [Message(form) for form in UNREADABLE])
    job = JOB.replace("[source]", 'mode = "batch"\n[source]', 1).replace("decode", 'times = "milliseconds"\ndecode', 1)
    events, malformed = driver.decode(write_job(tmp_path, driver, job, readings="forms"))

    assert malformed == len(UNREADABLE)
    read = [event for event in events if event] + [{}]
    wanted = [{"at": "2024-01-01T00:00:00.000Z"} | event for _, event in FORMS]
    wanted = [{name: value for name, value in event.items() if value is not None} for event in wanted]
    assert sorted(map(str, read)) == sorted(map(str, wanted))
    assert len(events) == len(FORMS) + len(UNREADABLE)


def test_attributes_from_around_the_message(driver: Driver, tmp_path: Path) -> None:
    headers = (("tenant", "first"), ("other", "x"), ("tenant", "last"))
    sent = [Message(f'{{"clicks": {n}}}', key=f"{n}", partition=n % 3, headers=headers) for n in range(5)]
    sent += [Message('{"clicks": 9}', key="no number"), Message("{}", key="7"), Message("no JSON", key="8")]
    driver.produce("clicks", sent)
    file = write_job(tmp_path, driver, blocks_of(PAGE, "toml")[1].content)
    (tmp_path / "clicks.sql").write_text(
        """CREATE STREAM clicks (at TIMESTAMP, user BIGINT, tenant STRING, place BIGINT, clicks BIGINT)
             TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
           CREATE QUERY a AS SELECT SUM(clicks) FROM clicks [RANGE 1 HOUR SLIDE 1 HOUR];"""
    )
    events, malformed = driver.decode(file)

    times = {message.key: message.timestamp_us for message in driver.consume("clicks")}
    assert malformed == 2
    by_user = {event["user"]: event for event in events if event}
    assert set(by_user) == {0, 1, 2, 3, 4, 7}
    assert "tenant" not in by_user[7]
    assert "clicks" not in by_user[7]
    for n in range(5):
        event = by_user[n]
        assert microseconds(datetime.fromisoformat(event.pop("at"))) == times[str(n)]
        assert event == {"user": n, "tenant": "last", "place": n % 3, "clicks": n}


def test_what_is_wrong_is_named(driver: Driver, topic: Topic, tmp_path: Path) -> None:
    missing = driver.run(write_job(tmp_path, driver, JOB, readings="nowhere"))
    assert missing.code == 2
    assert '[source] options subscribe: the brokers have no topic "nowhere"' in missing.err

    column = driver.run(write_job(tmp_path, driver, JOB.replace('"answer"', '["sensr"]')))
    assert column.code == 2
    assert "job.toml: [sink] key: the answers have no column sensr; did you mean sensor?" in column.err

    impatient = JOB.replace("topic =", "kafka.max.block.ms = 2000\ntopic =")
    sink = driver.run(write_job(tmp_path, driver, impatient, answers="unmade", **{"10 seconds": "available now"}))
    assert sink.code == 75, "somebody may make the topic"
    assert "This server does not host this topic-partition" in sink.err  # as docs/kafka.md says that it is seen


def test_without_the_connector(driver: Driver, topic: Topic, tmp_path: Path) -> None:
    file = write_job(tmp_path, driver, JOB)
    file.write_text("\n".join(line for line in file.read_text().splitlines() if "spark.jars" not in line))
    command = [sys.executable, "-c", "from panewise.cli.main import app; app()", "run", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 2
    assert "[source] format: Spark has no Kafka connector" in done.stderr
    assert '"spark.jars.packages" = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.' in done.stderr
