"""Wide tables of buckets: the same rows as the engine's, whatever the batches, restarts and repeated tasks.

Spark's contract is simulated; tables on Spark itself are in test_tables.py.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from tests.dice import SeededDice, one_in
from tests.spark.simulated import SimulatedSpark
from tests.spark.streaming import Event, public_table
from tests.wide_answers import plain
from tests.workloads import DECAYED, MOMENTS, OF_TWO, UNIT_US, random_events, random_workload

import panewise
from panewise.engine.closed_tables import Answers
from panewise.errors import ArgumentError, NamesClashError
from panewise.language.workload import Workload
from panewise.spark import layouts
from panewise.spark.layouts import LONG, By, WideLayout, table_names
from panewise.windows.window import TimeWindow

ORIGIN_US = 1_356_998_400_000_000
SLIDES = (1, 1, 2)


def drawn(seed: int, *, corrects: bool) -> tuple[Workload, list[list[Event]]]:
    """A workload with families, and events in batches: on whole units, and with sums that no order changes."""
    dice = SeededDice(seed)
    workload = random_workload(seed, queries=18)
    (stream,) = workload.streams.values()
    stream = replace(stream, correct_us=dice.integer(2, 6) * UNIT_US if corrects else 0)
    queries = {
        name: replace(
            query, window=TimeWindow(dice.integer(1, 8) * UNIT_US, slide_us=dice.pick(SLIDES) * UNIT_US), having=None
        )
        for name, query in workload.queries.items()
        # The last digits of these depend on the order of events, and with them what has changed.
        if not any(call.function in (*MOMENTS, *OF_TWO, *DECAYED) for call in query.aggregates)
    }
    rows = random_events(seed, stream, 120, disorder_us=stream.watermark_us + 8 * UNIT_US, origin_us=ORIGIN_US)
    batches: list[list[Event]] = [[]]
    for row in rows:
        row = {name: _exact(value) for name, value in row.items()}
        row[stream.timestamp] = row[stream.timestamp] // UNIT_US * UNIT_US
        batches[-1].append(row)
        if one_in(dice, 15):
            batches.append([])
    return Workload({stream.name: stream}, queries), [batch for batch in batches if batch]


def _exact(value: Any) -> Any:
    return round(value * 2) % 32 / 2 if isinstance(value, float) and math.isfinite(value) else value


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    """The rows by their columns; order does not matter, and the last digits of variances may differ."""
    assert table.column_names == list(dict.fromkeys(table.column_names))
    columns = [[_rounded(value) for value in table.column(name).to_pylist()] for name in table.column_names]
    return Counter(zip(*columns, strict=True))


def _rounded(value: Any) -> Any:
    return float(f"{value:.9g}") if isinstance(value, float) and math.isfinite(value) else plain(value)


def of_engine(answers: Answers, by: By) -> dict[str, pa.Table]:
    return dict(answers.families if by == "family" else answers.tables)


@pytest.mark.parametrize("by", ["family", "query"])
@pytest.mark.parametrize("seed", range(6))
def test_streams_have_the_rows_of_the_engine(tmp_path: Path, seed: int, by: By) -> None:
    dice = SeededDice(seed)
    changed_only, corrects = bool(seed % 2), bool(seed % 3)
    workload, batches = drawn(seed, corrects=corrects)
    (stream,) = workload.streams.values()
    spark = SimulatedSpark(workload, tmp_path, changed_only=changed_only, wide_by=by)
    engine = panewise.Engine(workload)
    # The last batch has no events, and closes what the one before moved the watermark past.
    rows = 0
    for batch in [*batches, []]:
        watermark_us = spark.watermark_ms * 1000 or None
        reach_us = -math.inf if watermark_us is None else watermark_us - stream.correct_us
        in_time = [row for row in batch if row[stream.timestamp] >= reach_us]
        if one_in(dice, 3):
            spark.start()
        spark.run_batch({stream.name: batch}, attempts=dice.integer(1, 2), shift=dice.integer(0, 1))
        if in_time:
            engine.push(stream.name, public_table(stream, in_time))
        if watermark_us is None:
            assert not any(table.num_rows for table in spark.brought.values())
            continue
        expected = of_engine(engine.advance(stream.name, watermark_us, changed_only=changed_only), by)
        assert spark.brought.keys() == expected.keys()
        for name, table in expected.items():
            assert spark.brought[name].schema == table.schema
            assert rows_of(spark.brought[name]) == rows_of(table), name
            rows += table.num_rows
    assert rows > 50, "the events close windows"


@pytest.mark.parametrize("by", ["family", "query"])
@pytest.mark.parametrize("changed_only", [False, True])
@pytest.mark.parametrize("cells", [200, 10**9])
def test_batches_have_the_rows_of_the_engine(tmp_path: Path, by: By, changed_only: bool, cells: int) -> None:
    workload, batches = drawn(21, corrects=False)
    (stream,) = workload.streams.values()
    events = [row for batch in batches for row in batch]
    spark = SimulatedSpark(workload, tmp_path, changed_only=changed_only, wide_by=by)
    with patch("panewise.engine.cuts.CELLS", cells), patch.object(layouts, "ROWS_AT_ONCE", 7):
        spark.run_as_batch_job({stream.name: events})
    engine = panewise.Engine(workload)
    engine.push(stream.name, public_table(stream, events))
    expected = of_engine(engine.advance(stream.name, panewise.END_OF_STREAM, changed_only=changed_only), by)
    assert {name: rows_of(table) for name, table in spark.brought.items()} == {
        name: rows_of(table) for name, table in expected.items()
    }


LIVE = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t GRANULARITY 1 SECOND;
CREATE QUERY a AS SELECT k, COUNT(*) AS n FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY b AS SELECT k, SUM(x) AS total FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;
"""


def test_with_a_control_stream_later_queries_go_to_the_long_table(tmp_path: Path) -> None:
    workload = panewise.read(LIVE)
    spark = SimulatedSpark(workload, tmp_path, live=True, wide_by="query")
    long: list[dict[str, Any]] = []
    wide: dict[str, list[dict[str, Any]]] = {"a": [], "b": []}
    said = {
        1: ["CREATE QUERY later AS SELECT MAX(x) FROM s [RANGE 1 SECOND SLIDE 1 SECOND];"],
        2: [
            "DROP QUERY b;",
            "CREATE QUERY b AS SELECT k, SUM(x), MIN(x) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;",
        ],
        3: ["DROP QUERY a;", LIVE.strip().splitlines()[1]],
    }
    for number in range(8):
        row = {"t": ORIGIN_US + number * UNIT_US, "k": "u", "x": number}
        spark.run_batch({"s": [row]}, said.get(number, ()))
        long += spark.brought[LONG].to_pylist()
        for name, rows in wide.items():
            rows += spark.brought[name].to_pylist()
    ends = [(row["window_end"].timestamp() * UNIT_US - ORIGIN_US) / UNIT_US for row in wide["a"]]
    assert [row["n"] for row in wide["a"]] == [1, 2, 2, 2, 2, 2], "dropped, and created as it was"
    assert ends == [1, 2, 3, 4, 5, 6]
    assert [row["total"] for row in wide["b"]] == [0], "until it has other columns"
    found = {(row["query"], row["aggregate"]) for row in long}
    assert found == {("later", "MAX(x)"), ("b", "SUM(x)"), ("b", "MIN(x)")}


def test_queries_that_come_and_go_are_not_joined() -> None:
    workload = panewise.read(LIVE)
    with pytest.raises(ArgumentError, match="by='query' with a control stream"):
        layouts.check_by("family", is_live=True)
    with pytest.raises(ArgumentError, match="by is one of 'family', 'query', 'long', not 'families'"):
        layouts.check_by("families", is_live=False)
    clash = panewise.read(LIVE.replace("QUERY a", "QUERY long"))
    others = layouts.LongLayout(pa.schema([]))
    with pytest.raises(NamesClashError, match="'long' is the name of the table for queries that come later; rename"):
        WideLayout.of(clash, "query", changed_only=False, others=others)
    assert list(WideLayout.of(clash, "query", changed_only=False).schemas) == ["long", "b"]
    assert table_names(workload, "query", is_live=True) == ["a", "b", "long"]
    assert table_names(workload, "family") == ["s_by_k_every_1_second"]
