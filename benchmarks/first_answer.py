"""A new process until its first answer: the import, and the engine with a cold and with a warm cache of kernels.

numba compiles a kernel the first time that it is called, and keeps it in a cache of files. A cold process starts with
an empty cache, as after the installation; a warm one has the cache that a process before it filled. Seconds count from
the start of the process until the answer is at hand, the start of Python included; the median of `--runs` processes.
`cpu_s` is what of it the processor worked, which a busy machine changes less.

Sections, each a JSON line with --json and a line of text otherwise:
  import   `import panewise` alone, without the start of Python
  sliding  a window by key closes: SUM, MAX and COUNT, 10 minutes every 5 minutes
  lookup   a query without SLIDE is looked up for one key
  mixed    a hundred queries close together: windows, groups, aggregates and filters that differ

Run: panewise bench first-answer --json
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

STREAM = """
CREATE STREAM trades (at TIMESTAMP, symbol STRING, market STRING, price DOUBLE, volume BIGINT)
  TIMESTAMP BY at WATERMARK 1 MINUTE;
"""
SLIDING = """
CREATE QUERY busy AS
  SELECT symbol, SUM(volume), MAX(price), COUNT(*) FROM trades [RANGE 10 MINUTES SLIDE 5 MINUTES] GROUP BY symbol;
"""
LOOKUP = "CREATE QUERY recent AS SELECT symbol, SUM(volume), MAX(price) FROM trades [RANGE 15 MINUTES] GROUP BY symbol;"
MIXED_QUERIES = 100
EVENTS = 1_000
SECTIONS = ("import", "sliding", "lookup", "mixed")


def answer(section: str) -> None:
    """What a new process does for a section. Everything is imported here: it is part of what is measured."""
    import panewise

    if section == "import":
        return
    engine = panewise.Engine(_mixed() if section == "mixed" else STREAM + (LOOKUP if section == "lookup" else SLIDING))
    minute_us = 60_000_000
    engine.push(
        "trades",
        {
            "at": [1_767_225_600_000_000 + event * minute_us // 10 for event in range(EVENTS)],
            "symbol": [f"s{event % 7}" for event in range(EVENTS)],
            "market": [f"m{event % 3}" for event in range(EVENTS)],
            "price": [100.0 + event % 11 for event in range(EVENTS)],
            "volume": [1 + event % 90 for event in range(EVENTS)],
        },
    )
    answers = engine.lookup("recent", keys={"symbol": "s3"}) if section == "lookup" else engine.advance("trades")
    assert answers.num_rows > 0


def _mixed() -> str:
    """A hundred queries, as text: reading them is part of what a process does."""
    windows = ["10 MINUTES SLIDE 5 MINUTES", "1 HOUR SLIDE 2 MINUTES", "25 MINUTES SLIDE 5 MINUTES"]
    aggregates = ["COUNT(*), SUM(volume)", "AVG(price), MAX(price)", "MIN(price)", "STDDEV_POP(price)"]
    groups = ["GROUP BY symbol", "GROUP BY market", "", "GROUP BY market, symbol"]
    filters = ["", "WHERE volume > 50", "WHERE market = 'm1'", "WHERE price >= 105.0", ""]
    return STREAM + "\n".join(
        f"CREATE QUERY q{number} AS SELECT {aggregates[number % 4]} FROM trades [RANGE {windows[number % 3]}] "
        f"{filters[number % 5]} {groups[number // 4 % 4]};"
        for number in range(MIXED_QUERIES)
    )


def write_bytecode() -> None:
    """Let Python keep its compiled modules in files, as pip does when it installs a package."""
    import panewise

    compileall.compile_dir(Path(panewise.__file__).parent, quiet=2)


def seconds_of(section: str, cache: Path) -> dict[str, float]:
    """What one new process takes, with the kernels of a folder."""
    environment = {**os.environ, "PANEWISE_CACHE": str(cache)}
    command = [sys.executable, __file__, "--once", section, "--began-ns", str(time.time_ns())]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def once(section: str, began_ns: int) -> None:
    """The new process: print how long it took, from its start and from this line."""
    here_ns = time.time_ns()
    answer(section)
    ended_ns = time.time_ns()
    found = {"from_start": (ended_ns - began_ns) / 1e9, "from_python": (ended_ns - here_ns) / 1e9}
    print(json.dumps({**found, "cpu": time.process_time()}))


def measure(section: str, runs: int) -> list[dict[str, Any]]:
    """The lines of a section."""
    with tempfile.TemporaryDirectory(prefix="panewise-kernels-") as folder:
        if section == "import":
            return [_line(section, None, [seconds_of(section, Path(folder)) for _ in range(runs)], "from_python")]
        cold = [seconds_of(section, Path(folder, str(run))) for run in range(runs)]
        warm = [seconds_of(section, Path(folder, "0")) for _ in range(runs)]
        return [_line(section, "cold", cold), _line(section, "warm", warm)]


def _line(section: str, cache: str | None, found: list[dict[str, float]], what: str = "from_start") -> dict[str, Any]:
    taken = [one[what] for one in found]
    return {
        "section": section,
        "cache": cache,
        "runs": len(taken),
        "median_s": round(statistics.median(taken), 3),
        "least_s": round(min(taken), 3),
        "most_s": round(max(taken), 3),
        "cpu_s": round(statistics.median(one["cpu"] for one in found), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print a JSON line per measurement")
    parser.add_argument("--runs", type=int, default=3, help="processes of each kind")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--once", choices=SECTIONS, help=argparse.SUPPRESS)
    parser.add_argument("--began-ns", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once is not None:
        once(options.once, options.began_ns)
        return
    write_bytecode()
    for section in options.sections:
        for line in measure(section, options.runs):
            text = f"{line['section']:<8} {line['cache'] or '':<5} {line['median_s']:>7.3f} s"
            print(json.dumps(line) if options.json else text, flush=True)


if __name__ == "__main__":
    main()
