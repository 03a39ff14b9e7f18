"""One broker, and one process with Spark and the connector, for all tests of Kafka.

If Maven is missing or cannot get the jars, the tests are skipped; with PANEWISE_INSIST_ON_KAFKA=1 they fail.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from tests.kafka.broker import create_topics, running_broker
from tests.kafka.driver import Driver
from tests.kafka.jars import broker_jars, connector_jars, version_of_connector
from tests.maven import JarsUnavailableError

TOPICS = (
    "readings",
    "answers",
    "answers-of-stream",
    "answers-of-batch",
    "skewed",
    "skewed-answers",
    "by-sensor",
    "overall",
    "forms",
    "clicks",
    "killed",
)


@pytest.fixture(scope="session")
def connector() -> list[Path]:
    """The jars of Spark's connector."""
    try:
        broker_jars()
        jars = connector_jars()
    except JarsUnavailableError as error:
        if os.environ.get("PANEWISE_INSIST_ON_KAFKA") == "1":
            pytest.fail(f"PANEWISE_INSIST_ON_KAFKA is set, and {error}")
        pytest.skip(str(error))
    version = version_of_connector(jars)
    if version != pyspark.__version__:
        warnings.warn(
            f"the repository has no Kafka connector of PySpark {pyspark.__version__}; tested with that of {version}",
            stacklevel=1,
        )
    return jars


@pytest.fixture(scope="session")
def broker(connector: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    with running_broker(tmp_path_factory.mktemp("broker")) as address:
        create_topics(address, TOPICS)
        yield address


@pytest.fixture(scope="session")
def driver(broker: str, connector: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """The process that writes and reads topics and runs jobs."""
    process = Driver(broker, connector, tmp_path_factory.mktemp("driver") / "log")
    yield process
    process.close()
