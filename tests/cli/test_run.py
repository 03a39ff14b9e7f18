"""`panewise run` for real: Parquet files in, Parquet files out, as a stream and as a batch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import panewise
from panewise.cli.exit_codes import ExitCode

pytestmark = pytest.mark.spark

WORKLOAD = """
CREATE STREAM readings (at TIMESTAMP, sensor STRING, value DOUBLE)
  TIMESTAMP BY at WATERMARK 1 MINUTE GRANULARITY 1 MINUTE;
CREATE QUERY per_sensor AS
  SELECT sensor, COUNT(*), MAX(value) FROM readings [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY sensor;
CREATE QUERY overall AS SELECT SUM(value) FROM readings [RANGE 5 MINUTES SLIDE 5 MINUTES] WHERE value >= 10;
"""
JOB = """
queries = "queries.sql"
mode = "{mode}"
[source]
format = "parquet"
path = "data"
[source.options]
maxFilesPerTrigger = 1
[sink]
format = "parquet"
path = "out/answers"
[stream]
checkpoint = "out/checkpoint"
[spark]
master = "local[1]"
"""
START = datetime(2024, 1, 1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An hour of readings, one a second from two sensors in turn, in three files by time."""
    (tmp_path / "queries.sql").write_text(WORKLOAD)
    (tmp_path / "data").mkdir()
    for part in range(3):
        seconds = range(part * 1200, (part + 1) * 1200)
        events = pa.table(
            {
                "value": [float(second % 60) for second in seconds],
                "unused": [0] * 1200,
                "at": pa.array([START + timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC")),
                "sensor": ["ab"[second % 2] for second in seconds],
            }
        )
        file = tmp_path / "data" / f"{part}.parquet"
        pq.write_table(events, file)
        os.utime(file, (part, part))  # Spark takes files by their age
    return tmp_path


COMMAND = [sys.executable, "-c", "from panewise.cli.main import app; app()", "run"]

RUNS = """
import json, os, sys
from panewise.cli.main import app
orders, replies = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
for order in map(json.loads, orders):
    for number in (1, 2):
        os.dup2(os.open(order["files"][number - 1], os.O_WRONLY | os.O_CREAT), number)
    sys.argv, code = ["panewise", "run", *order["arguments"]], 0
    try:
        app()
    except SystemExit as end:
        code = end.code or 0
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    print(code, file=replies, flush=True)
"""


class Runs:
    """Runs one job after the other in one process: Java takes longer to start than these jobs do."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._count = 0

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What the command does with these arguments."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._count += 1
        files = [folder / f"{name}-{self._count}" for name in ("stdout", "stderr")]
        order = {"arguments": arguments, "files": list(map(str, files))}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        code = self._process.stdout.readline()
        said = [file.read_text() for file in files]
        assert code, said
        return subprocess.CompletedProcess(arguments, int(code), *said)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=120)


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    started = Runs()
    yield started
    started.close()


def panewise_run(
    folder: Path, mode: str, *options: str, tables: str = "", runs: Runs | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the job in a process of its own, or after others in one."""
    (folder / "job.toml").write_text(JOB.format(mode=mode) + tables)
    arguments = [*options, str(folder / "job.toml")]
    if runs is not None:
        return runs.run(folder, *arguments)
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=300, check=False)


def answers(folder: Path) -> set[tuple[object, ...]]:
    """What was written, each answer as (query, start and end in minutes, sensor, aggregate, value)."""
    table = pq.read_table(folder / "out" / "answers")

    def minutes(at: datetime) -> int:
        return int((at.replace(tzinfo=None) - START) / timedelta(minutes=1))

    return {
        (
            row["query"],
            minutes(row["window_start"]),
            minutes(row["window_end"]),
            row["sensor"],
            row["aggregate"],
            row["value"],
        )
        for row in table.to_pylist()
    }


def expected(last_end: int) -> set[tuple[object, ...]]:
    """The answers of the windows that end by a minute, from the way the readings were made."""
    found: set[tuple[object, ...]] = set()
    for end in range(5, last_end + 1, 5):
        minutes_covered = min(end, 60) - max(end - 10, 0)
        for sensor, most in (("a", 58.0), ("b", 59.0)):
            window = ("per_sensor", end - 10, end, sensor)
            found |= {(*window, "COUNT(*)", 30.0 * minutes_covered), (*window, "MAX(value)", most)}
        if end <= 60:
            found.add(("overall", end - 5, end, None, "SUM(value)", 5.0 * sum(range(10, 60))))
    return found


def test_stream(folder: Path) -> None:
    done = panewise_run(folder, "stream")

    assert done.returncode == 0, done.stderr
    batches = [line for line in done.stdout.splitlines() if line.startswith("batch ")]
    assert sum("rows in 1,200" in line for line in batches) == 3
    assert "late 0" in batches[0]
    assert "3,600 rows in" in done.stdout
    assert "time of the driver: " in done.stdout
    assert "state: " in done.stdout
    # The last reading is at 59:59, so the watermark stops at 58:59 and closes the windows up to 55.
    assert answers(folder) == expected(last_end=55)

    # A failure in Spark is told shortly, and a run that fails adds nothing.
    (folder / "data" / "3.parquet").write_text("this is no Parquet")
    failed = panewise_run(folder, "stream")
    assert failed.returncode == 2
    assert "the job failed in Spark" in failed.stderr
    assert "3.parquet" in failed.stderr
    assert "\tat org.apache" not in failed.stderr
    assert answers(folder) == expected(last_end=55)


def wait_for_line(url: str, line: str) -> None:
    """Wait until a page has a line: two listeners tell the console and the page of a batch, one after the other."""
    until_s = monotonic() + 60
    while True:
        with urllib.request.urlopen(url, timeout=10) as page:
            found = page.read().decode().splitlines()
        if line in found:
            return
        assert monotonic() < until_s, found
        sleep(0.1)


def test_a_stream_that_is_stopped_goes_on_where_it_was(folder: Path, runs: Runs) -> None:
    watched = JOB.replace("[stream]", "[metrics]\nport = 0\nfile = 'out/metrics.jsonl'\n[stream]\ntrigger = '1 second'")
    (folder / "job.toml").write_text(watched.format(mode="stream"))
    with subprocess.Popen([*COMMAND, str(folder / "job.toml")], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        url = lines_until(running.stdout, "metrics at ")[-1].split()[-1]
        lines_until(running.stdout, "batch 0 ")
        wait_for_line(url, 'panewise_rows_in_total{job_name="job"} 1200.0')
        running.send_signal(signal.SIGTERM)
        rest = running.stdout.read()
        assert running.wait(timeout=120) == 0
    assert "stopped: " in rest
    assert f"Run it again to go on from {folder / 'out' / 'checkpoint'}" in rest
    metrics = [json.loads(line) for line in (folder / "out" / "metrics.jsonl").read_text().splitlines()]
    committed = [file for file in (folder / "out" / "checkpoint" / "commits").iterdir() if file.name.isdigit()]
    assert [batch["batch"] for batch in metrics] == list(range(len(committed)))

    on = panewise_run(folder, "stream", "--json", runs=runs)
    assert on.returncode == 0, on.stderr
    assert answers(folder) == expected(last_end=55)
    *batches, done = map(json.loads, on.stdout.splitlines())
    assert [line["event"] for line in batches] == ["batch"] * len(batches)
    assert (done["event"], done["batches"]) == ("done", len(batches))
    assert sum(batch["rows_in"] for batch in [*metrics, *batches]) == 3600
    assert metrics[-1]["batch"] < batches[0]["batch"]

    (folder / "queries.sql").write_text(WORKLOAD.replace("GRANULARITY 1 MINUTE", "GRANULARITY 30 SECONDS"))
    shutil.copy(folder / "data" / "2.parquet", folder / "data" / "3.parquet")
    refused = panewise_run(folder, "stream", runs=runs)
    assert refused.returncode == 2
    assert "the job failed in Spark: the checkpoint does not fit the job: its slots are readings" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_job_goes_on_from_its_backup(folder: Path, runs: Runs) -> None:
    lookups, out = "[lookups]\nfolder = 'out/lookups'\n", folder / "out"
    together = [out / "checkpoint", out / "lookups", out / "answers" / "_spark_metadata"]
    later = (folder / "data" / "2.parquet").rename(folder / "later.parquet")
    assert panewise_run(folder, "stream", tables=lookups, runs=runs).returncode == 0
    backup("save", folder / "saved.tar", *together)
    at_backup = panewise.LookupClient(out / "lookups").watermark_us

    # What comes after the backup is lost with it, and is done once more from the source.
    later.rename(folder / "data" / "2.parquet")
    assert panewise_run(folder, "stream", tables=lookups, runs=runs).returncode == 0
    listed, looked_up = listed_answers(folder), looked_up_now(folder)
    for place in together:
        place.rename(folder / f"broken {place.name}")
    restored = backup("restore", folder / "saved.tar")
    assert restored.splitlines() == [str(place) for place in together]
    assert panewise.LookupClient(out / "lookups").watermark_us == at_backup

    on = panewise_run(folder, "stream", "--json", tables=lookups, runs=runs)
    assert on.returncode == 0, on.stderr
    assert sum(json.loads(line).get("rows_in", 0) for line in on.stdout.splitlines()[:-1]) == 1200
    assert listed_answers(folder) == listed
    assert len(listed) == len(set(listed)) == len(expected(last_end=55))
    assert looked_up_now(folder) == looked_up


def backup(*arguments: object) -> str:
    script = Path(__file__).parents[2] / "deploy" / "backup.sh"
    done = subprocess.run([script, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def listed_answers(folder: Path) -> list[str]:
    """The answers as Spark reads them: of the files that the sink's log lists, and of no other."""
    logs = (folder / "out" / "answers" / "_spark_metadata").iterdir()
    entries = [line for log in logs if not log.name.startswith(".") for line in log.read_text().splitlines()[1:]]
    # Every tenth log repeats those before it.
    files = {json.loads(entry)["path"].removeprefix("file://") for entry in entries}
    return sorted(str(row) for file in files for row in pq.ParquetFile(file).read().to_pylist())


def looked_up_now(folder: Path) -> list[str]:
    client = panewise.LookupClient(folder / "out" / "lookups")
    return sorted(str(row) for query in client.workload.queries for row in client.lookup(query).to_pylist())


def test_when_java_dies_one_line_tells_it(folder: Path) -> None:
    (folder / "job.toml").write_text(JOB.replace("[stream]", "[stream]\ntrigger = '1 second'").format(mode="stream"))
    command = [*COMMAND, "--json", str(folder / "job.toml")]
    # Not a pipe: workers that outlive Java for a moment would keep it open.
    with (
        (folder / "stderr").open("w") as stderr,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True) as running,
    ):
        assert running.stdout is not None
        lines_until(running.stdout, '{"event": "batch"')
        for child in children(running.pid):
            os.kill(child, signal.SIGKILL)
        assert running.wait(timeout=120) == ExitCode.PASSING
        failed = json.loads(running.stdout.read().splitlines()[-1])
    err = (folder / "stderr").read_text()
    assert (failed["event"], failed["exit_code"], failed["failure"]) == ("failed", 75, "passing")
    told = [line for line in err.splitlines() if "Spark's Java process is gone" in line]
    assert told == [f"error: {failed['error']}"]
    for noise in ("Traceback", "Py4J", "Exception"):
        assert noise not in err.partition("\n" + told[0])[0].rpartition("Completed execution of UDF")[2]
    assert "WARN" in (folder / "out" / "checkpoint.spark.log").read_text(), "warnings go to a file by default"


def children(process: int) -> list[int]:
    """The processes that a process has started."""
    found = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=True)
    return [int(number) for number in found.stdout.split()]


OPERATIONS = """
buckets = 3
watermark = "10 minutes"
changed_only = true
[control]
format = "text"
path = "statements"
[lookups]
folder = "out/lookups"
[spark]
"""


def test_buckets_watermark_changes_control_and_lookups(folder: Path, runs: Runs) -> None:
    (folder / "statements").mkdir()
    added = "CREATE QUERY added AS SELECT MIN(value) FROM readings [RANGE 5 MINUTES SLIDE 5 MINUTES];"
    (folder / "statements" / "1.sql").write_text(f"-- over two lines\n{added}")
    (folder / "statements" / "2.sql").write_text("DROP QUERY missing;")
    (folder / "job.toml").write_text(JOB.format(mode="stream").replace("[spark]\n", OPERATIONS))
    done = runs.run(folder, str(folder / "job.toml"))

    assert done.returncode == 0, done.stderr
    # The last reading is at 59:59. The counts of the first whole window differ from those before it, and after that
    # nothing changes: one answer of the total, and one of the added query.
    changed = {answer for answer in expected(last_end=10) if answer[:3] != ("overall", 5, 10)}
    found = answers(folder)
    assert {answer for answer in found if answer[0] != "added"} == changed
    assert {answer[3:] for answer in found if answer[0] == "added"} == {(None, "MIN(value)", 0.0)}
    assert "statements of the control stream that were refused: 1" in done.stdout
    assert (folder / "out" / "lookups" / "job.json").exists()


def lines_until(output: IO[str], start: str) -> list[str]:
    """The lines up to the first that starts like this."""
    lines = []
    for line in output:
        lines.append(line.rstrip("\n"))
        if line.startswith(start):
            return lines
    raise AssertionError(f"no line starts with {start!r}: {lines}")


def test_batch(folder: Path, runs: Runs) -> None:
    last = "CREATE QUERY last AS SELECT SUM(value) FROM readings [PARTITION BY sensor ROWS 3] GROUP BY sensor;"
    (folder / "queries.sql").write_text(WORKLOAD + last)
    done = panewise_run(folder, "batch", "--json", tables='[lookups]\nfolder = "out/lookups"')

    assert done.returncode == 0, done.stderr
    assert answers(folder) == expected(last_end=65)
    with panewise.LookupClient(folder / "out" / "lookups") as client:
        assert client.lookup("last", keys={"sensor": "b"}).column("SUM(value)").to_pylist() == [59.0 + 57.0 + 55.0]
        assert client.lookup("overall").num_rows == 1
    said = json.loads(done.stdout)
    assert (said["event"], said["answers"]) == ("done", len(expected(last_end=65)))

    (folder / "queries.sql").write_text(WORKLOAD)
    again = panewise_run(folder, "batch", runs=runs)
    assert again.returncode == 2
    assert "already exists" in again.stderr


ASIDE_JOB = """
queries = "queries.sql"
mode = "{mode}"
[source]
format = "text"
path = "data"
decode = "json"
[sink]
format = "parquet"
path = "out/answers"
mode = "append"
[set_aside]
format = "json"
path = "out/aside"
mode = "append"
[stream]
checkpoint = "out/checkpoint"
[spark]
master = "local[1]"
"""
ASIDE_QUERIES = """
CREATE STREAM readings (at TIMESTAMP, sensor STRING, value BIGINT) TIMESTAMP BY at WATERMARK 1 MINUTE{bound};
CREATE QUERY total AS SELECT SUM(value), COUNT(*) FROM readings [RANGE 5 MINUTES SLIDE 5 MINUTES] GROUP BY sensor;
"""


@pytest.mark.parametrize("mode", ["stream", "batch"])
def test_poison_does_not_end_a_job_and_goes_to_a_sink_of_its_own(tmp_path: Path, mode: str, runs: Runs) -> None:
    huge = 9_000_000_000_000_000_000
    bound = " FUTURE BOUND 1 HOUR" if mode == "batch" else ""
    (tmp_path / "queries.sql").write_text(ASIDE_QUERIES.format(bound=bound))
    (tmp_path / "job.toml").write_text(ASIDE_JOB.format(mode=mode))
    (tmp_path / "data").mkdir()
    messages = [
        {"at": "2024-01-01T00:01:00Z", "sensor": "a", "value": huge},
        {"at": "2024-01-01T00:02:00Z", "sensor": "a", "value": huge},
        {"at": "2024-01-01T00:02:00Z", "sensor": "b", "value": 4},
        {"at": "9999-12-31T00:00:00Z", "sensor": "far", "value": 1},
        {"sensor": "untimed", "value": 2},
    ]
    lines = [*map(json.dumps, messages), '{"at": "2024-01-01T00:03:00Z", "sensor": ', "not JSON"]
    (tmp_path / "data" / "0.txt").write_text("\n".join(lines) + "\n")
    for part in (1, 2) if mode == "stream" else (1,):
        ran = runs.run(tmp_path, "--json", str(tmp_path / "job.toml"))
        assert ran.returncode == 0, ran.stderr
        last = json.loads(ran.stdout.splitlines()[-1])
        if mode == "stream" and part == 1:
            later = {"at": "2024-01-01T01:00:00Z", "sensor": "b", "value": 1}
            (tmp_path / "data" / "1.txt").write_text(json.dumps(later) + "\n")
            assert (last["future_events"], last["untimed_events"], last["malformed_events"]) == (1, 3, 2)
    if mode == "stream":
        assert last["overflown"] == {"total": 1}
    else:
        assert last["set_aside"] == 4
    rows = pq.read_table(tmp_path / "out" / "answers").to_pylist()
    first = {(row["sensor"], row["aggregate"]): row["exact"] for row in rows if row["window_end"].hour == 0}
    assert first == {("a", "SUM(value)"): None, ("a", "COUNT(*)"): 2, ("b", "SUM(value)"): 4, ("b", "COUNT(*)"): 1}
    written = [
        json.loads(line)
        for file in (tmp_path / "out" / "aside").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted((row["reason"], row["stream"]) for row in written) == [
        ("future", "readings"),
        ("malformed", "readings"),
        ("malformed", "readings"),
        ("untimed", "readings"),
    ]
    texts = {row["reason"]: row["event"] for row in written}
    assert json.loads(texts["future"])["sensor"] == "far"
    assert json.loads(texts["untimed"]) == {"at": None, "sensor": "untimed", "value": 2}
    assert {row["event"] for row in written if row["reason"] == "malformed"} == set(lines[-2:])


def test_missing_column_is_named(folder: Path, runs: Runs) -> None:
    (folder / "queries.sql").write_text(WORKLOAD.replace("value", "valeu"))
    done = panewise_run(folder, "batch", runs=runs)

    assert done.returncode == 2
    assert "[source]: the events have no column valeu; did you mean value?" in done.stderr


@pytest.mark.parametrize("place", ["source", "sink"])
def test_a_spark_without_delta_is_told_what_to_write(folder: Path, place: str, runs: Runs) -> None:
    job = JOB.format(mode="stream").replace(f'[{place}]\nformat = "parquet"', f'[{place}]\nformat = "delta"')
    (folder / "job.toml").write_text(job)
    done = runs.run(folder, str(folder / "job.toml"))

    assert done.returncode == 2
    assert f"[{place}] format: Spark has no Delta Lake" in done.stderr
    assert '"spark.jars.packages" = "io.delta:delta-spark_' in done.stderr
    assert '"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"' in done.stderr


def test_a_package_that_cannot_be_fetched_is_named(folder: Path) -> None:
    ivy = folder / "ivy.xml"
    # One repository, which is an empty folder: nothing is asked for in the network.
    ivy.write_text(
        f'''<ivysettings><settings defaultResolver="none"/><caches defaultCacheDir="{folder}/ivy"/>
        <resolvers><filesystem name="none"><artifact pattern="{folder}/none/[artifact].jar"/></filesystem></resolvers>
        </ivysettings>'''
    )
    settings = f'"spark.jars.ivySettings" = "{ivy}"\n"spark.jars.packages" = "no.such:package_2.13:1.0"'
    done = panewise_run(folder, "stream", tables=settings)

    assert done.returncode == 2
    assert "[spark] spark.jars.packages: Spark ended before it had started" in done.stderr
    assert "no.such:package_2.13:1.0" in done.stderr


WIDE_SINKS = """
[sink]
format = "parquet"
path = "out/tables"
[sink.readings_by_sensor_every_5_minutes]
path = "out/by_sensor"
"""


def wide_job(folder: Path, mode: str, runs: Runs) -> subprocess.CompletedProcess[str]:
    text = JOB.format(mode=mode).replace('[sink]\nformat = "parquet"\npath = "out/answers"\n', WIDE_SINKS)
    (folder / "job.toml").write_text('layout = "wide"\n' + text)
    return runs.run(folder, str(folder / "job.toml"))


def wide_rows(folder: Path) -> list[tuple[object, ...]]:
    """The rows of both tables, as `expected` has them. A window end is there as often as it was written."""
    by_sensor = pq.read_table(folder / "out" / "by_sensor")
    overall = pq.read_table(folder / "out" / "tables" / "readings_every_5_minutes")
    assert by_sensor.schema.field("per_sensor__COUNT(*)").type == pa.int64()
    found: list[tuple[object, ...]] = []
    for row in by_sensor.to_pylist():
        end = int((row["window_end"].replace(tzinfo=None) - START) / timedelta(minutes=1))
        window = ("per_sensor", end - 10, end, row["sensor"])
        found += [(*window, name, float(row[f"per_sensor__{name}"])) for name in ("COUNT(*)", "MAX(value)")]
    for row in overall.to_pylist():
        end = int((row["window_end"].replace(tzinfo=None) - START) / timedelta(minutes=1))
        found.append(("overall", end - 5, end, None, "SUM(value)", row["overall__SUM(value)"]))
    return found


def test_wide_tables_of_a_stream_have_their_sinks(folder: Path, runs: Runs) -> None:
    last = folder / "data" / "2.parquet"
    last.rename(folder / "2.parquet")
    first = wide_job(folder, "stream", runs)
    assert first.returncode == 0, first.stderr
    assert "2,400 rows in" in first.stdout
    (folder / "2.parquet").rename(last)
    again = wide_job(folder, "stream", runs)
    assert again.returncode == 0, again.stderr
    assert sorted(map(str, wide_rows(folder))) == sorted(map(str, expected(last_end=55)))


def test_wide_tables_of_a_batch_have_their_sinks(folder: Path, runs: Runs) -> None:
    done = wide_job(folder, "batch", runs)
    assert done.returncode == 0, done.stderr
    assert "rows in 2 tables" in done.stdout
    assert sorted(map(str, wide_rows(folder))) == sorted(map(str, expected(last_end=65)))


ROW_QUERIES = """
CREATE QUERY sensors AS SELECT HISTOGRAM(sensor) FROM readings [RANGE 10 MINUTES SLIDE 5 MINUTES];
CREATE QUERY greatest AS
  SELECT sensor, value FROM readings [RANGE 10 MINUTES SLIDE 5 MINUTES] ORDER BY value DESC LIMIT 2;
"""
ROW_SINKS = """
[sink.sensors]
format = "parquet"
path = "out/sensors"
[sink.greatest]
format = "parquet"
path = "out/greatest"
"""


def test_row_queries_have_sinks_beside_the_answers(folder: Path, runs: Runs) -> None:
    """A stream that is run again when the last file is there; everything is written once, by one query."""
    (folder / "queries.sql").write_text(WORKLOAD + ROW_QUERIES)
    last = folder / "data" / "2.parquet"
    last.rename(folder / "2.parquet")
    first = panewise_run(folder, "stream", tables=ROW_SINKS, runs=runs)
    assert first.returncode == 0, first.stderr
    assert "4 queries as a stream" in first.stdout
    (folder / "2.parquet").rename(last)
    again = panewise_run(folder, "stream", tables=ROW_SINKS, runs=runs)
    assert again.returncode == 0, again.stderr
    assert answers(folder) == expected(last_end=55)
    ends = range(5, 56, 5)
    sensors = [
        (row["window_end"].minute, row["value"], row["count"])
        for row in pq.read_table(folder / "out" / "sensors").to_pylist()
    ]
    assert sorted(sensors) == [(end, sensor, 300 if end > 5 else 150) for end in ends for sensor in "ab"]
    greatest = [
        (row["window_end"].minute, row["position"], row["sensor"], row["value"])
        for row in pq.read_table(folder / "out" / "greatest").to_pylist()
    ]
    assert sorted(greatest) == [(end, position, "b", 59.0) for end in ends for position in (1, 2)]
