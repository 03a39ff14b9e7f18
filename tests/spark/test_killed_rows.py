"""Row queries of a job that is killed in the middle of batches and started again: each row is there once."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from tests import windowed_oracle as oracle
from tests.engine.windowed.test_conformance import as_rows, expected
from tests.killed_job import Batches, KilledJob
from tests.spark.streaming import Event, write_batches
from tests.spark.test_rows import in_order_of_content

import panewise
from panewise.language.row_queries import Evaluation
from panewise.spark.table_frames import BATCH_COLUMN

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by their /proc/*/environ"),
]

MS = 1_000
ORIGIN_US = 1_000_000_000
BATCHES = 5
WITHIN_S = 300.0
WINDOW = "[RANGE 8 MILLISECONDS SLIDE 2 MILLISECONDS]"
QUERIES = {
    "top": f"SELECT s, TOP_K(k, 1) FROM a {WINDOW} GROUP BY s",
    "head": f"SELECT s, x FROM a {WINDOW} ORDER BY x DESC LIMIT 3",
    "whole": f"SELECT s, t AS at FROM a {WINDOW} ORDER BY k",
    "shared": f"SELECT k FROM a {WINDOW} WHERE x > 0 INTERSECT SELECT k FROM a {WINDOW} WHERE s = 'a'",
    "pairs": "SELECT l.k, r.x FROM a [RANGE 7 MILLISECONDS] AS l JOIN a [RANGE 3 MILLISECONDS] AS r ON l.k = r.k",
    "some": "SELECT k, x FROM a WHERE s = 'a'",
}
SEVERAL = f"SELECT HISTOGRAM(k) FROM a {WINDOW}"
STATEMENTS = (
    "CREATE STREAM a (t TIMESTAMP, k BIGINT, x DOUBLE, s STRING) TIMESTAMP BY t WATERMARK 10 MILLISECONDS;\n"
    + "".join(f"CREATE QUERY {name} AS {select};\n" for name, select in QUERIES.items())
    + f"CREATE QUERY rarer AS {SEVERAL} EVALUATE EVERY 1 TO 8 PRIORITY 4;\n"
    + f"CREATE QUERY held AS {QUERIES['top']} INTO [RANGE 12 MILLISECONDS];\n"
)
JOB = """
queries = "queries.sql"
most_rows = 100000
[source]
format = "parquet"
path = "events"
options.maxFilesPerTrigger = 1
[lookups]
folder = "lookups"
{sinks}
[stream]
checkpoint = "checkpoint"
[spark]
master = "local[2]"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
"""


def in_flight(batches: Batches) -> bool:
    """A batch has begun, and is not done."""
    return batches.is_in_flight


def events(dice: random.Random) -> list[list[Event]]:
    """Batches of events in which none is late, and some have ties."""
    return [
        [
            {
                "t": ORIGIN_US + number * 20 * MS + dice.randrange(25) * MS,
                "k": dice.choice([None, 0, 1, 2]),
                "x": dice.choice([None, -0.5, 1.25, 2.0]),
                "s": dice.choice([None, "a", "b"]),
            }
            for _ in range(25)
        ]
        for number in range(BATCHES)
    ]


def marks_of(checkpoint: Path) -> list[int]:
    """The watermark of each batch in microseconds."""
    names = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal())
    texts = [(checkpoint / "offsets" / str(number)).read_text().splitlines()[1] for number in names]
    return [int(json.loads(text)["batchWatermarkMs"]) * 1000 for text in texts]


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, rows))


def test_rows_of_a_killed_job_are_there_once(tmp_path: Path) -> None:
    workload = panewise.read(STATEMENTS)
    stream = workload.streams["a"]
    batches = events(random.Random(3))
    write_batches(tmp_path / "events", stream, batches)
    (tmp_path / "queries.sql").write_text(STATEMENTS)
    tables = [*QUERIES, "rarer"]
    sinks = "".join(f'[sink.{name}]\nformat = "parquet"\npath = "out/{name}"\n' for name in tables)
    file = tmp_path / "job.toml"
    file.write_text(JOB.format(sinks=sinks, scratch=tmp_path / "scratch"))
    checkpoint = tmp_path / "checkpoint"
    job = KilledJob(file, checkpoint, tmp_path / "out" / "none", tmp_path / "scratch")
    try:
        for number in (1, 3):
            job.start()
            job.wait_for_batch(number, WITHIN_S)
            assert in_flight(job.kill(in_flight))
        job.start()
        job.wait(WITHIN_S)
    finally:
        job.close()
    marks = marks_of(checkpoint)
    accepted = [event for batch in batches for event in batch]

    def wanted(name: str, select: str) -> list[dict[str, Any]]:
        query = panewise.read(f"{STATEMENTS.split(';')[0]}; CREATE QUERY {name} AS {select};").row_queries[name]
        rows = in_order_of_content(query, stream, accepted)
        return expected(oracle.rows_of(query, oracle.Input({"a": "t"}, {"a": rows}, {"a": marks[-1]}, {})))

    def found(name: str) -> list[dict[str, Any]]:
        table = ds.dataset(tmp_path / "out" / name, partitioning="hive", format="parquet").to_table()
        return as_rows(table.drop_columns([BATCH_COLUMN]))

    for name, select in QUERIES.items():
        rows = wanted(name, select)
        assert counted(found(name)) == counted(rows), name
        assert rows, name
    pace, every = Evaluation(1, 8, 4), {}
    for before_us, mark_us in zip([0, *marks], marks):
        due = range(before_us // (2 * MS) + 1, mark_us // (2 * MS) + 1)
        every |= dict.fromkeys(due, pace.under(len(due)) if before_us else 1)
    kept = [
        {"window_start": row["window_start"], "window_end": row["window_end"], "evaluated_every": said, **row}
        for row in wanted("rarer", SEVERAL)
        if (row["window_end"] // (2 * MS)) % (said := every[row["window_end"] // (2 * MS)]) == 0
    ]
    assert counted(found("rarer")) == counted(kept)
    client = panewise.LookupClient(tmp_path / "lookups")
    now_us = client.watermark_us
    assert now_us == marks[-1]
    rows = [row for row in wanted("held", QUERIES["top"]) if now_us - 12 * MS < row["window_end"] <= now_us]
    assert counted(as_rows(client.lookup("held"))) == counted(rows)
