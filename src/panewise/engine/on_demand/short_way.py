"""The short way: one call of a kernel gives all answers of a query with groups, for one group or for many.

It serves aggregates that are made from a few numbers. Aggregates that need the values themselves, and queries with
HAVING, are answered with arrays. The request to the kernel is written once, and again when structures change.
Cost: a call of a kernel, and for each key what its columns take; after a batch, a look at the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.types import Type
from panewise.engine.on_demand.coverage import Coverage
from panewise.engine.on_demand.parts import KeyedPart
from panewise.engine.on_demand.scalars import NULL, Answer
from panewise.engine.on_demand.sequence import Events
from panewise.engine.on_demand.served import Served, ServedAggregate, labelled_aggregates
from panewise.kernels.key_answers import (
    ANSWER,
    ASKED_WIDTH,
    AVERAGE,
    COUNT,
    DEVIATION,
    EXTREME,
    FINAL,
    FUNCTION,
    PART_WIDTH,
    PENDING,
    ROWS,
    SAMPLE,
    SUM,
    SUMS,
    UNSERVED,
    VARIANCE,
    answer_function,
    answer_keys,
)
from panewise.kernels.key_folds import ELEMENT
from panewise.kernels.ordering import order_words

Ints = npt.NDArray[np.int64]
Arrays = dict[str, np.ma.MaskedArray[Any, Any]]
"""The answers of each aggregate, by its label."""

FEWEST_TOGETHER = 256
"""Fewer groups than this are always looked up in the order in which they are given."""
_FUNCTIONS = {
    "COUNT": (COUNT, 0),
    "SUM": (SUM, 0),
    "AVG": (AVERAGE, 0),
    "MIN": (EXTREME, 0),
    "MAX": (EXTREME, 0),
    "VAR_POP": (VARIANCE, 0),
    "VAR_SAMP": (VARIANCE, 1),
    "STDDEV_POP": (DEVIATION, 0),
    "STDDEV_SAMP": (DEVIATION, 1),
}
"""The kernel's number for an aggregate, and how many values are too few for it."""


class ShortWay:
    """One query's short way."""

    def __init__(self, served: Served) -> None:
        self._served = served
        size = len(served.aggregates)
        self._asked = np.full((size, ASKED_WIDTH), -1, np.int64)
        for place, one in enumerate(served.aggregates):
            function = (ROWS, 0) if one.column is None else _FUNCTIONS[one.call.function]
            self._asked[place, FUNCTION], self._asked[place, SAMPLE] = function
        self._is_whole = [_is_whole(one) for one in served.aggregates]
        places = {one.call: place for place, one in enumerate(served.aggregates)}
        self._labels = [(label, places[call]) for label, call in labelled_aggregates(served.query)]
        self._parts: dict[int, tuple[KeyedPart | None, int]] = {FINAL: (None, 0), PENDING: (None, 0)}
        """The parts that the rows were last written for, and after how many batches."""
        self._key = np.zeros(1, np.int64)
        self._values, self._masked = _room(size, 1)
        self._doubles = self._values.view(np.float64)

    @staticmethod
    def leads_to(served: Served) -> bool:
        """Whether it can answer a query."""
        return served.is_plain and bool(served.sequence.group_by) and served.query.having is None

    def one(self, pending: Events, code: int, coverage: Coverage) -> tuple[int, list[Answer], int] | None:
        """How many events the window covers of one group, its answers, and how many of these do not fit in 64 bits.

        None if this way cannot give them.
        """
        self._key[0] = code
        has_pending, bounds = pending.has(code), (coverage.from_number, coverage.to_number)
        found = self._answer(pending, has_pending, self._key, *bounds, self._values, self._masked)
        if found is None:
            return None
        words = self._values.tolist(), self._doubles.tolist(), self._masked.tolist()
        answers: list[Answer] = [
            NULL if is_null else (float(whole), whole) if is_whole else (double, None)
            for is_whole, (whole,), (double,), (is_null,) in zip(self._is_whole, *words)
        ]
        covered, overflows = found
        return covered, answers, overflows

    def many(self, pending: Events, codes: Ints, coverage: Coverage) -> tuple[Arrays, int] | None:
        """The answers of groups by their codes (-1: none), by the names of SELECT, and how many do not fit in 64 bits.

        None if this way cannot give them.
        If most groups are requested, they are taken in the order of memory: that needs half of the time.
        """
        groups, size = len(self._served.sequence.table), len(codes)
        bounds, order = (coverage.from_number, coverage.to_number), None
        if size >= max(FEWEST_TOGETHER, groups // 2):
            order = order_words(codes + 1, groups)  # codes begin at -1
            codes = codes[order]
            if len(coverage.from_number) == size:
                bounds = coverage.from_number[order], coverage.to_number[order]
        values, masked = _room(len(self._asked), size)
        found = self._answer(pending, pending.elements > 0, codes, *bounds, values, masked)
        if found is None:
            return None
        if order is not None:
            (taken, nulls), (values, masked) = (values, masked), _room(len(self._asked), size)
            values[:, order], masked[:, order] = taken, nulls
        arrays = [
            np.ma.MaskedArray(row if is_whole else row.view(np.float64), mask if mask.any() else np.ma.nomask)
            for row, mask, is_whole in zip(values, masked, self._is_whole)
        ]
        return {label: arrays[place] for label, place in self._labels}, found[1]

    def _answer(
        self,
        pending: Events,
        has_pending: bool,
        codes: Ints,
        from_number: Ints,
        to_number: Ints,
        values: Ints,
        masked: npt.NDArray[np.bool_],
    ) -> tuple[int, int] | None:
        """Write the answers of groups; returns how many events these are made from, and how many do not fit in 64 bits.

        None if a column fails.
        """
        final = self._served.sequence.final
        assert isinstance(final, KeyedPart)
        assert isinstance(pending, KeyedPart)
        self._follow(FINAL, final)
        if has_pending:
            self._follow(PENDING, pending)
        overflows, present, covered = answer_keys(
            final.described.table, pending.described.table, has_pending, self._asked,
            codes, from_number, to_number, values, masked,
        )  # fmt: skip
        if overflows == UNSERVED:
            return None
        for column in self._served.columns:
            column.lookups += present
            column.covered += covered
        return int(covered), int(overflows)

    def _follow(self, place: int, part: KeyedPart) -> None:
        """Write the rows of a part's columns, if these may have changed."""
        known, batches = self._parts[place]
        if known is part and batches == part.described.batches:
            return
        part.follow_columns()
        for asked, one in zip(self._asked, self._served.aggregates):
            if one.column is not None:
                asked[place : place + PART_WIDTH] = part.rows_of(one.column)
                if asked[FUNCTION] != COUNT:
                    element = int(part.described.table[asked[place + SUMS], ELEMENT])
                    asked[ANSWER] = answer_function(int(asked[FUNCTION]), element).address
        self._parts[place] = part, part.described.batches


def _is_whole(aggregate: ServedAggregate) -> bool:
    """Whether answers are integers."""
    function, column = aggregate.call.function, aggregate.column
    if column is None or function == "COUNT":
        return True
    return function in ("SUM", "MIN", "MAX") and column.structure_type is not Type.DOUBLE


def _room(aggregates: int, groups: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Where answers go, and whether they are NULL."""
    return np.empty((aggregates, groups), np.int64), np.empty((aggregates, groups), np.bool_)
