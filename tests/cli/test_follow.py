"""Following a query: each batch is reported once, and a stop lets the running batch end."""

# ruff: noqa: N802, N815 - a query has the names of Spark.

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.spark.progresses import progress

from panewise.cli import follow as follow_module
from panewise.cli.follow import StopRequest, follow, stop_requests
from panewise.cli.progress import Totals
from panewise.spark.batch_metrics import BatchMetrics


class Query:
    """A query that the test controls: one step at each look at it."""

    runId = "0f12"

    def __init__(self, *steps: Callable[[], None], recent: tuple[int, ...] = ()) -> None:
        self.steps = list(steps)
        self.recent = list(recent)
        self.stops = 0
        self.triggering = True
        self.failure: Exception | None = None
        self.active = True
        self.listener: Any = None

    @property
    def isActive(self) -> bool:
        if self.steps:
            self.steps.pop(0)()
        return self.active

    @property
    def status(self) -> dict[str, Any]:
        return {"isTriggerActive": self.triggering}

    @property
    def recentProgress(self) -> list[dict[str, Any]]:
        return [progress(number) for number in self.recent]

    def end_batch(self, number: int) -> None:
        content = progress(number)
        whole = type("Progress", (dict,), {"runId": self.runId, "observedMetrics": content["observedMetrics"]})
        self.listener.onQueryProgress(SimpleNamespace(progress=whole(content)))

    def end(self, failure: Exception | None = None) -> None:
        self.active, self.failure = False, failure
        self.listener.onQueryTerminated(SimpleNamespace(runId=self.runId))

    def stop(self) -> None:
        self.stops += 1
        self.end()

    def exception(self) -> Exception | None:
        return self.failure


class Shown(list[int]):
    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *exception: Any) -> None:
        return None

    def show(self, batch: BatchMetrics, totals: Totals) -> None:
        self.append(batch.number)


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Totals, Shown]]:
    """`follow` in a session that has only one query."""
    monkeypatch.setattr(follow_module, "POLL_S", 0.001)
    monkeypatch.setattr(follow_module, "LAST_WORD_S", 0.01)

    def run(query: Query, stop: StopRequest | None = None, **options: Any) -> tuple[Totals, Shown]:
        def listen(listener: Any) -> None:
            query.listener = listener

        def leave(listener: Any) -> None:
            assert listener is query.listener

        streams = SimpleNamespace(addListener=listen, removeListener=leave)
        monkeypatch.setattr(
            follow_module, "SparkSession", SimpleNamespace(active=lambda: SimpleNamespace(streams=streams))
        )
        shown = Shown()
        return follow(query, shown, stop or StopRequest(), **options), shown  # type: ignore[arg-type]

    return run


def test_every_batch_is_told_once_whoever_tells_it(following: Callable[..., tuple[Totals, Shown]]) -> None:
    told: list[int] = []
    sink = SimpleNamespace(put=lambda batch: told.append(batch.number))
    query = Query(recent=(0,))
    query.steps = [
        lambda: query.end_batch(0),
        lambda: query.end_batch(1),
        lambda: query.recent.extend([1, 2]),  # the listener never hears of batch 2
        lambda: query.end(),
    ]
    totals, shown = following(query, sinks=(sink,))
    assert shown == told == [0, 1, 2]
    assert (totals.batches, query.stops) == (3, 0)


def test_a_failure_is_raised_after_the_batches_before_it(following: Callable[..., tuple[Totals, Shown]]) -> None:
    told: list[int] = []
    query = Query()
    query.steps = [lambda: query.end_batch(0), lambda: query.end(RuntimeError("broken"))]
    with pytest.raises(RuntimeError, match="broken"):
        following(query, sinks=(SimpleNamespace(put=lambda batch: told.append(batch.number)),))
    assert told == [0]


def test_a_stop_waits_for_the_batch_that_runs(following: Callable[..., tuple[Totals, Shown]]) -> None:
    stop = StopRequest()
    query = Query()

    def still_running() -> None:
        assert query.stops == 0

    query.steps = [stop.ask, *[still_running] * 5, lambda: query.end_batch(0)]
    _, shown = following(query, stop)
    assert shown == [0]
    assert (query.stops, query.steps) == (1, [])


def test_a_stop_between_batches_waits_for_nothing(following: Callable[..., tuple[Totals, Shown]]) -> None:
    stop = StopRequest()
    query = Query(stop.ask)
    query.triggering = False
    _, shown = following(query, stop)
    assert (query.stops, shown) == (1, [])


def test_a_stop_does_not_wait_for_ever(following: Callable[..., tuple[Totals, Shown]]) -> None:
    stop = StopRequest()
    query = Query(stop.ask)
    following(query, stop, stop_within_s=0.05)
    assert query.stops == 1


def test_who_asks_twice_is_in_haste(following: Callable[..., tuple[Totals, Shown]]) -> None:
    stop = StopRequest()
    query = Query(stop.ask, stop.ask)
    following(query, stop)
    assert query.stops == 1
    assert stop.is_in_haste


def test_signals_ask_to_stop() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with stop_requests() as stop:
        assert not stop.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop.is_set(), stop.is_in_haste) == (True, False)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.is_in_haste
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
