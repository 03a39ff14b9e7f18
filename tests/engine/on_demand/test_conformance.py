"""On-demand queries agree with the oracle with any structure, while queries come and go."""

from __future__ import annotations

import math
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.errors import HistoryError
from panewise.language.printer import label_of

US = 1_000_000
STREAM = "CREATE STREAM s (t TIMESTAMP, k STRING, g DOUBLE, n BIGINT, x DOUBLE, b TIMESTAMP) TIMESTAMP BY t;\n"
COUNTS = ["COUNT(*)", "COUNT(x)", "COUNT(k)"]
SUMS = [*COUNTS, "SUM(n)", "SUM(x)", "AVG(n)", "AVG(x)", "VARIANCE(x)", "STDDEV_POP(n)", "SUM(n + x)"]
EXTREMES = ["MIN(n)", "MAX(n)", "MIN(x)", "MAX(x)", "MAX(b)", "MIN(b)"]
VALUES = ["MEDIAN(x)", "QUANTILE(n, 0.3)", "MEDIAN(b)", "COUNT(DISTINCT x)"]
EVERY = [*SUMS, *EXTREMES, *VALUES, "COUNT(DISTINCT k)", "MODE(n)", "MODE(x)", "COUNT(DISTINCT n)"]
UNGROUPED = ["[RANGE 4 SECONDS]", "[RANGE 9 SECONDS]", "[RANGE BETWEEN 7 SECONDS PRECEDING AND 2 SECONDS PRECEDING]",
             "[ROWS 3]", "[ROWS 20]", "[ROWS BETWEEN 6 PRECEDING AND 2 PRECEDING]"]  # fmt: skip
PARTITIONED = ["[PARTITION BY k ROWS 2]", "[PARTITION BY k ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING]"]
GROUPED = ["k", "g", "k, g", "g, k"]

FORCED = {
    "running_intervals": ([one for one in SUMS if one != "VARIANCE(x)"], True),
    "base_intervals": ([*SUMS, *EXTREMES], True),
    "landmark_intervals": ([*SUMS, *EXTREMES], True),
    "search_tree": ([*SUMS, *EXTREMES], False),
    "sorted_base_intervals": ([*COUNTS, *VALUES, "MODE(x)"], False),
    "recompute": ([*SUMS, *EXTREMES, *VALUES, "MODE(n)"], True),
}


@st.composite
def queries(draw, using):
    """The text of an on-demand query that a structure can answer; None: any query, and no USING."""
    aggregates, may_group = (EVERY, True) if using is None else FORCED[using]
    group_by = draw(st.sampled_from([None, *GROUPED])) if may_group else None
    windows = [*UNGROUPED, *(PARTITIONED if group_by is not None and "k" in group_by else [])]
    select = draw(st.lists(st.sampled_from(aggregates), min_size=1, max_size=4, unique=True))
    text = f"SELECT {', '.join(select)} FROM s {draw(st.sampled_from(windows))}"
    text += draw(st.sampled_from(["", "", " WHERE n > 2", " WHERE x IS NOT NULL", " WHERE k = 'a' OR n = 0"]))
    text += "" if group_by is None else f" GROUP BY {group_by}"
    text += draw(st.sampled_from(["", "", "", " HAVING COUNT(*) > 1", " HAVING COUNT(n) < 3"]))
    return text if using is None else f"{text} USING {using}"


NASTY = st.sampled_from([None, math.nan, math.inf, -math.inf, -0.0, 1e16, -1e16, 0.1, 1e300])
ROWS = st.lists(
    st.tuples(
        st.sampled_from([-3, -1, 0, 0, 1, 2, 4]),
        st.sampled_from(["a", "b", "c", None]),
        st.sampled_from([0.0, -0.0, math.nan, None]),
        st.integers(-3, 9) | st.sampled_from([None, 2**40, -(2**62), 2**62]),
        st.integers(-9, 9).map(lambda value: value / 8) | NASTY,
        st.none() | st.integers(-5, 5),
    ),
    min_size=1,
    max_size=10,
)


def steps(using):
    place = st.integers(0, 1000)
    keys = st.lists(st.tuples(st.sampled_from(["a", "b", "z", None]), st.sampled_from([0.0, math.nan, 7.0, None])))
    return st.lists(
        st.tuples(st.just("push"), ROWS)
        | st.tuples(st.just("push"), ROWS)
        | st.tuples(st.just("advance"), st.integers(-2, 6))
        | st.tuples(st.just("advance"), st.integers(-2, 6))
        | st.tuples(st.just("lookup"), place, st.integers(-9, 9))
        | st.tuples(st.just("keys"), place, st.none() | st.integers(0, 5), keys)
        | st.tuples(st.just("add"), queries(using))
        | st.tuples(st.just("remove"), place)
        | st.tuples(st.just("snapshot")),
        min_size=8,
        max_size=20,
    )


class Run:
    """An engine, and all that the oracle needs to know of it."""

    def __init__(self, first: list[str]) -> None:
        texts = [f"CREATE QUERY q{place} AS {text};" for place, text in enumerate(first)]
        self.engine = panewise.Engine(panewise.read(STREAM + "\n".join(texts)))
        self.count = len(first)
        self.accepted: list[dict] = []
        self.watermark = None
        self.clock = 0

    def step(self, kind: str, *given_) -> None:
        match kind, given_:
            case "push", [rows]:
                events = [
                    {"t": (self.clock + d) * US, "k": k, "g": g, "n": n, "x": x, "b": b} for d, k, g, n, x, b in rows
                ]
                self.engine.push("s", as_table(self.engine.workload.streams["s"], events))
                self.accepted += [event for event in events if self.watermark is None or event["t"] >= self.watermark]
                self.clock += 1
            case "advance", [by]:
                before = -(2**62) if self.watermark is None else self.watermark
                self.watermark = max((self.clock + by) * US, before)
                self.clock += max(by, 0)
                self.engine.advance("s", self.watermark)
            case "add", [text]:
                self.engine.add(f"CREATE QUERY q{self.count} AS {text};")
                self.count += 1
            case "snapshot", []:
                self.engine = panewise.Engine.restore(self.engine.snapshot())
            case _, [place, *rest] if self.engine.workload.queries:
                names = list(self.engine.workload.queries)
                name = names[place % len(names)]
                if kind == "remove":
                    self.engine.remove(name)
                else:
                    self.look(name, *rest)
        for state in self.engine._streams.values():
            state.structures.check_invariants()

    def look(self, name: str, by: int | None, keys=None) -> None:
        at = None if by is None else (self.clock + by) * US
        known = [event["t"] for event in self.accepted] + ([] if self.watermark is None else [self.watermark])
        if at is None and not known:
            return
        now = max(known, default=0)
        expected = self.expected(name, now if at is None else at)
        query = self.engine.workload.queries[name]
        given_ = None
        if keys is not None and query.group_by:
            given_ = [tuple({"k": k, "g": g}[attribute] for attribute in query.group_by) for k, g in keys]
        try:
            answers = to_answers(self.engine.lookup(name, at, keys=given_), self.engine.workload, name)
        except HistoryError:
            assert expected is None or self.is_past(now if at is None else at)
            return
        assert expected is not None
        if given_ is not None:
            wanted = {tuple(map(identity, key)) for key in given_}
            expected = [one for one in expected if tuple(identity(value) for _, value in one.group) in wanted]
            self.compare_many(name, at, given_, expected)
            for key in given_:
                self.compare_one(name, at, key, expected)
        elif not query.group_by:
            self.compare_one(name, at, (), expected)
        oracle.assert_same_answers(answers, expected, query)

    def compare_many(self, name: str, at: int | None, keys: list[tuple], expected: list[oracle.Answer]) -> None:
        query = self.engine.workload.queries[name]
        arrays = self.engine.lookup_many(name, keys, at)
        labels = [label_of(item) for item in query.select]
        by_place = {(tuple(identity(value) for _, value in one.group), one.item): one for one in expected}
        for label, array in arrays.items():
            assert len(array) == len(keys)
            for key, value in zip(keys, array.tolist()):
                wanted = by_place.get((tuple(map(identity, key)), labels.index(label)))
                if wanted is None:
                    assert value is None, (key, label)
                else:
                    assert oracle.same_value(value, wanted.value, wanted.scale), (key, label, value, wanted)

    def compare_one(self, name: str, at: int | None, key: tuple, expected: list[oracle.Answer]) -> None:
        query = self.engine.workload.queries[name]
        labels = [label_of(item) for item in query.select]
        group = tuple(map(identity, key))
        wanted = {labels[one.item]: one for one in expected if tuple(identity(v) for _, v in one.group) == group}
        values = self.engine.lookup_one(name, key, at)
        assert (values is None) == (not wanted)
        for label, value in (values or {}).items():
            assert oracle.same_value(value, wanted[label].value, wanted[label].scale), (key, label, value, wanted)

    def is_past(self, at: int) -> bool:
        return self.watermark is not None and at < self.watermark

    def expected(self, name: str, at: int):
        """The oracle's answers; None if the window reaches back before what the query has seen."""
        query, since = self.engine.workload.queries[name], self.engine.exact_from(name)
        events = self.accepted
        if since is not None:
            if type(query.window).__name__ == "TimeWindow" and at - query.window.left_us + 1 < since:
                return None
            events = [event for event in events if event["t"] >= since]
        return oracle.lookup(query, "t", events, at)


def identity(value):
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize("using", [None, *FORCED])
@settings(max_examples=examples(25), deadline=None)
@given(st.data())
def test_lookups_agree_with_the_oracle(using, data) -> None:
    first = data.draw(st.lists(queries(using), min_size=1, max_size=4))
    fewest = data.draw(st.sampled_from([1, 256]))
    with (
        patch("panewise.engine.on_demand.event_sequence.MOST_BEHIND", data.draw(st.sampled_from([1, 4096]))),
        patch("panewise.engine.on_demand.shared_structures.FEWEST_TOGETHER", fewest),
        patch("panewise.engine.on_demand.kernel_answers.FEWEST_TOGETHER", fewest),
        patch("panewise.engine.on_demand.adaptation.FEWEST_USES", 8),
        patch("panewise.engine.on_demand.adaptation.MARGIN", 1.0),
    ):
        at_work = Run(first)
        for step in data.draw(steps(using)):
            at_work.step(*step)
            for name in at_work.engine.workload.queries:
                at_work.look(name, None)
