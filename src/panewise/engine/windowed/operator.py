"""What every operator of row queries does: take events, answer, and describe its state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from panewise.engine.windowed.feed import Events, Feed
from panewise.engine.windowed.output import QueryRows
from panewise.errors import QueryKindError
from panewise.indexes import IndexChoice
from panewise.language.model import Stream
from panewise.language.row_queries import RowQuery
from panewise.planning.windowed import plan_row_query

Keep = Callable[[pa.Table], int]
"""Puts a table into a snapshot and returns its number there."""


class Operator(ABC):
    """An operator and its queries, which differ only in what they show of it."""

    key: object = None
    """Queries with equal keys share an operator; None: this query shares none."""

    def __init__(self) -> None:
        self.outputs: dict[str, QueryRows] = {}

    @property
    @abstractmethod
    def streams(self) -> tuple[str, ...]:
        """The streams that it reads, each once."""

    def push(self, stream: str, events: Events) -> None:  # noqa: B027 - most operators wait for final events
        """Take in events as they come, in any order."""

    @abstractmethod
    def take(self, stream: str, events: Events) -> None:
        """Take in final events."""

    @abstractmethod
    def advance(self) -> None:
        """Answer all windows for which the feeds are complete."""

    @property
    def complete(self) -> int | None:
        """How far windows are complete, on the clock that their ends are counted on; None before the first."""
        return None

    def foresee(self, before: int | None, after: int | None) -> None:  # noqa: B027 - joins and selections have no k
        """Decide how often windows are evaluated that end after one place and up to another."""

    @property
    @abstractmethod
    def exact_from(self) -> int | None:
        """Where it begins to see every event; None: from the beginning."""

    def lookup(self, query: RowQuery) -> pa.Table:
        """The rows of the newest complete window."""
        raise QueryKindError(
            f"query {query.name}: its rows come from rows({query.name!r}); to look them up, write INTO [...] at its end"
        )

    def check_invariants(self) -> None:  # noqa: B027 - some operators have nothing to check
        """Raise AssertionError if the operator's state is wrong."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Its state in numbers: basic windows attached, evaluations, index and storage in use, nodes, bytes."""

    @abstractmethod
    def describe(self, keep: Keep) -> dict[str, Any]:
        """Its state for a snapshot: numbers, and tables of the tuples held."""

    @abstractmethod
    def restore(self, description: Mapping[str, Any], tables: list[pa.Table]) -> None:
        """Take over a state that was described, by replaying the tuples held."""


Feeds = Mapping[str, Feed]


def choice_for(query: RowQuery, streams: Mapping[str, Stream]) -> IndexChoice:
    """The first storage, index and ring."""
    choice = plan_row_query(query, streams).choice
    assert choice is not None  # only a selection has none
    return choice


def differs(old: IndexChoice, new: IndexChoice) -> bool:
    """Whether a choice differs from the storage, index and ring in use."""
    return (old.storage, old.index, old.ring) != (new.storage, new.index, new.ring)


def names_of(choice: IndexChoice) -> dict[str, str | None]:
    """The storage, the index and the ring in use."""
    return {"storage": choice.storage, "index": choice.index, "ring": choice.ring}
