"""Queries that read other queries' answers agree with the oracle, which answers one query after the other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import chain_oracle, oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g BIGINT, x BIGINT) TIMESTAMP BY t;"
INNER = """
    CREATE QUERY fixed AS SELECT k AS key, SUM(x) AS total, COUNT(*) AS n FROM s
      [RANGE 20 MICROSECONDS SLIDE 20 MICROSECONDS] GROUP BY k;
    CREATE QUERY sliding AS SELECT k, g, MAX(x), MIN(k) AS least FROM s [RANGE 50 MICROSECONDS SLIDE 20 MICROSECONDS]
      WHERE x > 0 GROUP BY k, g HAVING COUNT(*) > 1;
    CREATE QUERY visits AS SELECT k, COUNT(*) AS n FROM s [SESSION GAP 15 MICROSECONDS MAX 60 MICROSECONDS] GROUP BY k;
    CREATE QUERY counted AS SELECT MAX(x) AS best FROM s [ROWS 5 SLIDE 3];
    CREATE QUERY each AS SELECT k, SUM(x) AS total FROM s [PARTITION BY k ROWS 2 SLIDE 1] GROUP BY k;
    CREATE QUERY running AS SELECT k, COUNT(*) AS n FROM s [UNBOUNDED SLIDE 50 MICROSECONDS] GROUP BY k;
"""
OUTER = """
    CREATE QUERY best AS SELECT key, MAX(total) AS best, COUNT(*) FROM fixed
      [RANGE 60 MICROSECONDS SLIDE 60 MICROSECONDS] GROUP BY key;
    CREATE QUERY whole AS SELECT SUM(total), COUNT(DISTINCT key), MAX(window_end), SUM(n) FROM fixed
      [RANGE 100 MICROSECONDS SLIDE 40 MICROSECONDS] WHERE n > 1;
    CREATE QUERY ranked AS SELECT g, MEDIAN("MAX(x)"), MIN(k), LAST(least) FROM sliding [ROWS 4 SLIDE 2] GROUP BY g;
    CREATE QUERY longest AS SELECT MAX(n), COUNT(*) FROM visits [RANGE 200 MICROSECONDS SLIDE 100 MICROSECONDS];
    CREATE QUERY busy AS SELECT key, COUNT(*) FROM fixed [SESSION GAP 30 MICROSECONDS MAX 90 MICROSECONDS]
      GROUP BY key;
    CREATE QUERY of_rows AS SELECT AVG(best), MAX(window_start) FROM counted
      [RANGE 80 MICROSECONDS SLIDE 80 MICROSECONDS];
    CREATE QUERY of_each AS SELECT k, COUNT(*), MAX(total) FROM each [RANGE 60 MICROSECONDS SLIDE 30 MICROSECONDS]
      GROUP BY k;
    CREATE QUERY third AS SELECT SUM(best), COUNT(*) FROM best [RANGE 240 MICROSECONDS SLIDE 120 MICROSECONDS];
    CREATE QUERY ever AS SELECT key, SUM(total), COUNT(*) FROM fixed [UNBOUNDED SLIDE 60 MICROSECONDS] GROUP BY key;
    CREATE QUERY of_running AS SELECT MAX(n), COUNT(window_start) FROM running
      [RANGE 100 MICROSECONDS SLIDE 100 MICROSECONDS];
    CREATE QUERY recent AS SELECT key, SUM(total), COUNT(*) FROM fixed [RANGE 100 MICROSECONDS] GROUP BY key;
"""
LATER = """
    CREATE QUERY slow AS SELECT k, SUM(x) AS total FROM s [RANGE 60 MICROSECONDS SLIDE 30 MICROSECONDS] GROUP BY k;
    CREATE QUERY of_slow AS SELECT COUNT(*), MAX(total) FROM slow [RANGE 90 MICROSECONDS SLIDE 30 MICROSECONDS];
    CREATE QUERY beside AS SELECT key, SUM(n) FROM fixed [RANGE 80 MICROSECONDS SLIDE 40 MICROSECONDS] GROUP BY key;
"""
EVENT = st.fixed_dictionaries(
    {
        "t": st.integers(-100, 400),
        "k": st.sampled_from(["a", "b", None]),
        "g": st.integers(0, 1),
        "x": st.none() | st.integers(-2, 9),
    }
)
STEPS = st.lists(st.tuples(st.lists(EVENT, max_size=15), st.integers(-100, 500)), min_size=1, max_size=6)


@pytest.mark.filterwarnings("ignore::panewise.LateWarning")
@settings(max_examples=examples(60), deadline=None)
@given(STEPS, st.integers(0, 6))
def test_chains_agree_with_the_oracle(steps, added_at: int) -> None:
    """Over windows of every kind, across snapshots, with queries that come while it runs, in steps or at once."""
    engine = panewise.Engine(STREAM + INNER + OUTER)
    stream = engine.workload.streams["s"]
    accepted: list[oracle.Event] = []
    watermark: int | None = None
    for place, (rows, mark) in enumerate([*steps, ([], None)]):
        engine.push("s", as_table(stream, rows))
        accepted += [row for row in rows if watermark is None or row["t"] >= watermark]
        if place == added_at:
            engine.add(LATER)
        if mark is not None and watermark is not None and mark < watermark:
            continue
        workload = engine.workload
        found = to_answers(engine.advance("s", panewise.END_OF_STREAM if mark is None else mark), workload)
        # The oracle sees only what has come, and that is all that windows closed so far depend on.
        wanted = chain_oracle.closed_answers(workload, {"s": accepted}, mark, watermark)
        since = {name: engine.exact_from(name) for name in ("slow", "of_slow", "beside") if name in workload.queries}
        wanted = [one for one in wanted if since.get(one.query) is None or one.window_start >= since[one.query]]
        oracle.assert_same_answers(found, wanted)
        watermark = mark
        if mark is not None:
            compare_lookups(engine, accepted, mark)
        engine = panewise.Engine.restore(engine.snapshot())


def compare_lookups(engine: panewise.Engine, accepted: list[oracle.Event], mark: int) -> None:
    """Lookups see the answers that were reported."""
    query = engine.workload.queries["recent"]
    seen = [
        one for one in chain_oracle.events_of(engine.workload, "fixed", {"s": accepted}) if one["window_end"] <= mark
    ]
    for at in (mark, mark + 30):
        found = to_answers(engine.lookup("recent", at=at), engine.workload, "recent")
        oracle.assert_same_answers(found, oracle.lookup(query, "window_time", seen, at))


@settings(max_examples=examples(25), deadline=None)
@given(STEPS)
def test_changes_of_a_chain_are_those_of_a_stream_with_the_same_events(steps) -> None:
    """Reports of changes read every answer, also those that are not reported because they did not change."""
    inner = INNER[: INNER.index("CREATE QUERY visits")]
    outer = OUTER[: OUTER.index("CREATE QUERY ranked")]
    chain = panewise.Engine(STREAM + inner + outer)
    plain = panewise.Engine(
        "CREATE STREAM fixed (window_start TIMESTAMP, window_end TIMESTAMP, window_time TIMESTAMP, key STRING, "
        f"total BIGINT, n BIGINT) TIMESTAMP BY window_time; {outer}"
    )
    below = panewise.Engine(STREAM + inner)
    newest = -1000
    for rows, mark in steps:
        events = as_table(chain.workload.streams["s"], [row for row in rows if row["t"] >= newest])
        newest = max(mark, newest)
        chain.push("s", events)
        below.push("s", events)
        found = chain.advance("s", newest, changed_only=True)
        answers = below.advance("s", newest).tables["fixed"]
        times = pa.array(np.asarray(answers.column("window_end").cast(pa.int64())) - 1)
        plain.push("fixed", answers.append_column("window_time", times))
        wanted = plain.advance("fixed", newest, changed_only=True)
        for name in ("best", "whole"):
            assert found.tables[name].to_pylist() == wanted.tables[name].to_pylist()


HOUR = 3_600_000_000
TRADES = "CREATE STREAM trades (t TIMESTAMP, symbol STRING, volume BIGINT) TIMESTAMP BY t;"
HOURLY = """CREATE QUERY hourly AS SELECT symbol, SUM(volume) AS total FROM trades [RANGE 1 HOUR SLIDE 1 HOUR]
    GROUP BY symbol;"""
DAILY = """CREATE QUERY daily AS SELECT symbol, MAX(total) AS best, COUNT(*) AS hours FROM hourly
    [RANGE 1 DAY SLIDE 1 DAY] GROUP BY symbol;"""


def trades(hours: list[int], volume: int = 1) -> dict[str, list]:
    size = len(hours)
    return {"t": [hour * HOUR for hour in hours], "symbol": ["a"] * size, "volume": [volume] * size}


def test_the_hours_of_a_day_fall_into_that_day() -> None:
    engine = panewise.Engine(TRADES + HOURLY + DAILY)
    engine.push("trades", trades(list(range(48))))
    assert engine.advance("trades", 24 * HOUR).tables["daily"].column("hours").to_pylist() == [24]
    assert engine.advance("trades", 48 * HOUR).tables["daily"].column("hours").to_pylist() == [24]


def test_answers_meet_where_windows_end_together() -> None:
    """A join without windows pairs the answers of two queries by the ends of their windows and a key."""
    both = """CREATE QUERY day AS SELECT symbol, SUM(volume) AS total FROM trades [RANGE 1 DAY SLIDE 1 HOUR]
                GROUP BY symbol;
              CREATE QUERY shares AS SELECT hourly.symbol, hourly.window_end AS hour, hourly.total, day.total AS day
                FROM hourly JOIN day ON hourly.symbol = day.symbol WHERE hourly.total >= 0.5 * day.total;"""
    engine = panewise.Engine(TRADES + HOURLY + both)
    engine.push("trades", trades([0, 1, 2, 2, 2]))
    engine.push("trades", {**trades([1], 9), "symbol": ["b"]})
    engine.advance("trades", 2 * HOUR)
    rows = engine.rows("shares").to_pylist()
    assert [(row["symbol"], row["hour"].hour, row["total"], row["day"]) for row in rows] == [
        ("a", 1, 1, 1), ("a", 2, 1, 2), ("b", 2, 9, 9)]  # fmt: skip
    engine = panewise.Engine.restore(engine.snapshot())
    engine.advance("trades", 3 * HOUR)
    (row,) = engine.rows("shares").to_pylist()
    assert (row["symbol"], row["hour"].hour, row["total"], row["day"]) == ("a", 3, 3, 5)
    assert panewise.read(str_of(engine.workload)) == engine.workload


def str_of(workload: panewise.Workload) -> str:
    from panewise.language.workload import print_workload

    return print_workload(workload)


def test_rows_of_answers_are_selected_and_sorted() -> None:
    asked = """CREATE QUERY loud AS SELECT symbol, total FROM hourly WHERE total > 1;
               CREATE QUERY top AS SELECT symbol, total FROM hourly [RANGE 2 HOURS SLIDE 2 HOURS] ORDER BY total DESC
                 LIMIT 1;"""
    engine = panewise.Engine(TRADES + HOURLY + asked)
    engine.push("trades", trades([0, 0, 1, 1, 1]))
    engine.advance("trades", panewise.END_OF_STREAM)
    assert [row["total"] for row in engine.rows("loud").to_pylist()] == [2, 3]
    assert [row["total"] for row in engine.rows("top").to_pylist()] == [3]


def test_an_answer_that_fails_up_the_chain_leaves_nothing_reported() -> None:
    """Once the query that failed is gone, all other answers come, each once."""
    failing = """CREATE QUERY sums AS SELECT SUM(total) FROM hourly [RANGE 1 DAY SLIDE 1 DAY] ON OVERFLOW ERROR;
                 CREATE QUERY doubled AS SELECT COUNT(*) AS days FROM daily [RANGE 2 DAYS SLIDE 2 DAYS];"""
    engine = panewise.Engine(TRADES + HOURLY + DAILY + failing)
    engine.push("trades", trades([0, 1], 2**62))
    for changed_only in (False, True):
        with pytest.raises(panewise.AnswerOverflowError, match="sums"):
            engine.advance("trades", 48 * HOUR, changed_only=changed_only)
    engine.remove("sums")
    found = engine.advance("trades", 48 * HOUR)
    assert found.tables["hourly"].num_rows == 2
    assert found.tables["daily"].column("hours").to_pylist() == [2]
    assert found.tables["doubled"].column("days").to_pylist() == [1]
    assert engine.position("hourly").events == 2
    assert engine.late_events("hourly") == 0


def test_changes_that_are_refused_up_the_chain_move_nothing() -> None:
    """What is told when each substream has its next rows is no report of changes; no answer counts twice for that."""
    each = """CREATE QUERY each AS SELECT symbol, COUNT(*) AS n FROM hourly [PARTITION BY symbol ROWS 9 SLIDE 1]
                GROUP BY symbol;"""
    engine = panewise.Engine(TRADES + HOURLY + DAILY + each)
    engine.push("trades", trades([0, 1]))
    with pytest.raises(panewise.ArgumentError, match="query each reports each substream"):
        engine.advance("trades", 2 * HOUR, changed_only=True)
    assert engine.position("trades").watermark_us is None
    found = engine.advance("trades", 24 * HOUR)
    assert found.tables["daily"].column("hours").to_pylist() == [2]
    assert found.tables["each"].column("n").to_pylist() == [1, 2]


def test_streams_of_answers_come_and_go_with_their_readers() -> None:
    engine = panewise.Engine(TRADES + HOURLY)
    engine.push("trades", trades(list(range(30))))
    engine.advance("trades", 5 * HOUR)
    engine.add(DAILY)
    # The first day lacks the hours before the query came.
    assert engine.exact_from("daily") == 5 * HOUR
    assert engine.advance("trades", 24 * HOUR).tables["daily"].num_rows == 0
    with pytest.raises(panewise.QueryInUseError, match="hourly are read by daily; remove those first"):
        engine.remove("hourly")
    engine.remove("daily")
    assert list(engine.workload.streams) == ["trades"]
    assert "hourly" not in engine.statistics()["streams"]
    engine.add("DROP QUERY hourly;" + HOURLY.replace("symbol, SUM", "SUM").replace("GROUP BY symbol", "")
               + DAILY.replace("symbol, ", "").replace("GROUP BY symbol", ""))  # fmt: skip
    engine.push("trades", trades(list(range(30, 80))))
    found = engine.advance("trades", panewise.END_OF_STREAM)
    assert found.tables["daily"].column("hours").to_pylist() == [24, 8]
    engine.add("DROP QUERY daily; DROP QUERY hourly;")
    assert list(engine.workload.streams) == ["trades"]


@pytest.mark.parametrize(
    ("statements", "message", "hint"),
    [
        ("CREATE QUERY a AS SELECT COUNT(*) FROM a [RANGE 1 DAY];", "'a' reads its own answers", "another name"),
        ("CREATE QUERY a AS SELECT COUNT(*) FROM b [RANGE 1 DAY SLIDE 1 DAY];"
         "CREATE QUERY b AS SELECT COUNT(*) FROM c [RANGE 1 DAY SLIDE 1 DAY];"
         "CREATE QUERY c AS SELECT COUNT(*) FROM a [RANGE 1 DAY SLIDE 1 DAY];",
         "in a circle: a reads b reads c reads a", "created before it"),
        ("CREATE QUERY a AS SELECT COUNT(*) FROM hourly [RANGE 1 DAY SLIDE 1 DAY];" + HOURLY,
         "'hourly' is created only further down", "before the query that reads"),
        (HOURLY + "CREATE QUERY a AS SELECT COUNT(*) FROM hurly [RANGE 1 DAY];", "unknown stream 'hurly'", "hourly"),
        (HOURLY.replace("SLIDE 1 HOUR", "") + DAILY, "'hourly' has no SLIDE", "give the window of hourly a SLIDE"),
        ("CREATE QUERY r AS SELECT symbol FROM trades; CREATE QUERY a AS SELECT COUNT(*) FROM r [RANGE 1 DAY];",
         "'r' answers with rows", "read the stream"),
        (HOURLY + DAILY + "DROP QUERY hourly;", "'hourly' are read by daily", "DROP QUERY daily"),
        (HOURLY + DAILY + "CREATE STREAM hourly (t TIMESTAMP) TIMESTAMP BY t;", "read as a stream", "another name"),
        ("CREATE QUERY p AS SELECT COUNT(*) FROM trades [FROM WHEN volume > 1 UNTIL WHEN volume < 1 MAX 1 DAY];"
         "CREATE QUERY a AS SELECT COUNT(*) FROM p [RANGE 1 DAY];", "from one event to another", "SESSION"),
        (HOURLY.replace("total", "window_time") + DAILY, "two attributes 'window_time'", "with AS"),
        (HOURLY.replace("SUM(volume)", "COLLECT(volume, 3)") + DAILY, "unknown attribute 'total'", "known"),
        (HOURLY + "CREATE QUERY a AS SELECT trades.volume FROM trades [RANGE 1 DAY] JOIN hourly "
         "ON trades.symbol = hourly.symbol;", "needs a window to be joined", "if neither side has a window"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(statements: str, message: str, hint: str) -> None:
    with pytest.raises(panewise.StatementError) as refused:
        panewise.read(TRADES + statements)
    assert message in refused.value.message
    assert hint in refused.value.hint


def test_answers_that_may_be_corrected_are_not_read() -> None:
    stream = TRADES.replace(";", " ON LATE CORRECT 1 HOUR;")
    with pytest.raises(panewise.StatementError, match="may be corrected") as refused:
        panewise.read(stream + HOURLY + DAILY)
    assert "without ON LATE CORRECT" in refused.value.hint


def test_nobody_pushes_into_answers() -> None:
    engine = panewise.Engine(TRADES + HOURLY + DAILY)
    for call in (lambda: engine.push("hourly", {}), lambda: engine.advance("hourly", 0),
                 lambda: engine.closing("hourly"), lambda: engine.write("hourly", print)):  # fmt: skip
        with pytest.raises(panewise.QueryKindError, match="push events into stream trades"):
            call()


def test_a_template_of_queries_reads_answers() -> None:
    workload = panewise.read(
        TRADES + HOURLY + "CREATE QUERY above_{n} AS SELECT COUNT(*) FROM hourly [RANGE 1 DAY SLIDE 1 DAY] "
        "WHERE total > {n} FOR EACH (n) IN ((1), (5), (9));"
    )
    assert [query.stream for query in workload.queries.values()] == ["trades", "hourly", "hourly", "hourly"]


def test_a_plan_tells_what_a_stream_of_answers_is_made_of() -> None:
    """Its rate is that of the answers, so what reads them is planned for these and not for events."""
    plan = panewise.optimize(panewise.read(TRADES + HOURLY + DAILY), rate=1000, groups={"symbol": 7200})
    assert "reads       the answers of query hourly over trades, about 2 a second" in plan.explain()
    bases = plan.to_dict()["bases"]
    assert [base["reads"] is None for base in bases] == [True, False]
    assert bases[1]["cost_per_s"] < bases[0]["cost_per_s"] / 100
