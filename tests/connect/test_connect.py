"""Panewise over Spark Connect: a client that has no JVM, and a server whose Python has Panewise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

import pyarrow.feather as feather
import pytest
from pyspark.sql import GroupedData
from tests import oracle
from tests.answers import to_answers
from tests.cluster import trades
from tests.cluster.processes import PATIENCE_S, environment, started

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
PROJECT = Path(__file__).parents[2]
MODULES = {
    "grpcio": "grpc",
    "grpcio-status": "grpc_status",
    "googleapis-common-protos": "google.rpc",
    "zstandard": "zstandard",
}
"""The packages of PySpark's extra `connect` that are for nothing else, and their modules. Not all versions have all."""
NEEDED = [
    module for package, module in MODULES.items() if any(line.startswith(package) for line in requires("pyspark") or [])
]
MISSING = [name for name in NEEDED if find_spec(name) is None]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform == "win32", reason="Spark's scripts need a Unix shell"),
    pytest.mark.skipif(
        bool(MISSING) and os.environ.get("CI") != "true",
        reason=f'Spark Connect needs {", ".join(MISSING)}: pip install "pyspark[connect]"',
    ),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Connect server on a free port."""
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--class", SERVER, "--master", "local[2]", *options]
    with started("connect", command, tmp_path_factory.mktemp("server")) as program:
        yield "sc://" + program.wait_for(r"Spark Connect server started at: (127\.0\.0\.1:\d+)")[1]


def run_client(server: str, folder: Path, kind: str) -> subprocess.CompletedProcess[str]:
    """A client that answers the trades from a folder into the same."""
    trades.write_events(folder / "events")
    return subprocess.run(
        [sys.executable, "-m", "tests.connect.client", server, str(folder / "events"), str(folder), kind],
        env=environment(),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )


def test_a_batch_agrees_with_the_oracle(server: str, tmp_path: Path) -> None:
    ran = run_client(server, tmp_path, "batch")
    assert ran.returncode == 0, ran.stderr
    table = feather.read_table(tmp_path / "batch")
    oracle.assert_same_answers(to_answers(table, trades.WORKLOAD), trades.all_answers(), "batch")


def test_a_stream_agrees_with_the_oracle_or_is_refused_by_spark_4_0(server: str, tmp_path: Path) -> None:
    ran = run_client(server, tmp_path, "stream")
    if not hasattr(GroupedData, "transformWithState"):
        assert "Spark Connect keeps no state for Python before Spark 4.1" in ran.stderr
        return
    assert ran.returncode == 0, ran.stderr
    table = feather.read_table(tmp_path / "stream")
    oracle.assert_same_answers(to_answers(table, trades.WORKLOAD), trades.closed_answers(), "stream")
