"""What is particular to Kafka in a job: its options, and errors that name the cure.

Spark's connector waits minutes for a missing broker, and reports a missing topic only with the words that the server
does not host it. So both are checked before the query starts.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Mapping
from contextlib import redirect_stdout
from urllib.parse import urlsplit

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from panewise.cli.job import KAFKA, EventSource, JobError, JobFile, Sink
from panewise.cli.messages import is_header
from panewise.cli.session import PACKAGES, local_cores

SERVERS = "kafka.bootstrap.servers"
TOPICS = ("subscribe", "subscribePattern", "assign")
CONNECT_WITHIN_S = 5.0
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
NO_CONNECTOR = ("KAFKA_DATA_SOURCE_NOT_ENABLED", "_LEGACY_ERROR_TEMP_1140")
"""What Spark calls a missing connector; the second name is that of Spark 4.0."""


def source_options(source: EventSource) -> dict[str, str]:
    """The connector's options, with Panewise's defaults: from the start of topics, with headers if any is used."""
    options = dict(source.options)
    if _option(options, "startingOffsets") is None:
        # Spark's own default for streams is the end of the topic: the first run `available now` would read nothing.
        options["startingOffsets"] = "earliest"
    if any(map(is_header, source.attributes.values())):
        options["includeHeaders"] = "true"
    return options


def check_source(spark: SparkSession, job: JobFile, place: str, source: EventSource) -> None:
    """Raise if the source of a stream cannot be read: no broker, no topic, or missing options."""
    if source.decode is None:
        raise JobError(job.file, f"{place} decode", 'is missing; a message is text: decode = "json"')
    if not any(_option(source.options, name) for name in TOPICS):
        raise JobError(job.file, f"{place} options", 'name no topic; write for example: subscribe = "events"')
    _expect_broker(job, place, source.options)
    if topics := _option(source.options, "subscribe"):
        _expect_topics(spark, job, place, source.options, topics)


def check_sink(job: JobFile, place: str, sink: Sink) -> None:
    """Raise if a sink's options are incomplete, or if no broker answers."""
    options = sink.options
    if _option(options, "topic") is None:
        raise JobError(job.file, f"{place} options", 'name no topic; write for example: topic = "answers"')
    # On a cluster only the executors write to it.
    master = job.spark.get("master", job.spark.get("spark.master", "local[*]"))
    _expect_broker(job, place, options, connect=local_cores(master) is not None)


def connector_is_missing(error: PySparkException) -> bool:
    """Whether Spark says that it does not have the connector."""
    return error.getCondition() in NO_CONNECTOR


def no_connector(job: JobFile, place: str, spark: SparkSession) -> JobError:
    """The error for a session without the connector."""
    package = f"{CONNECTOR}:{spark.version}"
    return JobError(
        job.file,
        f"{place} format",
        "Spark has no Kafka connector; it fetches the one of its version when the job file has\n"
        f'  [spark]\n  "spark.jars.packages" = "{package}"\n'
        '  or takes it from "spark.jars" where there is no repository: docs/kafka.md',
    )


def other_connector(packages: str, spark_version: str) -> str | None:
    """A warning when the packages that Spark is to fetch have the connector of another version.

    >>> other_connector(f"{CONNECTOR}:4.0.1", "4.0.1")
    >>> other_connector(f"a:b:1, {CONNECTOR}:4.0.1", "4.2.0")
    'spark.jars.packages has the Kafka connector of Spark 4.0.1, and this is Spark 4.2.0: use the one of its version'
    """
    for package in map(str.strip, packages.split(",")):
        name, _, version = package.rpartition(":")
        if name == CONNECTOR and version != spark_version:
            return (
                f"{PACKAGES} has the Kafka connector of Spark {version}, and this is Spark {spark_version}: "
                "use the one of its version"
            )
    return None


def _option(options: Mapping[str, str], name: str) -> str | None:
    """An option; as in Spark, the case of its name does not matter."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _expect_broker(job: JobFile, place: str, options: Mapping[str, str], *, connect: bool = True) -> None:
    """Raise unless one of the brokers takes a connection."""
    servers = _option(options, SERVERS)
    if servers is None:
        raise JobError(
            job.file, f"{place} options", f'{SERVERS} is missing; write for example: {SERVERS} = "host:9092"'
        )
    failures = []
    for server in filter(None, map(str.strip, servers.split(","))):
        try:
            parts = urlsplit(f"//{server.rpartition('://')[2]}")
            if not parts.hostname or not parts.port:
                raise ValueError("it is not written as host:port")
            if connect:
                socket.create_connection((parts.hostname, parts.port), CONNECT_WITHIN_S).close()
            return
        except (OSError, ValueError) as error:
            failures.append(f"{server}: {getattr(error, 'strerror', None) or error}")
    raise JobError(
        job.file,
        f"{place} options {SERVERS}",
        f"no broker answers ({'; '.join(failures)}); start it, or correct the address",
    )


def _expect_topics(spark: SparkSession, job: JobFile, place: str, options: Mapping[str, str], topics: str) -> None:
    """Raise if a topic does not exist."""
    asked = {name: value for name, value in options.items() if name.lower().startswith("kafka.")}
    reader = spark.read.format(KAFKA).options(**asked).option("subscribe", topics)
    try:
        # Just to plan a read, Spark asks the brokers for the partitions.
        with redirect_stdout(io.StringIO()):
            reader.load().explain()
    except (PySparkException, Py4JError) as error:
        if "UnknownTopicOrPartitionException" not in str(error):
            raise
        raise JobError(
            job.file,
            f"{place} options subscribe",
            f'the brokers have no topic "{topics}", or not all of them; create it, or correct its name',
        ) from error
