"""A standalone Spark cluster on loopback: one master, and workers that share nothing but a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.cluster.processes import SparkProgram, started

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"
ON_LOOPBACK = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
"""Port 0: the system gives a free one, and the log says which."""


class Cluster:
    """A master and its workers, each with one core; every worker has its own scratch folder, like a machine."""

    def __init__(self, folder: Path, master_url: str, stack: ExitStack) -> None:
        self.master_url = master_url
        self._folder = folder
        self._stack = stack
        self._workers: dict[str, SparkProgram] = {}
        self._count = 0

    @property
    def workers(self) -> set[str]:
        """The names of the workers that run."""
        return set(self._workers)

    def add_workers(self, count: int) -> None:
        """Start more workers, and wait until the master knows them."""
        fresh = [self._start_worker() for _ in range(count)]
        for worker in fresh:
            worker.wait_for("Successfully registered with master")

    def kill(self, name: str) -> None:
        """Kill a worker and its executor, without telling any other process."""
        self._workers.pop(name).kill()

    def _start_worker(self) -> SparkProgram:
        name = f"worker-{self._count}"
        self._count += 1
        scratch = self._folder / name
        command = ["spark-class", WORKER, *ON_LOOPBACK, "--cores", "1", "--memory", "1g"]
        worker = self._stack.enter_context(
            started(
                name,
                [*command, "--work-dir", str(scratch / "work"), self.master_url],
                self._folder,
                {"SPARK_LOCAL_DIRS": str(scratch / "local")},
            )
        )
        self._workers[name] = worker
        return worker


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Start a cluster with its logs in a folder; stop all of it at the end."""
    with ExitStack() as stack:
        master = stack.enter_context(started("master", ["spark-class", MASTER, *ON_LOOPBACK], folder))
        url = master.wait_for(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")[1]
        cluster = Cluster(folder, url, stack)
        cluster.add_workers(workers)
        yield cluster
