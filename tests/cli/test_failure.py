"""The root cause in what Spark 4.3 says when something fails."""

from __future__ import annotations

import logging
import os
import socketserver
import struct
import zlib
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import accumulators

from panewise.cli import failure
from panewise.cli.checkpoint import damaged_files
from panewise.cli.exit_codes import ExitCode
from panewise.cli.failure import failure_code, job_failed, root_cause
from panewise.cli.java_death import told_once
from panewise.cli.job import EventSource, JobFile, Sink, StreamSettings

PYTHON_IN_STREAM = """\
[STREAM_FAILED] Query [id = 08, runId = 0f] terminated with exception: [PYTHON_EXCEPTION] An exception was \
thrown from the Python worker: Traceback (most recent call last):
  File "a.py", line 23, in boom
    raise ValueError("bad thing")
{error}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 08, runId = 0f]
"""
JAVA = """\
An error occurred while calling o192.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE] Error while reading file a.parquet. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.A.b(A.scala:898)
"""
CAUSED = JAVA + "Caused by: java.io.IOException: No space left on device\n\tat java.base/B.c(B.java:1)\n\t... 12 more\n"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            PYTHON_IN_STREAM.format(error="ValueError: bad thing\nin two lines"),
            "ValueError: bad thing\nin two lines",
        ),
        (PYTHON_IN_STREAM.format(error="panewise.errors.PanewiseError: SUM(x) overflows"), "SUM(x) overflows"),
        (
            "An exception was thrown:\nTraceback (most recent call last):\n  File\nKeyError: 'a'",
            "KeyError: 'a'",
        ),
        (JAVA, "[FAILED_READ_FILE] Error while reading file a.parquet."),
        (CAUSED, "No space left on device"),
        ("[X] No column `nope`. SQLSTATE: 42703;\n'Project ['nope]\n+- Relation", "[X] No column `nope`."),
        ("[PATH_ALREADY_EXISTS] Path out exists. SQLSTATE: 42K04", "[PATH_ALREADY_EXISTS] Path out exists."),
        ("", "RuntimeError"),
    ],
)
def test_root_cause(said: str, cause: str) -> None:
    assert root_cause(RuntimeError(said)) == cause


def test_unknown_format_gets_a_cure() -> None:
    assert "spark.jars.packages" in root_cause(RuntimeError("Failed to find data source: kafka."))


@pytest.mark.parametrize(
    "said",
    [
        # What Delta 4.1.0 makes of Spark 4.1.4.
        "[STREAM_FAILED] Query [id = 08, runId = 0f] terminated with exception: 'void org.apache.spark.sql.execution."
        "datasources.parquet.ParquetToSparkSchemaConverter.<init>(boolean, boolean)' SQLSTATE: XXKST\n=== Streaming",
        JAVA + "Caused by: java.lang.NoSuchMethodError: 'void a.b.C.<init>(boolean, int[])'\n\tat d.E.f(E.java:1)",
        "An error occurred while calling o1.load.\n: java.lang.NoClassDefFoundError: a/b/C\n\tat d.E.f(E.java:1)",
    ],
)
def test_a_jar_for_another_spark_gets_a_cure(said: str) -> None:
    assert "a jar was made for another version of Spark" in root_cause(RuntimeError(said))
    assert failure_code(RuntimeError(said)) is ExitCode.PERMANENT


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (PYTHON_IN_STREAM.format(error="panewise.spark.slot_file.SlotLogError: 3.panewise is cut off"), "PERMANENT"),
        (PYTHON_IN_STREAM.format(error="ValueError: bad thing"), "UNKNOWN"),
        (PYTHON_IN_STREAM.format(error="OSError: [Errno 28] No space left on device: '/x/y'"), "PASSING"),
        (
            PYTHON_IN_STREAM.format(
                error="panewise.errors.PanewiseError: cannot write the slot log in /x: [Errno 5] Input/output error"
            ),
            "PASSING",
        ),
        (PYTHON_IN_STREAM.format(error="MemoryError"), "PASSING"),
        (CAUSED, "PASSING"),
        (JAVA, "UNKNOWN"),
        (JAVA + "Caused by: java.lang.RuntimeException: file:/a.parquet is not a Parquet file", "PERMANENT"),
        (JAVA + "Caused by: java.net.ConnectException: Connection refused", "PASSING"),
        (JAVA + "Caused by: org.apache.kafka.common.errors.TimeoutException: Topic t not present", "PASSING"),
        ("[PATH_ALREADY_EXISTS] Path out exists. SQLSTATE: 42K04", "PERMANENT"),
        ("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. SQLSTATE: 40000", "PASSING"),
        ("Job aborted: Python worker exited unexpectedly (crashed)", "PASSING"),
        ("Job 3 cancelled because SparkContext was shut down", "PASSING"),
    ],
)
def test_failure_code(said: str, code: str) -> None:
    assert failure_code(RuntimeError(said)) is ExitCode[code]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"this is no Parquet", "PERMANENT"),
        (b"PAR1 cut off", "PERMANENT"),
        (b"", "PERMANENT"),
        (b"PAR1 whole, so the disk may have failed PAR1", "UNKNOWN"),
        (None, "UNKNOWN"),
    ],
)
def test_a_damaged_file_that_spark_gives_no_cause_for(tmp_path: Path, content: bytes | None, code: str) -> None:
    file = tmp_path / "3.parquet"
    if content is not None:
        file.write_bytes(content)
    said = (
        "[STREAM_FAILED] Query [id = 15, runId = f1] terminated with exception: [FAILED_READ_FILE.NO_HINT] "
        f"Encountered error while reading file file://{file}.  SQLSTATE: KD001 SQLSTATE: XXKST"
    )
    assert failure_code(RuntimeError(said)) is ExitCode[code]


def job(folder: Path) -> JobFile:
    return JobFile(
        file=Path("trades.toml"),
        queries=Path("trades.sql"),
        name="trades",
        mode="stream",
        sources={"": EventSource("rate")},
        sink=Sink("parquet", "s3a://market/answers"),
        stream=StreamSettings(checkpoint=str(folder / "checkpoint")),
        lookups=str(folder / "lookups"),
    )


@pytest.mark.parametrize(
    "error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111, "no")]
)
def test_the_death_of_java_is_one_line(tmp_path: Path, error: Exception) -> None:
    failed = job_failed(job(tmp_path), error)
    assert failed.exit_code is ExitCode.PASSING
    assert "\n" not in str(failed)
    assert str(failed).startswith(
        "trades.toml: Spark's Java process is gone: it was killed, or ran out of memory, see "
    )
    assert f"{tmp_path}/checkpoint.spark.log" in str(failed)
    assert str(failed).endswith(f"start the job again, and it goes on from {tmp_path}/checkpoint")


def test_threads_of_pyspark_print_nothing_when_java_is_gone(capsys: pytest.CaptureFixture[str]) -> None:
    of_py4j = logging.LogRecord("root", logging.ERROR, "/lib/py4j/java_gateway.py", 1, "Exception while", (), None)
    of_others = logging.LogRecord("root", logging.ERROR, "/lib/other.py", 1, "something else", (), None)
    root = logging.getLogger()
    server = accumulators.AccumulatorTCPServer
    with told_once():
        assert (root.filter(of_py4j), bool(root.filter(of_others))) == (False, True)
        server.handle_error(object.__new__(server), None, ("127.0.0.1", 1))
        assert capsys.readouterr().err == ""
    assert root.filter(of_py4j)
    assert server.handle_error is socketserver.BaseServer.handle_error


def test_a_full_disk_is_named_with_the_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = {tmp_path / "checkpoint": 4096, tmp_path / "lookups": 10**9}
    monkeypatch.setattr(failure, "_room", lambda path: room.get(path, 10**10))
    failed = job_failed(job(tmp_path), RuntimeError(CAUSED))
    assert failed.exit_code is ExitCode.PASSING
    assert "the job failed in Spark: No space left on device" in str(failed)
    assert f"hint: make room at {tmp_path}/checkpoint (4.1 kB free); start the job again, and it goes on" in str(failed)


def test_the_room_of_what_is_not_there_yet_is_that_of_its_folder(tmp_path: Path) -> None:
    free = os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize
    assert abs(failure._room(tmp_path / "not" / "there") - free) < 1 << 30


def write_with_checksums(file: Path, content: bytes) -> None:
    """As Hadoop writes a file to a disk, with a checksum for every 512 bytes."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    checksums = [zlib.crc32(content[place : place + 512]) for place in range(0, len(content), 512)]
    crc = b"crc\0" + struct.pack(f">{len(checksums) + 1}I", 512, *checksums)
    file.with_name(f".{file.name}.crc").write_bytes(crc)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    write_with_checksums(folder / "metadata", b'{"id":"46d2"}')
    write_with_checksums(folder / "offsets" / "0", b'v1\n{"batchWatermarkMs":0}\n{"logOffset":0}')
    write_with_checksums(folder / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
    write_with_checksums(folder / "state" / "0" / "0" / "1.changelog", bytes(range(256)) * 5)
    write_with_checksums(folder / "state" / "0" / "0" / "empty", b"")
    return folder


def test_a_whole_checkpoint(checkpoint: Path) -> None:
    assert damaged_files(checkpoint) == []
    failed = job_failed(job(checkpoint.parent), RuntimeError(JAVA))
    assert failed.exit_code is ExitCode.UNKNOWN
    assert "damaged" not in str(failed)


@pytest.mark.parametrize("file", ["metadata", "offsets/0", "commits/0", "state/0/0/1.changelog"])
@pytest.mark.parametrize("size", [0, 7])
def test_truncated_state_is_named_with_the_cure(checkpoint: Path, file: str, size: int) -> None:
    os.truncate(checkpoint / file, size)
    assert damaged_files(checkpoint) == [checkpoint / file]
    failed = job_failed(job(checkpoint.parent), RuntimeError("Unexpected end-of-input in field name"))
    assert failed.exit_code is ExitCode.PERMANENT
    assert f"the checkpoint is damaged: {checkpoint / file} is cut off, or was changed since" in str(failed)
    assert "hint: restore the checkpoint, together with the folder of [lookups], from a backup; or start" in str(failed)


@pytest.mark.parametrize("content", [b"", b"v1", b'v1\n{"batchWaterma', b"\0\0\0\0"])
def test_truncated_logs_are_found_without_checksums(checkpoint: Path, content: bytes) -> None:
    for log in ("offsets", "commits"):
        (checkpoint / log / ".0.crc").unlink()
    assert damaged_files(checkpoint) == []
    (checkpoint / "offsets" / "0").write_bytes(content)
    assert damaged_files(checkpoint) == [checkpoint / "offsets" / "0"]


def test_many_damaged_files_are_counted(checkpoint: Path) -> None:
    for file in ("commits/0", "offsets/0", "metadata"):
        os.truncate(checkpoint / file, 1)
    failed = job_failed(job(checkpoint.parent), RuntimeError("x"))
    assert f"{checkpoint}/commits/0 is cut off, or was changed since Spark wrote it, and so are 2 more files" in str(
        failed
    )
