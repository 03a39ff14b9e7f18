"""Metrics for Prometheus: its text format, over HTTP, from a thread of this process.

Counters add up from the start of this process, as Prometheus expects: it sees a restart as a reset. Times are Unix
seconds. The lag of the watermark is computed for each request, so it grows while a stream hangs.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from panewise.errors import SparkSetupError
from panewise.spark.batch_metrics import BatchMetrics

DEFAULT_PORT = 9464
"""The port that exporters of OpenTelemetry use for Prometheus."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "rows_in": "Rows read from the sources.",
    "answers": "Answers written.",
    "late_events": "Events dropped because they came behind the watermark.",
    "untimed_events": "Events dropped because their time is NULL or outside the years 1 to 9999.",
    "future_events": "Events set aside because their time is too far ahead of the clock.",
    "malformed_events": "Messages that could not be decoded; they are among those without a time.",
    "corrected_events": "Events behind the watermark that corrected answers.",
    "rejected_statements": "Statements of the control stream that were refused.",
    "overflown_answers": "Answers that are NULL because a sum does not fit in a BIGINT.",
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
    "log_bytes": ("Bytes of the log of partials in the buckets that were touched.", lambda batch: batch.log_bytes),
    "live_rows": ("Partials that execution trees hold in memory, in these.", lambda batch: batch.live_rows),
    "behind_buckets": (
        "Buckets that could not be written to the folder of lookups: lookups are behind.",
        lambda batch: batch.behind_buckets,
    ),
    "held_bytes": (
        "Bytes that the state holds until the folder of lookups can be written again.",
        lambda batch: batch.held_bytes,
    ),
    "state_rows": ("Rows in Spark's state store.", lambda batch: batch.state_rows),
    "state_memory_bytes": ("Memory of Spark's state store.", lambda batch: batch.state_memory_bytes),
    "state_disk_bytes": ("Files of Spark's state store.", lambda batch: batch.state_disk_bytes),
}


def _seconds(us: int | None) -> float | None:
    return None if us is None else us / 1e6


@dataclass
class _Seen:
    """The metrics of one query so far."""

    last: BatchMetrics
    batches: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    stages_ns: Counter[str] = field(default_factory=Counter)
    steps_ms: Counter[str] = field(default_factory=Counter)
    overflown: Counter[str] = field(default_factory=Counter)


class PrometheusText:
    """Metrics of batches, added up, as Prometheus reads them. Safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}
        self._lock = threading.Lock()

    def put(self, metrics: BatchMetrics, /) -> None:
        """Add one batch."""
        with self._lock:
            seen = self._seen.setdefault(metrics.query, _Seen(metrics))
            seen.last = metrics
            seen.batches += 1
            seen.counts.update({"rows_in": metrics.rows_in, **metrics.counts})
            seen.stages_ns.update(metrics.stages_ns)
            seen.steps_ms.update(metrics.steps_ms)
            seen.overflown.update(metrics.overflown)

    def __str__(self) -> str:
        """The page."""
        with self._lock:
            return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        each = self._seen.items()
        yield from _metric(
            "batches_total", "counter", "Batches that ended.", {(query,): seen.batches for query, seen in each}
        )
        for name, help_text in _COUNTERS.items():
            yield from _metric(
                f"{name}_total", "counter", help_text, {(query,): seen.counts[name] for query, seen in each}
            )
        for name, (help_text, value) in _GAUGES.items():
            yield from _metric(name, "gauge", help_text, {(query,): value(seen.last) for query, seen in each})
        yield from _metric(
            "watermark_lag_seconds",
            "gauge",
            "How far the watermark is behind the clock now.",
            {(query,): self._lag_s(seen.last) for query, seen in each},
        )
        yield from _metric(
            "overflown_answers_by_query_total",
            "counter",
            "The same by the query of the workload that they belong to.",
            {(query, name): count for query, seen in each for name, count in seen.overflown.items()},
            "answers_of",
        )
        yield from _metric(
            "stage_seconds_total",
            "counter",
            "Time in Panewise's own code, summed over tasks.",
            {(query, stage): ns / 1e9 for query, seen in each for stage, ns in seen.stages_ns.items()},
            "stage",
        )
        yield from _metric(
            "step_seconds_total",
            "counter",
            "Time of the driver's steps of a batch.",
            {(query, step): ms / 1e3 for query, seen in each for step, ms in seen.steps_ms.items()},
            "step",
        )

    def _lag_s(self, last: BatchMetrics) -> float | None:
        return None if last.watermark_us is None else self._clock() - last.watermark_us / 1e6


class PrometheusEndpoint:
    """A sink of metrics that serves them at `http://<address>:<port>/metrics`, until it is closed.

    It has no password and shows names of queries and counts. So the default is the loopback address; use another one
    only in a network that you trust. Port 0 takes a free port.
    """

    def __init__(self, port: int = DEFAULT_PORT, address: str = "127.0.0.1") -> None:
        self._text = PrometheusText()
        try:
            self._server = _Server((address, port), _handler(self._text))
        except (OSError, OverflowError) as error:
            raise SparkSetupError(
                f"cannot serve metrics at {address}:{port}: {error}; choose another port, or 0 for a free one"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="panewise metrics", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        address, port = self._server.server_address[:2]
        return f"http://{address!s}:{port}/metrics"

    def put(self, metrics: BatchMetrics, /) -> None:
        """Add one batch."""
        self._text.put(metrics)

    def close(self) -> None:
        """Stop serving, and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> PrometheusEndpoint:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __str__(self) -> str:
        return f"the metrics at {self.url}"


class _Server(ThreadingHTTPServer):
    """A server that does not look up its own name, which may take long, and ignores clients that hang up."""

    def server_bind(self) -> None:
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


def _handler(text: PrometheusText) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answers with the metrics and nothing else."""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self.send_error(404, "the metrics are at /metrics")
                return
            page = str(text).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, format: str, *arguments: Any) -> None:
            """No line for each request."""

    return Handler


def _metric(
    name: str, kind: str, help_text: str, values: Mapping[tuple[str, ...], float | None], label: str = ""
) -> Iterator[str]:
    """The lines of one metric: a value for each query, or for each query and value of a further label."""
    yield f"# HELP panewise_{name} {help_text}"
    yield f"# TYPE panewise_{name} {kind}"
    for (query, *part), value in values.items():
        labels = [f'query="{_escaped(query)}"', *(f'{label}="{_escaped(text)}"' for text in part)]
        if value is not None:
            yield f"panewise_{name}{{{','.join(labels)}}} {value}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
