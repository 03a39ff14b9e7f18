"""A Delta table in, a Delta table out, with `panewise run`: each answer once, whatever is killed and when.

Another implementation of Delta, `deltalake`, writes the source and reads the sink.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from tests.answers import to_answers
from tests.cluster import trades
from tests.killed_job import Batches, KilledJob
from tests.maven import JarsUnavailableError, jars_of
from tests.oracle import Answer, assert_same_answers

import panewise
from panewise.cli.delta import SETTINGS, delta_package
from panewise.language.printer import label_of

MISSING = [name for name in ("delta", "deltalake") if find_spec(name) is None]
INSIST = os.environ.get("PANEWISE_INSIST_ON_DELTA") == "1"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found by their /proc/*/environ"),
    pytest.mark.skipif(
        bool(MISSING) and not INSIST, reason="needs Delta Lake of the Spark that is installed: make spark-matrix"
    ),
]

NAMED = (
    trades.STATEMENTS.replace("SUM(volume), COUNT(*)", "SUM(volume) AS volume, COUNT(*) AS trades")
    .replace("0.9), MAX(price)", "0.9) AS high, MAX(price) AS highest")
    .replace("SUM(price)", "SUM(price) AS paid")
)
"""The same queries with names that Delta takes."""
QUERIES = panewise.read(NAMED).queries

BATCHES = 8
"""More than the job is killed, so that there is always one left."""
WITHIN_S = 600

JOB = """
queries = "queries.sql"
mode = "{mode}"
[source]
format = "delta"
path = "events"
[source.options]
{options}
[sink]
format = "delta"
path = "answers"
{sink_mode}
[stream]
checkpoint = "checkpoint"
[spark]
master = "local[2]"
"spark.driver.memory" = "1g"
"spark.sql.shuffle.partitions" = "2"
"spark.jars" = "{jars}"
{settings}
"""


@pytest.fixture(scope="module")
def jars() -> str:
    """Delta's jars of the installed delta-spark, as Spark takes a list."""
    _, artifact, delta = delta_package(version("delta-spark"), pyspark.__version__).split(":")
    parts = f"-DincludeArtifactIds={artifact},delta-storage"
    try:
        found = jars_of(
            Path(__file__).parent / "delta.pom.xml", f"-Ddelta.artifact={artifact}", f"-Ddelta.version={delta}", parts
        )
    except JarsUnavailableError as error:
        if INSIST:
            pytest.fail(f"PANEWISE_INSIST_ON_DELTA is set, and {error}")
        pytest.skip(str(error))
    return ",".join(map(str, found))


def append(folder: Path, batch: list[trades.Event]) -> None:
    """One version more of the source, with the events of a batch."""
    from deltalake import write_deltalake

    events = [event | {"at": datetime.fromtimestamp(event["at"] / 1e6, UTC)} for event in batch]
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("symbol", pa.string()),
            ("market", pa.string()),
            ("price", pa.float64()),
            ("volume", pa.int64()),
        ]
    )
    write_deltalake(str(folder / "events"), pa.Table.from_pylist(events, schema), mode="append")


def answers_in(folder: Path) -> list[Answer]:
    """All rows of the sink, each as often as it stands there."""
    from deltalake import DeltaTable

    return to_answers(DeltaTable(str(folder / "answers")).to_pyarrow_table(), trades.WORKLOAD)


def write_job(folder: Path, jars: str, mode: str = "stream", sink_mode: str = "") -> Path:
    (folder / "queries.sql").write_text(trades.STATEMENTS)
    settings = "\n".join(f'"{name}" = "{value}"' for name, value in SETTINGS.items())
    options = "maxFilesPerTrigger = 1" if mode == "stream" else ""
    file = folder / "job.toml"
    file.write_text(JOB.format(mode=mode, options=options, sink_mode=sink_mode, jars=jars, settings=settings))
    return file


def in_flight(batches: Batches) -> bool:
    return batches.is_in_flight and not batches.is_only_written


def test_a_stream_that_is_killed_answers_once(tmp_path: Path, jars: str) -> None:
    for batch in trades.make_batches(BATCHES):
        append(tmp_path, batch)
    file = write_job(tmp_path, jars)
    sink_log = tmp_path / "answers" / "_delta_log"
    job = KilledJob(file, tmp_path / "checkpoint", sink_log, tmp_path / "scratch")
    try:
        # In the middle of a batch: nothing of it may be in the table, and all of it must be there later.
        job.start()
        job.wait_for_batch(2, WITHIN_S)
        killed = job.kill(in_flight)
        assert in_flight(killed)
        # Right after Delta has committed a batch, and before Spark has: the batch runs again and must not count twice.
        job.start()
        job.wait_for_write(killed.written + 2, WITHIN_S)
        assert job.kill(lambda batches: True).is_only_written
        job.start()
        job.wait(WITHIN_S)
        assert_same_answers(answers_in(tmp_path), trades.closed_answers(BATCHES))
        # Another day, with more events.
        more = BATCHES + 2
        for batch in trades.make_batches(more)[BATCHES:]:
            append(tmp_path, batch)
        job.start()
        job.wait(WITHIN_S)
        assert_same_answers(answers_in(tmp_path), trades.closed_answers(more))
    finally:
        job.close()


def wide_values(folder: Path) -> Counter[tuple[object, ...]]:
    """Every value of the wide tables, as often as it stands there."""
    from deltalake import DeltaTable

    found: Counter[tuple[object, ...]] = Counter()
    for query in QUERIES.values():
        for row in DeltaTable(str(folder / "answers" / query.name)).to_pyarrow_table().to_pylist():
            group = tuple(row[name] for name in query.group_by)
            for item in query.select:
                if item.is_answer:
                    name = label_of(item)
                    found[query.name, row["window_end"], group, name, shown(row[name])] += 1
    return found


def expected_values(batches: int) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for answer in trades.closed_answers(batches):
        query = QUERIES[answer.query]
        end = datetime.fromtimestamp(answer.window_end / 1e6, UTC)
        group = tuple(dict(answer.group)[name] for name in query.group_by)
        found[query.name, end, group, label_of(query.select[answer.item]), shown(answer.value)] += 1
    return found


def shown(value: object) -> object:
    return None if value is None else float(f"{value:.9g}")


def test_wide_tables_of_a_stream_that_is_killed_are_there_once(tmp_path: Path, jars: str) -> None:
    for batch in trades.make_batches(BATCHES):
        append(tmp_path, batch)
    file = write_job(tmp_path, jars)
    file.write_text('layout = "wide"\nby = "query"\n' + file.read_text())
    (tmp_path / "queries.sql").write_text(NAMED)
    # The first table is written, and maybe no other, when the job is killed: all are written again.
    sink_log = tmp_path / "answers" / "by_symbol" / "_delta_log"
    job = KilledJob(file, tmp_path / "checkpoint", sink_log, tmp_path / "scratch")
    try:
        job.start()
        job.wait_for_write(2, WITHIN_S)
        job.kill(lambda batches: True)
        job.start()
        job.wait(WITHIN_S)
        assert wide_values(tmp_path) == expected_values(BATCHES)
    finally:
        job.close()


def test_names_that_delta_refuses_are_told_before_anything_runs(tmp_path: Path, jars: str) -> None:
    append(tmp_path, trades.make_batches(1)[0])
    file = write_job(tmp_path, jars)
    file.write_text('layout = "wide"\nby = "query"\n' + file.read_text())
    command = [sys.executable, "-c", "from panewise.cli.main import app; app()", "run", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 2, ran.stderr
    told = "[sink]: Delta Lake takes no spaces, brackets, commas or = in names of columns: SUM(volume), COUNT(*)"
    assert told in " ".join(ran.stderr.split())
    assert not (tmp_path / "answers").exists()


def test_a_batch_replaces_the_answers_before_it(tmp_path: Path, jars: str) -> None:
    for batch in trades.make_batches():
        append(tmp_path, batch)
    file = write_job(tmp_path, jars, mode="batch", sink_mode='mode = "overwrite"')
    job = KilledJob(file, tmp_path / "checkpoint", tmp_path / "answers" / "_delta_log", tmp_path / "scratch")
    try:
        for _ in range(2):
            job.start()
            job.wait(WITHIN_S)
            assert_same_answers(answers_in(tmp_path), trades.all_answers())
    finally:
        job.close()
