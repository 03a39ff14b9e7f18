"""Following a streaming query to its end, or until somebody asks it to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from pyspark.sql.streaming.query import StreamingQuery

from weft.cli.progress import Batch, Display, Totals

POLL_S = 0.2


def follow(query: StreamingQuery, display: Display, stop: threading.Event) -> Totals:
    """Show each batch as it ends. Returns when the query ends or was stopped; raises what it failed with."""
    totals = Totals()
    newest = -1
    with display:
        running = True
        while running:
            # Looked at before the progress, so that the last batches are not missed.
            running = query.isActive and not stop.wait(POLL_S)
            for batch in _ended_since(query, newest):
                totals.add(batch)
                display.show(batch, totals)
                newest = batch.number
    if stop.is_set():
        query.stop()
    elif error := query.exception():
        raise error
    return totals


def _ended_since(query: StreamingQuery, newest: int) -> list[Batch]:
    latest = query.lastProgress
    if latest is None or latest["batchId"] <= newest:
        return []
    # A progress without addBatch tells of a trigger that found nothing to do.
    ended = [progress for progress in query.recentProgress if "addBatch" in progress["durationMs"]]
    return [Batch.of(progress) for progress in ended if progress["batchId"] > newest]


@contextmanager
def stop_requests() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set. A second Ctrl-C interrupts at once.

    PySpark's own Ctrl-C handler cancels the running jobs, which would look like a failure of the query.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers
        return

    def request(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
