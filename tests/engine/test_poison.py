"""Events that must not end or empty everything: sums that do not fit, and times without use."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

import panewise
from panewise.errors import AnswerOverflowError

SECOND = 1_000_000
HOUR_S = 3600
HUGE = 9_000_000_000_000_000_000
NOW_S = 1_700_000_000.0
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t"
QUERIES = """
CREATE QUERY total AS SELECT SUM(x), COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;
CREATE QUERY largest AS SELECT MAX(x) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;
CREATE QUERY rich AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k HAVING SUM(x) > 5;
CREATE QUERY now AS SELECT SUM(x) FROM s [RANGE 1 HOUR] GROUP BY k;
CREATE QUERY counted AS SELECT COUNT(*) FROM s [RANGE 1 HOUR];
"""
POISON = {"t": [SECOND, 2 * SECOND, 3 * SECOND], "k": ["a", "a", "b"], "x": [HUGE, HUGE, 7]}


def values(answers: pa.Table | panewise.Answers) -> dict[tuple[str, str | None, str], int | None]:
    table = answers.long() if isinstance(answers, panewise.Answers) else answers
    return {(row["query"], row["k"], row["aggregate"]): row["exact"] for row in table.to_pylist()}


def overflown(engine: panewise.Engine) -> dict[str, int]:
    return engine.statistics()["streams"]["s"]["overflown_answers"]


class TestOverflow:
    def test_only_the_answer_itself_is_null(self, caplog: pytest.LogCaptureFixture) -> None:
        engine = panewise.Engine(STREAM + ";" + QUERIES)
        engine.push("s", POISON)
        with caplog.at_level(logging.WARNING, logger="panewise"):
            found = values(engine.advance("s", 10 * SECOND))
        assert found == {
            ("total", "a", "SUM(x)"): None,
            ("total", "a", "COUNT(*)"): 2,
            ("total", "b", "SUM(x)"): 7,
            ("total", "b", "COUNT(*)"): 1,
            ("largest", "a", "MAX(x)"): HUGE,
            ("largest", "b", "MAX(x)"): 7,
            ("rich", "b", "COUNT(*)"): 1,
        }
        assert overflown(engine) == {"total": 1, "rich": 1}
        told = [record.getMessage() for record in caplog.records if record.name.startswith("panewise")]
        assert [line.partition(":")[0] for line in told] == ["query total", "query rich"]
        assert "does not fit in a BIGINT; use AVG" in told[0]

    def test_the_log_tells_a_query_once_and_then_rarely(self, caplog: pytest.LogCaptureFixture) -> None:
        engine = panewise.Engine(STREAM + ";" + QUERIES)
        with caplog.at_level(logging.WARNING, logger="panewise"):
            engine.push("s", POISON)
            for _ in range(25):
                assert engine.lookup_one("now", "a") == {"SUM(x)": None}
        assert overflown(engine) == {"now": 25}
        assert [record.args[1] for record in caplog.records] == [1, 10]

    def test_every_lookup_counts_what_it_answers(self) -> None:
        engine = panewise.Engine(STREAM + ";" + QUERIES)
        engine.push("s", POISON)
        for watermark in (0, 2 * SECOND, 5 * SECOND):
            engine.advance("s", watermark)
            before = overflown(engine).get("now", 0)
            found = engine.lookup("now").select(["k", "SUM(x)"]).sort_by("k").to_pylist()
            assert found == [{"k": "a", "SUM(x)": None}, {"k": "b", "SUM(x)": 7}]
            assert engine.lookup("now", keys={"k": "a"}).column("SUM(x)").to_pylist() == [None]
            assert engine.lookup("now", keys={"k": ["a", "b"]}).num_rows == 2
            assert engine.lookup_many("now", ["b", "a", "b"])["SUM(x)"].tolist() == [7, None, 7]
            assert engine.lookup_one("now", "b") == {"SUM(x)": 7}
            assert overflown(engine)["now"] == before + 4
        assert engine.lookup_one("counted") == {"COUNT(*)": 3}

    def test_an_error_where_it_is_asked_for_names_the_query_and_the_cure(self) -> None:
        queries = QUERIES.replace(
            "GROUP BY k;\nCREATE QUERY counted", "GROUP BY k ON OVERFLOW ERROR;\nCREATE QUERY counted"
        )
        engine = panewise.Engine(STREAM + ";" + queries)
        engine.push("s", POISON)
        for watermark in (0, 5 * SECOND):
            engine.advance("s", watermark)
            # Only a group that is asked for can fail.
            assert engine.lookup_one("now", "b") == {"SUM(x)": 7}
            assert engine.lookup_many("now", ["b"] * 300)["SUM(x)"].tolist() == [7] * 300
            for lookup in (
                lambda: engine.lookup("now"),
                lambda: engine.lookup("now", keys={"k": ["a", "b"]}),
                lambda: engine.lookup_one("now", "a"),
                lambda: engine.lookup_many("now", ["a"]),
            ):
                with pytest.raises(AnswerOverflowError, match=r"query now: .* use AVG.* leave out ON OVERFLOW ERROR"):
                    lookup()
        assert overflown(engine) == {}

    @pytest.mark.parametrize("window", ["[RANGE 1 HOUR]", "[ROWS 9]"])
    def test_a_query_that_reads_events_fails_for_the_requested_groups_alone(self, window: str) -> None:
        query = f"CREATE QUERY q AS SELECT SUM(x), MODE(x) FROM s {window} GROUP BY k ON OVERFLOW ERROR;"
        engine = panewise.Engine(STREAM + ";" + query)
        engine.push("s", POISON)
        assert engine.lookup_one("q", "b") == {"SUM(x)": 7, "MODE(x)": 7}
        assert engine.lookup("q", keys={"k": ["b", "z"]}).select(["SUM(x)", "MODE(x)"]).to_pylist() == [
            {"SUM(x)": 7, "MODE(x)": 7}
        ]
        with pytest.raises(AnswerOverflowError, match="query q"):
            engine.lookup_one("q", "a")

    def test_it_is_shown_and_kept(self) -> None:
        engine = panewise.Engine(STREAM + ";" + QUERIES)
        engine.push("s", POISON)
        engine.advance("s", 10 * SECOND)
        line = "NULL because a sum does not fit in a BIGINT or a list in its bound: total 1, rich 1"
        for one in (engine, panewise.Engine.restore(engine.snapshot())):
            assert overflown(one) == {"total": 1, "rich": 1}
            assert line in repr(one)
            assert line in one.explain(analyze=True)
            assert line in one._repr_html_()
        engine.remove("total")
        assert overflown(engine) == {"rich": 1}

    def test_only_changes_of_sums_that_do_not_fit(self) -> None:
        engine = panewise.Engine(STREAM + ";" + QUERIES)
        for start in (0, 10, 20):
            x = [HUGE, HUGE, 7] if start < 20 else [1, 2, 7]
            engine.push("s", {**POISON, "t": [(start + t) * SECOND for t in (1, 2, 3)], "x": x})
        first, second, third = (values(engine.advance("s", t * SECOND, changed_only=True)) for t in (10, 20, 30))
        assert first["total", "a", "SUM(x)"] is None
        assert second == {}
        assert third["total", "a", "SUM(x)"] == 3


class TestSetAside:
    def test_an_event_of_the_year_9999_closes_nothing_and_is_counted(self) -> None:
        engine = panewise.Engine(f"{STREAM} FUTURE BOUND 1 HOUR;{QUERIES}", clock=lambda: NOW_S)
        base = int(NOW_S) * SECOND
        far = 253_402_300_000 * SECOND
        times = [base, base + HOUR_S * SECOND, base + HOUR_S * SECOND + 1, far]
        engine.push("s", {"t": times, "k": ["a"] * 4, "x": [1, 2, 4, 8]})
        assert engine.set_aside_events("s") == {"late": 0, "untimed": 0, "future": 2}
        engine.advance("s")
        assert "watermark 2023-11-14 23:13:20" in repr(engine)
        assert engine.lookup_one("counted", at=base + HOUR_S * SECOND) == {"COUNT(*)": 1}
        statistics = engine.statistics()["streams"]["s"]
        assert (statistics["events"], statistics["future_events"]) == (2, 2)
        assert "set aside</th>" in engine._repr_html_()
        restored = panewise.Engine.restore(engine.snapshot(), clock=lambda: NOW_S)
        restored.push("s", {"t": [far], "k": ["a"], "x": [1]})
        assert restored.set_aside_events("s")["future"] == 3

    @pytest.mark.parametrize("bound", ["", " FUTURE BOUND NONE"])
    def test_without_a_bound_any_time_is_taken(self, bound: str) -> None:
        engine = panewise.Engine(f"{STREAM}{bound};{QUERIES}", clock=lambda: NOW_S)
        with pytest.warns(panewise.UnlikelyTimesWarning):
            engine.push("s", {"t": [253_402_300_000 * SECOND], "k": ["a"], "x": [1]})
        assert engine.set_aside_events("s") == {"late": 0, "untimed": 0, "future": 0}
        assert engine.lookup_one("counted") == {"COUNT(*)": 1}

    def test_a_refused_push_sets_nothing_aside(self) -> None:
        engine = panewise.Engine(f"{STREAM} FUTURE BOUND 1 HOUR;{QUERIES}", clock=lambda: NOW_S, strict=True)
        with pytest.raises(panewise.UnlikelyTimesError):
            engine.push("s", {"t": [253_402_300_000 * SECOND, -(10**16)], "k": ["a"] * 2, "x": [1, 2]})
        assert engine.set_aside_events("s") == {"late": 0, "untimed": 0, "future": 0}

    def test_events_go_to_whoever_takes_them(self) -> None:
        taken: list[tuple[str, str, list[dict]]] = []
        engine = panewise.Engine(
            f"{STREAM} FUTURE BOUND 1 MINUTE;{QUERIES}",
            clock=lambda: 100.0,
            set_aside=lambda stream, reason, events: taken.append((stream, reason, events.to_pylist())),
        )
        engine.advance("s", 50 * SECOND)
        times = [None, 60 * SECOND, 40 * SECOND, 161 * SECOND, 2**62]
        engine.push("s", {"t": pa.array(times, pa.int64()), "k": list("abcde"), "x": [1, 2, 3, 4, 5]})
        assert [(stream, reason, [row["k"] for row in rows]) for stream, reason, rows in taken] == [
            ("s", "untimed", ["a", "e"]),
            ("s", "future", ["d"]),
            ("s", "late", ["c"]),
        ]
        assert engine.set_aside_events("s") == {"late": 1, "untimed": 2, "future": 1}
        assert engine.late_events("s") == 1
        assert values(engine.advance("s", 70 * SECOND))["total", "b", "COUNT(*)"] == 1

    def test_a_stream_that_comes_later_sets_aside_too(self) -> None:
        taken: list[str] = []
        engine = panewise.Engine(
            STREAM + ";", clock=lambda: 0.0, set_aside=lambda stream, reason, _: taken.append(reason)
        )
        engine.add("CREATE STREAM other (t TIMESTAMP) TIMESTAMP BY t FUTURE BOUND 0 SECONDS;")
        engine.push("other", {"t": [0, 1]})
        assert taken == ["future"]

    def test_whoever_takes_them_may_fail_and_nothing_is_taken_in(self) -> None:
        def refuse(stream: str, reason: str, events: pa.Table) -> None:
            raise OSError("the disk is full")

        engine = panewise.Engine(STREAM + ";" + QUERIES, set_aside=refuse)
        with pytest.raises(OSError, match="full"):
            engine.push("s", {"t": pa.array([1, None], pa.int64()), "k": ["a", "b"], "x": [1, 2]})
        assert engine.lookup_one("counted") == {"COUNT(*)": 0}
        assert engine.set_aside_events("s")["untimed"] == 0

    def test_late_events_that_correct_answers_are_not_set_aside(self) -> None:
        taken: list[str] = []
        engine = panewise.Engine(
            f"{STREAM} ON LATE CORRECT 10 SECONDS;{QUERIES}", set_aside=lambda stream, reason, _: taken.append(reason)
        )
        engine.advance("s", 30 * SECOND)
        engine.push("s", {"t": [25 * SECOND, 5 * SECOND], "k": ["a", "b"], "x": [1, 2]})
        assert taken == ["late"]
        assert engine.set_aside_events("s")["late"] == 1

    @pytest.mark.parametrize("wrong", [{"set_aside": "a file"}, {"clock": 5}])
    def test_what_cannot_be_called_is_refused_at_once(self, wrong: dict) -> None:
        (name,) = wrong
        blob = panewise.Engine(STREAM + ";").snapshot()
        for make in (lambda: panewise.Engine(STREAM + ";", **wrong), lambda: panewise.Engine.restore(blob, **wrong)):
            with pytest.raises(panewise.PanewiseError, match=f"{name} is a function"):
                make()
