"""What is particular to Delta Lake in a job: errors with their cure, where Spark lacks it or it refuses names."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pyspark.sql import DataFrame, SparkSession

from panewise.cli.job import DELTA, JobError, JobFile, Sink

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session needs beside Delta's jars."""

_FORBIDDEN = frozenset(" ,;{}()\n\t=")
_MAPPING = "delta.columnMapping.mode"
_MAPPING_BY_DEFAULT = "spark.databricks.delta.properties.defaults.columnMapping.mode"


def check_columns(job: JobFile, place: str, sink: Sink, rows: DataFrame) -> None:
    """Raise if Delta would refuse the names of the columns, before anything is computed.

    A table takes any names once it maps them to others, which an option of the sink or a setting says.
    """
    wrong = [name for name in rows.columns if not _FORBIDDEN.isdisjoint(name)]
    if wrong and _MAPPING not in sink.options and rows.sparkSession.conf.get(_MAPPING_BY_DEFAULT, None) is None:
        raise JobError(
            job.file,
            place,
            f"Delta Lake takes no spaces, brackets, commas or = in names of columns: {', '.join(wrong)}; give SELECT "
            f'items a name with AS, or write options."{_MAPPING}" = "name"',
        )


def delta_is_missing(error: Exception, format_: str) -> bool:
    """Whether Spark says that it does not know the format, which is Delta's."""
    # Not all versions turn this one into an exception of PySpark, so its condition is in the text only.
    return format_ == DELTA and "[DATA_SOURCE_NOT_FOUND]" in str(error)


def no_delta(job: JobFile, place: str, spark: SparkSession) -> JobError:
    """The error for a session without Delta Lake."""
    try:
        package = delta_package(version("delta-spark"), spark.version)
        install = ""
    except PackageNotFoundError:
        package = delta_package("VERSION", spark.version)
        install = "pip install delta-spark says which VERSION fits your PySpark. "
    lines = [f'"spark.jars.packages" = "{package}"', *(f'"{name}" = "{value}"' for name, value in SETTINGS.items())]
    return JobError(
        job.file,
        f"{place} format",
        f"Spark has no Delta Lake. {install}Spark fetches Delta when the job file has\n  [spark]\n  "
        + "\n  ".join(lines)
        + '\n  or takes its jars from "spark.jars" where there is no repository: docs/delta.md',
    )


def delta_package(delta: str, spark: str) -> str:
    """Delta's artifact for a version of Spark: from Delta 4.1 on its name tells which.

    >>> delta_package("4.0.1", "4.0.5"), delta_package("4.1.0", "4.1.4")
    ('io.delta:delta-spark_2.13:4.0.1', 'io.delta:delta-spark_4.1_2.13:4.1.0')
    """
    if delta.startswith("4.0."):
        return f"io.delta:delta-spark_2.13:{delta}"
    return f"io.delta:delta-spark_{'.'.join(spark.split('.')[:2])}_2.13:{delta}"
