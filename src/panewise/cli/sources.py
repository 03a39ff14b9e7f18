"""A job's sources as DataFrames with exactly the attributes of their streams."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from panewise.aggregates.types import Type
from panewise.cli.delta import delta_is_missing, no_delta
from panewise.cli.job import FILE_FORMATS, KAFKA, EventSource, JobError, JobFile
from panewise.cli.kafka import check_source, connector_is_missing, no_connector, source_options
from panewise.cli.messages import HEADERS, MALFORMED, decoded, is_header
from panewise.cli.nearest import did_you_mean
from panewise.cli.preflight import source_of
from panewise.language.model import Stream
from panewise.language.workload import Workload

SPARK_TYPES: dict[Type, T.DataType] = {
    Type.BOOLEAN: T.BooleanType(),
    Type.BIGINT: T.LongType(),
    Type.DOUBLE: T.DoubleType(),
    Type.STRING: T.StringType(),
    Type.TIMESTAMP: T.TimestampType(),
}
NAMES_INSIDE = ("parquet", "orc", "avro")
"""File formats that name their columns: a missing column would silently be read as NULL."""


def read_events(
    spark: SparkSession, job: JobFile, workload: Workload, malformed: dict[str, Observation] | None = None
) -> dict[str, DataFrame]:
    """The events of each stream, as a stream or as a whole, as the job's mode says.

    Messages that cannot be decoded are counted: for a stream in the progress of each batch, as `MALFORMED` and the
    stream's name; for a batch job in `malformed`, by stream, once its answers are written.
    """
    frames = {}
    for name, stream in workload.declared.items():
        reading = _Reading(spark, job, stream)
        frames[name] = reading.events()
        if malformed is not None and isinstance(reading.malformed, Observation):
            malformed[name] = reading.malformed
    return frames


def read_for_set_aside(spark: SparkSession, job: JobFile, workload: Workload) -> dict[str, DataFrame]:
    """The events of each stream once more, with the texts of malformed messages as `MALFORMED_TEXT`."""
    return {name: _Reading(spark, job, stream, counts=False).events() for name, stream in workload.declared.items()}


def schema_of(stream: Stream) -> T.StructType:
    """The attributes of a stream as Spark sees them; times with a declared unit are integers."""
    return T.StructType(
        [
            T.StructField(name, T.LongType() if name in stream.units else SPARK_TYPES[type_])
            for name, type_ in stream.attributes.items()
        ]
    )


class _Reading:
    """One stream read from its source."""

    def __init__(self, spark: SparkSession, job: JobFile, stream: Stream, *, counts: bool = True) -> None:
        self.spark = spark
        self.job = job
        self.stream = stream
        self.source: EventSource = source_of(job, stream.name)
        self.schema = schema_of(stream)
        self.place = job.place_of_source(stream.name)
        count = f"{MALFORMED} {stream.name}"
        self.malformed: str | Observation | None = None
        if self.source.decode is not None and counts:
            self.malformed = count if job.is_stream else Observation(count)

    def events(self) -> DataFrame:
        """The events, with the attributes of the stream in its order and types."""
        for name in self.source.attributes:
            if name not in self.schema.names:
                hint = did_you_mean(name, self.schema.names)
                raise JobError(self.job.file, f"{self.place} attributes", f"the stream has no attribute {name}{hint}")
        if self.source.format == KAFKA:
            return self._from_kafka()
        try:
            return self._events(self._loaded(self.source.options))
        except (PySparkException, Py4JError) as error:
            if delta_is_missing(error, self.source.format):
                raise no_delta(self.job, self.place, self.spark) from error
            raise

    def _from_kafka(self) -> DataFrame:
        try:
            check_source(self.spark, self.job, self.place, self.source)
            return self._events(self._loaded(source_options(self.source)))
        except AnalysisException as error:
            if connector_is_missing(error):
                raise no_connector(self.job, self.place, self.spark) from error
            raise

    def _events(self, loaded: DataFrame) -> DataFrame:
        if self.source.decode is None:
            self._expect(self.schema.names, loaded.columns)
            return loaded.select([_column(field) for field in self.schema])
        around = self.source.attributes.values()
        self._expect(["value", *(HEADERS if is_header(name) else name for name in around)], loaded.columns)
        return decoded(loaded, self.schema, self.source, self.malformed)

    def _loaded(self, options: Mapping[str, str]) -> DataFrame:
        reader = self.spark.readStream if self.job.is_stream else self.spark.read
        reader = reader.format(self.source.format).options(**options)
        if self.source.format in FILE_FORMATS and self.source.decode is None:
            reader = reader.schema(self._file_schema())
        return reader.load(self.source.path) if self.source.path is not None else reader.load()

    def _file_schema(self) -> T.StructType:
        """The schema to read files with, bound by name wherever the files name their columns."""
        has_header = self.source.options.get("header", "false").lower() == "true"
        if self.source.format not in NAMES_INSIDE and not (self.source.format == "csv" and has_header):
            return self.schema
        columns = self._columns_of_files()
        if columns is None:
            return self.schema
        self._expect(self.schema.names, columns)
        if self.source.format != "csv":
            return self.schema
        # Spark binds a CSV schema by position, so it must have every column of the file.
        types = {field.name.lower(): field.dataType for field in self.schema}
        return T.StructType([T.StructField(name, types.get(name.lower(), T.StringType())) for name in columns])

    def _columns_of_files(self) -> list[str] | None:
        """The names in the present files; None if there is no file yet."""
        reader = self.spark.read.format(self.source.format).options(**self.source.options)
        try:
            return reader.load(self.source.path).columns or None
        except AnalysisException as error:
            if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
                return None
            raise

    def _expect(self, needed: list[str], columns: list[str]) -> None:
        """Raise if a column is missing. Spark ignores the case of names, and so does this."""
        present = {name.lower() for name in columns}
        for name in needed:
            if name.lower() not in present:
                hint = did_you_mean(name, columns)
                raise JobError(self.job.file, self.place, f"the events have no column {name}{hint}")


def _column(field: T.StructField) -> Column:
    escaped = field.name.replace("`", "``")
    return F.col(f"`{escaped}`").cast(field.dataType).alias(field.name)
