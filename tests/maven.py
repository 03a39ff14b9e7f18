"""Jars that tests need beside those of PySpark, fetched by the machine's Maven once and kept outside of the checkout.

A folder of the cache is named after the POM that it was made from and the options, so a changed POM is fetched anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
FETCH_WITHIN_S = 300
MISSING_FOR_S = 24 * 3600
"""How long a version that the repository did not have is not asked for again."""


class JarsUnavailableError(Exception):
    """Maven is missing, or does not get what it was asked for."""


def jars_of(pom: Path, *options: str) -> list[Path]:
    """The jars that a POM and Maven's options name."""
    return sorted(fetched(pom, *options).glob("*.jar"))


def jars_if_any(pom: Path, *options: str) -> list[Path] | None:
    """The same, or None when the repository does not have them; that is remembered for a day."""
    missing = folder_of(pom, *options).with_suffix(".missing")
    if missing.is_file() and time.time() - missing.stat().st_mtime < MISSING_FOR_S:
        return None
    try:
        return jars_of(pom, *options)
    except NotInRepositoryError:
        missing.touch()
        return None


def fetched(pom: Path, *options: str) -> Path:
    """The folder with the jars of a POM, which is there whole or not at all."""
    folder = folder_of(pom, *options)
    if folder.is_dir():
        return folder
    name = pom.name.removesuffix(".pom.xml")
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError(f"there is no mvn on the PATH, which fetches the jars of {name}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        output = Path(unfinished) / "jars"
        command = [maven, "--batch-mode", "--quiet", "--file", str(pom), COPY]
        command += [f"-DoutputDirectory={output}", "-DincludeScope=runtime", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise JarsUnavailableError(f"mvn did not fetch the jars of {name} within {FETCH_WITHIN_S} s") from None
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            reason = lines[0] if lines else done.stderr
            kind = (
                NotInRepositoryError if "not found in" in reason or "Could not find" in reason else JarsUnavailableError
            )
            raise kind(f"mvn cannot fetch the jars of {name}: {reason}")
        # Another process may have been faster; what it fetched is the same.
        if not folder.is_dir():
            output.rename(folder)
    return folder


class NotInRepositoryError(JarsUnavailableError):
    """The repository answered, and does not have it."""


def folder_of(pom: Path, *options: str) -> Path:
    """Where the jars of a POM are kept."""
    content = pom.read_text(encoding="utf-8") + "\n".join((COPY, *options))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = pom.name.removesuffix(".pom.xml")
    return cache / "panewise-tests" / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
