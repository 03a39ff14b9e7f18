"""The server's metrics for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from panewise.serve.encoding import age_s
from panewise.serve.feeds import Feeds
from panewise.serve.folder_source import FolderSource
from panewise.serve.source import AnswerSource
from panewise.windows.clock import END_OF_STREAM

BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class Metrics:
    """A registry with what requests took, and what the source and the feeds are at."""

    def __init__(self, source: AnswerSource, feeds: Feeds) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.seconds = Histogram(
            "panewise_serve_request_seconds",
            "Time of requests, by route.",
            ["route"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self.requests = Counter(
            "panewise_serve_requests", "Requests, by route and status.", ["route", "status"], registry=self.registry
        )
        self.registry.register(_Now(source, feeds))


class _Now(Collector):
    """What is read when somebody asks."""

    def __init__(self, source: AnswerSource, feeds: Feeds) -> None:
        self._source = source
        self._feeds = feeds

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        source, position = self._source, self._source.position
        age = age_s(position)
        yield _gauge("age_seconds", "How long ago the newest events came.", age)
        yield _gauge("version", "Grows with everything new.", position.version)
        yield _gauge("queries", "Queries that are answered.", len(source.workload.queries))
        yield _gauge("problem", "1 if something is wrong; /v1/streams says it.", float(source.problem is not None))
        yield _gauge("readers", "Readers of live answers.", self._feeds.readers)
        yield _counter("dropped_readers", "Readers that were too slow.", {"": self._feeds.dropped})
        watermarks = {name: us for name, us in position.watermarks_us.items() if us != END_OF_STREAM}
        yield _by_stream("watermark_timestamp_seconds", "The watermark.", watermarks)
        yield _by_stream("newest_event_timestamp_seconds", "The newest event.", position.newest_us)
        yield _counter("events", "Events that were taken.", position.events, "stream")
        yield _counter("late_events", "Events that came too late.", position.late_events, "stream")
        if isinstance(source, FolderSource):
            yield _gauge("builds", "1 if this server reads the folder, 0 if another one does.", float(source.builds))
            yield _counter("refreshes", "Times that new files were read.", {"": source.refreshes})
            yield _counter("refresh_failures", "Times that files could not be read.", {"": source.failures})
            yield _gauge("refresh_seconds", "How long the last reading of new files took.", source.refresh_s)


def _gauge(name: str, text: str, value: float | None) -> Metric:
    metric = GaugeMetricFamily(f"panewise_serve_{name}", text)
    if value is not None:
        metric.add_metric([], value)
    return metric


def _by_stream(name: str, text: str, values: object) -> Metric:
    metric = GaugeMetricFamily(f"panewise_serve_{name}", text, labels=["stream"])
    assert hasattr(values, "items")
    for stream, us in values.items():
        if us is not None:
            metric.add_metric([stream], us / 1e6)
    return metric


def _counter(name: str, text: str, values: object, label: str | None = None) -> Metric:
    metric = CounterMetricFamily(f"panewise_serve_{name}", text, labels=[] if label is None else [label])
    assert hasattr(values, "items")
    for of, count in values.items():
        metric.add_metric([] if label is None else [of], count)
    return metric
