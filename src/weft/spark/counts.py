"""What is counted along the way and shown with the progress of a batch."""

from __future__ import annotations

from collections.abc import Iterable

COMBINED = ("untimed_events", "busy_ns", "lifted")
"""Counted where events are combined: those without a time, time in Weft's own code, and events put into partials."""

COUNTS = ("late_events", *COMBINED, "fed", "folded")
"""All counts of a batch: `fed` is partials put into trees, `folded` fragments visited and answers made of them."""

COMBINED_COLUMNS = ", ".join(f"{name} BIGINT" for name in COMBINED)

OUTPUT = "content BINARY, answers BIGINT, " + ", ".join(f"{name} BIGINT" for name in COUNTS)
"""Packed answers, and the counts."""


def output_rows(packed: Iterable[tuple[bytes, int]], counts: dict[str, int]) -> list[dict[str, bytes | int | None]]:
    """A row for each packed batch of answers and its size; the counts stand in the first, which may have no answers."""
    nothing = dict.fromkeys(COUNTS, 0)
    rows: list[dict[str, bytes | int | None]] = [
        {"content": content, "answers": size, **nothing} for content, size in packed
    ]
    if not rows and any(counts.values()):
        rows.append({"content": None, "answers": 0, **nothing})
    if rows:
        rows[0] |= counts
    return rows
