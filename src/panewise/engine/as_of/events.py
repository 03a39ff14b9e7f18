"""The events of one stream in the order of time, and what queries read of them: each computed once for all queries."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from panewise.aggregates.sketches import hashed_words, ordered_words
from panewise.aggregates.types import Type
from panewise.arrays import Bools, Ints
from panewise.engine.columns import numbers_of
from panewise.engine.kept import ranks_of_strings
from panewise.engine.projection import holds
from panewise.language.evaluate import PAIR, evaluate
from panewise.language.expressions import Expression, Pair
from panewise.language.model import Stream
from panewise.language.typecheck import type_of


@dataclass(frozen=True)
class InputColumn:
    """What an aggregate reads: a number for each event, where it is not NULL."""

    kind: Type
    values: npt.NDArray[np.float64] | Ints
    """Doubles or integers; for a STRING the rank of each among the different ones."""
    valid: Bools
    """Empty if nothing is NULL."""
    strings: pa.Array | None = None
    """The different strings, in the order of their bytes."""
    partners: npt.NDArray[np.float64] | Ints | None = None
    """What stands beside each value, if these are pairs."""
    half_life_us: float = 0.0
    """How long a value takes to count half as much."""
    most: int = 1
    """How many values a list has at most."""

    @property
    def is_float(self) -> bool:
        """Whether the values are doubles."""
        return self.kind is Type.DOUBLE

    def frequent_words(self, values: npt.NDArray[np.float64] | Ints) -> Ints:
        """Some of the values as a sketch of frequent ones names them."""
        return (
            ordered_words(values)
            if self.strings is None
            else hashed_words(self.texts(values.astype(np.int64, copy=False)))
        )

    def texts(self, numbers: npt.NDArray[Any]) -> list[str]:
        """The strings of some numbers."""
        assert self.strings is not None
        texts: list[str] = self.strings.take(pa.array(numbers)).to_pylist()
        return texts


@dataclass
class OrderedEvents:
    """Events of a stream by time, those of one time in the order of arrival."""

    stream: Stream
    batch: pa.RecordBatch
    times: Ints
    _inputs: dict[Expression, InputColumn] = field(default_factory=dict)
    _holds: dict[Expression, Bools] = field(default_factory=dict)

    @staticmethod
    def of(stream: Stream, batch: pa.RecordBatch) -> OrderedEvents:
        """Order events that came in any order."""
        times = np.asarray(batch.column(stream.timestamp))
        if len(times) > 1 and np.any(times[1:] < times[:-1]):
            order = np.argsort(times, kind="stable")
            batch, times = batch.take(pa.array(order)), times[order]
        return OrderedEvents(stream, batch, times)

    def __len__(self) -> int:
        return len(self.times)

    def input(self, expression: Expression) -> InputColumn:
        """The values of an aggregate's argument."""
        if expression not in self._inputs:
            kind = type_of(expression, self.stream.attributes) or Type.BIGINT
            values = evaluate(expression, self._columns, self.stream.attributes, length=len(self))
            column = _input_column(values, kind)
            if isinstance(expression, Pair):
                column = replace(column, half_life_us=expression.half_life_us, most=expression.most)
            self._inputs[expression] = column
        return self._inputs[expression]

    def holds(self, where: Expression) -> Bools:
        """Which events pass a WHERE."""
        if where not in self._holds:
            self._holds[where] = holds(evaluate(where, self._columns, self.stream.attributes, length=len(self)))
        return self._holds[where]

    @property
    def _columns(self) -> dict[str, pa.Array]:
        return {name: self.batch.column(name) for name in self.batch.schema.names}


def _input_column(values: pa.Array, kind: Type) -> InputColumn:
    if pa.types.is_struct(values.type):
        valid = np.asarray(values.is_valid()) if values.null_count else np.empty(0, np.bool_)
        column = _input_column(values.field(PAIR[0]), kind)
        return replace(column, valid=valid, partners=numbers_of(values.field(PAIR[1]))[0])
    if kind is Type.STRING:
        valid = np.asarray(values.is_valid()) if values.null_count else np.empty(0, np.bool_)
        ranks, strings = ranks_of_strings(values)
        return InputColumn(kind, ranks, valid, strings)
    if pa.types.is_null(values.type) or (kind is not Type.DOUBLE and pa.types.is_floating(values.type)):
        values = values.cast(pa.int64())
    numbers, valid = numbers_of(values)
    return InputColumn(kind, numbers, valid)
