"""Lookups over HTTP while the stream runs: how long a request takes, and how old its answers are.

One process writes the folder of a job without Spark (with --spark, `panewise run` does, over files that a process
writes), one is `panewise serve`, and this one asks: 20 queries and one random key a request. Requests begin at fixed
times whether or not the ones before are done, and a request that waits for its turn has begun at its time, so that a
server that stops for a moment is seen to stop. With --job-nice, whoever writes the folder stands back behind the others
by so much.

Sections, each a JSON line with --json and a line of text otherwise:
  stream   with --spark: what the job's batches took meanwhile
  latency  at `--rate` requests a second: median, 99th, 99.9th percentile and longest time; the oldest answer's age,
           and how many batches had been written since its own when it was asked for (`batches_behind`, at most);
           `late_ms` is how late this program began a request at most, which counts as the server's time
  most     as fast as `--connections` connections can: requests a second
  memory   the memory of the server, and of a second one over the same folder; what processes share counts in parts
  feast    with --feast PYTHON, an interpreter that has Feast: the same requests for as many values, to Feast's feature
           server over SQLite, or with --feast-store redis over a Redis that is started for it. Its values do not
           change meanwhile, and nothing else works (`--feast-keys` of them: it fills slowly); at half the rate, or a
           quarter, until it keeps up

Run: panewise bench serve --json
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _slot_feed import feed, write_files

QUERIES = 20
WARM_UP_S = 10.0
BEHIND_MS = 500.0
"""Who takes so long in the median does not keep up with the rate."""
MOST_WAITING = 5_000
"""With more requests waiting than this, the server falls behind for good, and there is nothing to measure."""


def statements() -> str:
    """Twenty queries over measurements: ten ranges, with and without SLIDE."""
    text = """CREATE STREAM measurements (t TIMESTAMP, k BIGINT, x DOUBLE)
        TIMESTAMP BY t WATERMARK 1 SECOND GRANULARITY 1 SECOND;"""
    for place in range(QUERIES // 2):
        window = f"RANGE {10 * (place + 1)} SECONDS"
        columns = "k, COUNT(*) AS n, AVG(x) AS mean, MAX(x) AS most"
        select = f"SELECT {columns} FROM measurements"
        text += f"CREATE QUERY sliding_{place} AS {select} [{window} SLIDE 1 SECOND] GROUP BY k;"
        text += f"CREATE QUERY latest_{place} AS {select} [{window}] GROUP BY k;"
    return text


def main() -> None:
    """Start the feeding process and the server, measure, and stop them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    parser.add_argument("--events", type=int, default=20_000, help="events a second")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=500, help="requests a second")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--trigger-ms", type=int, default=1_000, help="how often a batch begins")
    parser.add_argument("--spark", action="store_true", help="a real job writes the folder")
    parser.add_argument("--job-nice", type=int, default=0, help="the niceness of whoever writes the folder")
    parser.add_argument("--feast", type=Path, metavar="PYTHON")
    parser.add_argument("--feast-store", choices=["sqlite", "redis"], default="sqlite")
    parser.add_argument("--feast-keys", type=int, default=2_000)
    parser.add_argument("--only-feast", action="store_true", help="leave out the sections before")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.events, arguments.keys, arguments.rate = 3.0, 2_000, 500, 50
    if arguments.folder is not None:
        feed(statements(), arguments.folder, arguments.events, arguments.keys, arguments.trigger_ms)
        return
    if arguments.files is not None:
        write_files(arguments.files, arguments.events, arguments.keys, arguments.trigger_ms)
        return
    # So that whoever ends this program ends the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory() as scratch:
        for found in [] if arguments.only_feast else measured(arguments, Path(scratch) / "lookups"):
            found = {"events_per_s": arguments.events, "keys": arguments.keys, "queries": QUERIES, **found}
            print(json.dumps(found) if arguments.json else _text(found), flush=True)
        if arguments.feast is not None:
            found = feast(arguments, Path(scratch) / "feast")
            print(json.dumps(found) if arguments.json else _text(found), flush=True)


def feast(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What a client of Feast's server sees."""
    port, redis_port = _free_port(), _free_port()
    store, redis = "{type: sqlite, path: online.db}", None
    if arguments.feast_store == "redis":
        store = f'{{type: redis, connection_string: "127.0.0.1:{redis_port}"}}'
        redis = subprocess.Popen(["redis-server", "--port", str(redis_port), "--save", ""], stdout=sys.stderr)
    program = str(Path(__file__).with_name("_feast_store.py"))
    features = [f"{name}__{value}" for name in NAMES for value in ("n", "mean", "most")]
    command = [str(arguments.feast), program, str(folder), store, str(arguments.feast_keys), str(port), *features]
    server = subprocess.Popen(command, stdout=sys.stderr)
    try:
        until_s = time.monotonic() + 600
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            if server.poll() is not None or time.monotonic() > until_s:
                raise SystemExit("Feast's server did not start")
            time.sleep(0.2)
        names = json.dumps([f"v:{feature}" for feature in features])
        asked = Asked("/get-online-features", f'{{"features":{names},"entities":{{"k":[%d]}}}}', arguments.feast_keys)
        rate = arguments.rate
        while True:
            with suppress(BehindError):
                latency, most = asyncio.run(_ask(arguments, port, asked, rate))
                if latency["p50_ms"] < BEHIND_MS:
                    break
            rate //= 2
            # It still works on what it was asked.
            time.sleep(10.0)
    finally:
        for one in (server, redis):
            if one is not None:
                one.terminate()
                one.wait(30)
    taken = {name: latency[name] for name in ("requests", "requests_per_s", "p50_ms", "p99_ms", "p999_ms", "max_ms")}
    about = {"store": arguments.feast_store, "keys": arguments.feast_keys}
    return {"section": "feast", **about, **taken, "most_per_s": most["requests_per_s"]}


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def measured(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What a client of the server sees."""
    options = ["--events", str(arguments.events), "--keys", str(arguments.keys)]
    options += ["--trigger-ms", str(arguments.trigger_ms)]
    files = folder.with_name("events")
    options += ["--files", str(files)] if arguments.spark else ["--folder", str(folder)]
    writing = [_stands_back([sys.executable, __file__, *options], arguments.job_nice)]
    if arguments.spark:
        files.mkdir()
        writing.append(_stands_back([*PANEWISE, "run", str(_job_file(arguments, folder, files))], arguments.job_nice))
    servers: list[subprocess.Popen[str]] = []
    try:
        until_s = time.monotonic() + 300
        while not list((folder / "slots").rglob("*.panewise")):
            if any(one.poll() is not None for one in writing) or time.monotonic() > until_s:
                raise SystemExit("the feeding process did not start")
            time.sleep(0.1)
        command = [*PANEWISE, "serve", str(folder), "--port", "0"]
        command += ["--share", str(folder.with_name("shared"))]
        servers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        asked = Asked("/v1/lookup", f'{{"queries":{json.dumps(NAMES)},"keys":{{"k":%d}}}}', arguments.keys)
        try:
            found = asyncio.run(_ask(arguments, _port(servers[0]), asked, arguments.rate))
        except BehindError:
            raise SystemExit(
                f"the server cannot keep up with {arguments.rate} requests a second here; give a lower --rate"
            ) from None
        # The one server has just merged many batches; the other one reads them as they are.
        servers.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        _port(servers[1])
        # What it needed to start goes back to the system a moment later.
        time.sleep(0.0 if arguments.quick else 3.0)
        first, second = (_memory_mb(one.pid) for one in servers)
        stream = [_batches(folder.with_name("metrics.jsonl"))] if arguments.spark else []
        return [*stream, *found, {"section": "memory", "server_mb": first, "second_server_mb": second}]
    finally:
        for one in servers:
            one.terminate()
        for one in servers:
            one.wait(30)
        # The job first: it needs nobody to write events while it ends.
        for one in reversed(writing):
            assert one.stdin is not None
            one.stdin.close()
            if one is not writing[0]:
                one.terminate()
            one.wait(90)


PANEWISE = [sys.executable, "-c", "from panewise.cli.main import app; app(prog_name='panewise')"]


def _stands_back(command: list[str], nice: int) -> subprocess.Popen[bytes]:
    """A process that others go before."""
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr, preexec_fn=lambda: os.nice(nice))


def _job_file(arguments: argparse.Namespace, folder: Path, files: Path) -> Path:
    """A job that reads the files, and keeps what lookups need."""
    place = folder.parent
    (place / "queries.sql").write_text(statements())
    job = place / "job.toml"
    job.write_text(f"""
queries = "queries.sql"
[source]
format = "parquet"
path = "{files}"
[sink]
format = "noop"
[stream]
checkpoint = "{place / "checkpoint"}"
trigger = "{arguments.trigger_ms} milliseconds"
[metrics]
file = "{place / "metrics.jsonl"}"
[lookups]
folder = "{folder}"
[planning]
rate = {arguments.events}
""")
    return job


def _batches(metrics: Path) -> dict[str, Any]:
    """What the batches of a job took, but for the first ones, which wait for compilers."""
    batches = [json.loads(line) for line in metrics.read_text().splitlines()][10:]
    took_ms = [one["duration_ms"] for one in batches]
    return {
        "section": "stream",
        "batches": len(batches),
        "batch_p50_ms": round(float(np.median(took_ms)), 1),
        "batch_max_ms": max(took_ms),
        "rows_per_batch": round(sum(one["rows_in"] for one in batches) / len(batches)),
    }


def _port(server: subprocess.Popen[str]) -> int:
    """Where a server listens, once it does."""
    assert server.stderr is not None
    said = server.stderr.readline()
    port = re.search(r":(\d+)$", said.strip())
    if port is None:
        raise SystemExit(f"the server did not start: {said}{server.stderr.read()}")
    return int(port[1])


def _memory_mb(process: int) -> float | None:
    """The memory of a process, with its part of what it shares with others; None where the system does not tell."""
    told = Path(f"/proc/{process}/smaps_rollup")
    held = re.search(r"Pss:\s+(\d+)", told.read_text()) if told.exists() else None
    return None if held is None else round(int(held[1]) / 1e3, 1)


NAMES = [f"{kind}_{place}" for place in range(QUERIES // 2) for kind in ("sliding", "latest")]


class Asked(NamedTuple):
    """What a request asks: its path, its body with a place for a key, and how many keys there are."""

    path: str
    body: str
    keys: int


class Connection:
    """One connection that asks for the values of random keys."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: Asked) -> None:
        self._reader, self._writer = reader, writer
        self._asked = asked
        self._chance = np.random.default_rng(id(self) % 2**32)

    async def ask(self) -> bytes:
        """The body of an answer."""
        body = (self._asked.body % self._chance.integers(self._asked.keys)).encode()
        head = f"POST {self._asked.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answered = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answered.lower())
        assert length is not None
        content = await self._reader.readexactly(int(length[1]))
        if not answered.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"the server refused: {content.decode()}")
        return content


class BehindError(Exception):
    """The server falls behind for good."""


async def _ask(arguments: argparse.Namespace, port: int, asked: Asked, rate: int) -> list[dict[str, Any]]:
    # Pauses of this program would be measured as the server's.
    gc.collect()
    gc.disable()
    opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(arguments.connections)]
    connections = [Connection(*pair, asked) for pair in opened]
    await _at_rate(connections, rate, 1.0 if arguments.quick else WARM_UP_S)
    times_ms, ages, late_ms = await _at_rate(connections, rate, arguments.seconds)
    p50, p99, p999 = np.percentile(times_ms, [50, 99, 99.9])
    latency = {
        "section": "latency",
        "requests": len(times_ms),
        "requests_per_s": rate,
        "p50_ms": round(p50, 3),
        "p99_ms": round(p99, 3),
        "p999_ms": round(p999, 3),
        "max_ms": round(max(times_ms), 3),
        "late_ms": round(late_ms, 3),
    }
    if ages:
        oldest_s = round(max(age.age_s for age in ages), 3)
        latency |= {"oldest_s": oldest_s, "trigger_s": arguments.trigger_ms / 1e3}
        latency["batches_behind"] = _batches_behind(ages)
    seconds = min(arguments.seconds, 10.0)
    count = sum(await asyncio.gather(*(_fast(one, time.perf_counter() + seconds) for one in connections)))
    most = {"section": "most", "connections": arguments.connections, "requests_per_s": round(count / seconds, 1)}
    return [latency, most]


class Age(NamedTuple):
    """How old an answer was: when it was asked for, its age, its newest event, and when that was written."""

    asked_s: float
    age_s: float
    newest: bytes
    written_s: float


def _batches_behind(ages: list[Age]) -> int:
    """How many batches at most had been written after an answer's own when it was asked for."""
    written: dict[bytes, float] = {}
    for age in ages:
        written[age.newest] = min(age.written_s, written.get(age.newest, age.written_s))
    times_s = sorted(written.values())
    return max(bisect_right(times_s, age.asked_s) - bisect_right(times_s, written[age.newest]) for age in ages)


async def _at_rate(connections: list[Connection], rate: int, seconds: float) -> tuple[list[float], list[Age], float]:
    """Times and ages of requests that begin at fixed times, and how late this program began one at most."""
    late_s = 0.0
    free: asyncio.Queue[Connection] = asyncio.Queue()
    for one in connections:
        free.put_nowait(one)
    times_ms: list[float] = []
    ages: list[Age] = []

    async def ask(begins_s: float) -> None:
        connection = await free.get()
        asked_s = time.time()
        content = await connection.ask()
        times_ms.append(1e3 * (time.perf_counter() - begins_s))
        free.put_nowait(connection)
        age, newest = re.search(rb'"age_s":([0-9.e-]+)', content), re.search(rb'"newest_event":"([^"]+)', content)
        if age is not None and newest is not None:
            ages.append(Age(asked_s, float(age[1]), newest[1], time.time() - float(age[1])))

    began_s = time.perf_counter()
    running: set[asyncio.Task[None]] = set()
    for place in range(int(rate * seconds)):
        begins_s = began_s + place / rate
        pause_s = begins_s - time.perf_counter()
        if pause_s > 0:
            await asyncio.sleep(pause_s)
        late_s = max(late_s, time.perf_counter() - begins_s)
        if len(running) > MOST_WAITING:
            raise BehindError
        task = asyncio.create_task(ask(begins_s))
        running.add(task)
        task.add_done_callback(running.discard)
    await asyncio.gather(*running)
    return times_ms, ages, 1e3 * late_s


async def _fast(connection: Connection, until_s: float) -> int:
    count = 0
    while time.perf_counter() < until_s:
        await connection.ask()
        count += 1
    return count


def _text(found: dict[str, Any]) -> str:
    rest = {name: value for name, value in found.items() if name != "section"}
    return f"{found['section']:8}" + "  ".join(f"{name} {value}" for name, value in rest.items())


if __name__ == "__main__":
    main()
