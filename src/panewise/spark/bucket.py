"""A bucket: the trees' stores for one share of the keys, and what a batch does to them.

It knows nothing of Spark. The stateful processor feeds it packed partials and a watermark; a batch job feeds it the
whole history and the end of the stream.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns

import numpy as np
import pyarrow as pa

from panewise.aggregates.components import Component, Kind
from panewise.engine.answers import QueryAnswers
from panewise.engine.changes import Changes, LastReport, last_instance
from panewise.engine.corrections import answers_beside, corrected_answers
from panewise.engine.cuts import cuts_of
from panewise.engine.generation import TreeState, time_answers
from panewise.engine.overflows import Overflows
from panewise.engine.wide_tables import Closed, beside_changes
from panewise.language.model import Query
from panewise.spark.fed_bases import FedBase, FedTree, next_slot
from panewise.spark.flow import Flow
from panewise.spark.job import Job
from panewise.spark.layouts import TableRows
from panewise.spark.observed import Observed, observed
from panewise.spark.packing import PackedPart, pack
from panewise.spark.slot_compaction import gathered_partials
from panewise.spark.tuple_bucket import TupleBucket
from panewise.windows import follows_events, is_unbounded
from panewise.windows.clock import END_OF_STREAM
from panewise.windows.instances import ends_of, last_ending
from panewise.windows.slots import most_lengths_of

_ROWS = Component(Kind.ROWS).column_names()[0]

TreeName = tuple[int, int]
"""The number of a base, and the number of a tree that it feeds."""


@dataclass
class Arrived:
    """A batch's partials: those on time, those that correct answers, and how many events were dropped."""

    timely: list[PackedPart] = field(default_factory=list)
    correcting: list[PackedPart] = field(default_factory=list)
    late_events: int = 0
    corrected_events: int = 0

    @property
    def kept(self) -> list[PackedPart]:
        """The partials to keep."""
        return [*self.timely, *self.correcting]


class Bucket:
    """The state of one bucket in a worker's memory."""

    def __init__(self, job: Job, overflows: Overflows | None = None) -> None:
        self._job = job
        self._overflows = overflows or Overflows()
        self._trees: dict[TreeName, TreeState] = {}
        self._changes: dict[str, Changes] | None = None
        """The last answers of each stream's queries, if only changes are reported; None while they are not known."""
        self.closed_us: int | None = None
        """Windows that end up to here are answered, here or elsewhere. What they needed may still be in memory."""
        self.overflown: dict[str, int] = {}
        """How many of the answers that were given last do not fit in 64 bits, by query."""
        self.tuples = TupleBucket(job.tuples, len(job.bucket_ids))
        """Its row queries."""
        self._spent_ns: Counter[TreeName] = Counter()
        self._shares_ns: Counter[str] = Counter()

    def take_shares_ns(self) -> dict[str, int]:
        """The time that went into each query's answers since this was last asked.

        The time of a tree, to take in partials and to close windows, counts for those of its queries that had answers,
        in proportion to these.
        """
        taken, self._shares_ns = dict(self._shares_ns), Counter()
        return taken

    @property
    def work(self) -> tuple[int, int]:
        """How many partials were fed to trees so far, and how many fragments and answers were folded."""
        stores = [state.store for state in self._trees.values()]
        return sum(store.fed for store in stores), sum(store.folded for store in stores)

    @property
    def live_rows(self) -> int:
        """How many partials the trees hold, and how many tuples wait."""
        return sum(state.store.live_rows for state in self._trees.values()) + self.tuples.live_rows

    def append(self, parts: Iterable[PackedPart]) -> None:
        """Take in partials: each feeds all trees of its base. Partials of a base that is gone are ignored.

        Tuples feed the row queries.
        """
        parts = list(parts)
        self.tuples.append(parts)
        for part in parts:
            if part.base in self._job.bases:
                live = self._job.bases[part.base]
                for tree in live.trees:
                    began = perf_counter_ns()
                    self._tree(live, tree).store.append(part.partials)
                    self._spent_ns[live.number, tree.tree.number] += perf_counter_ns() - began

    def correct(self, parts: Iterable[PackedPart]) -> None:
        """Take in partials that came late; they correct answers when windows next close."""
        for part in parts:
            live = self._job.bases[part.base]
            for tree in live.trees:
                self._tree(live, tree).add_late(part.partials)

    def observed(self, stream: str, flow: Flow, newest_us: int | None) -> Observed:
        """What was seen of a stream, by the trees of this bucket."""
        stores = [
            (live.base, tree.tree, self._trees[name].store)
            for name, live, tree in _named(self._job)
            if live.plan.stream.name == stream and name in self._trees
        ]
        return observed(flow, newest_us, stores, len(self._job.bucket_ids))

    def has_job(self, job: Job) -> bool:
        """Whether it works with exactly this job."""
        return job.changes == self._job.changes

    def adopt(self, job: Job, log: Callable[[], Iterable[list[PackedPart]]]) -> None:
        """Go on with a changed job; new trees are fed from the log."""
        before, self._job = self._job, job
        old = {name: tree for name, _, tree in _named(before)}
        fresh: dict[int, list[TreeState]] = {}
        states: dict[TreeName, TreeState] = {}
        for name, live, tree in _named(job):
            if name not in old or tree.queries.keys() - old[name].queries.keys():
                # Also if a query joined a tree: the log reaches further back than the tree does.
                states[name] = _state_of(live, tree)
                fresh.setdefault(live.number, []).append(states[name])
            elif name in self._trees:
                states[name] = self._trees[name]
                states[name].serve(tree.queries, tree.exact_from_us)
        self._trees = states
        self.tuples.adopt(job.tuples)
        if fresh:
            for parts in log():
                for part in parts:
                    for state in fresh.get(part.base, ()):
                        state.store.append(part.partials)
        self.resume(self.closed_us)

    def resume(self, closed_us: int | None, final_rows: Mapping[str, int] | None = None) -> None:
        """Go on after windows that end up to an instant were answered, here or elsewhere.

        `final_rows` are those of whole streams at that instant.
        """
        # A bucket that had nothing to close may be behind. Queries that came since report from the same instant.
        known = [time_us for time_us in (closed_us, self._job.since_us) if time_us is not None]
        self.closed_us = max(known, default=None)
        self._changes = None
        self._let_go()
        self.tuples.resume(self.closed_us, final_rows)

    def _let_go(self) -> None:
        """Drop the partials that no window ending after the last one answered covers."""
        if self.closed_us is not None and self.closed_us != END_OF_STREAM:
            for (base, _), state in self._trees.items():
                state.evict(self.closed_us - self._job.bases[base].kept_longer_us)

    def arrived(self, parts: Iterable[PackedPart], watermark_us: int | None) -> Arrived:
        """Sort a batch's partials by whether their slot is wholly behind the watermark.

        A slot that is only partly behind belongs to no closed window, so its events still count. Events further behind
        correct answers if the stream asks for it; else they are dropped.
        """
        found = Arrived()
        for part in parts:
            live = self._job.bases[part.base]
            if watermark_us is None:
                found.timely.append(part)
                continue
            ends = (np.asarray(part.partials.column("slot")) + 1) * live.base.granularity
            timely = ends > watermark_us
            counts = part.base in self._job.counting_bases
            events = np.asarray(part.partials.column(_ROWS))
            correcting = ~timely & (ends > watermark_us - live.plan.stream.correct_us)
            if correcting.any():
                found.correcting.append(_chosen(part, correcting))
                found.corrected_events += int(events[correcting].sum()) if counts else 0
            if timely.any():
                found.timely.append(part if timely.all() else _chosen(part, timely))
            if counts:
                found.late_events += int(events[~timely & ~correcting].sum())
        return found

    def closing(self, watermark_us: int) -> Iterator[Closed]:
        """The answers of the windows that the watermark closes, in parts that follow each other in time.

        With the first part come the answers that late events corrected. What is no longer needed is forgotten.
        """
        corrections = self._corrections()
        if self._changes is not None:
            for changes in self._changes.values():
                changes.correct(corrections.reported)
        self.overflown = {}
        self._count_overflows(corrections.reported)
        if self.closed_us is not None and watermark_us <= self.closed_us:
            yield corrections
            return
        for cut_us in cuts_of(list(self._trees.values()), self.closed_us, watermark_us):
            closed = self._close(cut_us)
            yield Closed([*corrections.reported, *closed.reported], [*corrections.every, *closed.every])
            corrections = Closed([], [])

    def closing_tuples(self, watermark_us: int) -> Iterator[TableRows | Closed]:
        """The rows that the watermark completes, and the answers of substreams; after `closing`."""
        for closed in self.tuples.closing(watermark_us):
            if isinstance(closed, Closed):
                self._count_overflows(closed.reported)
            yield closed

    def rows_of(self, closed: TableRows | Closed, place: int) -> list[TableRows]:
        """What closed as rows of tables. `place` is this bucket's among all.

        Where rows of a table are merged, those that need no merging are spread over the places.
        """
        if isinstance(closed, TableRows):
            return [closed]
        return [rows._replace(part=place) for rows in self._job.layout.rows(closed)]

    def _close(self, until_us: int) -> Closed:
        """The answers of the windows that end up to a time."""
        if self._job.changed_only and self._changes is None:
            self._changes = self._last_answers()
        seen = None
        if self._changes is not None:
            seen = {name: last for changes in self._changes.values() for name, last in changes.seen.items()}
        answers = [answer for name in self._trees for answer in self._closed(name, until_us, seen)]
        self._count_overflows(answers)
        closed = Closed(answers, answers)
        if self._changes is not None:
            changed = self._changed(self._changes, answers, until_us)
            closed = Closed(changed, self._beside(changed, answers))
        self.closed_us = until_us
        self._let_go()
        return closed

    def _beside(self, changed: list[QueryAnswers], answers: list[QueryAnswers]) -> list[QueryAnswers]:
        """The answers of families that have a change, at its windows and groups."""
        kept: list[QueryAnswers] = []
        for family in self._job.layout.families:
            stream = self._job.workload.streams[family.queries[0].stream]
            kept += beside_changes(stream, [family], changed, answers)
        return kept

    def _closed(self, name: TreeName, watermark_us: int, seen: dict[str, LastReport] | None) -> list[QueryAnswers]:
        """The answers of a tree's windows that the watermark closes, and what they took.

        `seen` has the last report of each query whose answers are known, if only changes are reported.
        """
        began = perf_counter_ns()
        state = self._trees[name]
        after_us, until_us = (self._in_slots(name[0], time_us) for time_us in (self.closed_us, watermark_us))
        assert until_us is not None
        answers = list(time_answers(state, after_us, until_us, seen, self._together(state)))
        self._spent_ns[name] += perf_counter_ns() - began
        rows = sum(map(len, answers))
        if rows:
            spent_ns = self._spent_ns.pop(name)
            for answer in answers:
                self._shares_ns[answer.query.name] += spent_ns * len(answer) // rows
        return answers

    def _in_slots(self, base: int, time_us: int | None) -> int | None:
        """The beginning of a time's slot, which may still get events; windows of fixed lengths end there anyway."""
        if time_us is None or time_us == END_OF_STREAM:
            return time_us
        granularity = self._job.bases[base].base.granularity
        return time_us // granularity * granularity

    def _together(self, state: TreeState) -> list[list[str]]:
        """The names of queries that stand in one table; in the long table each query stands by itself."""
        families = [[query.name for query in family.queries] for family in self._job.layout.families]
        in_families = {name for family in families for name in family}
        return [*families, *([name] for name in state.queries if name not in in_families)]

    def newest_us(self, parts: Iterable[PackedPart]) -> dict[int, int]:
        """For each base of some partials or tuples that still exists, when its newest slot begins."""
        parts = list(parts)
        newest = self.tuples.newest_us(parts)
        for part in parts:
            live = self._job.bases.get(part.base)
            if live is not None:
                start_us = int(np.asarray(part.partials.column("slot")).max()) * live.base.granularity
                newest[part.base] = max(newest.get(part.base, -(2**63)), start_us)
        return newest

    def is_expired(self, newest_us: dict[int, int], closed_us: int | None) -> bool:
        """Whether no window needs partials with these newest slots, once windows have closed up to an instant."""
        if closed_us is None:
            return False
        if any(base in self._job.bases and self._job.bases[base].gathers for base in newest_us):
            return False
        return self._is_aged(newest_us, closed_us)

    @property
    def gathers(self) -> bool:
        """Whether some window goes back to the start."""
        return any(base.gathers for base in self._job.bases.values())

    def is_aged(self, newest_us: Mapping[int, int], closed_us: int | None) -> bool:
        """Whether only windows that go back to the start need partials with these newest slots."""
        bases = self._job.bases
        if closed_us is None or not any(base in bases and bases[base].gathers for base in newest_us):
            return False
        return self._is_aged(newest_us, closed_us)

    def _is_aged(self, newest_us: Mapping[int, int], closed_us: int) -> bool:
        bases = self._job.bases
        return all(
            (base not in bases or start_us + bases[base].retention_us <= closed_us)
            and not self.tuples.needs(base, start_us, closed_us)
            for base, start_us in newest_us.items()
        )

    def next_end_us(self) -> int | None:
        """The next end of a window of some tree that holds partials, or of row queries; None if nothing is held."""
        of_tuples = self.tuples.next_end_us()
        ends = [] if of_tuples is None else [of_tuples]
        for state in self._trees.values():
            if not state.store.live_rows:
                continue
            for planned in state.queries.values():
                window = planned.query.window
                if self.closed_us is None:
                    return -(2**63)
                if is_unbounded(window) and not self._has_since(state, self.closed_us):
                    continue
                if follows_events(window):
                    ends.append(next_slot(self.closed_us + 1, state.tree.granularity))
                    continue
                ends.append(ends_of(window, last_ending(window, self.closed_us) + 1))
        return min(ends, default=None)

    @staticmethod
    def _has_since(state: TreeState, closed_us: int) -> bool:
        """Whether a tree holds partials from a time on."""
        extent = state.store.extent()
        return extent is not None and extent.last + state.tree.granularity > closed_us

    def gathered_parts(self, parts: Iterable[PackedPart]) -> list[PackedPart]:
        """Partials of bases that go back to the start, from slots that no other window needs, one for each key."""
        by_base: dict[int, list[PackedPart]] = {}
        for part in parts:
            if part.base in self._job.bases and self._job.bases[part.base].gathers:
                by_base.setdefault(part.base, []).append(part)
        made: list[PackedPart] = []
        for base, some in by_base.items():
            made += gathered_partials(self._job.bases[base], some)
        return made

    def _count_overflows(self, answers: Sequence[QueryAnswers]) -> None:
        self._overflows.take(answers)
        for answer in answers:
            if answer.overflows:
                name = answer.query.name
                self.overflown[name] = self.overflown.get(name, 0) + answer.overflows

    def _tree(self, live: FedBase, tree: FedTree) -> TreeState:
        name = live.number, tree.tree.number
        if name not in self._trees:
            self._trees[name] = _state_of(live, tree)
        return self._trees[name]

    def _corrections(self) -> Closed:
        """Answers that were reported before and that late events have changed, and those of families beside them."""
        corrected: list[QueryAnswers] = []
        reports_after_us: dict[str, int | None] = {}
        for name, _, tree in _named(self._job):
            if name in self._trees:
                state = self._trees[name]
                corrected += corrected_answers(
                    state, self.closed_us, tree.reports_after_us, changed_only=self._job.changed_only
                )
                state.settle_late()
                reports_after_us |= tree.reports_after_us
        if not corrected:
            return Closed([], [])
        families = self._job.layout.families
        return Closed(corrected, answers_beside(self._trees.values(), families, corrected, reports_after_us))

    def _changed(self, changes: dict[str, Changes], answers: list[QueryAnswers], closed_us: int) -> list[QueryAnswers]:
        """Of the answers up to `closed_us`, those that differ from the window before."""
        changed = []
        for name, queries in self._queries().items():
            last = {query.name: last_instance(query.window, closed_us) for query in queries.values()}
            # A stream's first partials may come after other windows have closed.
            known = changes.setdefault(name, Changes(self._job.workload.streams[name]))
            changed += known.only((part for part in answers if part.query.name in queries), last, queries)
        return changed

    def _last_answers(self) -> dict[str, Changes]:
        """The last answers of each query, from the windows that closed last."""
        changes: dict[str, Changes] = {}
        if self.closed_us is not None:
            answers: list[QueryAnswers] = []
            for name, _, tree in _named(self._job):
                # No session is compared with the one before, and what goes back to the start has changed.
                if (
                    name not in self._trees
                    or tree.tree.session_gap_us
                    or tree.tree.is_unbounded
                    or tree.tree.is_punctuated
                ):
                    continue
                slide = max(most_lengths_of(planned.query.window)[1] for planned in tree.queries.values())
                for answer in time_answers(self._trees[name], self.closed_us - slide, self.closed_us):
                    after_us = tree.reports_after_us[answer.query.name]
                    reported = slice(None) if after_us is None else answer.ends_us > after_us
                    answers.append(answer.from_rows(np.arange(len(answer))[reported]))
            self._changed(changes, answers, self.closed_us)
        return changes

    def _queries(self) -> dict[str, dict[str, Query]]:
        """The queries at work, by stream and name."""
        found: dict[str, dict[str, Query]] = {}
        for state in self._trees.values():
            for name, planned in state.queries.items():
                found.setdefault(planned.query.stream, {})[name] = planned.query
        return found


def _named(job: Job) -> Iterator[tuple[TreeName, FedBase, FedTree]]:
    for live in job.bases.values():
        for tree in live.trees:
            yield (live.number, tree.tree.number), live, tree


def _state_of(live: FedBase, tree: FedTree) -> TreeState:
    state = TreeState(live.plan, tree.tree, live.held_from_us)
    state.serve(tree.queries, tree.exact_from_us)
    return state


def _chosen(part: PackedPart, rows: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> PackedPart:
    partials = part.partials.filter(pa.array(rows))
    return PackedPart(part.base, pack(partials), partials)
