"""The jars of a Kafka broker, and of Spark's connector to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyspark
from tests.maven import JarsUnavailableError, fetched, jars_if_any

HERE = Path(__file__).parent
CONNECTOR_PARTS = "spark-sql-kafka-0-10_2.13,spark-token-provider-kafka-0-10_2.13,kafka-clients,commons-pool2"
"""What the connector needs beside the jars of PySpark: all else would come twice."""
NEWEST_PATCH = 4
"""Where the search for a connector of an earlier minor version begins."""


def broker_jars() -> Path:
    """The folder of a broker's jars."""
    return fetched(HERE / "broker.pom.xml")


def connector_jars() -> list[Path]:
    """Spark's Kafka connector of the installed version; where the repository has none, of the nearest one before it."""
    parts = f"-DincludeArtifactIds={CONNECTOR_PARTS}"
    installed = pyspark.__version__
    if jars := jars_if_any(HERE / "connector.pom.xml", f"-Dspark.version={installed}", parts):
        return jars
    for version in versions_before(installed):
        if jars := jars_if_any(HERE / "connector-stand-in.pom.xml", f"-Dspark.version={version}", parts):
            return jars
    raise JarsUnavailableError(f"the repository has no Kafka connector of Spark {installed}, nor of one before it")


def versions_before(version: str) -> Iterator[str]:
    """The versions of Spark 4 that may have come before one, the nearest first.

    >>> list(versions_before("4.1.2"))
    ['4.1.1', '4.1.0', '4.0.4', '4.0.3', '4.0.2', '4.0.1', '4.0.0']
    """
    major, minor, patch = map(int, version.split(".")[:3])
    for earlier_minor in range(minor, -1, -1):
        newest = patch - 1 if earlier_minor == minor else NEWEST_PATCH
        yield from (f"{major}.{earlier_minor}.{number}" for number in range(newest, -1, -1))


def version_of_connector(jars: list[Path]) -> str:
    """The version in the name of the connector's own jar."""
    name = next(jar.stem for jar in jars if jar.name.startswith("spark-sql-kafka"))
    return name.rpartition("_2.13-")[2]
