"""A listener that turns the progress of Panewise's streams into metrics and hands these on.

    listener = ProgressListener(MetricsFile("metrics.jsonl"), PrometheusEndpoint(port=9464))
    session.streams.addListener(listener)

Spark calls it from its own threads, after a batch has ended and while the next one runs. A slow sink delays other
listeners, never the stream. If a sink fails, the log says so once, and the sink is tried again next time.
"""

# ruff: noqa: N802 - Spark calls the methods of a listener by its own names.

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Protocol

from pyspark.sql.streaming.listener import StreamingQueryListener

from panewise.spark.batch_metrics import BatchMetrics, is_batch
from panewise.spark.counts import METRICS
from panewise.spark.silence import Silence, warn_of_silence
from panewise.spark.whole_job import WholeJob

_log = logging.getLogger(__name__)


class MetricsSink(Protocol):
    """Something that takes the metrics of batches, one after the other."""

    def put(self, metrics: BatchMetrics, /) -> None:
        """Take the metrics of one more batch."""


class ForgivingSinks:
    """Several sinks. A failure in one stops neither the others nor the caller, and is logged once for each sink."""

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
                        "%s failed on batch %d of %s: %s; the stream goes on, and its further failures are not logged",
                        sink,
                        metrics.number,
                        metrics.query,
                        error,
                    )


class ProgressListener(StreamingQueryListener):
    """Hands the metrics of each batch to sinks, for one run or for every Panewise query of the session.

    A stream that brings nothing is told to `on_silence`, which warns if it is not given (`SilentStreamWarning`).
    """

    def __init__(
        self,
        *sinks: MetricsSink,
        run: str | None = None,
        on_silence: Callable[[str], object] = warn_of_silence,
    ) -> None:
        self._sinks = ForgivingSinks(*sinks)
        self._run = run
        self._on_silence = on_silence
        self._silences: defaultdict[str, Silence] = defaultdict(Silence)
        self._whole_job = WholeJob()
        self._ended = threading.Event()

    def wait_until_ended(self, timeout_s: float) -> bool:
        """Wait until the run (or, without one, any run) has ended and all its reports were handed on.

        False if that took too long.
        """
        return self._ended.wait(timeout_s)

    def onQueryStarted(self, event: Any) -> None:
        """Do nothing: a query has no metrics before its first batch."""

    def onQueryProgress(self, event: Any) -> None:
        """A batch has ended, or a trigger found nothing to do."""
        progress = event.progress
        if not is_batch(progress):
            return
        if str(progress.runId) == self._run or (self._run is None and METRICS in progress.observedMetrics):
            self._sinks.put(self._whole_job.complete(BatchMetrics.of(progress)))
            self._tell(self._silences[str(progress.runId)].see(progress))

    def onQueryIdle(self, event: Any) -> None:
        """A trigger found nothing to do: the metrics of the last batch still hold, if there ever was one."""
        if self._run in (None, str(event.runId)) and (self._run is not None or str(event.runId) in self._silences):
            self._tell(self._silences[str(event.runId)].idle())

    def _tell(self, messages: list[str]) -> None:
        for message in messages:
            self._on_silence(message)

    def onQueryTerminated(self, event: Any) -> None:
        """Spark tells of the end after all batches."""
        self._whole_job.forget(str(event.runId))
        self._silences.pop(str(event.runId), None)
        if self._run in (None, str(event.runId)):
            self._ended.set()
