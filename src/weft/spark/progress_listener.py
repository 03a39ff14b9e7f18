"""A listener that turns the progress of Weft's streams into metrics and hands these on.

    listener = ProgressListener(MetricsFile("metrics.jsonl"), PrometheusEndpoint(port=9464))
    session.streams.addListener(listener)

Spark calls it from threads of its own, after a batch has ended and beside the next one; a sink that is slow delays what
other listeners hear, never the stream. A sink that fails is told about once, in the log, and asked again next time.
"""

# ruff: noqa: N802 - Spark calls the methods of a listener by its own names.

from __future__ import annotations

import logging
import threading
from typing import Any, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from weft.spark.batch_metrics import BatchMetrics, is_batch
from weft.spark.pipeline import METRICS

_log = logging.getLogger(__name__)


class MetricsSink(Protocol):
    """Something that takes the metrics of batches, one after the other."""

    def put(self, metrics: BatchMetrics, /) -> None:
        """Take one batch more."""


class ForgivingSinks:
    """Sinks of which none can stop the others, nor who feeds them. A failure is told once for each sink."""

    def __init__(self, *sinks: MetricsSink) -> None:
        self._sinks = sinks
        self._failed: set[int] = set()

    def put(self, metrics: BatchMetrics, /) -> None:
        """Hand the metrics to every sink."""
        for place, sink in enumerate(self._sinks):
            try:
                sink.put(metrics)
            except Exception as error:
                if place not in self._failed:
                    self._failed.add(place)
                    _log.warning(
                        "%s failed on batch %d of %s: %s; the stream goes on, and further failures of it are not told",
                        sink,
                        metrics.number,
                        metrics.query,
                        error,
                    )


class ProgressListener(StreamingQueryListener):
    """Hands the metrics of each batch to sinks: of one run, or of every query of the session that Weft answers."""

    def __init__(self, *sinks: MetricsSink, run: str | None = None) -> None:
        self._sinks = ForgivingSinks(*sinks)
        self._run = run
        self._ended = threading.Event()

    def wait_until_ended(self, timeout_s: float) -> bool:
        """Wait until the run (or, of all queries, some run) has ended and all that it reported was handed on.

        False when that took too long.
        """
        return self._ended.wait(timeout_s)

    def onQueryStarted(self, event: Any) -> None:
        """Nothing is known of a query before its first batch."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended, or a trigger found nothing to do."""
        progress = event.progress
        if not is_batch(progress):
            return
        if str(progress.runId) == self._run or (self._run is None and METRICS in progress.observedMetrics):
            self._sinks.put(BatchMetrics.of(progress))

    def onQueryIdle(self, event: Any) -> None:
        """Nothing new: the last batch's metrics hold."""

    def onQueryTerminated(self, event: Any) -> None:
        """Spark tells of the end after all batches."""
        if self._run in (None, str(event.runId)):
            self._ended.set()
