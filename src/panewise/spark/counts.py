"""What is counted along the way and shown with the progress of a batch."""

from __future__ import annotations

from collections.abc import Iterable

METRICS = "panewise"
"""The name of the observed metrics in a batch's progress."""

NO_TIME = -62_135_596_800_000_000
"""Stands for no time: Spark's earliest, which moves no watermark."""

COMBINED = ("untimed_events", "combine_ns", "lifted")
"""Counted where events are combined: those without a time, time in Panewise's own code, and events put into
partials.
"""

_STATE = ("cache_hits", "catch_ups", "rebuilds", "log_bytes", "live_rows", "behind_buckets", "held_bytes")
"""Of the buckets that a batch touched: how each was found (in memory, behind, not at all), the bytes of their logs, and
the partials in memory. Then the buckets that could not be written to the shared folder, and the bytes held for them."""

_WORK = ("fed", "folded", "feed_ns", "close_ns", "pack_ns")
"""Partials put into trees, fragments visited and answers made of them, and the time that each step took."""

COUNTS = ("late_events", "corrected_events", "rejected_statements", *COMBINED, *_STATE, *_WORK)
"""All counts of a batch."""

COMBINED_COLUMNS = ", ".join(f"{name} BIGINT" for name in COMBINED)

OUTPUT = "content BINARY, answers BIGINT, " + ", ".join(f"{name} BIGINT" for name in COUNTS)
"""Packed answers, and the counts."""


def output_rows(packed: Iterable[tuple[bytes, int]], counts: dict[str, int]) -> list[dict[str, bytes | int | None]]:
    """A row for each packed batch of answers, with its size. The first has the counts, and may have no answers."""
    nothing = dict.fromkeys(COUNTS, 0)
    rows: list[dict[str, bytes | int | None]] = [
        {"content": content, "answers": size, **nothing} for content, size in packed
    ]
    if not rows and any(counts.values()):
        rows.append({"content": None, "answers": 0, **nothing})
    if rows:
        rows[0] |= counts
    return rows
