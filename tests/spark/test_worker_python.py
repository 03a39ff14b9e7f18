"""The Python of the workers, and the entries that they leave each other."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from panewise.spark import local_entries
from panewise.spark.worker_python import COMMAND, TALKATIVE, choose_worker_python, without_zips


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An installed PySpark with its zips, and py4j beside it."""
    library = tmp_path / "pyspark" / "python" / "lib"
    library.mkdir(parents=True)
    (tmp_path / "pyspark" / "__init__.py").touch()
    (tmp_path / "py4j").mkdir()
    (tmp_path / "py4j" / "__init__.py").touch()
    return tmp_path


def python_path(site: Path) -> list[str]:
    library = site / "pyspark" / "python" / "lib"
    return [str(library / "pyspark.zip"), str(library / "py4j-0.10.9-src.zip"), "/some/where"]


def test_zips_go_where_the_same_pyspark_is_installed(site: Path) -> None:
    assert without_zips(python_path(site), [str(site)]) == ["/some/where"]


def test_zips_stay_where_pyspark_is_not_on_the_path(site: Path) -> None:
    assert without_zips(python_path(site), ["/usr/lib/python3"]) == python_path(site)


def test_zips_stay_where_py4j_is_only_a_zip(site: Path) -> None:
    (site / "py4j" / "__init__.py").unlink()
    (site / "py4j").rmdir()
    assert without_zips(python_path(site), [str(site)]) == python_path(site)


def test_the_command_is_this_python_with_pyspark_as_it_is_installed() -> None:
    import pyspark

    library = Path(pyspark.__path__[0], "python", "lib")
    zips = [str(path) for path in library.glob("*.zip")]
    assert zips, "PySpark from PyPI carries its zips"
    command = Path(sysconfig.get_path("scripts"), COMMAND)
    ran = subprocess.run(
        [command, "-c", "import pyspark, sys; print(pyspark.__path__[0]); print(sys.prefix)"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(zips)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == [pyspark.__path__[0], sys.prefix]


def test_what_spark_prints_for_its_makers_stays_off_the_console(tmp_path: Path) -> None:
    module = tmp_path.joinpath(*TALKATIVE.split(".")).with_suffix(".py")
    module.parent.mkdir(parents=True)
    for package in ("pyspark", "pyspark/sql", "pyspark/sql/streaming"):
        (tmp_path / package / "__init__.py").touch()
    module.write_text("import sys; print('Starting'); print('an error', file=sys.stderr)")
    command = Path(sysconfig.get_path("scripts"), COMMAND)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ran = subprocess.run([command, "-m", TALKATIVE], env=environment, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "an error\n")


def test_a_python_that_was_chosen_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    assert choose_worker_python() == "/opt/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert choose_worker_python().endswith(COMMAND)
    assert os.environ["PYSPARK_PYTHON"].endswith(COMMAND)


def test_an_entry_is_read_until_it_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert local_entries.get("a") is None
    local_entries.put("a", b"content")
    assert local_entries.get("a") == b"content"
    local_entries.drop("a")
    assert local_entries.get("a") is None
    assert [path.name for path in tmp_path.rglob("*")] == ["panewise"]


@pytest.mark.parametrize("folders", ["", "/proc/no/such/folder"])
def test_without_a_scratch_folder_nothing_is_kept_and_nothing_breaks(
    folders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", folders)
    local_entries.put("a", b"content")
    assert local_entries.get("a") is None
    local_entries.drop("a")
