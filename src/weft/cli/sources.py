"""A job's sources as DataFrames with exactly the attributes of their streams."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from weft.aggregates.types import Type
from weft.cli.job import FILE_FORMATS, Job, JobError, Source
from weft.cli.nearest import did_you_mean
from weft.cli.preflight import source_of
from weft.language.model import Stream, Workload

SPARK_TYPES: dict[Type, DataType] = {
    Type.BOOLEAN: BooleanType(),
    Type.BIGINT: LongType(),
    Type.DOUBLE: DoubleType(),
    Type.STRING: StringType(),
    Type.TIMESTAMP: TimestampType(),
}
NAMES_INSIDE = ("parquet", "orc", "avro")
"""File formats that name their columns: a column that is not there would be read as NULL without a word."""


def read_events(spark: SparkSession, job: Job, workload: Workload) -> dict[str, DataFrame]:
    """The events of each stream, streaming or whole as the job's mode says."""
    return {name: _Reading(spark, job, stream).events() for name, stream in workload.streams.items()}


def schema_of(stream: Stream) -> StructType:
    """The attributes of a stream as Spark sees them."""
    return StructType([StructField(name, SPARK_TYPES[type_]) for name, type_ in stream.attributes.items()])


class _Reading:
    """One stream read from its source."""

    def __init__(self, spark: SparkSession, job: Job, stream: Stream) -> None:
        self.spark = spark
        self.job = job
        self.stream = stream
        self.source: Source = source_of(job, stream.name)
        self.schema = schema_of(stream)

    def events(self) -> DataFrame:
        """The events, with the attributes of the stream in its order and types."""
        loaded = self._loaded()
        if self.source.decode == "json":
            self._expect(["value"], loaded.columns)
            message = F.from_json(F.col("value").cast("string"), self.schema)
            return loaded.select(message.alias("message")).select("message.*")
        self._expect(self.schema.names, loaded.columns)
        return loaded.select([_column(field) for field in self.schema])

    def _loaded(self) -> DataFrame:
        reader = self.spark.readStream if self.job.is_stream else self.spark.read
        reader = reader.format(self.source.format).options(**self.source.options)
        if self.source.format in FILE_FORMATS and self.source.decode is None:
            reader = reader.schema(self._file_schema())
        return reader.load(self.source.path) if self.source.path is not None else reader.load()

    def _file_schema(self) -> StructType:
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
        # Spark binds a CSV schema by position, so every column of the file must stand in it.
        types = {field.name.lower(): field.dataType for field in self.schema}
        return StructType([StructField(name, types.get(name.lower(), StringType())) for name in columns])

    def _columns_of_files(self) -> list[str] | None:
        """The names in the files that are there now; None when there is no file yet."""
        reader = self.spark.read.format(self.source.format).options(**self.source.options)
        try:
            return reader.load(self.source.path).columns or None
        except AnalysisException as error:
            if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
                return None
            raise

    def _expect(self, needed: list[str], columns: list[str]) -> None:
        """Fail when a column is missing. Spark takes names without regard to case, and so does this."""
        present = {name.lower() for name in columns}
        for name in needed:
            if name.lower() not in present:
                place = self.job.place_of_source(self.stream.name)
                hint = did_you_mean(name, columns)
                raise JobError(self.job.file, place, f"the events have no column {name}{hint}")


def _column(field: StructField) -> Column:
    escaped = field.name.replace("`", "``")
    return F.col(f"`{escaped}`").cast(field.dataType).alias(field.name)
