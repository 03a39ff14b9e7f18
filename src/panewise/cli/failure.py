"""What went wrong in Spark, in a line or two instead of two stack traces, and whether a restart can mend it."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from panewise.cli.checkpoint import damaged_files
from panewise.cli.exit_codes import PASSING_ERRORS, ExitCode, JobFailedError
from panewise.cli.job import JobFile, local_path
from panewise.cli.progress import bytes_text

FAILURES = (PySparkException, Py4JError, ConnectionError)
"""What PySpark raises when a job fails in Spark, or when Spark's Java process is gone."""
LITTLE_SPACE = 16 << 20
"""A disk with less than this is full: Spark writes files of some megabytes."""

_TRACEBACK = "Traceback (most recent call last):"
# The end of a message, before details for debugging: stack frames, plans, states.
_REST = re.compile(r"\n\s*at |\n=== |\n== |;\n'|\n\s*SQLSTATE: | SQLSTATE: |\n\nDriver stacktrace:")
_WRAPPING = re.compile(r"^\[STREAM_FAILED\] .*?terminated with exception: ", re.DOTALL)
_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*: ")
_NO_TOPIC = "This server does not host this topic-partition"
_NO_TOPIC_HINT = "\n  hint: create the sink's topic, or write its name in [sink] options.topic as the broker has it"
_NO_FORMAT_HINT = '\n  hint: Spark fetches the package of a format that is named as [spark] "spark.jars.packages"'

# Java's error for a method that is not there; a stream that fails shows its message without the error's name.
_UNLINKED = re.compile(
    r"NoSuchMethodError|NoSuchFieldError|NoClassDefFoundError|AbstractMethodError|IncompatibleClassChangeError"
    r"|(?:^|: )'(?:void|boolean|byte|char|short|int|long|float|double|(?:[\w$]+\.)+[\w$]+)(?:\[\])* "
    r"(?:[\w$]+\.)+(?:<init>|[\w$]+)\([^()']*\)'"
)
_UNLINKED_HINT = (
    '\n  hint: a jar was made for another version of Spark; correct [spark] "spark.jars.packages" or "spark.jars", '
    "or use the version of Spark that the jar was made for"
)

_SQLSTATE = re.compile(r"SQLSTATE: (\w\w)")
_PERMANENT_STATES = ("0A", "22", "42")
"""Classes of SQLSTATE: what Spark cannot do, values that it cannot convert, names and paths that it refuses."""
_PASSING_STATES = ("08", "40", "53", "57")
"""Classes of SQLSTATE: connections, runs that meet, resources, and operators who step in."""
_FULL = ("No space left on device", "Disk quota exceeded", "Not enough space")
_PASSING = re.compile(
    "|".join(
        (
            *map(re.escape, _FULL),
            *(re.escape(os.strerror(number)) for number in sorted(PASSING_ERRORS)),
            r"[Tt]imed out",
            r"Timeout(?:Exception|Error)\b",
            r"UnknownHostException|NoRouteToHostException|SocketException|ConnectException",
            r"OutOfMemoryError|\bMemoryError\b",
            r"Python worker (?:exited unexpectedly|failed to connect back)",
            r"ExecutorLostFailure|Executor heartbeat timed out|Lost task .*executor lost",
            r"SparkContext was shut down|stopped SparkContext",
        )
    )
)
_DAMAGED = re.compile(
    r"CANNOT_READ_FILE_FOOTER|ParquetDecodingException|is not a Parquet file"
    r"|EOFException|[Cc]orrupt|Malformed (?:ORC|class)|checksum|Checksum|Failed to read log file"
    r"|Incomplete log file|ends prematurely|Unexpected end-of-input"
)
# Spark tells which file it could not read, but not always why.
_UNREAD_FILE = re.compile(r"\[FAILED_READ_FILE\S*\] .*? file (file:\S+\.parquet)")
_PARQUET_MARKS = (b"PAR1", b"PARE")
"""A Parquet file begins and ends with one of these."""
_OF_PANEWISE = re.compile(r"^panewise\.[\w.]+: ", re.MULTILINE)


def job_failed(job: JobFile, error: BaseException) -> JobFailedError:
    """What to tell somebody whose job has failed in Spark, and how the command ends."""
    if java_is_gone(error):
        return JobFailedError(
            f"{job.file}: Spark's Java process is gone: it was killed, or ran out of memory{_log_of(job)}; "
            f"{_go_on(job)}",
            ExitCode.PASSING,
        )
    told = f"{job.file}: the job failed in Spark: {root_cause(error)}"
    if any(full in str(error) for full in _FULL):
        return JobFailedError(f"{told}\n  hint: {_full_disks(job)}; {_go_on(job)}", ExitCode.PASSING)
    if damaged := _damaged(job):
        return JobFailedError(
            f"{job.file}: the checkpoint is damaged: {damaged}; Spark says: {root_cause(error)}\n"
            f"  hint: restore the checkpoint, together with the folder of [lookups], from a backup; or start with a "
            f"new checkpoint and an empty folder",
            ExitCode.PERMANENT,
        )
    code = failure_code(error)
    if code is ExitCode.PASSING:
        told += f"\n  hint: this may pass; {_go_on(job)}"
    elif code is ExitCode.UNKNOWN and job.log_file is not None:
        told += f"\n  hint: Spark's log is {job.log_file}"
    return JobFailedError(told, code)


def java_is_gone(error: BaseException | None) -> bool:
    """Whether an error says that nobody answers in Java any more."""
    while error is not None:
        if isinstance(error, Py4JNetworkError | ConnectionError):
            return True
        error = error.__cause__
    return False


def failure_code(error: BaseException) -> ExitCode:
    """How the command ends for an error that Spark raised."""
    text = str(error)
    is_of_panewise = _TRACEBACK in text and _OF_PANEWISE.search(text.rpartition(_TRACEBACK)[2]) is not None
    state = _SQLSTATE.search(text)
    if _PASSING.search(text):
        return ExitCode.PASSING
    if is_of_panewise or _UNLINKED.search(text) or _DAMAGED.search(text) or _names_a_damaged_file(text):
        return ExitCode.PERMANENT
    if state is not None and state[1] in _PASSING_STATES:
        return ExitCode.PASSING
    if state is not None and state[1] in _PERMANENT_STATES:
        return ExitCode.PERMANENT
    # An error of analysis carries its state, but not always in its text.
    return ExitCode.PERMANENT if _state_of(error) in _PERMANENT_STATES else ExitCode.UNKNOWN


def _names_a_damaged_file(text: str) -> bool:
    """Whether Spark could not read a file of this machine that is there and is no whole Parquet file."""
    found = _UNREAD_FILE.search(text)
    path = None if found is None else local_path(found[1])
    if path is None:
        return False
    try:
        with Path(path).open("rb") as file:
            begin = file.read(4)
            file.seek(max(0, file.seek(0, os.SEEK_END) - 4))
            return begin not in _PARQUET_MARKS or file.read() not in _PARQUET_MARKS
    except OSError:
        return False


def _state_of(error: BaseException) -> str:
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    return (state or "")[:2]


def _go_on(job: JobFile) -> str:
    if not job.is_stream:
        return "start the job again"
    return f"start the job again, and it goes on from {job.stream.checkpoint}"


def _log_of(job: JobFile) -> str:
    return "" if job.log_file is None else f", see Spark's log {job.log_file} and the log of the system"


def _damaged(job: JobFile) -> str:
    """Which files of a job's checkpoint are damaged, as far as this machine can look; empty where none is."""
    checkpoint = local_path(job.stream.checkpoint) if job.is_stream else None
    try:
        damaged = [] if checkpoint is None else damaged_files(Path(checkpoint))
    except OSError as error:
        return f"{error.filename} cannot be read: {error.strerror}"
    if not damaged:
        return ""
    more = f", and so are {len(damaged) - 1:,} more files" if len(damaged) > 1 else ""
    return f"{damaged[0]} is cut off, or was changed since Spark wrote it{more}"


def _full_disks(job: JobFile) -> str:
    """The places that a job writes to whose disks are full, or else the one with the least room."""
    given = (job.stream.checkpoint, job.lookups, *(sink.path for sink in job.every_sink))
    written = {Path(path) for path in map(local_path, given) if path is not None}
    written |= {file for file in (job.log_file, job.metrics.file) if file is not None}
    scratch = os.environ.get("SPARK_LOCAL_DIRS") or job.spark.get("spark.local.dir", "/tmp")
    written |= {Path(folder) for folder in scratch.split(",")}
    room = sorted((_room(path), str(path)) for path in written)
    full = [place for place in room if place[0] < LITTLE_SPACE] or room[:1]
    shown = ", ".join(f"{path} ({bytes_text(free)} free)" for free, path in full)
    return f"make room at {shown}"


def _room(path: Path) -> int:
    """The free bytes where a file or folder is, or would be."""
    while not path.exists() and path != path.parent:
        path = path.parent
    return shutil.disk_usage(path).free


def root_cause(error: BaseException) -> str:
    """The innermost message of an error that Spark raised."""
    text = str(error)
    if _TRACEBACK in text:
        return _last_python_error(text)
    if "Caused by: " in text:
        text = text.rpartition("Caused by: ")[2]
    elif text.startswith("An error occurred while calling "):
        text = text.partition("\n: ")[2]
    message = _cut(_CLASS.sub("", _WRAPPING.sub("", text))) or type(error).__name__
    if _NO_TOPIC in message:
        return message + _NO_TOPIC_HINT
    if _UNLINKED.search(text):
        return message + _UNLINKED_HINT
    return message + (_NO_FORMAT_HINT if "find" in message and "data source" in message else "")


def _last_python_error(text: str) -> str:
    """The error that ends the last Python traceback in a text: from its first line that is not indented."""
    lines = text.rpartition(_TRACEBACK)[2].splitlines()[1:]
    while lines and (lines[0].startswith(" ") or not lines[0]):
        lines.pop(0)
    message = _cut("\n".join(lines))
    # Panewise's own errors are already sentences; for another library's error, the class is part of the message.
    return re.sub(r"^panewise\.[\w.]+: ", "", message)


def _cut(text: str) -> str:
    return _REST.split(text, maxsplit=1)[0].strip()
