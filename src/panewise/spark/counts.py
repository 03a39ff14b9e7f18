"""What is counted along the way and shown with the progress of a batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping

METRICS = "panewise"
"""The name of the observed metrics in a batch's progress."""

NO_TIME = -62_135_596_800_000_000
"""Stands for no time: Spark's earliest, which moves no watermark."""

COMBINED = ("untimed_events", "future_events", "combine_ns", "lifted")
"""Counted where events are combined: those without a time, those too far ahead of the clock, time in Panewise's own
code, and events put into partials.
"""

TOO_FAR_AHEAD_US = 2**63 - 1
"""Stands for the time of an event that is too far ahead of the clock: beyond all times that there are."""

_STATE = ("cache_hits", "catch_ups", "rebuilds", "log_bytes", "live_rows", "behind_buckets", "held_bytes")
"""Of the buckets that a batch touched: how each was found (in memory, behind, not at all), the bytes of their logs, and
the partials in memory. Then the buckets that could not be written to the shared folder, and the bytes held for them."""

_WORK = ("fed", "folded", "feed_ns", "close_ns", "pack_ns")
"""Partials put into trees, fragments visited and answers made of them, and the time that each step took."""

COUNTS = ("late_events", "corrected_events", "rejected_statements", "overflown_answers", *COMBINED, *_STATE, *_WORK)
"""All counts of a batch."""

COMBINED_COLUMNS = ", ".join(f"{name} BIGINT" for name in COMBINED)

OUTPUT = "content BINARY, answers BIGINT, overflown STRING, " + ", ".join(f"{name} BIGINT" for name in COUNTS)
"""Packed answers, the answers that do not fit by query (`overflown_text`), and the counts."""

OVERFLOWN = "overflown"
"""The observed metric of the answers that do not fit: a list of texts by `overflown_text`, one for each bucket."""

MOST_NAMED = 100
"""So many queries with answers that do not fit are named for a bucket and batch; the others count together."""
OTHERS = "(others)"

OutputRow = dict[str, bytes | str | int | None]


def output_rows(packed: Iterable[tuple[bytes, int]], counts: dict[str, int], overflown: str | None) -> list[OutputRow]:
    """A row for each packed batch of answers, with its size. The first has the counts, and may have no answers."""
    nothing = dict.fromkeys(COUNTS, 0)
    rows: list[OutputRow] = [
        {"content": content, "answers": size, "overflown": None, **nothing} for content, size in packed
    ]
    if not rows and any(counts.values()):
        rows.append({"content": None, "answers": 0, "overflown": None, **nothing})
    if rows:
        rows[0] |= counts
        rows[0]["overflown"] = overflown
    return rows


def overflown_text(by_query: Mapping[str, int]) -> str | None:
    """How many answers of each query do not fit, as text; None if all fit."""
    if not by_query:
        return None
    named = dict(sorted(by_query.items(), key=lambda one: -one[1])[:MOST_NAMED])
    others = sum(by_query.values()) - sum(named.values())
    return json.dumps(named | ({OTHERS: others} if others else {}))


def overflown_of(texts: Iterable[str] | None) -> dict[str, int]:
    """The inverse of `overflown_text`, for all buckets together."""
    found: Counter[str] = Counter()
    for text in texts or ():
        found.update(json.loads(text))
    return dict(found)
