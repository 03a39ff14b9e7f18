"""Metrics for Prometheus, over HTTP, from a thread of this process.

Counters add up from the start of this process, as Prometheus expects: it sees a restart as a reset. Times are Unix
seconds. The lag of the watermark and the age of lookups are computed for each request, so they grow while a stream
hangs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike

from panewise.closable import Closable
from panewise.extras import require_package
from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.published import published_s
from panewise.spark.query_costs import QueryCost, costs_of_run

require_package("prometheus_client", "spark", "panewise.spark.prometheus")

from prometheus_client import CollectorRegistry  # noqa: E402 - after it is known to be there
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric  # noqa: E402
from prometheus_client.registry import Collector  # noqa: E402

from panewise.spark.metrics_server import MetricsServer  # noqa: E402

DEFAULT_PORT = 9464
"""The port that exporters of OpenTelemetry use for Prometheus."""

MOST_QUERIES = 1_000
"""So many queries of a job are shown by name: Prometheus keeps a series for each of them."""
OTHERS = "(others)"
"""Stands for the queries beyond these."""

JOB, QUERY, STAGE, STEP, SOURCE = "job_name", "query", "stage", "step", "source"
"""Labels. Not `job`: Prometheus has one of that name itself."""

_COUNTERS = {
    "rows_in": "Rows read from the sources.",
    "answers": "Answers written.",
    "late_events": "Events dropped because they came behind the watermark.",
    "untimed_events": "Events dropped because their time is NULL or outside the years 1 to 9999.",
    "future_events": "Events set aside because their time is too far ahead of the clock.",
    "malformed_events": "Messages that could not be decoded; they are among those without a time.",
    "corrected_events": "Events behind the watermark that corrected answers.",
    "rejected_statements": "Statements of the control stream that were refused.",
    "overflown_answers": "Answers that are NULL because a sum does not fit in a BIGINT or a list in its bound.",
    "lifted": "Events put into partials, once for each base.",
    "fed": "Partials put into execution trees.",
    "folded": "Fragments visited and answers made of them.",
    "cache_hits": "Buckets that a worker still had in memory.",
    "catch_ups": "Buckets in memory that had fallen behind and read what was missing.",
    "rebuilds": "Buckets that were read from the state store as a whole.",
}
_GAUGES: dict[str, tuple[str, Callable[[BatchMetrics], float | None]]] = {
    "batch_number": ("Number of the last batch.", lambda batch: batch.number),
    "batch_seconds": ("How long the last batch took.", lambda batch: batch.duration_ms / 1e3),
    "batch_timestamp_seconds": ("When the last batch began.", lambda batch: batch.triggered_us / 1e6),
    "rows_per_second": ("Rows that the last batch read in a second of its time.", lambda batch: batch.rows_per_s),
    "watermark_timestamp_seconds": ("The watermark.", lambda batch: _seconds(batch.watermark_us)),
    "newest_event_timestamp_seconds": ("The newest event of the last batch.", lambda batch: _seconds(batch.newest_us)),
    "state_rows": ("Rows in Spark's state store.", lambda batch: batch.state_rows),
    "state_memory_bytes": ("Memory of Spark's state store.", lambda batch: batch.state_memory_bytes),
    "state_disk_bytes": ("Files of Spark's state store.", lambda batch: batch.state_disk_bytes),
}
_SIZES = {
    "log_bytes": "Bytes of the log of partials in the state of the whole job.",
    "live_rows": "Partials that execution trees of the whole job hold in memory.",
    "behind_buckets": "Buckets that could not be written to the folder of lookups: lookups are behind.",
    "held_bytes": "Bytes that the state holds until the folder of lookups can be written again.",
}
"""Gauges too: sizes that all buckets together have."""
_BACKLOG = {
    "offsets": "Messages that wait in a source, over all its partitions.",
    "files": "Files that wait in a source.",
    "bytes": "Bytes that wait in a source.",
}


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


@dataclass
class _Seen:
    """The metrics of one job so far."""

    last: BatchMetrics
    batches: int = 0
    runs: dict[str, None] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    stages_ns: Counter[str] = field(default_factory=Counter)
    steps_ms: Counter[str] = field(default_factory=Counter)
    overflown: Counter[str] = field(default_factory=Counter)


class BatchCollector(Collector):
    """Metrics of batches, added up, for a registry of Prometheus' library. Safe to use from several threads.

    With a folder of lookups, it tells their age too.
    """

    def __init__(self, lookups: str | PathLike[str] | None = None, clock: Callable[[], float] = time.time) -> None:
        self._lookups = lookups
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def put(self, metrics: BatchMetrics, /) -> None:
        """Add one batch."""
        with self._lock:
            seen = self._seen.setdefault(metrics.query, _Seen(metrics))
            seen.last = metrics
            seen.batches += 1
            seen.runs[metrics.run] = None
            seen.counts.update({"rows_in": metrics.rows_in, **metrics.counts})
            seen.stages_ns.update(metrics.stages_ns)
            seen.steps_ms.update(metrics.steps_ms)
            seen.overflown.update(metrics.overflown)

    def collect(self) -> Iterator[Metric]:
        """The metrics as they are now."""
        with self._lock:
            yield from self._of_batches()
            yield from self._of_sources()
            yield from self._of_queries()
        if self._lookups is not None:
            yield from _age(self._lookups, self._clock())

    def _of_batches(self) -> Iterator[Metric]:
        each = self._seen.items()
        yield _counter("batches", "Batches that ended.", {(job,): seen.batches for job, seen in each})
        for name, help_text in _COUNTERS.items():
            yield _counter(name, help_text, {(job,): seen.counts[name] for job, seen in each})
        for name, (help_text, value) in _GAUGES.items():
            yield _gauge(name, help_text, {(job,): value(seen.last) for job, seen in each})
        for name, help_text in _SIZES.items():
            sizes: Values = {(job,): seen.last.sizes and getattr(seen.last.sizes, name) for job, seen in each}
            yield _gauge(name, help_text, sizes)
        yield _gauge(
            "watermark_lag_seconds",
            "How far the watermark is behind the clock now.",
            {(job,): self._lag_s(seen.last) for job, seen in each},
        )
        yield _counter(
            "query_overflown_answers",
            "Answers that are NULL because a sum does not fit in a BIGINT or a list in its bound, by query.",
            {(job, name): count for job, seen in each for name, count in seen.overflown.items()},
            QUERY,
        )
        yield _counter(
            "stage_seconds",
            "Time in Panewise's own code, summed over tasks.",
            {(job, stage): ns / 1e9 for job, seen in each for stage, ns in seen.stages_ns.items()},
            STAGE,
        )
        yield _counter(
            "step_seconds",
            "Time of the driver's steps of a batch.",
            {(job, step): ms / 1e3 for job, seen in each for step, ms in seen.steps_ms.items()},
            STEP,
        )

    def _of_sources(self) -> Iterator[Metric]:
        waiting = [(job, source) for job, seen in self._seen.items() for source in seen.last.backlog]
        for unit, help_text in _BACKLOG.items():
            values: Values = {(job, source.source): source.as_dict()[unit] for job, source in waiting}
            yield _gauge(f"source_backlog_{unit}", help_text, values, SOURCE)

    def _of_queries(self) -> Iterator[Metric]:
        costs = {(job, query): cost for job, seen in self._seen.items() for query, cost in _by_query(seen.runs).items()}
        yield _counter(
            "query_answers",
            "Answers written, by query.",
            {labels: cost.answers for labels, cost in costs.items()},
            QUERY,
        )
        yield _counter(
            "query_seconds",
            "Time of the execution trees, in workers, shared among their queries in proportion to their answers.",
            {labels: cost.ns / 1e9 for labels, cost in costs.items()},
            QUERY,
        )

    def _lag_s(self, last: BatchMetrics) -> float | None:
        return None if last.watermark_us is None else self._clock() - last.watermark_us / 1e6


class LookupCollector(Collector):
    """The age of the lookups of a job's folder, for a process that looks up and has a registry of its own.

        prometheus_client.REGISTRY.register(LookupCollector("out/lookups"))

    The age grows when the job writes no more: it is dead, it hangs, or it gets no events.
    """

    def __init__(self, folder: str | PathLike[str], clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """The age now."""
        yield from _age(self._folder, self._clock())


class PrometheusEndpoint(Closable):
    """A sink of metrics that serves them at `http://<address>:<port>/metrics`, until it is closed.

    It has no password and shows names of jobs, queries and sources, and counts. So the default is the loopback address;
    use another one only in a network that you trust. Port 0 takes a free port. With `lookups`, the folder of a job, it
    tells the age of lookups.
    """

    def __init__(
        self, port: int = DEFAULT_PORT, address: str = "127.0.0.1", lookups: str | PathLike[str] | None = None
    ) -> None:
        self._batches = BatchCollector(lookups)
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self._batches)
        self._server = MetricsServer(registry, address, port)

    @property
    def url(self) -> str:
        """Where the metrics are."""
        return self._server.url

    def put(self, metrics: BatchMetrics, /) -> None:
        """Add one batch."""
        self._batches.put(metrics)

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.close()

    def __str__(self) -> str:
        return f"the metrics at {self.url}"


def _age(folder: str | PathLike[str], now_s: float) -> Iterator[Metric]:
    """How old the newest batch in a folder of lookups is; no value before the first."""
    written_s = published_s(folder)
    metric = GaugeMetricFamily(
        "panewise_lookup_age_seconds", "How long ago a batch was last published for lookups; it grows while none is."
    )
    if written_s is not None:
        metric.add_metric([], max(0.0, now_s - written_s))
    yield metric


def _by_query(runs: Iterable[str]) -> dict[str, QueryCost]:
    """The costs of a job's queries over some runs; those beyond the first ones are added up."""
    shown: dict[str, QueryCost] = {}
    for run in runs:
        for query, cost in costs_of_run(run).items():
            name = query if query in shown or len(shown) < MOST_QUERIES else OTHERS
            shown[name] = shown.get(name, QueryCost()).plus(cost)
    return shown


Values = Mapping[tuple[str, ...], float | None]
"""A value for each job, or for each job and value of a further label."""


def _counter(name: str, help_text: str, values: Values, label: str | None = None) -> Metric:
    return _filled(CounterMetricFamily(f"panewise_{name}", help_text, labels=_labels(label)), values)


def _gauge(name: str, help_text: str, values: Values, label: str | None = None) -> Metric:
    return _filled(GaugeMetricFamily(f"panewise_{name}", help_text, labels=_labels(label)), values)


def _labels(further: str | None) -> list[str]:
    return [JOB] if further is None else [JOB, further]


def _filled(metric: CounterMetricFamily | GaugeMetricFamily, values: Values) -> Metric:
    """The metric with the values that are known."""
    for labels, value in values.items():
        if value is not None:
            metric.add_metric(labels, value)
    return metric
