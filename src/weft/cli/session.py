"""The Spark session of a job."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from weft.cli.job import Job
from weft.spark.settings import SETTINGS
from weft.spark.worker_python import choose_worker_python

_ERROR_ECHOES = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers by which PySpark prints, as JSON with a stack trace, an error that it raises all the same."""


def start_session(job: Job, *, verbose: bool) -> SparkSession:
    """Start Spark for a job. Unless verbose, its log is off: what goes wrong reaches us as exceptions."""
    choose_worker_python()
    if not verbose:
        for name in _ERROR_ECHOES:
            PySparkLogger.getLogger(name).disabled = True
    builder = SparkSession.builder.appName(job.name)
    for key, value in session_settings(job.spark, verbose=verbose).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def session_settings(of_job: Mapping[str, str], *, verbose: bool = False) -> dict[str, str]:
    """Weft's settings, then those of the job, which win."""
    master = of_job.get("master", of_job.get("spark.master", "local[*]"))
    settings = {
        **SETTINGS,
        "spark.master": master,
        "spark.log.level": "WARN" if verbose else "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if cores := local_cores(master):
        # Spark's default of 200 is for clusters: here each partition more than the cores is overhead.
        settings["spark.sql.shuffle.partitions"] = str(cores)
    return settings | {key: value for key, value in of_job.items() if key != "master"}


def local_cores(master: str) -> int | None:
    """How many cores a local master uses; None for a cluster.

    >>> local_cores("local[3]"), local_cores("local"), local_cores("yarn")
    (3, 1, None)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)
