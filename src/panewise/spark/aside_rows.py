"""Events that are set aside, as rows for a sink of their own: those without a usable time, and those too far ahead.

The rows come from a second read of the source, by a query of its own: Spark has one sink for a query, and only its own
sinks write each batch exactly once. Each query has a clock of its own for FUTURE BOUND, so an event that is very near
to the bound may be counted in answers and be set aside too, or neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from panewise.language.model import UNBOUNDED_US, Stream
from panewise.language.workload import Workload
from panewise.spark.columns import named
from panewise.spark.pipeline import by_stream
from panewise.spark.projection import event_time_us, future_bound_us, is_too_far_ahead
from panewise.windows.clock import FIRST_US, LAST_US

_AS_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


def set_aside(
    events: DataFrame | Mapping[str, DataFrame], workload: Workload, *, malformed: str | None = None
) -> DataFrame:
    """Give the events that `answers` sets aside: no window and no watermark sees them.

    Write it with a query and a checkpoint of its own, beside the one that writes the answers.

    Args:
        events: As for `answers`.
        workload: As for `answers`.
        malformed: A column of the events with the text of what could not be read, NULL for every other event.

    Returns:
        A row for each such event: `reason` (`untimed`: its time is NULL or outside the years 1 to 9999; `future`: its
        time is further ahead of the clock than FUTURE BOUND allows; `malformed`), `stream`, `time` (NULL if it has none
        that can be used), and `event`: the columns of the event as JSON, or the text that could not be read.

    Raises:
        PanewiseError: A column is missing or has another type.

    Cost: one more read of the events.
    """
    frames = by_stream(events, workload, every=True)
    rows = [_rows(frame, workload.streams[name], malformed) for name, frame in frames.items()]
    return reduce(DataFrame.union, rows)


def _rows(events: DataFrame, stream: Stream, malformed: str | None) -> DataFrame:
    has_text = malformed is not None and malformed in events.columns
    text = named(malformed) if malformed is not None and has_text else F.lit(None).cast("string")
    time_us = event_time_us(events, stream)
    columns = [named(name) for name in events.columns if name != malformed]
    as_json = F.to_json(F.struct(*columns), _AS_JSON)
    usable = time_us.between(F.lit(FIRST_US), F.lit(LAST_US))
    return events.select(
        _reason(events, stream, text, time_us).alias("reason"),
        F.lit(stream.name).alias("stream"),
        F.when(usable, F.timestamp_micros(time_us)).alias("time"),
        F.coalesce(text, as_json).alias("event"),
    ).where(F.col("reason").isNotNull())


def _reason(events: DataFrame, stream: Stream, text: Column, time_us: Column) -> Column:
    """Why an event is set aside; NULL if it is not. The twin of what `combine` counts."""
    reason = F.when(text.isNotNull(), F.lit("malformed")).when(time_us.isNull(), F.lit("untimed"))
    bound_us = future_bound_us(stream, is_streaming=events.isStreaming)
    if bound_us != UNBOUNDED_US:
        reason = reason.when(is_too_far_ahead(time_us, bound_us), F.lit("future"))
    return reason.when(~time_us.between(F.lit(FIRST_US), F.lit(LAST_US)), F.lit("untimed"))
