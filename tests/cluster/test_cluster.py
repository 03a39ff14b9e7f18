"""Panewise on a real cluster: answers stay right when tasks fail, and when a worker dies in the middle of a batch."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.feather as feather
import pytest
from tests import oracle
from tests.answers import to_answers
from tests.cluster import stream_driver, trades
from tests.cluster.processes import PATIENCE_S, environment
from tests.cluster.standalone import Cluster, standalone_cluster
from tests.cluster.stream_driver import Order

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform == "win32", reason="Spark's standalone cluster needs a Unix shell"),
]

PARTITIONS = 3
"""More than there are cores: tasks then go to any free worker, and buckets move between workers."""


class Driver:
    """The driver's process; it gets its orders line by line."""

    def __init__(self, master_url: str, folder: Path, settings: dict[str, str]) -> None:
        self._log = folder / "driver.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, stream_driver.__file__, master_url, json.dumps(settings)],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )

    def begin(self, order: Order) -> None:
        """Give an order."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, Any]:
        """Wait for the result of the order."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the driver failed:\n{self._log.read_text()[-6000:]}"
        reply: dict[str, Any] = json.loads(line)
        return reply

    def stop(self) -> None:
        """Let it stop its session and end."""
        try:
            self._process.communicate(timeout=PATIENCE_S)
        finally:
            self._process.kill()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Driver]:
    settings = {
        "spark.python.worker.reuse": request.param,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.locality.wait": "0s",
        # Begin when both workers have their executor, so that both take part.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    }
    # An earlier test may have killed one.
    cluster.add_workers(2 - len(cluster.workers))
    running = Driver(cluster.master_url, tmp_path_factory.mktemp("driver"), settings)
    yield running
    running.stop()


def make_order(folder: Path, batches: int) -> Order:
    trades.write_events(folder / "events", batches)
    return Order(trades.STATEMENTS, trades.COLUMNS, str(folder / "events"), trades.FILES_PER_BATCH, str(folder / "out"))


def check_answers(order: Order, batches: int) -> None:
    expected = trades.closed_answers(batches)
    assert expected, "some windows must close"
    table = feather.read_table(Path(order.out, "answers"))
    oracle.assert_same_answers(to_answers(table, trades.WORKLOAD), expected)


def tasks(order: Order) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(order.out, "tasks").read_text().splitlines()]


# The value of `spark.python.worker.reuse`. With false no cache outlives a task, and every task waits for a new Python:
# so that case has fewer batches.
@pytest.mark.parametrize(
    ("driver", "batches", "failing"),
    [("true", 5, (2, 3)), ("false", 3, (1, 2))],
    indirect=["driver"],
    scope="module",
    ids=["workers reused", "a worker per task"],
)
def test_tasks_fail_and_the_answers_are_right(
    driver: Driver, cluster: Cluster, tmp_path: Path, batches: int, failing: tuple[int, ...]
) -> None:
    order = replace(make_order(tmp_path, batches), fail_in_batches=failing)
    driver.begin(order)
    driver.end()
    ran = tasks(order)
    assert {task["worker"] for task in ran} == cluster.workers
    again = {(task["batch"], task["partition"]) for task in ran if task["attempt"] == 1}
    assert again == {(batch, partition) for batch in failing for partition in range(PARTITIONS)}
    check_answers(order, batches)


@pytest.mark.parametrize("driver", ["true"], indirect=True, ids=["workers reused"])
def test_a_worker_dies_in_the_middle_of_a_batch_and_the_answers_are_right(
    driver: Driver, cluster: Cluster, tmp_path: Path
) -> None:
    batches, held_batch = 5, 2
    order = replace(make_order(tmp_path, batches), hold_in_batch=held_batch)
    driver.begin(order)
    victim = worker_of_the_held_task(order)
    cluster.kill(victim)
    driver.end()
    ran = tasks(order)
    # The others took over its buckets, with nothing of them in memory or on their disks.
    assert victim in {task["worker"] for task in ran if task["batch"] < held_batch}
    assert {task["worker"] for task in ran if task["batch"] > held_batch} == cluster.workers
    check_answers(order, batches)


def worker_of_the_held_task(order: Order) -> str:
    place = Path(order.out, "held", "task")
    limit = time.monotonic() + PATIENCE_S
    while not place.exists():
        assert time.monotonic() < limit, "no task of that batch began in time"
        time.sleep(0.05)
    worker: str = json.loads(place.read_text())["worker"]
    return worker
