"""The Spark session of a job."""

from __future__ import annotations

import os
import re
import warnings
from importlib.resources import files
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from panewise.cli.job import JobError, JobFile
from panewise.spark.settings import SETTINGS
from panewise.spark.worker_python import choose_worker_python

_ERROR_ECHOES = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
"""Loggers with which PySpark prints, as JSON with a stack trace, an error that it also raises."""
_PANDAS_WARNING = "PySpark does not yet fully support pandas"
"""What PySpark says of pandas 3 at every call of mapInArrow, which does not touch pandas."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

PACKAGES = "spark.jars.packages"


def start_session(job: JobFile, *, verbose: bool) -> SparkSession:
    """Start Spark for a job. Its log goes where the job says; if verbose, also to standard error."""
    choose_worker_python()
    if not verbose:
        for name in _ERROR_ECHOES:
            PySparkLogger.getLogger(name).disabled = True
        warnings.filterwarnings("ignore", _PANDAS_WARNING, FutureWarning)
    _check_log_file(job)
    builder = SparkSession.builder.appName(job.name)
    for key, value in session_settings(job, verbose=verbose).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        packages = job.spark.get(PACKAGES)
        if packages is None or error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise JobError(
            job.file,
            f"[spark] {PACKAGES}",
            f"Spark ended before it had started; most often it cannot fetch a package. Its own message is above. Check "
            f'that a repository has {packages}, or give the jars themselves as "spark.jars"',
        ) from error


def session_settings(job: JobFile, *, verbose: bool = False) -> dict[str, str]:
    """Panewise's settings, then the job's settings, which win."""
    of_job = job.spark
    master = of_job.get("master", of_job.get("spark.master", "local[*]"))
    settings = {
        **SETTINGS,
        "spark.master": master,
        "spark.log.level": _root_level(job, verbose=verbose),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if cores := local_cores(master):
        # Spark's default of 200 is for clusters: here each partition beyond the number of cores is overhead.
        settings["spark.sql.shuffle.partitions"] = str(cores)
    settings |= {key: value for key, value in of_job.items() if key != "master"}
    # Java takes the last of two equal options, so those of the job win here as well.
    options = (*log_options(job, verbose=verbose), of_job.get(_JAVA_OPTIONS, ""))
    return settings | {_JAVA_OPTIONS: " ".join(filter(None, options))}


def log_options(job: JobFile, *, verbose: bool = False) -> list[str]:
    """Options of Java that send the driver's log where the job says, quoted as Spark's launcher reads them."""
    properties = {"log4j2.configurationFile": Path(str(files("panewise.cli"))).joinpath("log4j2.properties").as_uri()}
    if job.log_file is not None:
        properties |= {"panewise.log.file": str(job.log_file), "panewise.log.file.level": job.log.level}
    if job.log.console or verbose:
        properties["panewise.log.console.level"] = job.log.level if job.log.console else "warn"
    return [_quoted(f"-D{name}={value}") for name, value in properties.items()]


def local_cores(master: str) -> int | None:
    """How many cores a local master uses; None for a cluster.

    >>> local_cores("local[3]"), local_cores("local"), local_cores("yarn")
    (3, 1, None)
    """
    local = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?", master)
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _root_level(job: JobFile, *, verbose: bool) -> str:
    """The level below which Spark writes nothing anywhere."""
    return "WARN" if verbose and job.log.level in ("off", "error") else job.log.level.upper()


def _quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _check_log_file(job: JobFile) -> None:
    """Raise if Spark's log cannot be written: Spark itself would go on without a word."""
    file = job.log_file
    if file is None:
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        # The log tells of paths and data: not for everybody.
        os.close(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640))
    except OSError as error:
        raise JobError(
            job.file,
            "[log] file",
            f"cannot write Spark's log to {file}: {error.strerror}; name another file, or write console = true to have "
            f"it on standard error",
        ) from error
