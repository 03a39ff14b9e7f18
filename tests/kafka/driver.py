"""A process with a Spark session that has Kafka's connector: it writes and reads topics, and runs jobs of `panewise
run`.

It reads one request a line as JSON and answers each with a line. All requests share one JVM, because most of a job's
time is the start of a JVM. It is its own process, because the session of another test would not have the connector.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWER_WITHIN_S = 240
JSON = dict[str, Any]


@dataclass(frozen=True)
class Message:
    """A message of a topic. Kafka sets the timestamp; without a partition, the key decides it."""

    value: str | None
    key: str | None = None
    partition: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    timestamp_us: int | None = None


@dataclass(frozen=True)
class Ran:
    """What a job printed, and how it ended."""

    code: int
    out: str
    err: str


class Driver:
    """The process, seen from a test."""

    def __init__(self, address: str, jars: Sequence[Path], log: Path) -> None:
        self.address = address
        self.spark_table = f'[spark]\nmaster = "local[2]"\n"spark.jars" = "{",".join(map(str, jars))}"\n'
        self._log = log
        with log.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.driver", address, ",".join(map(str, jars))],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def produce(self, topic: str, messages: Sequence[Message]) -> None:
        """Append messages to a topic."""
        rows = [[m.value, m.key, m.partition, [list(header) for header in m.headers]] for m in messages]
        self._ask({"do": "produce", "topic": topic, "rows": rows})

    def consume(self, topic: str) -> list[Message]:
        """All messages of a topic, by partition and offset."""
        return [
            Message(row["value"], row["key"], row["partition"], tuple(map(tuple, row["headers"])), row["timestamp_us"])
            for row in self._ask({"do": "consume", "topic": topic})["rows"]
        ]

    def run(self, job: Path) -> Ran:
        """`panewise run JOB.toml` to its end."""
        return Ran(**self._ask({"do": "run", "job": str(job)}))

    def decode(self, job: Path) -> tuple[list[JSON], int]:
        """The events that a batch job with one source reads, in any order, and how many messages were malformed."""
        answer = self._ask({"do": "decode", "job": str(job)})
        return [json.loads(event) for event in answer["events"]], answer["malformed"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: JSON) -> JSON:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        # An answer is one line, so no part of it can wait in a buffer already.
        is_there, _, _ = select.select([self._process.stdout], [], [], ANSWER_WITHIN_S)
        if not is_there:
            self._process.kill()
        answer = self._process.stdout.readline()
        state = "ended" if is_there else f"gave no answer to {request['do']} within {ANSWER_WITHIN_S} s"
        assert answer, f"the driver {state}: {self._log.read_text(encoding='utf-8')[-3000:]}"
        answered: JSON = json.loads(answer)
        assert "failed" not in answered, answered["failed"]
        return answered


class _Session:
    """How the process handles requests."""

    def __init__(self, address: str, jars: str) -> None:
        self.options = {"kafka.bootstrap.servers": address}
        self.jars = jars

    def answer(self, request: JSON) -> JSON:
        answer: JSON = getattr(self, request.pop("do"))(**request)
        return answer

    def produce(self, topic: str, rows: list[list[Any]]) -> JSON:
        schema = "value string, key string, partition int, headers array<struct<key: string, value: string>>"
        frame = self._spark().createDataFrame([(v, k, p, [tuple(h) for h in hs]) for v, k, p, hs in rows], schema)
        binary = "transform(headers, h -> struct(h.key as key, cast(h.value as binary) as value)) as headers"
        # One task, so that messages keep their order.
        messages = frame.selectExpr("value", "key", "partition", binary).coalesce(1)
        messages.write.format("kafka").options(**self.options, topic=topic).save()
        return {}

    def consume(self, topic: str) -> JSON:
        reader = self._spark().read.format("kafka").options(**self.options, subscribe=topic, includeHeaders="true")
        text = "transform(headers, h -> array(h.key, cast(h.value as string)))"
        columns = (
            "cast(value as string) as value",
            "cast(key as string) as key",
            "partition",
            f"coalesce({text}, array()) as headers",
            "unix_micros(timestamp) as timestamp_us",
        )
        rows = reader.load().orderBy("partition", "offset").selectExpr(*columns).collect()
        return {"rows": [row.asDict() for row in rows]}

    def run(self, job: str) -> JSON:
        from typer.testing import CliRunner

        from panewise.cli.main import app

        result = CliRunner().invoke(app, ["run", job])
        return {"code": result.exit_code, "out": result.stdout, "err": result.stderr}

    def decode(self, job: str) -> JSON:
        from pyspark.sql import Observation

        from panewise.cli.job import read_job
        from panewise.cli.messages import MALFORMED_EVENTS
        from panewise.cli.preflight import check_job
        from panewise.cli.sources import read_events

        read = read_job(Path(job))
        malformed: dict[str, Observation] = {}
        (frame,) = read_events(self._spark(), read, check_job(read), malformed).values()
        rows = frame.selectExpr("to_json(struct(*)) as event").collect()
        (count,) = malformed.values()
        return {"events": [row["event"] for row in rows], "malformed": count.get[MALFORMED_EVENTS]}

    def _spark(self) -> Any:
        """A new session, because a job that ran has stopped the one before."""
        from pyspark.sql import SparkSession

        from panewise import spark as panewise_spark

        panewise_spark.ensure_java()
        panewise_spark.choose_worker_python()
        settings = panewise_spark.SETTINGS | {
            "spark.jars": self.jars,
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "OFF",
        }
        return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main(address: str, jars: str) -> None:
    # Anything else that prints goes to the log, so that the pipe has answers only.
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    session = _Session(address, jars)
    for line in sys.stdin:
        try:
            answer = session.answer(json.loads(line))
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=pipe, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
