"""Unpacking: packed answers into the typed columns that users see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
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
from weft.engine.answers import interval_columns
from weft.language.model import Workload
from weft.spark.packed_job import PackedJob
from weft.spark.packing import unpack

_SPARK: dict[Type, DataType] = {
    Type.BOOLEAN: BooleanType(),
    Type.BIGINT: LongType(),
    Type.DOUBLE: DoubleType(),
    Type.STRING: StringType(),
    Type.TIMESTAMP: TimestampType(),
}


def answers_type(workload: Workload) -> StructType:
    """The columns of a workload's answers as Spark types; the twin of `weft.engine.answers.answers_schema`."""
    return StructType(
        [
            StructField("query", StringType(), nullable=False),
            StructField("window_start", TimestampType()),
            StructField("window_end", TimestampType()),
            *(StructField(name, _SPARK[kind]) for name, kind in workload.group_by_attributes.items()),
            StructField("aggregate", StringType(), nullable=False),
            StructField("value", DoubleType()),
            StructField("exact", LongType()),
            *(StructField(name, DoubleType()) for name in interval_columns(workload)),
        ]
    )


def unpack_partitions(packed: PackedJob) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that `mapInArrow` applies to each partition of packed answers."""

    def unpack_answers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = packed.open().answers_schema
        for batch in batches:
            for content in batch.column("content").drop_null():
                yield unpack(content.as_buffer()).cast(schema)

    return unpack_answers
