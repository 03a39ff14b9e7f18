"""Labels come as Arrow, pandas or Polars tables and go back as such; what cannot be used is named, with the cure."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

import pandas
import polars
import pyarrow as pa
import pytest

import panewise

WORKLOAD = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, venue BIGINT, price DOUBLE, shares BIGINT) TIMESTAMP BY ts;
CREATE QUERY by_symbol AS SELECT symbol, COUNT(*) AS n, SUM(shares) AS shares, AVG(price) FROM trades [RANGE 10 SECONDS]
  GROUP BY symbol;
CREATE QUERY by_venue AS SELECT MAX(price) AS most, MAX(ts) AS newest FROM trades [RANGE 10 SECONDS] GROUP BY venue;
CREATE QUERY overall AS SELECT COUNT(*) AS n, SUM(price) AS total FROM trades [RANGE 10 SECONDS];
"""
SECOND = 1_000_000
EVENTS = pa.table(
    {
        "ts": [0, SECOND, 2 * SECOND, 3 * SECOND],
        "symbol": ["A", "B", "A", None],
        "venue": [1, 1, 2, 2],
        "price": [1.0, 2.0, 4.0, 8.0],
        "shares": [10, 20, 2**53 + 1, 40],
    }
)
LABELS = pa.table({"symbol": ["A", "Z", "A"], "venue": [2, 1, 1], "ts": [2 * SECOND, 20 * SECOND, 2 * SECOND + 1]})


def rows_of(table: Any) -> list[dict[str, Any]]:
    if isinstance(table, pandas.DataFrame):
        table = pa.Table.from_pandas(table, preserve_index=False)
    return (table.to_arrow() if isinstance(table, polars.DataFrame) else table).to_pylist()


def test_a_label_sees_what_came_before_it_and_never_its_own_moment() -> None:
    first, second, third = panewise.training_set(LABELS, EVENTS, WORKLOAD).to_pylist()
    assert (first["by_symbol__n"], first["by_symbol__shares"], first["by_symbol__AVG(price)"]) == (1, 10, 1.0)
    assert (first["overall__n"], first["by_venue__most"]) == (2, None)
    assert (third["by_symbol__n"], third["by_symbol__shares"], third["by_venue__most"]) == (2, 2**53 + 11, 2.0)
    assert third["by_venue__newest"].timestamp() == 1.0
    # Over nothing a count without GROUP BY is 0, and everything else NULL.
    assert (second["overall__n"], second["overall__total"], second["by_symbol__n"]) == (0, None, None)


def test_with_the_edge_at_a_label_sees_its_own_moment() -> None:
    first = panewise.training_set(LABELS, EVENTS, WORKLOAD, edge="at").to_pylist()[0]
    assert (first["by_symbol__n"], first["overall__n"], first["by_venue__most"]) == (2, 3, 4.0)
    late = LABELS.set_column(2, "ts", pa.array([10 * SECOND] * 3))
    # (0, 10] leaves out what happened at 0, [0, 10) does not.
    assert panewise.training_set(late, EVENTS, WORKLOAD, edge="at").column("overall__n").to_pylist() == [3] * 3
    assert panewise.training_set(late, EVENTS, WORKLOAD).column("overall__n").to_pylist() == [4] * 3


@pytest.mark.parametrize(
    "kind",
    [lambda table: table, lambda table: table.to_batches()[0], pa.Table.to_pandas, polars.from_arrow],
    ids=["table", "batch", "pandas", "polars"],
)
def test_the_same_kind_of_table_comes_back(kind) -> None:
    labels, events = kind(LABELS), kind(EVENTS)
    result = panewise.training_set(labels, events, WORKLOAD)
    assert type(result) is type(labels)
    wanted = panewise.training_set(LABELS, EVENTS, WORKLOAD).to_pylist()
    assert rows_of(result) == wanted
    empty = panewise.training_set(labels[:0] if hasattr(labels, "iloc") else labels.slice(0, 0), events, WORKLOAD)
    assert type(empty) is type(labels)
    assert len(rows_of(empty)) == 0


def test_the_index_of_pandas_labels_is_kept() -> None:
    labels = LABELS.to_pandas().set_index(pandas.Index([7, 7, 3], name="id"))
    result = panewise.training_set(labels, EVENTS, WORKLOAD)
    assert result.index.tolist() == [7, 7, 3]
    assert result["by_symbol__n"].tolist()[::2] == [1, 2]


def test_types_are_those_of_lookups() -> None:
    schema = panewise.training_set(LABELS, EVENTS, WORKLOAD).schema
    assert schema.field("by_symbol__n").type == pa.int64()
    assert schema.field("by_symbol__AVG(price)").type == pa.float64()
    assert schema.field("by_venue__newest").type == pa.timestamp("us", tz="UTC")
    assert schema.names[:3] == LABELS.schema.names


def test_queries_can_be_chosen_and_labels_need_only_their_keys() -> None:
    labels = LABELS.select(["symbol", "ts"])
    result = panewise.training_set(labels, EVENTS, WORKLOAD, queries=["by_symbol", "by_symbol"])
    assert result.schema.names == ["symbol", "ts", "by_symbol__n", "by_symbol__shares", "by_symbol__AVG(price)"]


def test_streams_with_other_names_of_time() -> None:
    more = WORKLOAD + "CREATE STREAM other (at TIMESTAMP, venue BIGINT) TIMESTAMP BY at;"
    more += "CREATE QUERY others AS SELECT COUNT(*) AS n FROM other [RANGE 1 HOUR] GROUP BY venue;"
    others = pa.table({"at": [0, 1, 2], "venue": [1, 1, 2]})
    result = panewise.training_set(LABELS, {"trades": EVENTS, "other": others}, more, time="ts")
    assert result.column("others__n").to_pylist() == [1, 2, 2]
    with pytest.raises(panewise.EventsError, match="no events of stream other"):
        panewise.training_set(LABELS, {"trades": EVENTS}, more, time="ts")
    with pytest.raises(panewise.EventsError, match="2 streams; give a dict"):
        panewise.training_set(LABELS, EVENTS, more, time="ts")


def test_answers_do_not_depend_on_how_keys_are_grouped_or_on_threads() -> None:
    wanted = panewise.training_set(LABELS, EVENTS, WORKLOAD)
    with patch("panewise.engine.as_of.substreams.PART_EVENTS", 1):
        assert panewise.training_set(LABELS, EVENTS, WORKLOAD, threads=1).equals(wanted)


def test_labels_before_the_first_event_have_no_answers() -> None:
    labels = LABELS.set_column(2, "ts", pa.array([-5 * SECOND, -1, 0]))
    rows = panewise.training_set(labels, EVENTS, WORKLOAD).to_pylist()
    for row in rows:
        assert row["overall__n"] == 0
        assert [value for name, value in row.items() if "__" in name and name != "overall__n"] == [None] * 6
    nothing = panewise.training_set(LABELS, EVENTS.slice(0, 0), WORKLOAD)
    assert nothing.column("by_symbol__n").null_count == 3


def test_sums_of_a_long_past_do_not_leak_into_a_window() -> None:
    events = pa.table(
        {
            "ts": [0, 1, 2, 20 * SECOND, 21 * SECOND],
            "symbol": ["A"] * 5,
            "venue": [1] * 5,
            "price": [1e300, math.inf, -7e299, 0.1, 0.2],
            "shares": [2**62] * 3 + [1, 2],
        }
    )
    labels = pa.table({"symbol": ["A"], "venue": [1], "ts": [22 * SECOND]})
    (row,) = panewise.training_set(labels, events, WORKLOAD).to_pylist()
    assert (row["overall__total"], row["by_symbol__AVG(price)"], row["by_symbol__shares"]) == (
        0.1 + 0.2,
        0.15000000000000002,
        3,
    )


def test_a_sum_that_does_not_fit_is_null_or_an_error() -> None:
    events = EVENTS.set_column(4, "shares", pa.array([2**62] * 4))
    labels = LABELS.set_column(2, "ts", pa.array([5 * SECOND] * 3))
    assert panewise.training_set(labels, events, WORKLOAD).column("by_symbol__shares").to_pylist() == [None] * 3
    strict = WORKLOAD.replace("GROUP BY symbol;", "GROUP BY symbol ON OVERFLOW ERROR;")
    with pytest.raises(panewise.AnswerOverflowError, match="by_symbol"):
        panewise.training_set(labels, events, strict)


MISTAKES = {
    "no time": (LABELS.drop_columns("ts"), {}, r"no column 'ts' with their times; .* time='decided_at'"),
    "a time of another name": (
        LABELS.set_column(2, "moment", LABELS["ts"].cast(pa.timestamp("us"))),
        {},
        r"no column 'ts' with their times; .* time='moment'",
    ),
    "another time": (LABELS, {"time": "tss"}, r"no column 'tss' .* time='ts'"),
    "times that are none": (LABELS, {"time": "symbol"}, r"column 'symbol' of type string is not TIMESTAMP"),
    "NULL as a time": (
        LABELS.set_column(2, "ts", pa.array([1, None, 3])),
        {},
        r"'ts' is NULL in 1 of 3 rows, first in row 1",
    ),
    "nanoseconds": (LABELS.set_column(2, "ts", pa.array([1, 2, 2**62])), {}, r"in row 2; times lie in the years"),
    "no key": (LABELS.drop_columns("venue"), {}, r"query by_venue groups by 'venue', .* add a column 'venue'"),
    "a key of another name": (
        LABELS.rename_columns(["Symbol", "venue", "ts"]),
        {},
        r"query by_symbol groups by 'symbol', .* rename your column 'Symbol'",
    ),
    "a key of another type": (
        LABELS.set_column(1, "venue", pa.array(["1", "2", "3"])),
        {},
        r"column 'venue' of type string is not BIGINT: .* query by_venue groups by it",
    ),
    "a column of the result": (LABELS.append_column("overall__n", pa.array([1, 2, 3])), {}, r"a column 'overall__n'"),
    "a column twice": (LABELS.append_column("venue", pa.array([1, 2, 3])), {}, r"2 columns 'venue'"),
    "a list": ([1, 2], {}, r"cannot read labels from list"),
    "a lazy frame": (polars.from_arrow(LABELS).lazy(), {}, r"collect it first"),
    "an unknown query": (LABELS, {"queries": ["overal"]}, r"did you mean 'overall'"),
    "queries as text": (LABELS, {"queries": "overall"}, r"write queries=\['overall'\]"),
    "another edge": (LABELS, {"edge": "after"}, r'"before" or "at"'),
    "no threads": (LABELS, {"threads": 0}, r"`threads` is a positive number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named_with_the_cure(mistake: str) -> None:
    labels, options, message = MISTAKES[mistake]
    with pytest.raises(panewise.PanewiseError, match=message):
        panewise.training_set(labels, EVENTS, WORKLOAD, **options)


@pytest.mark.parametrize("memory_limit", [None, 1_000])
def test_times_that_hardly_stand_beside_those_of_events_are_told(memory_limit: int | None) -> None:
    def features(labels: pa.Table, events: pa.Table) -> list[int]:
        result = panewise.training_set(labels, events, WORKLOAD, queries=["overall"], memory_limit=memory_limit)
        return result["overall__n"].to_pylist()

    def at(table: pa.Table, times: pa.Array) -> pa.Table:
        return table.set_column(table.column_names.index("ts"), "ts", times)

    today_us = 1_767_225_600 * SECOND
    events = at(EVENTS, pa.array([today_us + SECOND * second for second in range(4)]))
    labels = at(LABELS, pa.array([today_us + 4 * SECOND] * 3))
    assert features(labels, events) == [4, 4, 4]
    other = at(labels, pa.array([today_us // 1000 + 4_001] * 3))
    with pytest.warns(panewise.UnlikelyTimesWarning, match="the labels' ts is 1767225604001 .*looks like milliseconds"):
        assert features(other, events) == [0, 0, 0]
    with pytest.warns(panewise.UnlikelyTimesWarning, match="trades: ts is 1767225600000 .*looks like milliseconds"):
        features(other, at(events, pa.array([today_us // 1000 + second for second in range(4)])))
    naive = at(events, events["ts"].cast(pa.timestamp("us")))
    zoned = at(labels, labels["ts"].cast(pa.timestamp("us", tz="America/New_York")))
    with pytest.warns(panewise.MixedZonesWarning, match="events' ts came without .* came in the zone America"):
        assert features(zoned, naive) == [4, 4, 4]
    with pytest.warns(panewise.MixedZonesWarning, match="the labels' ts came without a time zone"):
        features(at(labels, labels["ts"].cast(pa.timestamp("us"))), at(events, events["ts"].cast(zoned["ts"].type)))


def test_events_of_a_stream_that_does_not_exist_are_refused() -> None:
    with pytest.raises(panewise.EventsError, match="no stream 'trade' to give events of; did you mean 'trades'"):
        panewise.training_set(LABELS, {"trade": EVENTS}, WORKLOAD)
    columns = {name: EVENTS[name].to_pylist() for name in EVENTS.column_names}
    assert panewise.training_set(LABELS, columns, WORKLOAD)["overall__n"].to_pylist() == [2, 0, 3]


def test_events_in_pieces_need_a_limit() -> None:
    with pytest.raises(panewise.EventsError, match=r"list_iterator gives events in pieces; .*memory_limit="):
        panewise.training_set(LABELS, iter([EVENTS]), WORKLOAD)
    wanted = panewise.training_set(LABELS, EVENTS, WORKLOAD)
    assert panewise.training_set(LABELS, iter([EVENTS]), WORKLOAD, memory_limit=1_000).equals(wanted)


def test_a_query_that_answers_with_rows_is_refused() -> None:
    rows = WORKLOAD + "CREATE QUERY best AS SELECT TOP_K(symbol, 2) FROM trades [RANGE 10 SECONDS SLIDE 1 SECOND];"
    with pytest.raises(panewise.QueryKindError, match="query best answers with rows"):
        panewise.training_set(LABELS, EVENTS, rows)
    assert panewise.training_set(LABELS, EVENTS, rows, queries=["overall"]).num_columns == 5
