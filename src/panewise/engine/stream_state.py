"""The state of one stream: its watermark, the generations of sliding queries, and the event log if one is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pyarrow as pa

from panewise.arrays import Ints
from panewise.engine.answers import QueryAnswers
from panewise.engine.as_of.answers import answers_at
from panewise.engine.aside import LATE, Aside
from panewise.engine.changes import Changes, last_instance, time_bounds
from panewise.engine.corrections import answers_beside, corrected_answers
from panewise.engine.cuts import cuts_of
from panewise.engine.event_log import EventLog, Retention, one_batch
from panewise.engine.families import Family, families_of
from panewise.engine.generation import Generation, TreeState, decided, time_answers
from panewise.engine.lookup import arrays_of, lookup_answers, structure_arrays
from panewise.engine.on_demand.kernel_answers import Arrays
from panewise.engine.on_demand.served import labelled_aggregates
from panewise.engine.on_demand.shared_structures import EventStructures, Keys
from panewise.engine.overflows import Overflows, found_in
from panewise.engine.running_totals import RunningTotals
from panewise.engine.substream_reports import SubstreamReports, partition_of
from panewise.engine.taken_over import take_over
from panewise.engine.wide_tables import Closed, beside_changes
from panewise.engine.within import TimeGrams
from panewise.errors import ArgumentError, HistoryError, PanewiseError, QueryKindError, WatermarkError
from panewise.language.model import Query, Stream
from panewise.planning.cost import Prices
from panewise.planning.drift import FEW_QUERIES, MOST_GENERATIONS, is_beyond, is_due, is_worth_a_look
from panewise.planning.having import plan_having
from panewise.planning.memory import too_many_answers
from panewise.planning.optimize import plan_stream
from panewise.planning.structure_choice import Rates, choose_structure, within_plan
from panewise.planning.trees import Clock
from panewise.windows import RowWindow, Window, follows_events, is_unbounded, reports_by_substream
from panewise.windows.clock import END_OF_STREAM, LAST_US, show_time
from panewise.windows.instances import oldest_slot_needed


@dataclass(frozen=True)
class Staged:
    """What an advance found, before it counts as reported."""

    closed: list[Closed]
    until_us: int
    rows: int
    changes: Changes | None
    overflown: list[tuple[Query, int]]


class StreamState:
    """Everything that an engine holds for one stream."""

    def __init__(self, stream: Stream, queries: list[Query], prices: Prices | None = None) -> None:
        self.stream = stream
        self.prices = prices or Prices()
        self.watermark_us: int | None = None
        self.marked_us: int | None = None
        """The last watermark that is a time: END_OF_STREAM is none."""
        self.closed_us: int | None = None
        """Windows that end up to here have been reported; this is behind the watermark only if a closing failed."""
        self.closed_rows = 0
        self.newest_us: int | None = None
        self.oldest_us: int | None = None
        self.accepted = 0
        self.pushes = 0
        """How many pushes brought the accepted events."""
        self.late = 0
        self.aside = Aside(stream)
        self.overflows = Overflows()
        self.corrected = 0
        """How many events came late and corrected answers."""
        self.generations: list[Generation] = []
        self.on_demand: dict[str, Query] = {}
        self.substreams: list[SubstreamReports] = []
        """The queries that report each substream by itself, those of the same PARTITION BY together."""
        self.since_us: dict[str, int | None] = {}
        self.reports_after_us: dict[str, int | None] = {}
        """Of each sliding query, the end of the last window that closed before the query was there."""
        self.log: EventLog | None = None
        self.read: frozenset[str] = frozenset()
        """The queries whose answers other queries read."""
        self.changes: Changes | None = None
        """The last answers of sliding queries, once somebody asked for changes."""
        self.within = TimeGrams(stream)
        self.totals = RunningTotals(stream)
        self.structures = EventStructures(stream)
        self.changes_unchecked = 0
        """How many sliding queries came and went since the plan was compared with a fresh one."""
        self.known_cost: float | None = None
        """What a fresh plan cost at that comparison, or the plan before the first change."""
        self.has_changed = False
        """Whether sliding queries came or went after the start."""
        self.replans = 0
        """How often queries were planned anew."""
        self.replanned_us: int | None = None
        """The newest time that was known when queries were last planned anew."""
        self.learned_at = 0
        """How many events there were when rates and groups were last looked at."""
        self._row_times = np.empty(0, np.int64)
        """The times of the final rows from position `_row_times_from` on, as long as a row window may start there."""
        self._row_times_from = 0
        self._families: dict[str, Family] | None = None
        self.add(queries)
        self.changes_unchecked, self.has_changed = 0, False

    def push(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take in events, and return those that are on time.

        Events behind the watermark are dropped and counted, or correct answers if the stream asks for it.
        """
        times = np.asarray(batch.column(self.stream.timestamp))
        if self.watermark_us is not None:
            on_time = times >= self.watermark_us
            if not on_time.all():
                self._take_late(batch.filter(pa.array(~on_time)), times[~on_time])
                batch = batch.filter(pa.array(on_time))
                times = times[on_time]
        if not len(times):
            return batch
        for generation in self.generations:
            if generation.has(Clock.TIME):
                generation.append(batch, Clock.TIME, times)
        if self.log is not None:
            self.log.append(batch)
        self.accepted += len(times)
        self.pushes += 1
        self.newest_us = max(int(times.max()), self.newest_us if self.newest_us is not None else -(2**63))
        self.oldest_us = min(int(times.min()), self.oldest_us if self.oldest_us is not None else 2**63 - 1)
        return batch

    def _take_late(self, batch: pa.RecordBatch, times: Ints) -> None:
        """Let late events correct the windows of time that cover them, as far as the stream asks for it."""
        assert self.watermark_us is not None
        correcting = times >= self.watermark_us - self.stream.correct_us
        if not any(generation.has(Clock.TIME) for generation in self.generations):
            correcting[:] = False
        self.aside.put(LATE, batch.filter(pa.array(~correcting)))
        self.late += len(times) - int(correcting.sum())
        if correcting.any():
            self.corrected += int(correcting.sum())
            batch, times = batch.filter(pa.array(correcting)), times[correcting]
            for generation in self.generations:
                if generation.has(Clock.TIME):
                    generation.append(batch, Clock.TIME, times, late=True)

    def cuts(self, watermark_us: int) -> list[int]:
        """Where to stop on the way to a watermark, so that what closes at once stays small."""
        return cuts_of(list(self._trees(Clock.TIME)), self.closed_us, watermark_us)

    def begin(self, from_us: int, marked_us: int | None) -> None:
        """Begin a stream whose events before some time are missing; windows that begin earlier are not reported."""
        self.watermark_us = self.closed_us = from_us
        self.marked_us = marked_us

    def stage(self, until_us: int, *, changed_only: bool = False, most_bytes: int | None = None) -> Staged:
        """Move the watermark, and find the answers of the windows up to it; `commit` makes them count as reported.

        When an answer fails (a sum that does not fit, of a query with ON OVERFLOW ERROR), or the answers need more than
        `most_bytes`, the watermark has moved but nothing counts as reported: remove the query that failed and advance
        again, to the same watermark, and the other answers come. So it is if what is staged is not committed.
        """
        # One who follows the closing may have advanced further meanwhile.
        until_us = until_us if self.closed_us is None else max(until_us, self.closed_us)
        self.watermark_us = until_us if self.watermark_us is None else max(until_us, self.watermark_us)
        if self.watermark_us != END_OF_STREAM:
            self.marked_us = self.watermark_us
        if self.log is not None:
            self._finalize_rows(self.watermark_us)
        rows = self.log.final_count if self.log is not None else 0
        cuts = self.cuts(until_us)
        changes = self.changes
        if changes is None:
            changes = Changes(self.stream) if changed_only else None
        elif len(cuts) > 1 or self.read or self.stream.is_of_answers:
            # A later part, or another stream of the chain, may fail.
            changes = changes.fork()
        overflown: list[tuple[Query, int]] = []
        try:
            corrections = self._corrections(changed_only)
            overflown += found_in(corrections.reported)
            closed = list(self._closing(cuts, rows, corrections, changes, changed_only, most_bytes, overflown))
        except PanewiseError:
            self.roll_back()
            raise
        return Staged(closed, until_us, rows, changes, overflown)

    def roll_back(self) -> None:
        """Forget what was staged; the watermark stays where it is."""
        for state in self._trees(Clock.TIME):
            state.undo_late()

    def commit(self, staged: Staged) -> None:
        """Let staged answers count as reported, and let go what nobody needs any more."""
        for state in self._trees(Clock.TIME):
            state.settle_late()
        for query, count in staged.overflown:
            self.overflows.add(query, count)
        for reports in self.substreams:
            reports.settle()
        self.closed_us = staged.until_us
        self.closed_rows = staged.rows
        self.changes = staged.changes
        self._hand_over()
        self._let_go(self._trees(Clock.TIME))
        self.learn()

    def check_changes(self) -> None:
        """Refuse to report changes alone where no window is before another for all groups."""
        if self.substreams:
            name = next(iter(self.substreams[0].queries))
            raise ArgumentError(
                f"query {name} reports each substream when it has its next rows, and not as time passes: advance "
                f"without changed_only, or give the query an engine of its own"
            )

    def check_watermark(self, watermark_us: int) -> None:
        """Refuse a watermark that goes back."""
        if self.watermark_us is not None and watermark_us < self.watermark_us:
            raise WatermarkError(
                f"stream {self.stream.name}: the watermark stands at {show_time(self.watermark_us)} and cannot go back "
                f"to {show_time(watermark_us)}"
            )

    def _corrections(self, changed_only: bool) -> Closed:
        """The answers that late events correct, and those of their families at the same places."""
        trees = list(self._trees(Clock.TIME))
        corrected = [
            answer
            for state in trees
            for answer in corrected_answers(state, self.closed_us, self.reports_after_us, changed_only=changed_only)
        ]
        if not corrected:
            return Closed([], [])
        beside = answers_beside(trees, self.families.values(), corrected, self.reports_after_us)
        return Closed(corrected, beside)

    def _closing(
        self,
        cuts: list[int],
        rows: int,
        corrections: Closed,
        changes: Changes | None,
        changed_only: bool,
        most_bytes: int | None,
        overflown: list[tuple[Query, int]],
    ) -> Iterator[Closed]:
        """The answers up to each cut, and with the first of them the corrections. Those that do not fit are noted."""
        after_us, total = self.closed_us, 0
        if changes is not None:
            changes.correct(corrections.reported)
        for cut_us in cuts:
            is_last = cut_us == cuts[-1]
            seen = changes.seen if changes is not None and changed_only else None
            # Whoever reads the answers of a query needs those of all its groups.
            together = [] if seen is None else [names for names in self._together if self.read.isdisjoint(names)]
            answers = [
                part
                for state in self._trees(Clock.TIME)
                for part in time_answers(state, after_us, cut_us, seen, together)
            ]
            if is_last:
                answers += [part for state in self._trees(Clock.ROWS) for part in self._row_answers(state, rows)]
            overflown += found_in(answers)
            reported = every = answers
            if changes is not None:
                # Once changes are followed, every answer must be seen; otherwise the next one would be compared with
                # an old one.
                changed = self._changed(changes, answers, cut_us, rows if is_last else self.closed_rows)
                if changed_only:
                    reported = changed
                    every = beside_changes(self.stream, self.families.values(), changed, answers)
            if is_last:
                of_substreams = [part for reports in self.substreams for part in reports.answers()]
                overflown += found_in(of_substreams)
                reported, every = [*reported, *of_substreams], [*every, *of_substreams]
            read = [part for part in answers if part.query.name in self.read]
            if is_last and self.read:
                read += [part for part in of_substreams if part.query.name in self.read]
            closed = Closed([*corrections.reported, *reported], [*corrections.every, *every], read)
            if most_bytes is not None and len(cuts) > 1:
                more = closed.nbytes
                total += more
                if total + (0 if is_last else more) > most_bytes:
                    raise too_many_answers(self.stream.name, total, cut_us, most_bytes)
            yield closed
            corrections, after_us = Closed([], []), cut_us

    @property
    def families(self) -> dict[str, Family]:
        """The families of the sliding queries at work."""
        if self._families is None:
            at_work = (planned.query for clock in Clock for s in self._trees(clock) for planned in s.queries.values())
            self._families = families_of(at_work)
        return self._families

    @property
    def _together(self) -> list[list[str]]:
        """The names of queries that stand in one table."""
        return [[query.name for query in family.queries] for family in self.families.values()]

    def _changed(
        self, changes: Changes, answers: list[QueryAnswers], closed_us: int, closed_rows: int
    ) -> list[QueryAnswers]:
        queries = {
            name: planned.query for clock in Clock for s in self._trees(clock) for name, planned in s.queries.items()
        }
        last = {
            name: last_instance(query.window, closed_rows if isinstance(query.window, RowWindow) else closed_us)
            for name, query in queries.items()
        }
        return changes.only(answers, last, queries, self._bounds)

    def lookup(self, query: Query, at_us: int | None, keys: Keys | None = None) -> QueryAnswers:
        """Answer an on-demand query at a time, or now: at the newest event or the watermark, whichever is later.

        With `keys`, only for these groups. Of sessions and windows from one event to another, it is the one that the
        time lies in, as it stands.
        """
        if follows_events(query.window):
            answers = self._standing(query, at_us, keys)
            self.overflows.add(query, answers.overflows)
            return answers
        assert self.log is not None
        at_us = self.now_us if at_us is None else at_us
        since_us = self.since_us[query.name]
        if query.name in self.totals:
            answers = self.totals.lookup(query, self.log, at_us, keys)
            self.overflows.add(query, answers.overflows)
            return answers
        answers = lookup_answers(self.stream, query, self.log, at_us, since_us, self.within, self.structures, keys)
        self.overflows.add(query, answers.overflows)
        return answers

    def _standing(self, query: Query, at_us: int | None, keys: Keys | None) -> QueryAnswers:
        """The answers of the windows that follow events, and are not over at a time."""
        now_us = self.now_us
        if at_us is not None and now_us is not None and at_us < now_us:
            raise HistoryError(
                f"query {query.name} is looked up as it stands, from {show_time(now_us)} on; {show_time(at_us)} is "
                f"before: leave out the time, or ask panewise.training_set for answers of the past"
            )
        at_us = now_us if at_us is None else at_us
        if self.watermark_us == END_OF_STREAM or at_us is None:
            # Every window has been reported.
            at_us = LAST_US
        home = next(generation for generation in self.generations if query.name in generation.active)
        state = home.active[query.name]
        columns = None if keys is None else [keys[name] for name in state.tree.group_by]
        closed = state.standing(query.name, at_us, columns)
        return closed.answers(*closed.fold.bounds(query.window))

    def lookup_many(self, query: Query, at_us: int | None, keys: Keys) -> Arrays:
        """The answers of some groups as arrays, masked where a group has no answer or the answer is NULL."""
        if follows_events(query.window):
            return arrays_of(self.lookup(query, at_us, keys), keys)
        assert self.log is not None
        at_us = self.now_us if at_us is None else at_us
        found = None
        if at_us is not None and query.name not in self.totals:
            found = structure_arrays(self.structures, query, self.log, at_us, self.since_us[query.name], keys)
        if found is None:
            return arrays_of(self.lookup(query, at_us, keys), keys)
        arrays, overflows = found
        self.overflows.add(query, overflows)
        return arrays

    def lookup_at(self, query: Query, times_us: Ints, keys: Keys) -> Arrays:
        """The answers of some groups, each at its own time, as arrays that are masked where there is no answer."""
        if follows_events(query.window):
            raise QueryKindError(
                f"query {query.name} is looked up as it stands now, with lookup or lookup_many; for answers at many "
                f"times ask panewise.training_set"
            )
        assert self.log is not None
        if query.name in self.totals:
            arrays, overflows = self.totals.lookup_at(query, self.log, times_us, keys)
            self.overflows.add(query, overflows)
            return arrays
        since_us, events = self.since_us[query.name], self.log.events
        if len(times_us):
            # The earliest one needs the oldest events.
            self.log.covered_range(query.window, int(times_us.min()), since_us)
        if since_us is not None:
            events = events.slice(int(self.log.times.searchsorted(since_us)))
        (found,) = answers_at(self.stream, [query], one_batch(events), times_us, keys)
        self.overflows.add(query, found.overflows)
        return {
            label: np.ma.MaskedArray(found.columns[call].values, ~found.columns[call].valid)
            for label, call in labelled_aggregates(query)
        }

    @property
    def now_us(self) -> int | None:
        """The time of a lookup that names none."""
        known = [time for time in (self.newest_us, self.marked_us) if time is not None]
        return max(known, default=None)

    @property
    def unseen_from_us(self) -> int | None:
        """The time from which all events are still to come; None if there has been no event yet."""
        newest_us = None if self.newest_us is None else self.newest_us + 1
        return max((time for time in (newest_us, self.watermark_us) if time is not None), default=None)

    def add(self, queries: list[Query]) -> None:
        """Start answering more queries."""
        self._families = None
        remaining = []
        for query in queries:
            if not query.window.is_sliding:
                self._add_on_demand(query)
                continue
            if reports_by_substream(query.window):
                self._add_by_substream(query)
                continue
            self.reports_after_us[query.name] = self.closed_us
            self._note_change()
            if not any(generation.adopt(query) for generation in self.generations):
                remaining.append(query)
        if not remaining:
            return
        if any(isinstance(query.window, RowWindow) for query in remaining):
            self._open_log()
        held_from = self._held_from_now()
        for generation in self.generations:
            remaining = generation.grow(remaining, held_from)
        if remaining:
            self.generations.append(Generation(self.stream, remaining, held_from, self.prices))

    def remove(self, name: str) -> None:
        """Stop answering a query; `free` then drops what only it needed."""
        self.overflows.forget(name)
        self._families = None
        if self.on_demand.pop(name, None) is not None:
            del self.since_us[name]
            self.within.remove(name)
            self.totals.remove(name)
            self.structures.remove(name)
        elif (home := self._home_of(name)) is not None:
            home.remove(name)
            self.substreams = [reports for reports in self.substreams if reports.queries]
        else:
            del self.reports_after_us[name]
            self._note_change()
            for generation in self.generations:
                generation.remove(name)
            if self.changes is not None:
                self.changes.forget(name)
            self.generations = [generation for generation in self.generations if not generation.is_empty]
        if not (self.on_demand or self.substreams or any(self._trees(Clock.ROWS))):
            self.log = None

    @property
    def cost(self) -> float:
        """Operations per second of the plan at work."""
        return sum(generation.cost for generation in self.generations)

    @property
    def fresh_cost(self) -> float:
        """Operations per second of a plan made now for the same queries. Cost: planning."""
        return self.prices.stream(plan_stream(self.stream, self._active, self.prices))

    @property
    def _active(self) -> list[Query]:
        return [state.queries[name].query for g in self.generations for name, state in g.active.items()]

    @property
    def _movable(self) -> list[Query]:
        """The queries that another generation can take over: what goes back to the start stays where it is."""
        return [query for query in self._active if not is_unbounded(query.window)]

    def _note_change(self) -> None:
        if self.known_cost is None and self.generations:
            self.known_cost = self.cost
        self.changes_unchecked += 1
        self.has_changed = True

    def plan_changed(self) -> None:
        """Compare the plan with a fresh one where nobody waits long for it; otherwise the next advance does."""
        if self._is_unused or len(self.reports_after_us) <= FEW_QUERIES:
            self.check_plan()

    def check_plan(self) -> None:
        """Plan all queries anew if the plan at work costs more than the tolerance allows.

        A plan of many queries is compared with a fresh one after a share of them has changed.
        """
        if not self.changes_unchecked or self._is_moving:
            return
        cost = self.cost
        if is_due(self.prices, self.changes_unchecked, len(self.reports_after_us), cost, self.known_cost):
            self._compare(cost)

    def _compare(self, cost: float) -> None:
        self.changes_unchecked, self.known_cost = 0, self.fresh_cost
        fresh, movable = self.known_cost, self._movable
        if not self._is_unused and len(movable) < len(self._active):
            # What stays where it is costs the same in both plans.
            cost = sum(generation.movable_cost for generation in self.generations)
            fresh = self.prices.stream(plan_stream(self.stream, movable, self.prices))
        if is_beyond(self.prices, cost, fresh):
            self._plan_anew()

    def learn(self) -> None:
        """Plan with the rate and the groups that were seen, and anew if the plan is then beyond the tolerance."""
        if not is_worth_a_look(self.accepted, self.learned_at) or self._is_moving:
            return
        self.learned_at = self.accepted
        self.prices = self._observed()
        for generation in self.generations:
            generation.prices = self.prices
        if self.prices.tolerance != inf and self.reports_after_us:
            self._compare(self.cost)

    @property
    def seen_rate(self) -> float | None:
        """Events a second of event time; None before there are two times."""
        if self.oldest_us is None or self.newest_us is None or self.oldest_us == self.newest_us:
            return None
        return self.accepted / ((self.newest_us - self.oldest_us) / 1e6)

    def _observed(self) -> Prices:
        """What planning is told, with what was seen in place of what was said or assumed."""
        groups, seen, combinations = dict(self.prices.groups), dict(self.prices.seen), self.prices.combinations
        for generation in self.generations:
            for state in generation.trees:
                combinations = max(combinations, state.store.combinations)
                if state.store.live_keys and state.tree.group_by:
                    seen[state.tree.group_by] = state.store.live_keys
                    groups.update(zip(state.tree.group_by, state.store.count_values()))
        rate = self.seen_rate or self.prices.rate
        return replace(self.prices, rate=rate, groups=groups, seen=seen, combinations=combinations)

    def _plan_anew(self) -> None:
        """Open a generation for all queries, which takes over what the others hold.

        Queries whose windows follow events move once it has seen what their next windows cover.
        """
        is_unused, held_from = self._is_unused, self._held_from_now()
        queries = self._active if is_unused else self._movable
        fresh = Generation(self.stream, queries, held_from, self.prices, waits=not is_unused)
        if is_unused:
            self.generations = [fresh]
        else:
            take_over(fresh, self.generations, held_from)
            self.generations = [generation for generation in (*self.generations, fresh) if not generation.is_empty]
        self.replans += 1
        self.replanned_us = self.now_us
        self.changes_unchecked = 0

    @property
    def _is_moving(self) -> bool:
        """Whether queries wait for others to hand over, or late events may still be taken out of a store."""
        return any(state.waiting or state.is_staged for one in self.generations for state in one.trees)

    @property
    def _is_unused(self) -> bool:
        return self.newest_us is None and self.watermark_us is None

    def free(self) -> None:
        """Drop what no query needs any more."""
        if self.closed_us is not None:
            self._let_go([state for state in self._trees(Clock.TIME) if state.has_lost_window])

    def exact_from(self, name: str) -> int | None:
        """Where a query begins to see every event: a time, or a position for ROWS ... SLIDE; None: the beginning."""
        if name in self.since_us:
            return self.since_us[name]
        home = self._home_of(name)
        if home is not None:
            return home.exact_from_us(name)
        return next(
            state.exact_from[name]
            for generation in self.generations
            for state in generation.trees
            if name in state.queries
        )

    @property
    def row_times(self) -> tuple[Ints, int]:
        """The times of final rows that a row window may still start at, and the position of the first of them."""
        return self._row_times, self._row_times_from

    @row_times.setter
    def row_times(self, value: tuple[Ints, int]) -> None:
        self._row_times, self._row_times_from = value

    def _trees(self, clock: Clock) -> Iterator[TreeState]:
        return (s for generation in self.generations for s in generation.trees if s.tree.clock is clock)

    def _add_on_demand(self, query: Query) -> None:
        self._open_log()
        assert self.log is not None
        self.on_demand[query.name] = query
        self.since_us[query.name] = self.log.complete_from_us
        if is_unbounded(query.window):
            self.totals.add(query, self.log.complete_from_us, self.log)
        self.follow_within(query)
        self.build_structures(query)

    def _add_by_substream(self, query: Query) -> None:
        """Let substreams report a query, with what is held for another one with the same PARTITION BY."""
        self._open_log()
        assert self.log is not None
        home = next((one for one in self.substreams if one.partition_by == partition_of(query)), None)
        if home is None:
            marks = [time for time in (self.log.starts_us, self.watermark_us) if time is not None]
            home = SubstreamReports(self.stream, partition_of(query), max(marks, default=None))
            self.substreams.append(home)
        home.add(query, self.watermark_us)

    def _home_of(self, name: str) -> SubstreamReports | None:
        """Where substreams report a query, if it is such a query."""
        return next((reports for reports in self.substreams if name in reports.queries), None)

    def follow_within(self, query: Query) -> None:
        """Let TimeGrams answer an on-demand query with WITHIN, if its plan says so."""
        plan = within_plan(self.stream, query, self.prices.rate)
        if plan is not None and plan.buckets is not None:
            self.within.add(query, plan)

    def build_structures(self, query: Query) -> None:
        """Let structures answer an on-demand query, and an index find its groups, if its plan says so."""
        rates = Rates.assumed(self.prices.rate, self.prices.groups_of(query.group_by))
        plan = choose_structure(self.stream, query, rates)
        self.structures.add(query, plan, plan_having(self.stream, query, rates.updates_per_s, plan.reads_log))

    def _open_log(self) -> None:
        if self.log is None:
            self.log = EventLog(self.stream)
            self.closed_rows = 0
            self._row_times, self._row_times_from = np.empty(0, np.int64), 0
            if self.accepted or self.watermark_us is not None:
                # Rows up to the newest event may be missing, and later events may still take places among them.
                starts_us = max(t for t in (self.newest_us, self.watermark_us) if t is not None) + 1
                self.log.starts_us = self.log.complete_from_us = starts_us

    def _finalize_rows(self, watermark_us: int) -> None:
        """Give positions to the events that became final, and combine them into the trees that count rows."""
        assert self.log is not None
        first = self.log.final_count
        fresh = self.log.advance(watermark_us)
        self.within.append(fresh, first, self.log)
        self.totals.append(fresh)
        self.structures.append(self.log)
        for reports in self.substreams:
            reports.take(fresh)
        if not any(self._trees(Clock.ROWS)):
            self._row_times, self._row_times_from = self._row_times[:0], self.log.final_count
            return
        if not fresh.num_rows:
            return
        batch = fresh.combine_chunks().to_batches()[0]
        positions = np.arange(first, first + fresh.num_rows)
        for generation in self.generations:
            if generation.has(Clock.ROWS):
                generation.append(batch, Clock.ROWS, positions)
        self._row_times = np.concatenate([self._row_times, np.asarray(batch.column(self.stream.timestamp))])

    def _row_answers(self, state: TreeState, rows: int) -> Iterator[QueryAnswers]:
        """The answers of a row tree's windows that are complete; their times are those of their first and last row."""
        for closed in decided(state.close(self.closed_rows, rows)):
            yield closed.answers(*self._bounds(closed.planned.query.window, closed.instances))

    def _bounds(self, window: Window, instances: Ints) -> tuple[Ints, Ints]:
        """Where some instances start and end in time; those over rows, at their first and last row."""
        starts, ends = time_bounds(window, instances)
        if not isinstance(window, RowWindow):
            return starts, ends
        first, last = np.maximum(starts, 0) - self._row_times_from, ends - 1 - self._row_times_from
        return self._row_times[first], self._row_times[last]

    def _held_from_now(self) -> dict[Clock, int | None]:
        """Where a new generation begins to miss nothing: no event pushed so far is at or after it."""
        seen = None if self.newest_us is None else self.newest_us + 1
        if self.watermark_us is not None:
            seen = max(self.watermark_us, seen if seen is not None else self.watermark_us)
        rows = None
        if self.log is not None and (self.log.final_count or self.log.starts_us is not None):
            rows = self.log.final_count
        return {Clock.TIME: seen, Clock.ROWS: rows}

    def _hand_over(self) -> None:
        """Move queries to the generation that waits to take them over, as soon as it has seen enough for each.

        If there are too many generations and none waits, open one that takes over all queries.
        """
        for successor in [generation for generation in self.generations if generation.waits]:
            homes = {name: generation for generation in self.generations for name in generation.active}
            for state in successor.trees:
                closed = self._settled_us if state.tree.clock is Clock.TIME else self.closed_rows
                for name in state.ready(closed) if closed is not None else ():
                    old = homes[name]
                    exact_from = old.active[name].exact_from[name]
                    old.remove(name)
                    state.activate(name, exact_from)
        self.generations = [generation for generation in self.generations if not generation.is_empty]
        movable = [generation for generation in self.generations if generation.is_movable]
        if len(movable) > MOST_GENERATIONS and not any(generation.waits for generation in movable):
            self._plan_anew()
        self.check_plan()

    @property
    def _settled_us(self) -> int | None:
        """The time up to which no answer can change any more."""
        if self.closed_us is None or self.closed_us == END_OF_STREAM:
            return self.closed_us
        return self.closed_us - self.stream.correct_us

    def _let_go(self, trees: Iterable[TreeState]) -> None:
        """Drop what no window needs any more: of some trees over time, and of all over rows."""
        assert self.closed_us is not None
        assert self._settled_us is not None
        for state in trees:
            state.evict(self._settled_us)
        row_starts = [self.closed_rows]
        for state in self._trees(Clock.ROWS):
            state.evict(self.closed_rows)
            row_starts.append(oldest_slot_needed(state.windows, 1, self.closed_rows))
        keep_from = max(min(row_starts), self._row_times_from)
        self._row_times = self._row_times[keep_from - self._row_times_from :]
        self._row_times_from = keep_from
        # At the end of the stream no more events come, and lookups of the last events must still work.
        if self.log is not None and self.closed_us != END_OF_STREAM:
            self.log.trim(Retention.of([query.window for query in self.on_demand.values()]), self.closed_us)
            self.structures.let_go(self.log)
