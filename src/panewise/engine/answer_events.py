"""Events made of answers: what a stream of answers takes in when windows close below it.

Cost: as the query's table of answers, and a sort of the answers of one time where somebody counts rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from panewise.engine.answers import QueryAnswers
from panewise.engine.content_order import content_order
from panewise.engine.ingest import to_batch
from panewise.engine.wide_tables import query_table
from panewise.language.answer_streams import WINDOW_END, WINDOW_TIME, last_instants_us
from panewise.language.model import Query, Stream
from panewise.windows import SessionWindow, TimeWindow, is_unbounded
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.instances import ends_of, last_starting


def events_of(
    stream: Stream, base: Stream, query: Query, answers: Sequence[QueryAnswers], *, in_order: bool
) -> pa.RecordBatch:
    """Answers of a query over a stream, `base`, as events of the stream of its answers.

    If `in_order`, those of one time are in the order of their values: answers come in no order of their own.
    """
    batch = events_of_table(stream, query, query_table(base, query, answers, marks_ended=False))
    return batch.take(content_order(stream, batch)) if in_order else batch


def events_of_table(stream: Stream, query: Query, answers: pa.Table) -> pa.RecordBatch:
    """The same from a query's table of answers."""
    ends = answers.column(WINDOW_END).cast(pa.int64())
    times = pc.add(ends, last_instants_us(query.window))
    return to_batch(stream, answers.append_column(WINDOW_TIME, times))


def watermark_above(stream: Stream, watermark_us: int) -> int:
    """How far a stream of answers is when the stream below it has a watermark."""
    return watermark_us if watermark_us == END_OF_STREAM else watermark_us - stream.watermark_us


def complete_from(
    stream: Stream, query: Query, closed_us: int | None, exact_from: int | None, unseen_from_us: int | None
) -> int | None:
    """From which time on a stream of answers, made now, will have all of them; None: from the beginning.

    Args:
        stream: The stream of answers.
        query: The query that they are of.
        closed_us: Up to where the stream below has reported.
        exact_from: From where on the query sees all events, as `StreamState.exact_from` says it.
        unseen_from_us: From when on all events of the stream below are still to come.
    """
    marks = [] if closed_us is None else [watermark_above(stream, closed_us)]
    if exact_from is not None:
        if is_unbounded(query.window):
            marks.append(exact_from)
        elif isinstance(query.window, TimeWindow):
            # The windows that begin before are not reported; the last of them ends last.
            marks.append(ends_of(query.window, last_starting(query.window, exact_from - 1)))
        elif isinstance(query.window, SessionWindow):
            marks.append(exact_from + query.window.max_us + query.window.gap_us)
        elif unseen_from_us is not None:
            marks.append(unseen_from_us)
    return max(marks, default=None)
