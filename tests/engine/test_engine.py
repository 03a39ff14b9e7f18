"""The engine's public contract: what goes in, what comes out, what is refused."""

from __future__ import annotations

import math
from datetime import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import panewise
from panewise.errors import AnswerOverflowError, EventsError, HistoryError, SnapshotError

STREAM = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t WATERMARK 5 SECONDS;
"""
COUNT = "CREATE QUERY n AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS];"
SECOND = 1_000_000


def engine_of(*queries: str) -> panewise.Engine:
    return panewise.Engine(STREAM + "".join(queries))


def rows(*seconds: float, k: str = "a", x: int = 1, y: float = 1.0) -> dict[str, list]:
    n = len(seconds)
    return {"t": [int(s * SECOND) for s in seconds], "k": [k] * n, "x": [x] * n, "y": [y] * n}


def exact(table: pa.Table) -> list[int]:
    return table.column("exact").to_pylist()


def counted(table: pa.Table) -> list[int]:
    return table.column("COUNT(*)").to_pylist()


TIMES = [datetime(1970, 1, 1, 0, 0, s) for s in (1, 2, 3)]
COLUMNS = {"t": TIMES, "k": ["a", None, "b"], "x": [1, 2, 3], "y": [1.0, 2.0, 3.0]}


class TestEvents:
    @pytest.mark.parametrize(
        "make", [dict, pa.table, pd.DataFrame, pl.DataFrame], ids=["dict", "arrow", "pandas", "polars"]
    )
    def test_every_kind_of_table_gives_the_same_answers(self, make) -> None:
        engine = engine_of(
            "CREATE QUERY q AS SELECT SUM(x), AVG(y) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;"
        )
        engine.push("s", make(COLUMNS))
        wide = engine.advance("s", panewise.END_OF_STREAM).tables["q"]
        assert wide.sort_by("SUM(x)").select(["k", "SUM(x)", "AVG(y)"]).to_pylist() == [
            {"k": "a", "SUM(x)": 1, "AVG(y)": 1.0},
            {"k": None, "SUM(x)": 2, "AVG(y)": 2.0},
            {"k": "b", "SUM(x)": 3, "AVG(y)": 3.0},
        ]

    def test_missing_values_of_pandas_are_null_and_those_of_numpy_are_not_a_number(self) -> None:
        for make, expected in ((pd.DataFrame, 1), (dict, 2)):
            engine = engine_of("CREATE QUERY q AS SELECT COUNT(y) FROM s [RANGE 1 MINUTE];")
            engine.push("s", make({"t": TIMES[:2], "k": ["a", "b"], "x": [1, 2], "y": np.array([1.0, math.nan])}))
            assert engine.lookup_one("q") == {"COUNT(y)": expected}

    def test_other_integers_decimals_dates_and_dictionaries_are_taken(self) -> None:
        engine = engine_of("CREATE QUERY q AS SELECT k, SUM(x), SUM(y) FROM s [RANGE 2 DAYS SLIDE 2 DAYS] GROUP BY k;")
        events = pa.table(
            {
                "t": pa.array([0], pa.date32()),
                "k": pa.array(["a"]).dictionary_encode(),
                "x": pa.array([7], pa.int8()),
                "y": pa.array([1], pa.decimal128(10, 2)),
                "other": [1],
            }
        )
        engine.push("s", events)
        assert engine.advance("s", panewise.END_OF_STREAM).long().column("value").to_pylist() == [7.0, 1.0]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"x": None}, "no column 'x'"),
            ({"x": [1]}, "differ in length"),
            ({"x": ["1", "2", "3"]}, "column 'x' of type string is not BIGINT"),
            ({"x": [1.5, 2.0, 3.0]}, "column 'x' of type double is not BIGINT"),
            ({"k": [1, 2, 3]}, "column 'k' of type int64 is not STRING"),
            ({"y": ["1", "2", "3"]}, "column 'y' of type string is not DOUBLE"),
            ({"t": ["a", "b", "c"]}, "column 't' of type string is not TIMESTAMP"),
            ({"t": [TIMES[0], None, TIMES[1]]}, "t is NULL in 1 of 3 events, first in row 1"),
        ],
    )
    def test_events_that_do_not_fit_are_refused_whole(self, change, message) -> None:
        engine = engine_of(COUNT)
        columns = {name: values for name, values in (COLUMNS | change).items() if values is not None}
        with pytest.raises(EventsError, match=message):
            engine.push("s", columns)
        assert engine.advance("s", panewise.END_OF_STREAM).long().num_rows == 0

    def test_a_near_name_is_offered(self) -> None:
        with pytest.raises(EventsError, match="did you mean your column 'tt'"):
            engine_of(COUNT).push("s", {"tt": [1]})
        with pytest.raises(EventsError, match="cannot read events from list"):
            engine_of(COUNT).push("s", [1, 2])
        with pytest.raises(panewise.PanewiseError, match="no stream named 'S'; there are: s"):
            engine_of(COUNT).push("S", {})

    def test_no_events_at_all(self) -> None:
        engine = engine_of(COUNT, "CREATE QUERY c AS SELECT COUNT(*), MAX(x) FROM s [RANGE 1 MINUTE];")
        assert engine.advance("s").long().num_rows == 0
        assert engine.lookup("c").to_pylist() == [
            {"window_start": None, "window_end": None, "COUNT(*)": 0, "MAX(x)": None}
        ]
        engine.push("s", rows())
        assert engine.advance("s", panewise.END_OF_STREAM).long().num_rows == 0


class TestWatermark:
    def test_the_declared_delay_is_the_default(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1, 14.9))
        assert engine.advance("s").long().num_rows == 0
        engine.push("s", rows(15))
        assert exact(engine.advance("s").long()) == [1]

    def test_late_events_are_dropped_and_counted(self) -> None:
        engine = engine_of(COUNT)
        engine.advance("s", 5 * SECOND)
        engine.push("s", rows(4.9, 5, 6, 1))
        assert engine.late_events("s") == 2
        assert exact(engine.advance("s", panewise.END_OF_STREAM).long()) == [2]

    def test_it_never_goes_back(self) -> None:
        engine = engine_of(COUNT)
        engine.advance("s", "1970-01-01 00:00:10")
        with pytest.raises(
            panewise.PanewiseError, match="stands at 1970-01-01 00:00:10 and cannot go back to 1970-01-01 00:00:09"
        ):
            engine.advance("s", 9 * SECOND)
        engine.push("s", rows(10))
        engine.advance("s")
        assert exact(engine.advance("s", 20 * SECOND).long()) == [1]

    def test_a_window_is_reported_once(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1))
        assert engine.advance("s", 10 * SECOND).long().num_rows == 1
        assert engine.advance("s", 10 * SECOND).long().num_rows == 0
        assert engine.advance("s", panewise.END_OF_STREAM).long().num_rows == 0


class TestOverflow:
    QUERY = "CREATE QUERY big AS SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS];"

    def test_a_sum_beyond_64_bits_is_an_error_if_asked_for_and_the_other_answers_are_not_lost(self) -> None:
        engine = engine_of(self.QUERY.replace(";", " ON OVERFLOW ERROR;"), COUNT)
        engine.push("s", rows(1, 2, x=2**62))
        with pytest.raises(AnswerOverflowError, match="query big: the sum of a window does not fit in a BIGINT"):
            engine.advance("s", 10 * SECOND)
        engine.remove("big")
        assert exact(engine.advance("s", 10 * SECOND).long()) == [2]

    def test_partial_sums_may_exceed_64_bits_as_long_as_the_window_does_not(self) -> None:
        engine = engine_of(self.QUERY)
        for x in (2**63 - 1, 2**63 - 1, -(2**63), -(2**63), 5):
            engine.push("s", rows(1, x=x))
        assert exact(engine.advance("s", 10 * SECOND).long()) == [3]

    def test_only_the_windows_own_sum_counts(self) -> None:
        engine = engine_of(self.QUERY)
        for second in range(0, 100, 10):
            engine.push("s", rows(second, x=2**63 - 1))
        assert exact(engine.advance("s", panewise.END_OF_STREAM).long()) == [2**63 - 1] * 10


class TestChangingQueries:
    ADDED = "CREATE QUERY later AS SELECT COUNT(*) FROM s [RANGE 20 SECONDS SLIDE 10 SECONDS];"

    def test_a_query_that_fits_a_tree_starts_with_its_past(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1, 11))
        engine.add(self.ADDED)
        assert engine.exact_from("later") is None
        counts = engine.advance("s", 20 * SECOND).tables["later"]
        assert counts.column("COUNT(*)").to_pylist() == [1, 2]

    def test_a_query_that_needs_more_reports_only_windows_that_it_saw_whole(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1, 5))
        engine.add("CREATE QUERY later AS SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 2 SECONDS];")
        assert engine.exact_from("later") == 5 * SECOND + 1
        engine.push("s", rows(5.5, 6, 7))
        found = engine.advance("s", panewise.END_OF_STREAM).tables["later"]
        assert found.column("window_start").to_pylist()[0] == pd.Timestamp("1970-01-01 00:00:06", tz="UTC")
        assert found.column("SUM(x)").to_pylist() == [2]

    def test_after_slots_have_left_a_new_longer_window_waits_until_it_is_whole(self) -> None:
        engine = engine_of(COUNT)
        for second in (1, 11, 21):
            engine.push("s", rows(second))
        engine.advance("s", 20 * SECOND)
        engine.add(self.ADDED)
        assert engine.exact_from("later") == 20 * SECOND
        engine.push("s", rows(31))
        found = engine.advance("s", 40 * SECOND).tables["later"]
        assert found.column("COUNT(*)").to_pylist() == [2]

    def test_statements_are_all_run_or_none(self) -> None:
        engine = engine_of(COUNT)
        with pytest.raises(panewise.StatementError):
            engine.add(self.ADDED + "CREATE QUERY broken AS SELECT MAX(z) FROM s [RANGE 1 SECOND];")
        assert list(engine.workload.queries) == ["n"]

    def test_drop_and_create_again(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1))
        engine.add("DROP QUERY n; " + COUNT.replace("10 SECONDS SLIDE", "20 SECONDS SLIDE"))
        engine.push("s", rows(12))
        assert engine.workload.queries["n"].window.range_us == 20 * SECOND
        engine.advance("s", panewise.END_OF_STREAM)

    def test_a_new_stream(self) -> None:
        engine = engine_of(COUNT)
        engine.add(
            "CREATE STREAM z (t TIMESTAMP) TIMESTAMP BY t; CREATE QUERY zn AS SELECT COUNT(*) FROM z [RANGE 1 SECOND];"
        )
        engine.push("z", {"t": [5]})
        assert counted(engine.lookup("zn")) == [1]

    def test_removed_queries_answer_no_more(self) -> None:
        engine = engine_of(COUNT, "CREATE QUERY l AS SELECT COUNT(*) FROM s [ROWS 5];")
        engine.push("s", rows(1))
        engine.remove("n")
        engine.remove("l")
        assert engine._streams["s"].log is None
        assert engine._streams["s"].generations == []
        assert engine.advance("s", panewise.END_OF_STREAM).long().num_rows == 0
        with pytest.raises(panewise.PanewiseError, match="no query named 'n'; there are: none"):
            engine.remove("n")


class TestLookups:
    def test_history_that_is_gone_is_an_error_that_says_from_when_on_it_is_exact(self) -> None:
        engine = engine_of("CREATE QUERY l AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS];")
        engine.push("s", rows(*range(100)))
        engine.advance("s", 90 * SECOND)
        assert counted(engine.lookup("l", 95 * SECOND)) == [10]
        assert counted(engine.lookup("l", 90 * SECOND)) == [10]
        with pytest.raises(HistoryError, match="exact from 1970-01-01 00:01:30 on"):
            engine.lookup("l", 50 * SECOND)

    def test_an_on_demand_query_added_later_is_exact_once_its_range_has_passed(self) -> None:
        engine = engine_of(COUNT)
        engine.push("s", rows(1, 2))
        engine.add("CREATE QUERY l AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS];")
        engine.push("s", rows(3, 13))
        with pytest.raises(HistoryError, match="exact from 1970-01-01 00:00:12 on"):
            engine.lookup("l", 5 * SECOND)
        assert counted(engine.lookup("l")) == [1]

    def test_a_sliding_query_is_not_looked_up(self) -> None:
        with pytest.raises(panewise.PanewiseError, match="query n slides"):
            engine_of(COUNT).lookup("n")

    def test_lookups_still_work_at_the_end_of_the_stream(self) -> None:
        engine = engine_of("CREATE QUERY l AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS];")
        engine.push("s", rows(*range(100)))
        engine.advance("s", panewise.END_OF_STREAM)
        assert counted(engine.lookup("l")) == [10]

    def test_row_windows_keep_their_times_over_an_advance_without_new_rows(self) -> None:
        engine = engine_of("CREATE QUERY r AS SELECT COUNT(*) FROM s [ROWS 2 SLIDE 2];")
        engine.push("s", rows(1))
        for second in (2, 3):
            engine.advance("s", second * SECOND)
        engine.push("s", rows(4))
        found = engine.advance("s", panewise.END_OF_STREAM).tables["r"]
        assert found.column("window_start").to_pylist() == [pd.Timestamp(1, unit="s", tz="UTC")]

    @pytest.mark.parametrize("keeps_rows_already", [True, False])
    def test_row_windows_added_later_report_only_windows_that_they_saw_whole(self, keeps_rows_already: bool) -> None:
        engine = engine_of(COUNT, "CREATE QUERY l AS SELECT COUNT(*) FROM s [ROWS 1];" if keeps_rows_already else "")
        engine.push("s", rows(1, 2, 3))
        engine.advance("s", 3 * SECOND + 1)
        engine.add("CREATE QUERY r AS SELECT COUNT(*), MIN(t) FROM s [ROWS 3 SLIDE 1];")
        assert engine.exact_from("r") == (3 if keeps_rows_already else 0)
        engine.push("s", rows(4, 5, 6, 7))
        found = engine.advance("s", panewise.END_OF_STREAM).tables["r"]
        assert found.column("COUNT(*)").to_pylist() == [3, 3]
        assert found.column("window_start").to_pylist() == [pd.Timestamp(s, unit="s", tz="UTC") for s in (4, 5)]


class TestSnapshots:
    def test_a_blob_that_is_no_snapshot_is_refused(self) -> None:
        blob = engine_of(COUNT).snapshot()
        with pytest.raises(SnapshotError, match="not a snapshot"):
            panewise.Engine.restore(b"something else entirely")
        with pytest.raises(SnapshotError, match="truncated or damaged"):
            panewise.Engine.restore(blob[:-10])
        with pytest.raises(SnapshotError, match="truncated or damaged"):
            panewise.Engine.restore(blob[:30] + bytes([blob[30] ^ 1]) + blob[31:])
        with pytest.raises(SnapshotError, match="format 999"):
            panewise.Engine.restore(blob[:8] + (999).to_bytes(2, "little") + blob[10:])

    def test_added_and_removed_queries_survive(self) -> None:
        engine = engine_of(COUNT, "CREATE QUERY gone AS SELECT SUM(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS];")
        engine.push("s", rows(1))
        engine.remove("gone")
        engine.add("CREATE QUERY later AS SELECT MAX(y) FROM s [RANGE 10 SECONDS SLIDE 5 SECONDS];")
        engine = panewise.Engine.restore(engine.snapshot())
        assert list(engine.workload.queries) == ["n", "later"]
        assert engine.exact_from("later") == SECOND + 1
        engine.push("s", rows(7, y=5.0))
        tables = engine.advance("s", panewise.END_OF_STREAM).tables
        assert tables["n"].column("COUNT(*)").to_pylist() == [2]
        assert tables["later"].column("MAX(y)").to_pylist() == [5.0]


def test_wide_answers_have_the_types_and_names_of_the_select() -> None:
    engine = engine_of(
        "CREATE QUERY q AS SELECT k AS who, MAX(t) AS last, SUM(x), AVG(y) "
        "FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;"
    )
    engine.push("s", rows(1, 2))
    table = engine.advance("s", panewise.END_OF_STREAM).long()
    wide = panewise.wide(table, engine.workload, "q")
    assert set(wide.column_names) == {"window_start", "window_end", "who", "last", "SUM(x)", "AVG(y)"}
    assert wide.schema.field("last").type == pa.timestamp("us", "UTC")
    assert wide.schema.field("SUM(x)").type == pa.int64()
    with pytest.raises(panewise.PanewiseError, match="no query named 'nope'"):
        panewise.wide(table, engine.workload, "nope")


def test_grouping_by_a_name_of_the_answers_table_is_refused() -> None:
    with pytest.raises(panewise.PanewiseError, match="groups by 'value'"):
        panewise.Engine(
            "CREATE STREAM s (t TIMESTAMP, value BIGINT) TIMESTAMP BY t;"
            "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 1 SECOND] GROUP BY value;"
        )


def test_attributes_may_have_the_names_of_inner_columns() -> None:
    names = ["slot", "rows", "time", "shard_0", "input_0", "key_0", "count_0"]
    engine = panewise.Engine(
        f"CREATE STREAM s (t TIMESTAMP, {', '.join(f'{name} BIGINT' for name in names)}) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT SUM(slot) FROM s [RANGE 1 SECOND SLIDE 1 SECOND] WHERE rows > 0 "
        f"GROUP BY {', '.join(names)};"
    )
    engine.push("s", {"t": [1], **{name: [number + 1] for number, name in enumerate(names)}})
    (row,) = engine.advance("s", panewise.END_OF_STREAM).long().to_pylist()
    assert [row[name] for name in names] == [1, 2, 3, 4, 5, 6, 7]
    assert row["exact"] == 1


def test_names_that_hide_other_columns_are_refused_and_swapped_names_are_not() -> None:
    window = "FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k"
    for alias in ("k", "window_start"):
        with pytest.raises(
            panewise.PanewiseError, match=f"query q: the name '{alias}' of a SELECT item hides another column"
        ):
            engine_of(f"CREATE QUERY q AS SELECT COUNT(*) AS {alias} {window};")
    engine = engine_of(f"CREATE QUERY q AS SELECT k AS z, COUNT(*) AS k {window};")
    engine.push("s", rows(1))
    (row,) = engine.advance("s", panewise.END_OF_STREAM).tables["q"].to_pylist()
    assert (row["z"], row["k"]) == ("a", 1)


def test_nanoseconds_belong_to_the_microsecond_that_they_lie_in() -> None:
    engine = engine_of("CREATE QUERY q AS SELECT COUNT(*), MIN(t) FROM s [RANGE 1 SECOND SLIDE 1 SECOND];")
    times = pa.array([-1, 999], pa.timestamp("ns"))
    engine.push("s", {"t": times, "k": ["a", "a"], "x": [1, 1], "y": [1.0, 1.0]})
    table = engine.advance("s", panewise.END_OF_STREAM).tables["q"]
    assert table.column("MIN(t)").cast(pa.int64()).to_pylist() == [-1, 0]


def test_more_predicates_than_bits_in_a_word() -> None:
    queries = [
        f"CREATE QUERY q{n} AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] WHERE x <= {n};"
        for n in range(150)
    ]
    engine = engine_of(*queries)
    engine.push("s", {"t": list(range(100)), "k": ["a"] * 100, "x": list(range(100)), "y": [0.0] * 100})
    answers = {row["query"]: row["exact"] for row in engine.advance("s", panewise.END_OF_STREAM).long().to_pylist()}
    assert answers == {f"q{n}": min(n + 1, 100) for n in range(150)}


MANY = "\n".join(
    f"CREATE QUERY q{at} AS SELECT COUNT(*), MAX(y) FROM s [RANGE {length} MINUTES SLIDE {slide} MINUTES] GROUP BY k;"
    for at, (length, slide) in enumerate([(1, 1), (70, 7), (2000, 10)])
)
THREE_HOURS = {
    "t": np.arange(180) * 60 * SECOND,
    "k": ["a", "b", None] * 60,
    "x": np.arange(180),
    "y": np.arange(180.0) % 17,
}


def test_encoded_answers_are_the_same_with_strings_as_dictionaries() -> None:
    plain, encoded = engine_of(MANY), engine_of(MANY)
    for engine in (plain, encoded):
        engine.push("s", THREE_HOURS)
    expected = plain.advance("s", panewise.END_OF_STREAM).long()
    given = encoded.advance("s", panewise.END_OF_STREAM).long(encoded=True)
    assert [str(given.schema.field(name).type.value_type) for name in ("query", "k", "aggregate")] == ["string"] * 3
    assert given.cast(expected.schema).equals(expected)
    nothing = encoded.advance("s", panewise.END_OF_STREAM).long(encoded=True)
    assert (nothing.num_rows, nothing.schema) == (0, given.schema)


def test_plans_for_windows_that_close_in_bulk_give_the_same_answers_and_survive_a_snapshot() -> None:
    usual, bulk = engine_of(MANY), panewise.Engine(STREAM + MANY, in_bulk=True)
    assert len(bulk.statistics()["streams"]["s"]["trees"]) < len(usual.statistics()["streams"]["s"]["trees"])
    bulk = panewise.Engine.restore(bulk.snapshot())
    answers = []
    for engine in (usual, bulk):
        engine.push("s", THREE_HOURS)
        by = [(name, "ascending") for name in ("query", "window_start", "k", "aggregate")]
        answers.append(engine.advance("s", panewise.END_OF_STREAM).long().sort_by(by))
    assert answers[0].equals(answers[1])


WINDOWS = ["[RANGE 1 MINUTE]", "[RANGE 1 MINUTE SLIDE 1 MINUTE]"]


def answered(window: str, select: str, having: str, events: dict) -> pa.Table:
    """The answers by k of a query at the end of the stream, wide."""
    engine = engine_of(f"CREATE QUERY q AS SELECT {select} FROM s {window} GROUP BY k HAVING {having};")
    engine.push("s", events)
    closed = engine.advance("s", panewise.END_OF_STREAM).tables
    return closed["q"] if "SLIDE" in window else engine.lookup("q")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("having", "groups"), [("TRUE", 3), ("NULL IS NULL", 3), ("NULL", 0), ("k = 'a'", 1), ("NOT COUNT(*) > 5", 3)]
)
def test_having_of_any_form(window: str, having: str, groups: int) -> None:
    assert answered(window, "COUNT(*)", having, COLUMNS).num_rows == groups


@pytest.mark.parametrize("having", ["COUNT(*) > 2", "NOT COUNT(*) < 3", "k = 'b' OR MAX(x) < 0"])
@pytest.mark.parametrize("window", [*WINDOWS, "[ROWS 100]"])
@pytest.mark.parametrize("select", ["SUM(x)", "SUM(x), MODE(y)"], ids=["structures", "log"])
def test_what_having_drops_cannot_overflow(window: str, having: str, select: str) -> None:
    events = {"t": [1, 1, 2, 2, 3], "k": ["a", "a", "b", "b", "b"], "x": [2**62, 2**62, 1, 2, 3], "y": [1.0] * 5}
    assert answered(window, select, having, events).column("SUM(x)").to_pylist() == [6]
    assert set(answered(window, select, "COUNT(*) > 1", events).column("SUM(x)").to_pylist()) == {None, 6}
    # A comparison with NULL does not pass.
    assert answered(window, select, "SUM(x) > 0", events).column("SUM(x)").to_pylist() == [6]
    assert answered(window, select, "SUM(x) > 0 OR SUM(x) <= 0", events).num_rows == 1
    for having in ("COUNT(*) > 1", "SUM(x) > 0"):
        with pytest.raises(AnswerOverflowError, match=r"query q: .* or leave out ON OVERFLOW ERROR"):
            answered(window, select, having + " ON OVERFLOW ERROR", events)
