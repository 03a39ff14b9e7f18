"""Answers that do not fit, in 64 bits or in their bound: NULL for their query alone, counted, and told in the log.

A query with ON OVERFLOW ERROR raises instead.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.components import Kind
from panewise.aggregates.lists import LIST_OVERFLOW
from panewise.aggregates.lowering import SUM_OVERFLOW
from panewise.aggregates.types import Type
from panewise.engine.answers import QueryAnswers
from panewise.errors import AnswerOverflowError
from panewise.language.model import Query

_LOGGER = logging.getLogger(__name__)

_TOLD_AGAIN = 10
"""A query is told in the log at its first such answer, and then whenever it has this many times as many."""


class Overflows:
    """Counts answers that do not fit, by query."""

    def __init__(self, counts: Mapping[str, int] | None = None) -> None:
        self._counts: Counter[str] = Counter(counts or {})
        self._told: dict[str, int] = {}

    @property
    def counts(self) -> dict[str, int]:
        """How many answers of each query were NULL because they do not fit; a query without any is not listed."""
        return dict(self._counts)

    def take(self, answers: Iterable[QueryAnswers]) -> None:
        """Count those of some answers; raises before anything is counted if a query asks for an error."""
        for query, count in found_in(answers):
            self.add(query, count)

    def add(self, query: Query, count: int) -> None:
        """Count some of one query."""
        if not count:
            return
        _refuse(query)
        self._counts[query.name] += count
        total = self._counts[query.name]
        if total >= self._told.get(query.name, 0):
            self._told[query.name] = _TOLD_AGAIN * total
            why = _why(query)
            _LOGGER.warning("query %s: %d answers so far are NULL, because %s", query.name, total, why)

    def forget(self, name: str) -> None:
        """Forget a query that was removed: another one may take its name."""
        self._counts.pop(name, None)
        self._told.pop(name, None)


def found_in(answers: Iterable[QueryAnswers]) -> list[tuple[Query, int]]:
    """The queries that have such answers among these, and how many; raises if one of them asks for an error."""
    found = [(one.query, one.overflows) for one in answers if one.overflows]
    for query, _ in found:
        _refuse(query)
    return found


def _refuse(query: Query) -> None:
    if query.overflow_is_error:
        cure = "or leave out ON OVERFLOW ERROR, and such an answer is NULL"
        raise AnswerOverflowError(f"query {query.name}: {_why(query)}, {cure}")


def _why(query: Query) -> str:
    """Why answers of a query do not fit, and what helps."""
    entries = [CATALOGUE[call.function] for call in query.aggregates]
    if not any(entry.is_list for entry in entries):
        return SUM_OVERFLOW
    has_sums = any(entry.fold(Type.BIGINT) is Kind.SUM_INT for entry in entries)
    return f"{SUM_OVERFLOW}; or {LIST_OVERFLOW}" if has_sums else LIST_OVERFLOW
