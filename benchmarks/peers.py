"""Panewise beside other tools for sliding windows: the same queries, events and answers, in one run.

Batch: DuckDB, Polars, pandas `rolling`, Spark's `window()`, Spark's OVER frames without and with its segment tree.
Streaming: Spark's `window()`, Flink's HOP, Pathway. Beside them Panewise in one process and on Spark. There are 1, 10,
100 and 1,000 mixed queries over real flights and over generated trades; docs/peers.md shows each peer's form.

Each way is a program of its own. They run one after the other, each peer in an environment that this command makes. The
time includes planning, reading events, computing and writing answers; starting and a warm-up on a tenth of the events
come before. A point that misses the limit is stopped, and larger ones are not tried. Checksums of all answers must
agree, or the program ends with an error.

Prints a JSON line per measurement with --json, a table otherwise. Run: panewise bench peers --json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import shutil
import signal
import statistics
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from _peers.checksums import Checksum, differences, overall, read_checksum
from _peers.data import Dataset, describe, folders_of, make_dataset, point_of
from _peers.environments import NotInstalledError, default_folder, interpreter
from _peers.picture import draw, lines_of
from _peers.processes import STARTING_LIMIT_S, FailedError, NotFinishedError, Program
from _peers.ways import EVERY_WAY, Way
from panewise.errors import PanewiseError
from panewise.spark import ensure_java

WARM_QUERIES = 10
REPEAT_WITHIN_S = 20.0
"""A point is repeated only while its runs together took less than this."""
QUICK_EVENTS, QUICK_KEYS, QUICK_QUERIES = 20_000, 20, [1, 12]
AHEAD_FROM, WANTED_AT = 10, (100, 20.0)
"""Targets: from how many queries Panewise is ahead of each peer, and by how much at a larger number."""


class Output:
    """Prints measurements as they come, and keeps them."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.lines: list[dict[str, Any]] = []

    def emit(self, section: str, **fields: Any) -> None:
        line = {"bench": "peers", "section": section, **fields}
        self.lines.append(line)
        if self._as_json:
            print(json.dumps(line), flush=True)
        else:
            shown = {name: value for name, value in fields.items() if value is not None and name != "hash"}
            print(f"{section:6}", "  ".join(f"{name} {value}" for name, value in shown.items()), flush=True)


class Bench:
    """All ways over one data set."""

    def __init__(self, dataset: Dataset, options: argparse.Namespace, output: Output, scratch: Path) -> None:
        self._dataset, self._options, self._output, self._scratch = dataset, options, output, scratch
        self._reference: dict[int, Checksum] = {}
        self._seconds: dict[tuple[str, int], float] = {}
        self.differed: list[str] = []

    def measure(self, way: Way) -> None:
        """Every number of queries in turn, until one does not finish."""
        counts = list(self._options.queries)
        folder = self._scratch / way.name
        folder.mkdir()
        program = None
        try:
            program = self._start(way, folder)
            version = program.next_line("warm", STARTING_LIMIT_S)["version"]
            while counts:
                self._measure_point(way, program, counts[0], version)
                counts.pop(0)
        except NotInstalledError as error:
            self._give_up(way, counts, "not installed", str(error))
        except NotFinishedError:
            limit = self._options.limit
            self._give_up(way, counts[:1], "not finished", f"stopped after {limit:g} s", program)
            note = f"not tried: n={counts[0]} did not finish in {limit:g} s"
            self._give_up(way, counts[1:], "not tried", note)
        except FailedError as error:
            self._give_up(way, counts[:1], "failed", str(error), program)
            self._give_up(way, counts[1:], "not tried", f"not tried: n={counts[0]} failed")
        finally:
            if program is not None:
                program.end()
            shutil.rmtree(folder, ignore_errors=True)

    def _start(self, way: Way, folder: Path) -> Program:
        python = interpreter(way.environment, self._options.environments)
        dataset, options = self._dataset, self._options
        warm = point_of(dataset, min(WARM_QUERIES, max(options.queries)), folder / "warm-up")
        job = {
            "stream": asdict(dataset.stream),
            "cores": options.cores,
            "settings": way.settings,
            "scratch": str(folder),
            "events": folders_of(dataset.events),
            "warm_up": folders_of(dataset.warm_up),
            "warm_point": warm,
            "points": [point_of(dataset, count, folder / str(count)) for count in options.queries],
            "repeat": options.repeat,
            "repeat_within_s": min(REPEAT_WITHIN_S, options.limit / 4),
        }
        path = folder / "job.json"
        path.write_text(json.dumps(job))
        environment = {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).resolve().parent),
            "PATHWAY_THREADS": str(options.cores),
            "POLARS_MAX_THREADS": str(options.cores),
        }
        command = [str(python), "-m", f"_peers.{way.program}", str(path)]
        return Program(command, environment, self._scratch / f"{way.name}.log")

    def _measure_point(self, way: Way, program: Program, count: int, version: str) -> None:
        program.next_line("began", STARTING_LIMIT_S)
        program.peak_bytes = 0
        # Repetitions begin only while there is time for them.
        ended = program.next_line("ended", self._options.limit)
        seconds = statistics.median(ended["seconds"])
        queries = describe(self._dataset.make_queries(count))
        checksum = read_checksum(Path(ended["answers"]), queries)
        differing = differences(self._reference.setdefault(count, checksum), checksum)
        if differing:
            self.differed.append(f"{self._dataset.name}, {way.name}, {count} queries: {len(differing)} differ")
        self._seconds[way.name, count] = seconds
        total = overall(checksum)
        self._emit(
            way, count, "finished", version=version, seconds=round(seconds, 4), runs=len(ended["seconds"]),
            times_panewise=self._times(way, count), peak_mb=round(program.peak_bytes / 1e6), answers=total.rows,
            equal=not differing, hash=f"{total.hash:016x}", total=total.total,
            note=f"first to differ: {' '.join(differing[0])}" if differing else None,
        )  # fmt: skip
        for folder in Path(ended["answers"]).parent.iterdir():
            shutil.rmtree(folder, ignore_errors=True)

    def _times(self, way: Way, count: int) -> float | None:
        """How many times as long as the way of Panewise that it is compared with."""
        panewise = self._seconds.get((way.against or way.name, count))
        return None if panewise is None else float(f"{self._seconds[way.name, count] / panewise:.3g}")

    def _give_up(self, way: Way, counts: list[int], status: str, note: str, program: Program | None = None) -> None:
        for count in counts:
            peak = None if program is None else round(program.peak_bytes / 1e6)
            self._emit(way, count, status, peak_mb=peak, note=note)

    def _emit(self, way: Way, count: int, status: str, **fields: Any) -> None:
        self._output.emit(
            "point", data=self._dataset.name, events=self._dataset.count, mode=way.mode, way=way.name, label=way.label,
            is_panewise=way.is_panewise, queries=count, status=status, **fields,
        )  # fmt: skip

    def targets(self, ways: list[Way]) -> None:
        """For each peer, whether Panewise is ahead from ten queries on, and by how much at a hundred."""
        at, wanted = WANTED_AT
        for way in ways:
            if way.against is None:
                continue
            for count in self._options.queries:
                panewise = self._seconds.get((way.against, count))
                if panewise is None or count < AHEAD_FROM:
                    continue
                mine = self._seconds.get((way.name, count))
                least = mine if mine is not None else self._missed(way, count)
                if least is None:
                    continue
                times, want = least / panewise, wanted if count == at else 1.0
                self._output.emit(
                    "target", data=self._dataset.name, way=way.name, against=way.against, queries=count,
                    times=float(f"{times:.3g}"), at_least=mine is None, wanted=want, met=times > want,
                )  # fmt: skip

    def _missed(self, way: Way, count: int) -> float | None:
        """The limit, if the way missed it at this many queries or fewer."""
        stopped = [
            line["queries"]
            for line in self._output.lines
            if (line.get("data"), line.get("way"), line.get("status")) == (self._dataset.name, way.name, "not finished")
        ]
        return self._options.limit if any(one <= count for one in stopped) else None


def facts(options: argparse.Namespace) -> dict[str, Any]:
    """What the picture says about the run."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []:
        if line.startswith("model name"):
            processor = line.partition(":")[2].strip()
            break
    command = shlex.join(["panewise", "bench", "peers", *sys.argv[1:]])
    known = {"processor": processor, "cores": options.cores, "python": platform.python_version()}
    return {"command": command, **known, "limit_s": options.limit, "keys": options.keys, "seed": options.seed}


def chosen_ways(names: list[str]) -> list[Way]:
    """The ways of these names, and those of Panewise that they are compared with."""
    wanted = {*names, *(way.against for way in EVERY_WAY if way.name in names)}
    return [way for way in EVERY_WAY if way.name in wanted]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="panewise bench peers", description=__doc__.splitlines()[0])
    names = [way.name for way in EVERY_WAY]
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--peers", nargs="+", choices=names, default=names, metavar="WAY", help=", ".join(names))
    parser.add_argument("--queries", type=_positive, nargs="+", default=[1, 10, 100, 1000])
    parser.add_argument("--data", choices=["flights", "generated", "both"], default="both")
    parser.add_argument("--quick", action="store_true", help="a few events and queries, to see that everything works")
    parser.add_argument("--events", type=int, default=1_000_000, help="generated events")
    parser.add_argument("--keys", type=int, default=200, help="symbols among the generated events")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each number of queries")
    parser.add_argument("--repeat", type=int, default=3, help="runs of which the median is taken, where they are short")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--environments", type=Path, default=default_folder(), help="where peers are installed")
    parser.add_argument("--picture", type=Path, metavar="FILE.png", help="draw the measurements")
    parser.add_argument(
        "--from", type=Path, dest="lines", metavar="FILE", help="draw these JSON lines, measure nothing"
    )
    options = parser.parse_args(arguments)
    options.flights = None
    if options.quick:
        options.events = options.flights = QUICK_EVENTS
        options.keys, options.queries, options.repeat = QUICK_KEYS, QUICK_QUERIES, 1
    options.queries = sorted(set(options.queries))
    if options.lines is not None and options.picture is None:
        parser.error("--from needs --picture")
    return options


def main() -> None:
    options = parse(sys.argv[1:])
    if options.lines is not None:
        draw(lines_of(options.lines.read_text().splitlines()), options.picture)
        return
    # When it is told to end, it ends what it started and removes what it wrote, as on Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("panewise bench peers: ended"))
    output = Output(options.json)
    output.emit("facts", **facts(options))
    ensure_java()
    differed = []
    ways = chosen_ways(options.peers)
    for name in ["flights", "generated"] if options.data == "both" else [options.data]:
        with tempfile.TemporaryDirectory(prefix="panewise-peers-") as folder:
            scratch = Path(folder)
            dataset = make_dataset(name, scratch / "data", options.events, options.keys, options.seed, options.flights)
            bench = Bench(dataset, options, output, scratch)
            for way in ways:
                bench.measure(way)
            bench.targets(ways)
            differed += bench.differed
    if options.picture is not None:
        draw(output.lines, options.picture)
    if differed:
        sys.exit("the answers are not the same:\n  " + "\n  ".join(differed))


if __name__ == "__main__":
    try:
        main()
    except PanewiseError as error:
        sys.exit(f"panewise bench peers: {error}")
