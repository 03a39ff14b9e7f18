"""Queries come and go while the stream runs: answers stay right, whichever tree holds the partials."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.engine.stream_state import MOST_GENERATIONS

STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;\n"
US = 1_000_000

lengths = st.tuples(st.integers(1, 12), st.integers(1, 8))
windows = lengths.map(lambda w: f"[RANGE {w[0]} SECONDS SLIDE {w[1]} SECONDS]")
row_windows = lengths.map(lambda w: f"[ROWS {w[0]} SLIDE {w[1]}]")
selects = st.sampled_from(["SUM(x)", "COUNT(*)", "MAX(y), AVG(x)", "MEDIAN(x)", "MIN(y)"])
wheres = st.sampled_from(["", "WHERE x > 3", "WHERE k = 'a'"])
groups = st.sampled_from(["", "GROUP BY k"])


def queries_over(windows):
    return st.tuples(selects, windows, wheres, groups).map(lambda q: f"SELECT {q[0]} FROM s {q[1]} {q[2]} {q[3]}")


queries = queries_over(windows)
rows = st.lists(
    st.tuples(st.integers(-3, 6), st.sampled_from("ab"), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8
)
steps = st.lists(
    st.tuples(st.just("push"), rows)
    | st.tuples(st.just("advance"), st.integers(0, 6))
    | st.tuples(st.just("add"), st.lists(queries, min_size=1, max_size=3))
    | st.tuples(st.just("remove"), st.integers(0, 20))
    | st.tuples(st.just("snapshot")),
    min_size=5,
    max_size=40,
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(queries_over(windows | row_windows), max_size=3), steps, st.sampled_from([0.0, 0.2]))
def test_answers_are_right_while_queries_come_and_go(first, steps, tolerance) -> None:
    text = STREAM + "".join(f"CREATE QUERY q{n} AS {query};" for n, query in enumerate(first))
    names = iter(range(len(first), 10_000))
    with patch("panewise.engine.stream_state.MOST_GENERATIONS", 1):
        engine = panewise.Engine(panewise.read(text), tolerance=tolerance)
        accepted: list[dict] = []
        watermark = None
        clock = 0
        for kind, *given_ in [*steps, ("advance", 30)]:
            match kind, given_:
                case "push", [some]:
                    events = [{"t": (clock + d) * US, "k": k, "x": x, "y": float(y)} for d, k, x, y in some]
                    engine.push("s", as_table(engine.workload.streams["s"], events))
                    accepted += [event for event in events if watermark is None or event["t"] >= watermark]
                    clock += 2
                case "advance", [more]:
                    to = (watermark if watermark is not None else -4 * US) + more * US
                    table = engine.advance("s", to)
                    expected = [
                        answer
                        for query in engine.workload.queries.values()
                        for answer in _from(engine, query, accepted, to, watermark)
                    ]
                    oracle.assert_same_answers(to_answers(table, engine.workload), expected)
                    watermark = to
                case "add", [texts]:
                    engine.add("".join(f"CREATE QUERY q{next(names)} AS {query};" for query in texts))
                case "remove", [place] if engine.workload.queries:
                    there = list(engine.workload.queries)
                    engine.remove(there[place % len(there)])
                case "snapshot", []:
                    engine = panewise.Engine.restore(engine.snapshot())
        state = engine._streams["s"]
        assert not any(generation.waits for generation in state.generations)
        for tree in (tree for generation in state.generations for tree in generation.trees):
            tree.store.check_invariants()


def _from(engine: panewise.Engine, query, accepted, to, watermark):
    """The oracle's answers for the windows that a query has seen whole."""
    exact_from = engine.exact_from(query.name)
    if exact_from is None:
        return oracle.closed_answers(query, "t", accepted, to, watermark)
    answers = oracle.closed_answers(query, "t", accepted, to, watermark)
    return [answer for answer in answers if answer.window_start >= exact_from]


def test_queries_one_by_one_make_few_generations_and_all_are_answered() -> None:
    engine = panewise.Engine(panewise.read(STREAM))
    for second in range(60):
        engine.push("s", {"t": [second * US], "k": ["a"], "x": [second], "y": [1.0]})
        engine.advance("s", second * US)
        for place in range(3):
            length, slide = 1 + (7 * second + place) % 30, 1 + (second + place) % 5
            where = f"WHERE x > {second % 40}" if place % 2 else ""
            window = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
            engine.add(f"CREATE QUERY q{second}_{place} AS SELECT SUM(x) FROM s {window} {where}")
        if second % 3 == 0:
            engine.remove(f"q{second // 3}_1")
    queries = engine.workload.queries
    assert len(queries) == 160
    for second in range(60, 130):
        engine.push("s", {"t": [second * US], "k": ["a"], "x": [second], "y": [1.0]})
        engine.advance("s", second * US)
    state = engine._streams["s"]
    assert len(state.generations) <= MOST_GENERATIONS
    assert sum(len(generation.active) for generation in state.generations) == 160
    events = [{"t": second * US, "k": "a", "x": second, "y": 1.0} for second in range(130)]
    expected = [
        answer for query in queries.values() for answer in oracle.closed_answers(query, "t", events, 160 * US, 129 * US)
    ]
    assert len({answer.query for answer in expected}) > 150
    oracle.assert_same_answers(to_answers(engine.advance("s", 160 * US), engine.workload), expected)


def test_a_removed_query_takes_its_partials_along() -> None:
    """What an engine holds after the longest window is gone is what one holds that never had it."""
    short = "CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 2 SECONDS SLIDE 1 SECOND] GROUP BY k;"
    longest = "CREATE QUERY longest AS SELECT SUM(x) FROM s [RANGE 1000 SECONDS SLIDE 1 SECOND] GROUP BY k;"

    def engine_of(text: str) -> panewise.Engine:
        engine = panewise.Engine(STREAM + text)
        size = 999
        events = {"t": [i * US for i in range(size)], "k": ["a"] * size, "x": [1] * size, "y": [1.0] * size}
        engine.push("s", events)
        engine.advance("s", 999 * US)
        return engine

    def fragments(engine: panewise.Engine) -> int:
        return sum(tree["fragments"] for tree in engine.statistics()["streams"]["s"]["trees"])

    engine = engine_of(short + longest)
    assert fragments(engine) > 900
    engine.remove("longest")
    assert fragments(engine) == fragments(engine_of(short)) == 1
    replaced = engine_of(short + longest)
    replaced.add("DROP QUERY longest;" + longest.replace("longest", "again"))
    assert replaced.exact_from("again") == 0
    assert fragments(replaced) > 900
