"""Limits: how much one request may ask, and how long it may take. Nothing that a client sends is without a bound."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The bounds of requests and readers. The defaults suit a small machine."""

    body_bytes: int = 1 << 20
    """The body of a request, except events."""
    events_bytes: int = 64 << 20
    """The body of a request that brings events."""
    url_bytes: int = 16 << 10
    """The path and the query of an address."""
    statement_characters: int = 100_000
    """Statements that are tried or added at once."""
    queries: int = 1_000
    """The queries of one request, and of one page of the list."""
    keys: int = 10_000
    """The keys of one request."""
    rows: int = 10_000
    """The rows of one answer in JSON; Arrow has all."""
    points: int = 500
    """The windows of one history."""
    small: int = 64
    """So many lookups of single groups in one request are answered at once, without a thread."""
    waiting: int = 64
    """Requests that wait for a thread; further ones are told to come again."""
    readers: int = 2_000
    """Readers of live answers at the same time."""
    messages: int = 64
    """Live answers that may wait for a slow reader before it is dropped."""
    connections: int = 4_000
    """Connections at the same time."""
    lookup_s: float = 10.0
    """The time of a lookup."""
    plan_s: float = 60.0
    """The time of a plan, which may have thousands of queries."""
    statements_s: float = 120.0
    """The time of statements, which may need a compiler."""
    head_s: float = 15.0
    """The time in which the head of a request must have come."""
    body_s: float = 30.0
    """The time in which a body must have come."""
    send_s: float = 20.0
    """The time after which a client that takes nothing of what is sent is dropped."""
