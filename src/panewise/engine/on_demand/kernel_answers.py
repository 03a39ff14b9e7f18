"""Answers by kernel: one call gives all answers of a query, for one group or for many.

It serves aggregates that are made from a few numbers. Aggregates that need the values themselves, and queries with
HAVING or with arithmetic on aggregates, are answered with arrays. The request to the kernel is written once, and again
when structures change.
Cost: a call of a kernel, and for each key what its columns take; after a batch, a look at the columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.catalogue import Making
from panewise.aggregates.components import Kind
from panewise.arrays import Ints
from panewise.engine.on_demand.coverage import Coverage
from panewise.engine.on_demand.parts import Part
from panewise.engine.on_demand.scalars import NULL, Answer
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
from panewise.language.expressions import Expression

Arrays = dict[str, np.ma.MaskedArray[Any, Any]]
"""The answers of each aggregate, by its label."""

FEWEST_TOGETHER = 256
"""Fewer groups than this are always looked up in the order in which they are given."""
_FUNCTIONS = {Making.MEAN: AVERAGE, Making.VARIANCE: VARIANCE, Making.DEVIATION: DEVIATION}
"""The kernel's number for what it makes of components; of folds it depends on the component."""


class KernelAnswers:
    """One query's answers, by one call of a kernel."""

    def __init__(self, served: Served[Any]) -> None:
        self._served = served
        size = len(served.aggregates)
        self._asked = np.full((size, ASKED_WIDTH), -1, np.int64)
        for place, one in enumerate(served.aggregates):
            self._asked[place, FUNCTION], self._asked[place, SAMPLE] = _function(one)
        self._is_count = (self._asked[:, FUNCTION] <= COUNT).tolist()
        self._is_whole = [_is_whole(one) for one in served.aggregates]
        places: dict[Expression, int] = {one.call: place for place, one in enumerate(served.aggregates)}
        self._labels = [(label, places[call]) for label, call in labelled_aggregates(served.query)]
        self._parts: dict[int, tuple[Part | None, int]] = {FINAL: (None, 0), PENDING: (None, 0)}
        """The parts that the rows were last written for, and after how many batches."""
        self._key = np.zeros(1, np.int64)
        self._values, self._masked = _room(size, 1)
        self._doubles = self._values.view(np.float64)

    @staticmethod
    def can_answer(served: Served[Any]) -> bool:
        """Whether it can answer a query."""
        are_plain = all(one.column is None or one.entry.making is not Making.OTHER for one in served.aggregates)
        return are_plain and served.query.having is None and not served.query.computed

    def one(self, pending: Part, code: int, coverage: Coverage) -> tuple[int, list[Answer], int] | None:
        """How many events the window covers of one group, its answers, and how many of these do not fit in 64 bits.

        None if the kernel cannot give them.
        """
        self._key[0] = code
        has_pending, bounds = pending.has(code), (coverage.from_number, coverage.to_number)
        found = self._answer(pending, has_pending, self._key, *bounds, self._values, self._masked)
        if found is None:
            return None
        covered, overflows = found
        if not covered:
            # A group without events does not exist. Without groups there is an answer all the same: counts of 0.
            return 0, [(0.0, 0) if is_count else NULL for is_count in self._is_count], 0
        words = self._values.tolist(), self._doubles.tolist(), self._masked.tolist()
        answers: list[Answer] = [
            NULL if is_null else (float(whole), whole) if is_whole else (double, None)
            for is_whole, (whole,), (double,), (is_null,) in zip(self._is_whole, *words)
        ]
        return covered, answers, overflows

    def each(self, pending: Part, code: int, coverage: Coverage) -> list[list[Answer] | None] | None:
        """The answers of one group in several windows, None for a window that covers no element of it.

        None altogether if the kernel cannot give them, or some answer does not fit in 64 bits.
        """
        bounds = coverage.from_number, coverage.to_number
        codes = np.full(len(bounds[0]), code)
        values, masked = _room(len(self._asked), len(codes))
        found = self._answer(pending, pending.has(code), codes, *bounds, values, masked)
        if found is None or found[1]:
            return None
        parts = self._served.sequence.final, pending
        widths = sum(np.subtract(*part.positions(codes, *bounds)[::-1]) for part in parts)
        words, doubles, nulls = values.tolist(), values.view(np.float64).tolist(), masked.tolist()
        by_aggregate = [
            [
                NULL if is_null else (float(whole), whole) if is_whole else (double, None)
                for whole, double, is_null in zip(*several)
            ]
            for is_whole, *several in zip(self._is_whole, words, doubles, nulls)
        ]
        return [list(answers) if width else None for width, answers in zip(np.asarray(widths), zip(*by_aggregate))]

    def many(self, pending: Part, codes: Ints, coverage: Coverage) -> tuple[Arrays, int] | None:
        """The answers of groups by their codes (-1: none), by the names of SELECT, and how many do not fit in 64 bits.

        None if the kernel cannot give them.
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
        pending: Part,
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
        if not self._follow(FINAL, final) or (has_pending and not self._follow(PENDING, pending)):
            return None
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

    def _follow(self, place: int, part: Part) -> bool:
        """Write the rows of a part's columns, if these may have changed; False if some column cannot be described."""
        known, batches = self._parts[place]
        if known is part and batches == part.described.batches:
            return True
        if not all(part.is_described(column) for column in self._served.columns):
            return False
        part.follow_columns()
        for asked, one in zip(self._asked, self._served.aggregates):
            if one.column is not None:
                asked[place : place + PART_WIDTH] = part.rows_of(one.column)
                if asked[FUNCTION] != COUNT:
                    element = int(part.described.table[asked[place + SUMS], ELEMENT])
                    asked[ANSWER] = answer_function(int(asked[FUNCTION]), element).address
        self._parts[place] = part, part.described.batches
        return True


def _function(aggregate: ServedAggregate) -> tuple[int, int]:
    """The kernel's number for an aggregate, and how many values are too few for it."""
    if aggregate.column is None:
        return ROWS, 0
    entry = aggregate.entry
    if entry.only_counts:
        return COUNT, 0
    of_fold = EXTREME if entry.fold() in (Kind.MIN, Kind.MAX) else SUM
    return _FUNCTIONS.get(entry.making, of_fold), entry.fewest - 1


def _is_whole(aggregate: ServedAggregate) -> bool:
    """Whether answers are integers."""
    column = aggregate.column
    return column is None or aggregate.entry.result_type(column.structure_type).is_integral


def _room(aggregates: int, groups: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Where answers go, and whether they are NULL."""
    return np.empty((aggregates, groups), np.int64), np.empty((aggregates, groups), np.bool_)
