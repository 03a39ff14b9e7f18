"""Reported answers: what tells the answer of one window and group from another.

An answer is what SELECT shows of a group: the values of its aggregates, and their bounds if they have any. Aggregates
that only HAVING reads are no part of it. A group without an answer (no event, or HAVING does not hold) is the same as a
group whose answers are all NULL: a table of answers shows both as NULL.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.lowering import Lowered
from panewise.aggregates.sketches import hashed_words
from panewise.arrays import Column, Ints
from panewise.engine.answers import Groups, QueryAnswers, is_exact
from panewise.engine.columns import canonical
from panewise.language.expressions import Expression
from panewise.language.model import Query


def selected_aggregates(query: Query) -> list[Expression]:
    """The aggregates that SELECT shows, and what it computes from aggregates, each once."""
    return list(dict.fromkeys(item.expression for item in query.answers))


def no_words(query: Query, count: int) -> Ints:
    """The words of so many groups without an answer."""
    widths = [2 if is_exact(call) else 4 for call in selected_aggregates(query)]
    return np.zeros((sum(widths), count), np.int64)


def words_of(part: QueryAnswers) -> Ints:
    """A column of words for each answer; equal words mean equal answers, and zeros mean none, or nothing but NULL."""
    columns: list[Column] = []
    for call in selected_aggregates(part.query):
        lowered = part.lowered[call]
        columns += [lowered.valid, _bits(lowered)]
        if not is_exact(call):
            bounds = part.bounds.get(call, (lowered.values, lowered.values))
            columns += [np.where(lowered.valid, canonical(bound).view(np.int64), 0) for bound in bounds]
    words = np.empty((len(columns), len(part)), np.int64)
    for word, column in zip(words, columns, strict=True):
        word[:] = column
    return words


def _bits(lowered: Lowered) -> Ints:
    """The answers whole: NaN equals itself, no integer is rounded, and NULL is 0. Of strings and lists a hash."""
    if lowered.is_object:
        assert lowered.exact is not None
        return np.where(lowered.valid, hashed_words(map(repr, lowered.exact.tolist())), 0)
    bits = canonical(lowered.values).view(np.int64) if lowered.exact is None else lowered.exact
    if lowered.valid.all():
        return bits.astype(np.int64, copy=False)
    return np.where(lowered.valid, bits, 0)


def withdrawn(query: Query, bounds_us: tuple[Ints, Ints], groups: Groups, keys: Ints, instances: Ints) -> QueryAnswers:
    """Rows of NULL for groups that no longer have an answer in some instances of a window."""
    nothing = Lowered(np.zeros(len(keys)), None, np.zeros(len(keys), np.bool_))
    lowered = dict.fromkeys(selected_aggregates(query), nothing)
    return QueryAnswers(query, *bounds_us, keys, groups, lowered, instances=instances, is_gone=True)
