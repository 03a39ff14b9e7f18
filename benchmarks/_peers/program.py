"""What the programs of all ways share: read the job, warm up, run each point under the clock, report the results.

A job is a JSON file: where the events are, and for each point the queries and the folder for the answers. The program
writes a JSON line to its standard output when it is warm, when a point begins and when it has ended; whatever libraries
print goes to the standard error. It needs only the standard library.

The clock runs from the queries' description to the delivered answers: planning, reading events, computing, writing.
Starting the interpreter, importing packages, starting a session and the warm-up come before it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _peers.queries import Query, from_json


@dataclass(frozen=True)
class Stream:
    """What is known about the events: their attributes' names and types, and how late they may come."""

    name: str
    time: str
    columns: dict[str, str]
    """Types by name: TIMESTAMP, STRING, BIGINT or DOUBLE."""
    watermark_us: int


@dataclass(frozen=True)
class Folders:
    """The same events in the forms that programs can read."""

    batch: Path
    """Parquet, in the order of arrival."""
    stream: Path
    """The same files, and a last one with an event so late that every window before it closes."""
    csv: Path
    """Two files with every other event each, times in milliseconds (`at_ms`), no header."""
    named_csv: Path
    """The same, with a header."""


@dataclass(frozen=True)
class Job:
    """What a program must do."""

    stream: Stream
    cores: int
    settings: dict[str, str]
    scratch: Path
    """A folder for checkpoints and the like, emptied by the caller."""


Run = Callable[[Job, Folders, list[Query], str, Path], None]
"""Answers queries over the events of folders, and writes answers to a folder. It also gets the workload's text."""


def read_job(path: Path) -> tuple[Job, dict[str, Any]]:
    """The job of a file, and the rest of the file."""
    record = json.loads(path.read_text())
    job = Job(Stream(**record["stream"]), record["cores"], record["settings"], Path(record["scratch"]))
    return job, record


def serve(run: Run, version: str) -> None:
    """Warm up and run the points of the job whose file is the program's argument."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=results, flush=True)

    job, record = read_job(Path(sys.argv[1]))
    warm_up, folders = (_folders(record[name]) for name in ("warm_up", "events"))
    first = record["warm_point"]
    run(job, warm_up, _queries(first), first["text"], Path(first["answers"]))
    tell(state="warm", version=version)
    for point in record["points"]:
        queries, answers = _queries(point), Path(point["answers"])
        tell(state="began", queries=len(queries))
        seconds: list[float] = []
        while not seconds or (len(seconds) < record["repeat"] and sum(seconds) < record["repeat_within_s"]):
            target = answers / str(len(seconds))
            began = time.perf_counter()
            run(job, folders, queries, point["text"], target)
            seconds.append(time.perf_counter() - began)
        tell(state="ended", queries=len(queries), seconds=seconds, answers=str(target))
    # A JVM behind the program may hold the interpreter for long; everything is reported by now.
    results.close()
    sys.stderr.flush()
    os._exit(0)


def _folders(record: dict[str, str]) -> Folders:
    return Folders(**{name: Path(path) for name, path in record.items()})


def _queries(point: dict[str, Any]) -> list[Query]:
    return [from_json(one) for one in point["queries"]]
