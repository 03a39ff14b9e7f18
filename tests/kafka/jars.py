"""The jars of the Kafka tests, fetched by the machine's Maven once and kept in a cache outside of the checkout.

A folder of the cache is named after the POM that it was made from, so a changed POM is fetched anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pyspark

HERE = Path(__file__).parent
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
CONNECTOR_PARTS = "spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2"
"""What the connector needs beside the jars of PySpark: all else would come twice."""
FETCH_WITHIN_S = 300
STAND_IN_FOR_S = 24 * 3600
"""How long a stand-in serves before the connector of the right version is asked for again."""


class JarsUnavailableError(Exception):
    """Maven is missing, or does not get what it was asked for."""


def broker_jars() -> Path:
    """The folder of a broker's jars."""
    return _fetched("broker")


def connector_jars() -> list[Path]:
    """Spark's Kafka connector: of the installed version, or the stand-in where the repository has none of it."""
    options = (f"-Dspark.version={pyspark.__version__}", f"-DincludeArtifactIds={CONNECTOR_PARTS}")
    stand_in = _folder("connector-stand-in", options)
    is_fresh = stand_in.is_dir() and time.time() - stand_in.stat().st_mtime < STAND_IN_FOR_S
    if not is_fresh or _folder("connector", options).is_dir():
        try:
            return _jars(_fetched("connector", options))
        except JarsUnavailableError:
            if stand_in.is_dir():
                os.utime(stand_in)
    return _jars(_fetched("connector-stand-in", options))


def version_of_connector(jars: list[Path]) -> str:
    """The version that the connector's own jar is named after."""
    name = next(jar.stem for jar in jars if jar.name.startswith("spark-sql-kafka"))
    return name.rpartition("_2.13-")[2]


def _jars(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.jar"))


def _folder(name: str, options: tuple[str, ...]) -> Path:
    content = HERE.joinpath(f"{name}.pom.xml").read_text(encoding="utf-8") + "\n".join((COPY, *options))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "weft-tests" / f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"


def _fetched(name: str, options: tuple[str, ...] = ()) -> Path:
    """The folder with the jars of a POM, which is there whole or not at all."""
    folder = _folder(name, options)
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsUnavailableError("there is no mvn on the PATH, which fetches Kafka and Spark's connector")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        output = Path(unfinished) / "jars"
        command = [maven, "--batch-mode", "--quiet", "--file", str(HERE / f"{name}.pom.xml"), COPY]
        command += [f"-DoutputDirectory={output}", "-DincludeScope=runtime", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            raise JarsUnavailableError(f"mvn did not fetch the jars of {name} within {FETCH_WITHIN_S} s") from None
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line]
            raise JarsUnavailableError(f"mvn cannot fetch the jars of {name}: {lines[0] if lines else done.stderr}")
        # Another process may have been faster; what it fetched is the same.
        if not folder.is_dir():
            output.rename(folder)
    return folder
