"""`panewise bench spark`: options by scale, events that are kept, the alert queries, what a run says, and the
targets.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import panewise
import spark as bench
from _workload import TRADE_QUERIES, make_alert_queries, make_trade_queries
from panewise.language.expressions import Comparison, Literal
from panewise.language.workload import print_workload
from panewise.spark.batch_metrics import STAGES, BatchMetrics
from panewise.windows import TimeWindow

EVENTS, KEYS = 40_000, 5


def batch(number: int, found: tuple[int, int, int], **more: Any) -> BatchMetrics:
    counts = Counter(zip_counts(found))
    return BatchMetrics("q", "run", number, 0, 0, 0.0, counts=counts, stages_ns=Counter(), **more)


def zip_counts(found: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("cache_hits", "catch_ups", "rebuilds"), found, strict=True))


def test_sizes_that_are_not_given_are_those_of_the_scale() -> None:
    usual = bench.parse([])
    assert (usual.events, usual.keys, usual.queries, usual.plain) == (4_000_000, [1000], [1, 10, 100, 1000], [1, 10])
    assert (usual.workload, usual.null, usual.batch) == ("mixed", True, False)
    issue = bench.parse(["--scale", "issue", "--keys", "7", "--no-null", "--plain"])
    assert (issue.events, issue.keys, issue.queries[-1], issue.plain, issue.null) == (
        20_000_000,
        [7],
        10_000,
        [],
        False,
    )


def test_events_are_written_once_and_counted(tmp_path: Path) -> None:
    data = tmp_path / "data"
    events = bench.Events.of(data, EVENTS + 3, KEYS, 2, seed=1, files_per_batch=3)
    files = sorted(events.folder.iterdir())
    assert len(files) == 6
    # Events that do not fill all files equally are left out and not counted.
    assert events.count == sum(pq.read_table(file).num_rows for file in files) == 40_002
    before = [file.stat() for file in files]
    assert bench.Events.of(data, EVENTS + 3, KEYS, 2, seed=1, files_per_batch=3) == events
    assert [file.stat().st_ino for file in files] == [stat.st_ino for stat in before]
    # Spark reads files by age: older files have the earlier events.
    by_age = sorted(files, key=lambda file: file.stat().st_mtime)
    firsts = [pc.min(pq.read_table(file).column("at")).as_py() for file in by_age]
    assert firsts == sorted(firsts)
    assert list(data.iterdir()) == [events.folder]


def test_events_that_were_not_finished_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, *_: Any) -> None:
        folder.mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bench, "write_trades", fail)
        with pytest.raises(KeyboardInterrupt):
            bench.Events.of(tmp_path, EVENTS, KEYS, 1, seed=1, files_per_batch=2)
    assert list(tmp_path.iterdir()) == []
    assert bench.Events.of(tmp_path, EVENTS, KEYS, 1, seed=1, files_per_batch=2).count == EVENTS


def test_alerts_are_the_same_queries_with_thresholds() -> None:
    trades = make_trade_queries(TRADE_QUERIES + 2).queries
    alerts = make_alert_queries(TRADE_QUERIES + 2, 4_000_000, 1000)
    for name, query in alerts.queries.items():
        assert (query.select, query.where, query.group_by) == (
            trades[name].select, trades[name].where, trades[name].group_by,
        )  # fmt: skip
        assert (query.having is not None) == ("symbol" in query.group_by)
    lengths = {name: query.window for name, query in alerts.queries.items() if isinstance(query.window, TimeWindow)}
    assert lengths[f"q{TRADE_QUERIES}"].range_us == lengths["q0"].range_us + 60_000_000
    assert panewise.read(print_workload(alerts)).queries == alerts.queries


@pytest.mark.parametrize(("events", "keys"), [(4_000_000, 1000), (20_000_000, 100_000)])
def test_an_alert_is_for_groups_far_above_their_mean(events: int, keys: int) -> None:
    query = make_alert_queries(1, events, keys).queries["q0"]
    assert isinstance(query.having, Comparison)
    assert isinstance(query.having.right, Literal)
    mean = events * 10 / (4 * 60 * keys)
    assert query.having.right.value == round(mean + 4 * mean**0.5)


def test_the_state_is_that_of_the_last_batch_that_touched_all_buckets() -> None:
    batches = [batch(0, (0, 0, 4)), batch(1, (2, 1, 1)), batch(2, (1, 0, 0))]
    assert bench.last_whole(batches).number == 1


def test_work_is_summed_over_batches() -> None:
    batches = []
    for number in range(2):
        one = batch(number, (3, 0, 1), steps_ms={"addBatch": 500})
        batches.append(BatchMetrics(**{**vars(one), "stages_ns": dict.fromkeys(STAGES, 10**9)}))
    work = bench.work_of(bench.Run(10.0, batches=tuple(batches)), cores=2)
    assert work["stages_s"] == dict.fromkeys(STAGES, 2.0)
    assert work["stages_share"] == dict.fromkeys(STAGES, 0.1)
    assert work["share_in_panewise"] == pytest.approx(0.4)
    assert work["steps_s"] == {"addBatch": 1.0}
    assert {name: work[name] for name in zip_counts((0, 0, 0))} == zip_counts((6, 0, 2))


def test_targets_say_what_was_measured_and_whether_it_is_enough() -> None:
    figures = bench.Figures({1: 10.0, 100: 10.0, 1000: 25.0}, {1: 4.0, 10: 100.0}, 6.0, {1: 40.0, 100: 65.0})
    found = list(bench.targets(figures))
    assert [(target["value"], target["wanted"], target["met"]) for target in found] == [
        (100.0, 100, True), (0.4, 0.5, False), (0.6, 0.5, True), (65.0, 64, False),
    ]  # fmt: skip
    assert "10 queries" in found[0]["how"]
    assert found[-1]["queries"] == 100
    assert list(bench.targets(bench.Figures({10: 1.0}))) == []
