"""Unpacking: turns packed answers into the typed columns that users see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from panewise.spark.packing import unpack

_SPARK: dict[pa.DataType, DataType] = {
    pa.bool_(): BooleanType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.timestamp("us", "UTC"): TimestampType(),
}


def answers_type(schema: pa.Schema) -> StructType:
    """The columns of answers as Spark types."""
    return StructType([StructField(field.name, spark_type(field.type), field.nullable) for field in schema])


def spark_type(kind: pa.DataType) -> DataType:
    """The type of a column in Spark."""
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type))
    return answers_type(pa.schema(kind.fields)) if pa.types.is_struct(kind) else _SPARK[kind]


def unpack_partitions(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of packed answers."""

    def unpack_answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for content in batch.column("content").drop_null():
                yield unpack(content.as_buffer()).cast(schema)

    return unpack_answers
