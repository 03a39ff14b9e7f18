"""Random programs of everything an engine does, checked by the oracle: sliding and on-demand queries in one engine.

On-demand queries are answered by each structure in turn, and by the automatic choice with an adaptation that changes
its mind as often as it can. Reports of changes are replayed: a reader who keeps the last report of each group must know
every answer. Windows that correct themselves and row queries have tests of their own.
"""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests import oracle
from tests.answers import to_answers
from tests.engine.on_demand.test_conformance import FORCED, ROWS, US, Run, identity
from tests.engine.on_demand.test_conformance import queries as on_demand_queries
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.errors import HistoryError

SELECTS = ["COUNT(*)", "MAX(n), COUNT(x)", "MIN(x), AVG(n)", "MEDIAN(n), MODE(x)", "SUM(x)", "VARIANCE(x), COUNT(k)",
           "APPROX_TOP_ITEM(n, 1), APPROX_TOP_COUNT(k, 2)", "COUNT(DISTINCT k), MAX(b)"]  # fmt: skip
PATCHES = {
    "panewise.engine.stream_state.MOST_GENERATIONS": 1,
    "panewise.engine.on_demand.adaptation.FEWEST_USES": 4,
    "panewise.engine.on_demand.adaptation.MARGIN": 1.0,
    "panewise.engine.on_demand.adaptation.WINS": 1,
}
KEYS = st.tuples(st.sampled_from(["a", "b", "z", None]), st.sampled_from([0.0, float("nan"), 7.0, None]))
PLACES = st.integers(0, 1000)


@st.composite
def sliding_queries(draw):
    """The text of a sliding query over time or rows."""
    length, slide = draw(st.integers(1, 9)), draw(st.integers(1, 6))
    over_time = f"[RANGE {length} SECONDS SLIDE {slide} SECONDS]"
    window = draw(st.sampled_from([over_time, over_time, f"[ROWS {length} SLIDE {slide}]"]))
    where = draw(st.sampled_from(["", "", "WHERE n > 2", "WHERE k = 'a' OR n = 0"]))
    group_by = draw(st.sampled_from(["", "GROUP BY k", "GROUP BY k", "GROUP BY g, k"]))
    having = draw(st.sampled_from(["", "", "HAVING COUNT(*) > 1"]))
    return f"SELECT {draw(st.sampled_from(SELECTS))} FROM s {window} {where} {group_by} {having}"


class Reports:
    """What a reader knows who keeps the last report of each group of one query."""

    def __init__(self) -> None:
        self.known: dict[object, dict[int, oracle.Answer]] = {}

    def take(self, reported: list[oracle.Answer], *, may_repeat: bool) -> None:
        """The reports of one window. None of them repeats what was known, unless all groups are reported."""
        for group, answers in by_group(reported).items():
            before = self.known.get(group, {})
            same = before.keys() == answers.keys() and all(
                identity(before[item].value) == identity(answers[item].value) for item in answers
            )
            assert may_repeat or not same, (group, answers)
            self.known[group] = answers

    def miss(self, answers: list[oracle.Answer]) -> None:
        """A report of all groups: a group that is not in it has no answer."""
        there = by_group(answers)
        for group, known in self.known.items():
            if group not in there:
                self.known[group] = {item: answer._replace(value=None) for item, answer in known.items()}

    def compare(self, expected: list[oracle.Answer]) -> None:
        """The reader knows the answers of a window, and no others."""
        wanted = by_group(expected)
        for group, answers in wanted.items():
            for item, answer in answers.items():
                known = self.known[group][item]
                assert oracle.same_value(known.value, answer.value, answer.scale), (known, answer)
        for group, answers in self.known.items():
            if group not in wanted:
                assert all(answer.value is None for answer in answers.values()), (group, answers)


def by_group(answers: list[oracle.Answer]) -> dict[object, dict[int, oracle.Answer]]:
    found: dict[object, dict[int, oracle.Answer]] = {}
    for answer in answers:
        group = tuple((name, identity(value)) for name, value in answer.group)
        found.setdefault(group, {})[answer.item] = answer
    return found


class Program(RuleBasedStateMachine):
    """An engine beside all events that it took in."""

    using: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch(name, value) for name, value in PATCHES.items()]
        for one in self.patches:
            one.start()

    def teardown(self) -> None:
        for one in self.patches:
            one.stop()

    @initialize(sliding=st.lists(sliding_queries(), max_size=2), data=st.data())
    def begin(self, sliding: list[str], data: st.DataObject) -> None:
        asked = data.draw(st.lists(on_demand_queries(self.using), min_size=1, max_size=2))
        self.run = Run([*sliding, *asked])
        self.reports: dict[str, Reports] | None = None
        self.of_rows: dict[str, set[object]] = {}
        """The groups of each query over rows that ever had an answer."""

    @property
    def engine(self) -> panewise.Engine:
        return self.run.engine

    @rule(rows=ROWS, late=st.sampled_from([0, 0, 0, -6]))
    def push(self, rows, late: int) -> None:
        events = [
            {"t": (self.run.clock + d + late) * US, "k": k, "g": g, "n": n, "x": x, "b": b} for d, k, g, n, x, b in rows
        ]
        before = self.engine.late_events("s")
        on_time = [event_ for event_ in events if self.run.watermark is None or event_["t"] >= self.run.watermark]
        self.engine.push("s", as_table(self.engine.workload.streams["s"], events))
        assert self.engine.late_events("s") - before == len(events) - len(on_time)
        self.run.accepted += on_time
        self.run.clock += 1

    @rule(by=st.integers(-2, 5), changed_only=st.booleans())
    def advance(self, by: int, changed_only: bool) -> None:
        run, before = self.run, self.run.watermark
        run.watermark = max((run.clock + by) * US, -(2**62) if before is None else before)
        run.clock += max(by, 0)
        expected = {
            name: self.closed(query, before)
            for name, query in self.engine.workload.queries.items()
            if query.window.is_sliding
        }
        is_first = changed_only and self.reports is None
        if is_first:
            self.reports = {}
        answers = to_answers(self.engine.advance("s", run.watermark, changed_only=changed_only), self.engine.workload)
        if not changed_only:
            oracle.assert_same_answers(answers, [one for several in expected.values() for one in several])
        if self.reports is not None:
            for name, wanted in expected.items():
                reported = [answer for answer in answers if answer.query == name]
                self.replay(name, reported, wanted, before, is_first=is_first, changed_only=changed_only)

    def closed(self, query, before: int | None) -> list[oracle.Answer]:
        """The answers of the closing windows that the query has seen whole."""
        found = oracle.closed_answers(query, "t", self.run.accepted, self.run.watermark, before)
        exact_from = self.engine.exact_from(query.name)
        if exact_from is None:
            return found
        if type(query.window).__name__ == "TimeWindow":
            return [answer for answer in found if answer.window_start >= exact_from]
        # Positions count the rows of the log, which began with the query or before.
        return self.closed_rows(query, before, exact_from)

    def closed_rows(self, query, before: int | None, exact_from: int) -> list[oracle.Answer]:
        log = self.engine._streams["s"].log
        assert log is not None
        seen = [one for one in self.run.accepted if log.starts_us is None or one["t"] >= log.starts_us]
        rows, window, found = sorted(seen, key=lambda one: one["t"]), query.window, []
        for end in range(exact_from + window.left, len(rows) + 1):
            start, time = end - window.left, rows[end - 1]["t"]
            if start % window.slide == 0 and time < self.run.watermark and (before is None or time >= before):
                found += oracle._answers_of_window(query, rows[start:end], rows[start]["t"], time)
        return found

    def replay(self, name: str, reported, wanted, before: int | None, *, is_first: bool, changed_only: bool) -> None:
        """Window by window. Of windows over rows, each report is an answer that is wanted, or withdraws one."""
        assert self.reports is not None
        window = self.engine.workload.queries[name].window
        if type(window).__name__ != "TimeWindow":
            # Windows over rows of one time have the same place: a group may be in one and withdrawn in the next.
            there = {place_of(one) for one in wanted}
            known = self.of_rows.setdefault(name, set())
            known |= by_group(wanted).keys()
            for one in reported:
                # Only a group that had an answer can be withdrawn.
                withdraws = one.value is None and by_group([one]).keys() <= known
                assert place_of(one) in there or withdraws, one
            return
        reports = self.reports.setdefault(name, Reports())
        newest = (self.run.watermark - window.left_us) // window.slide_us * window.slide_us + window.left_us
        ends = {one.window_end for one in [*wanted, *reported]}
        for end in sorted(ends | ({newest} if before is None or newest > before else set())):
            assert before is None or end > before
            told = [one for one in reported if one.window_end == end]
            reports.take(told, may_repeat=is_first or not changed_only)
            if not changed_only:
                reports.miss(told)
            reports.compare([one for one in wanted if one.window_end == end])

    @precondition(lambda self: self.on_demand)
    @rule(place=PLACES, by=st.none() | st.integers(-9, 5))
    def look(self, place: int, by: int | None) -> None:
        self.run.look(self.pick(place), by)

    @precondition(lambda self: self.on_demand)
    @rule(place=PLACES, by=st.none() | st.integers(-4, 3), keys=st.lists(KEYS, min_size=1, max_size=4))
    def look_at_keys(self, place: int, by: int | None, keys) -> None:
        self.run.look(self.pick(place), by, keys)

    @precondition(lambda self: self.on_demand)
    @rule(place=PLACES, key=KEYS)
    def look_at_one_key(self, place: int, key) -> None:
        """Lookups of a single group, with its key in any form."""
        query = self.engine.workload.queries[self.pick(place)]
        if not query.group_by:
            return
        wanted = {name: {"k": key[0], "g": key[1]}[name] for name in query.group_by}
        self.run.look(query.name, None, [key])
        try:
            one = to_answers(self.engine.lookup(query.name, keys=wanted), self.engine.workload, query.name)
            by_tuple = self.engine.lookup(query.name, keys=[tuple(wanted.values())])
            other = to_answers(by_tuple, self.engine.workload, query.name)
        except HistoryError:
            return
        oracle.assert_same_answers(one, other, wanted)

    @rule(text=sliding_queries())
    def add_sliding(self, text: str) -> None:
        self.run.step("add", text)

    @rule(data=st.data())
    def add_on_demand(self, data: st.DataObject) -> None:
        self.run.step("add", data.draw(on_demand_queries(self.using)))

    @precondition(lambda self: len(self.engine.workload.queries) > 1)
    @rule(place=PLACES)
    def remove(self, place: int) -> None:
        names = list(self.engine.workload.queries)
        name = names[place % len(names)]
        self.engine.remove(name)
        if self.reports is not None:
            self.reports.pop(name, None)
        self.of_rows.pop(name, None)

    @rule()
    def snapshot_and_restore(self) -> None:
        held = {name: self.engine.exact_from(name) for name in self.engine.workload.queries}
        self.run.step("snapshot")
        assert {name: self.engine.exact_from(name) for name in self.engine.workload.queries} == held
        # Changes are reported again, for all groups.
        self.reports = None

    @invariant()
    def is_sound(self) -> None:
        if not hasattr(self, "run"):
            return
        state = self.engine._streams["s"]
        state.structures.check_invariants()
        for generation in state.generations:
            for tree in generation.trees:
                tree.store.check_invariants()
        if any(column["switches"] for column in self.engine.statistics()["structures"]["s"]):
            event("a structure was switched")

    @property
    def on_demand(self) -> list[str]:
        return [name for name, query in self.engine.workload.queries.items() if not query.window.is_sliding]

    def pick(self, place: int) -> str:
        return self.on_demand[place % len(self.on_demand)]


def place_of(answer: oracle.Answer) -> tuple:
    group = tuple((name, identity(value)) for name, value in answer.group)
    return answer.window_start, answer.window_end, group, answer.item


@pytest.mark.parametrize("using", [None, *FORCED])
def test_programs(using: str | None) -> None:
    machine = type("ForcedProgram", (Program,), {"using": using})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=examples(12), stateful_step_count=20, deadline=None)
    )
