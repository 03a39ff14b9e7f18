"""Projection: raw events into what `combine` reads. The in-process twin of `panewise.spark.projection`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.engine.columns import arrow_type, frozen
from panewise.kernels.predicate_bits import set_bits
from panewise.language.evaluate import evaluate
from panewise.language.expressions import Expression, Pair, attributes_of
from panewise.planning.trees import BITS_PER_WORD, StreamPlan

_NO_BITMAP = np.empty(0, np.uint8)

FEWEST_USES = 3
"""With this many predicates over a STRING, its different values are found and predicates evaluated over these."""


def project(plan: StreamPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The time, the keys, the predicate bits and the inputs of each event; keys that are STRING become dictionaries."""
    attributes = plan.stream.attributes
    raw = {name: batch.column(name) for name in batch.schema.names}
    encoded = {**raw, **{name: raw[name].dictionary_encode() for name in _to_encode(plan)}}
    columns: dict[str, pa.Array] = {plan.key_column(key): encoded[key] for key in plan.keys}
    for word in range(plan.shard_words):
        predicates = plan.predicates[word * BITS_PER_WORD : (word + 1) * BITS_PER_WORD]
        columns[f"shard_{word}"] = pa.array(_predicate_bits(predicates, encoded, attributes, batch.num_rows))
    for place, column in enumerate(plan.inputs):
        values = evaluate(column.expression, raw, attributes)
        is_pair = isinstance(column.expression, Pair)
        columns[f"input_{place}"] = values if is_pair else values.cast(arrow_type(column.type))
    return (
        pa.RecordBatch.from_pydict(columns)
        if columns
        else pa.RecordBatch.from_pydict({"none": pa.nulls(batch.num_rows)})
    )


def _to_encode(plan: StreamPlan) -> list[str]:
    """The STRING attributes whose different values are needed, or are worth finding."""
    uses = Counter(name for predicate in plan.predicates for name in attributes_of(predicate))
    strings = [name for name, kind in plan.stream.attributes.items() if kind is Type.STRING]
    return [name for name in strings if name in plan.keys or uses[name] >= FEWEST_USES]


def _predicate_bits(
    predicates: Sequence[Expression], columns: Mapping[str, pa.Array], attributes: Mapping[str, Type], length: int
) -> Ints:
    """A word for each event, with a bit for each predicate that holds."""
    words = np.zeros(length, np.int64)
    # Predicates that read one dictionary are evaluated over its values, and all bits of a value are set at once.
    of_values: dict[str, Ints] = {}
    for bit, predicate in enumerate(predicates):
        names = set(attributes_of(predicate))
        name = next(iter(names)) if len(names) == 1 else ""
        if name not in columns or not pa.types.is_dictionary(columns[name].type):
            _set_bits(words, evaluate(predicate, columns, attributes), bit)
            continue
        values = columns[name].dictionary
        # NULL comes after the values.
        values = pa.concat_arrays([values, pa.nulls(1, values.type)])
        bits = of_values.setdefault(name, np.zeros(len(values), np.int64))
        _set_bits(bits, evaluate(predicate, {name: values}, attributes), bit)
    for name, bits in of_values.items():
        indices = columns[name].indices
        places = np.asarray(indices if not indices.null_count else indices.fill_null(len(bits) - 1))
        words |= bits[places]
    return words


def _set_bits(words: Ints, truth: pa.Array, bit: int) -> None:
    """Set a bit of the words where a three-valued condition is true."""
    if len(words):
        valid, packed = truth.buffers()
        bitmap = np.frombuffer(valid, np.uint8) if truth.null_count else _NO_BITMAP
        set_bits(words, frozen(np.frombuffer(packed, np.uint8)), frozen(bitmap), truth.offset, bit)


def holds(truth: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a three-valued condition is true."""
    return np.asarray(pc.fill_null(truth, False)).astype(np.bool_)
