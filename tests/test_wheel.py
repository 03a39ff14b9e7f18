"""The distributions: what is in them, and what the wheel does in an environment that has nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest
from tests.test_docs import blocks_of

import panewise
from panewise.extras import PACKAGES

ROOT = Path(__file__).parents[1]

NOT_SOURCE = shutil.ignore_patterns(".git", ".venv*", "build", "dist", "*.egg-info", "reproduced", ".hypothesis")


@dataclass(frozen=True)
class Distributions:
    sdist: Path
    wheel: Path

    @property
    def metadata(self) -> Message:
        with zipfile.ZipFile(self.wheel) as archive:
            return message_from_bytes(archive.read(f"panewise-{panewise.__version__}.dist-info/METADATA"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Both distributions, the wheel made from the source distribution as a build service does."""
    folder = tmp_path_factory.mktemp("distributions")
    # From a copy, as building leaves files behind.
    source = shutil.copytree(ROOT, folder / "source", ignore=NOT_SOURCE)
    run(sys.executable, "-m", "build", "--outdir", str(folder / "dist"), str(source))
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    (wheel,) = (folder / "dist").glob("*.whl")
    return Distributions(sdist, wheel)


@pytest.fixture(scope="module")
def light(built: Distributions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel, without extras."""
    folder = tmp_path_factory.mktemp("light")
    venv.create(folder, with_pip=True)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    constraint = ["--constraint", str(ROOT / "requirements.lock")]
    run(str(programs / "python"), "-m", "pip", "install", "--quiet", *constraint, str(built.wheel))
    return programs


def run(*command: str, cwd: Path | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a program that finds only the Panewise installed beside it, and no time zones of the system."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    # Small containers have none.
    environment["PYTHONTZPATH"] = ""
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_the_first_example_runs_without_spark_and_pandas(light: Path, tmp_path: Path) -> None:
    first, second = blocks_of(ROOT / "README.md", "python")[:2]
    assert first.printed is not None
    assert second.printed is not None
    done = run(str(light / "python"), "-c", f"{first.content}\n{second.content}", cwd=tmp_path)
    assert done.stdout == first.printed + second.printed

    listed = run(str(light / "python"), "-m", "pip", "list", "--format=freeze").stdout.lower()
    installed = {line.partition("==")[0] for line in listed.splitlines()}
    assert "panewise" in installed
    assert not installed & {"py4j", *(package for packages in PACKAGES.values() for package in packages)}
    run(str(light / "python"), "-m", "pip", "check")


def test_the_command(light: Path, tmp_path: Path) -> None:
    command = str(light / "panewise")
    assert run(command, "--version").stdout == f"panewise {panewise.__version__}\n"
    file = tmp_path / "queries.sql"
    file.write_text(
        "CREATE STREAM s (t TIMESTAMP, x DOUBLE) TIMESTAMP BY t;\n"
        "CREATE QUERY q AS SELECT AVG(x) FROM s [RANGE 1 HOUR SLIDE 1 MINUTE];"
    )
    assert "q" in run(command, "plan", str(file)).stdout
    assert "pip install 'panewise[spark]'" in run(command, "run", "job.toml", code=2).stderr


def test_the_wheel_has_the_package_alone(built: Distributions) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        names = {PurePosixPath(name) for name in archive.namelist()}
    assert {name.parts[0] for name in names} == {"panewise", f"panewise-{panewise.__version__}.dist-info"}
    source = {
        PurePosixPath(file.relative_to(ROOT / "src").as_posix())
        for file in (ROOT / "src" / "panewise").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in names if name.parts[0] == "panewise"} == source


def test_the_source_distribution_has_what_checks_it(built: Distributions) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    files = ["Makefile", "requirements.lock", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md"]
    files += ["tests/oracle.py", "tests/kafka/broker.pom.xml", "benchmarks/engine.py", "experiments/figures.py"]
    files += ["docs/install.md", "src/panewise/language/grammar.lark", "tools/matrix.py", "deploy/backup.sh"]
    files += ["editors/vscode/package.json"]
    assert {PurePosixPath(file) for file in files} <= names
    assert not [name for name in names if {"__pycache__", ".venv", ".git", "build"} & set(name.parts)]


def test_the_links_of_the_description_lead_into_the_repository(built: Distributions) -> None:
    """A package index shows README.md where no relative link leads anywhere."""
    text = str(built.metadata.get_payload())
    assert built.metadata["Description-Content-Type"] == "text/markdown"
    assert text.startswith("# Panewise\n")
    links = re.findall(
        r"(!?)\[[^\]\n]*\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    )
    home = "https://github.com/panewise/panewise"
    assert f"Homepage, {home}" in built.metadata.get_all("Project-URL", [])
    assert len(links) > 30
    for is_picture, link in links:
        if link.startswith(f"{home}#"):
            continue
        kind, place = re.fullmatch(rf"{home}/(raw|blob|tree)/main/([^#]+)(?:#.*)?", link).groups()
        found = ROOT / place
        assert found.is_dir() if kind == "tree" else found.is_file(), link
        assert (kind == "raw") == bool(is_picture), link


def test_the_metadata(built: Distributions) -> None:
    metadata = built.metadata
    assert metadata["Version"] == panewise.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert set(PACKAGES) <= set(metadata.get_all("Provides-Extra", []))
    links = {link.partition(",")[0] for link in metadata.get_all("Project-URL", [])}
    assert links == {"Homepage", "Documentation", "Changelog", "Issues"}
    needed = [line for line in metadata.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert sorted(line.partition(">=")[0] for line in needed) == [
        *("lark", "numba", "numpy", "pyarrow", "rich", "typer", "tzdata")
    ]
