"""What is counted along the way and shown with the progress of a batch: counts that add up, and sizes by bucket."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

METRICS = "panewise"
"""The name of the observed metrics in a batch's progress."""

BUCKET = "bucket_"
"""How the names of those metrics begin that hold the sizes of one bucket; its id follows."""

NO_TIME = -62_135_596_800_000_000
"""Stands for no time: Spark's earliest, which moves no watermark."""

COMBINED = ("untimed_events", "future_events", "combine_ns", "lifted")
"""Counted where events are combined: those without a time, those too far ahead of the clock, time in Panewise's own
code, and events put into partials.
"""

TOO_FAR_AHEAD_US = 2**63 - 1
"""Stands for the time of an event that is too far ahead of the clock: beyond all times that there are."""

_FOUND = ("cache_hits", "catch_ups", "rebuilds")
"""How a worker found its buckets: in memory, behind the log, or not at all."""

_WORK = ("fed", "folded", "feed_ns", "close_ns", "pack_ns")
"""Partials put into trees, fragments visited and answers made of them, and the time that each step took."""

COUNTS = ("late_events", "corrected_events", "rejected_statements", "overflown_answers", *COMBINED, *_FOUND, *_WORK)
"""All counts of a batch."""

COMBINED_COLUMNS = ", ".join(f"{name} BIGINT" for name in COMBINED)

OUTPUT = (
    "table_name STRING, query_id STRING, content BINARY, part INT, answers BIGINT, overflown STRING, bucket INT, "
    + "sizes STRING, "
    + ", ".join(f"{name} BIGINT" for name in COUNTS)
)
"""The table of packed answers, the streaming query that made them, the answers themselves, their part and number,
those of them that do not fit by query (`overflown_text`), the bucket, its sizes as text, counts."""

OVERFLOWN = "overflown"
"""The observed metric of the answers that do not fit: lines by `overflown_text`, one for each bucket."""

MOST_NAMED = 100
"""So many queries with answers that do not fit are named for a bucket and batch; the others count together."""
OTHERS = "(others)"

Value = bytes | int | str | None


class PackedTable(NamedTuple):
    """Packed rows of a table, and how many answers they report."""

    table: str
    content: bytes
    answers: int
    part: int = 0


class Sizes(NamedTuple):
    """What a bucket holds after a batch. The sums over all buckets are those of the job."""

    log_bytes: int = 0
    """Bytes of the log of partials."""
    live_rows: int = 0
    """Partials that execution trees hold in memory."""
    behind_buckets: int = 0
    """1 if the bucket could not be written to the folder of lookups."""
    held_bytes: int = 0
    """What the state holds for that folder until it can be written again."""

    def text(self, *, is_timer: bool) -> str:
        """As text. Of two calls in a batch, that of a timer comes later, and its text is the greater one.

        >>> Sizes(64, 2).text(is_timer=False), Sizes(7).text(is_timer=True)
        ('[0,64,2,0,0]', '[1,7,0,0,0]')
        """
        return json.dumps([int(is_timer), *self], separators=(",", ":"))

    @staticmethod
    def of(text: str) -> Sizes:
        """From the text."""
        return Sizes(*json.loads(text)[1:])


def output_rows(
    packed: Iterable[PackedTable],
    counts: Mapping[str, int],
    *,
    query_id: str = "",
    overflown: str | None = None,
    bucket: int | None = None,
    sizes: str | None = None,
) -> list[dict[str, Value]]:
    """A row for each packed batch of answers. The first has the counts, and may have no answers."""
    # The bucket is in each row: of a column with gaps, pandas would make floating numbers.
    nothing: dict[str, Value] = {"overflown": None, "bucket": bucket, "sizes": None, **dict.fromkeys(COUNTS, 0)}
    rows: list[dict[str, Value]] = [
        {"table_name": table, "query_id": query_id, "content": content, "part": part, "answers": answers, **nothing}
        for table, content, answers, part in packed
    ]
    if not rows and (sizes is not None or any(counts.values())):
        rows.append({"table_name": None, "query_id": query_id, "content": None, "part": 0, "answers": 0, **nothing})
    if rows:
        rows[0] |= {"overflown": overflown, "sizes": sizes, **counts}
    return rows


def whole(known: Iterable[Sizes]) -> Sizes:
    """The sizes of some buckets together.

    >>> whole([Sizes(64, 2), Sizes(7, 1, 1, 7)])
    Sizes(log_bytes=71, live_rows=3, behind_buckets=1, held_bytes=7)
    """
    each: Sequence[Sizes] = list(known)
    return Sizes(*map(sum, zip(*each))) if each else Sizes()


def overflown_text(by_query: Mapping[str, int]) -> str | None:
    """How many answers of each query do not fit, as a line of text; None if all fit."""
    if not by_query:
        return None
    named = dict(sorted(by_query.items(), key=lambda one: -one[1])[:MOST_NAMED])
    others = sum(by_query.values()) - sum(named.values())
    return json.dumps(named | ({OTHERS: others} if others else {}))


def overflown_of(lines: str | None) -> dict[str, int]:
    """The inverse of `overflown_text`, for the lines of all buckets together."""
    found: Counter[str] = Counter()
    for line in lines.split("\n") if lines else ():
        found.update(json.loads(line))
    return dict(found)
