"""The demo: its queries, its comparison, and a run over a few weeks of flights."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from tests.flights import all_flights

from panewise.cli.demo.compare import first_difference
from panewise.cli.demo.demo import QUERIES
from panewise.cli.demo.plain import plain_selects
from panewise.cli.demo.quiet import quiet_children
from panewise.errors import PanewiseError
from panewise.language.reader import read
from panewise.language.workload import Workload
from panewise.planning.optimize import optimize
from panewise.spark.job import check_workload

SAMPLE = slice(6, None, 12)
"""Which queries plain Spark answers: every twelfth of the file."""


@pytest.fixture(scope="module")
def workload() -> Workload:
    return read(QUERIES)


def test_there_are_a_hundred_queries_and_more(workload: Workload) -> None:
    assert len(workload.queries) >= 100
    assert f"The {len(workload.queries)} queries" in QUERIES.read_text()
    check_workload(workload)
    (plan,) = optimize(workload).streams.values()
    assert len(plan.bases) == 5
    assert len(plan.trees) > 5


def test_the_queries_are_mixed(workload: Workload) -> None:
    queries = workload.queries.values()
    assert {call.function for query in queries for call in query.aggregates} == {
        *("COUNT_ALL", "COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX", "QUANTILE", "MEDIAN", "MODE"),
        *("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"),
    }
    assert len({query.window for query in queries}) >= 30
    assert any(query.window.range_us % query.window.slide_us for query in queries)
    groups = {query.group_by for query in queries}
    assert groups == {(), ("origin",), ("carrier",), ("dest",), ("origin", "carrier")}
    assert len({query.where for query in queries}) >= 30
    assert sum(query.having is not None for query in queries) >= 30


def test_plain_spark_answers_every_twelfth(workload: Workload) -> None:
    assert list(plain_selects()) == list(workload.queries)[SAMPLE]
    assert len(plain_selects()) == 10


def test_flights_are_out_of_order_but_never_by_the_watermark(workload: Workload) -> None:
    (stream,) = workload.streams.values()
    flights = all_flights()
    assert list(stream.attributes) == flights.column_names
    scheduled_us = np.asarray(flights.column("scheduled").cast(pa.int64()))
    behind_us = np.maximum.accumulate(scheduled_us) - scheduled_us
    assert flights.num_rows == 336_776 - 8_255
    assert np.mean(behind_us > 0) > 0.5
    assert 20 * 3_600_000_000 < behind_us.max() < stream.watermark_us


TABLE = pa.table({"window": [1, 2, 3], "flights": [10, 20, 30], "delay": [0.1, 0.2, None]})


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (TABLE, None),
        (TABLE.take([2, 0, 1]), None),
        (TABLE.set_column(2, "avg", pa.array([0.1 + 1e-15, 0.2, None])), None),
        (TABLE.slice(0, 2), "3 rows, and 2"),
        (TABLE.drop_columns(["delay"]), "3 columns, and 2"),
        (TABLE.set_column(1, "n", pa.array([10, 21, 30])), "flights is 20, and 21, at 2"),
        (TABLE.set_column(2, "avg", pa.array([0.1, 0.2 + 1e-8, None])), "delay is 0.2, and 0.20000001, at 2"),
        (TABLE.set_column(2, "avg", pa.array([0.1, None, None])), "delay is 0.2, and None, at 2"),
        (TABLE.set_column(2, "avg", pa.array([0.1, 0.2, 0.0])), "delay is None, and 0.0, at 3"),
        (TABLE.set_column(2, "avg", pa.array([0.1, 0.2, float("nan")])), "delay is None, and nan, at 3"),
    ],
)
def test_a_difference_is_found(other: pa.Table, difference: str | None) -> None:
    assert first_difference(TABLE, other, keys=1) == difference


def test_children_are_quiet_and_this_process_is_not(tmp_path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    with quiet_children(log):
        subprocess.run([sys.executable, "-c", "print('noise', flush=True)"], check=True)
    subprocess.run([sys.executable, "-c", "print('signal', flush=True)"], check=True)
    assert capfd.readouterr().out == "signal\n"
    assert log.read_text() == "noise\n"


def test_what_children_said_is_told_when_starting_them_fails(tmp_path) -> None:
    def start() -> None:
        with quiet_children(tmp_path / "log"):
            subprocess.run([sys.executable, "-c", "import sys; sys.exit('no room')"], check=True)

    with pytest.raises(PanewiseError, match=r"(?s)did not start.*no room"):
        start()


@pytest.mark.spark
def test_the_demo_runs() -> None:
    # A process of its own: the demo stops its Spark session, which the other tests would share.
    program = "from panewise.cli.demo.demo import run_demo; run_demo(flights=30_000, batches=2)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert "30,000 flights" in done.stdout
    assert "rows in 15,000" in done.stdout
    assert "0 events were late" in done.stdout
    assert "│ yes" in done.stdout
    assert "│ no" not in done.stdout
    assert "Plain Spark: 10 queries in" in done.stdout
    assert "Streaming TransformWithState" not in done.stdout + done.stderr
    assert done.stderr == ""
