"""Following a streaming query to its end, or until somebody asks it to stop."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from panewise.cli.job import STOP_WITHIN_S
from panewise.cli.progress import Display, Totals
from panewise.spark.batch_metrics import BatchMetrics, is_batch
from panewise.spark.progress_listener import ForgivingSinks, MetricsSink, ProgressListener
from panewise.spark.silence import warn_of_silence
from panewise.spark.whole_job import WholeJob

POLL_S = 0.2
LAST_WORD_S = 5.0
"""How long to wait for Spark's last reports of a query that has ended."""


class StopRequest:
    """Whether somebody asked to stop: the first time after the running batch, the second time at once."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._in_haste = threading.Event()

    def ask(self) -> None:
        """Ask to stop; the second time, to stop at once."""
        (self._in_haste if self._asked.is_set() else self._asked).set()

    def is_set(self) -> bool:
        """Whether somebody asked."""
        return self._asked.is_set()

    @property
    def is_in_haste(self) -> bool:
        """Whether somebody asked twice."""
        return self._in_haste.is_set()


def follow(
    query: StreamingQuery,
    display: Display,
    stop: StopRequest,
    *,
    beside: StreamingQuery | None = None,
    sinks: tuple[MetricsSink, ...] = (),
    stop_within_s: float = STOP_WITHIN_S,
    on_silence: Callable[[str], object] = warn_of_silence,
) -> Totals:
    """Show each batch as it ends, and hand its metrics to the sinks.

    Returns when the query ends or was stopped; if it failed, raises its error. A query that is asked to stop first ends
    the running batch, unless that takes longer than `stop_within_s`. A query `beside` it ends and fails with it.
    """
    ended: SimpleQueue[BatchMetrics] = SimpleQueue()
    listener = ProgressListener(ended, run=str(query.runId), on_silence=on_silence)
    streams = SparkSession.active().streams
    streams.addListener(listener)
    try:
        with display:
            told = _Told(display, ForgivingSinks(*sinks))
            # Batches that ended before the listener was there.
            told.tell_all_of(query)
            while query.isActive and not stop.is_set() and not _has_failed(beside):
                told.tell_next(ended)
            if stop.is_set() or _has_failed(beside):
                _let_the_batch_end(query, told, ended, stop, time.monotonic() + stop_within_s)
                query.stop()
            if beside is not None:
                _end_beside(beside, query, stop)
            listener.wait_until_ended(LAST_WORD_S)
            # Spark's queue of events for listeners drops some when it is full.
            told.tell_all_of(query)
    finally:
        streams.removeListener(listener)
    for one in (query, beside):
        if one is not None and not stop.is_set() and (error := one.exception()):
            raise error
    return told.totals


def _has_failed(beside: StreamingQuery | None) -> bool:
    return beside is not None and not beside.isActive and beside.exception() is not None


def _end_beside(beside: StreamingQuery, query: StreamingQuery, stop: StopRequest) -> None:
    """Let a query beside another read what there is, unless the other failed or somebody asks to stop.

    An interrupted batch does no harm: it is repeated from the checkpoint.
    """
    while beside.isActive and not stop.is_set() and query.exception() is None:
        time.sleep(POLL_S)
    beside.stop()


class _Told:
    """Reports the batches, each once and in order."""

    def __init__(self, display: Display, sinks: MetricsSink) -> None:
        self.totals = Totals()
        self._display = display
        self._sinks = sinks
        self._newest = -1
        self._whole_job = WholeJob()

    def tell(self, batch: BatchMetrics) -> None:
        if batch.number <= self._newest:
            return
        self._newest = batch.number
        # Here and not before: only here do all batches come, and in order.
        batch = self._whole_job.complete(batch)
        self.totals.add(batch)
        self._display.show(batch, self.totals)
        self._sinks.put(batch)

    def tell_next(self, ended: SimpleQueue[BatchMetrics]) -> None:
        """Report the next batch, if one ends soon."""
        try:
            self.tell(ended.get(timeout=POLL_S))
        except Empty:
            return

    def tell_all_of(self, query: StreamingQuery) -> None:
        """Report the batches that the query itself still knows."""
        for progress in query.recentProgress:
            if is_batch(progress):
                self.tell(BatchMetrics.of(progress))


def _let_the_batch_end(
    query: StreamingQuery, told: _Told, ended: SimpleQueue[BatchMetrics], stop: StopRequest, deadline_s: float
) -> None:
    """Wait until no batch runs. An interrupted batch does no harm: it is repeated from the checkpoint.

    Spark offers no moment to stop between two batches: if the next batch follows at once, it has hardly begun.
    """
    batches = told.totals.batches
    while (
        query.isActive
        and query.status["isTriggerActive"]
        and told.totals.batches == batches
        and not stop.is_in_haste
        and time.monotonic() < deadline_s
    ):
        told.tell_next(ended)


@contextmanager
def stop_requests() -> Iterator[StopRequest]:
    """What Ctrl-C and SIGTERM ask for. A third Ctrl-C interrupts the process.

    PySpark's own Ctrl-C handler cancels the running jobs, which would look like a failure of the query.
    """
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers
        return

    def request(number: int, frame: FrameType | None) -> None:
        stop.ask()
        if stop.is_in_haste:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
