"""Projection: raw events into what `combine` reads. The in-process twin of `weft.spark.projection`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.engine.columns import arrow_type
from weft.language.evaluate import evaluate
from weft.planning.plan import BITS_PER_WORD, StreamPlan


def project(plan: StreamPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The time, the keys, the predicate bits and the inputs of each event."""
    attributes = plan.stream.attributes
    raw = {name: batch.column(name) for name in batch.schema.names}
    columns: dict[str, pa.Array] = {plan.key_column(key): raw[key] for key in plan.keys}
    for word in range(plan.shard_words):
        bits = np.zeros(batch.num_rows, np.int64)
        predicates = plan.predicates[word * BITS_PER_WORD : (word + 1) * BITS_PER_WORD]
        for bit, predicate in enumerate(predicates):
            bits |= holds(evaluate(predicate, raw, attributes)).astype(np.int64) << bit
        columns[f"shard_{word}"] = pa.array(bits)
    for place, column in enumerate(plan.inputs):
        values = evaluate(column.expression, raw, attributes)
        columns[f"input_{place}"] = values.cast(arrow_type(column.type))
    return (
        pa.RecordBatch.from_pydict(columns)
        if columns
        else pa.RecordBatch.from_pydict({"none": pa.nulls(batch.num_rows)})
    )


def holds(truth: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a three-valued condition is true."""
    return np.asarray(pc.fill_null(truth, False)).astype(np.bool_)
