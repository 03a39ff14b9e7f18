"""Random programs of queries over PARTITION BY ... ROWS, over a simulated Spark, and what the oracle says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests import oracle
from tests.answers import to_answers
from tests.dice import SeededDice, one_in
from tests.spark.simulated import SimulatedSpark
from tests.workloads import UNIT_US, draw_query, draw_stream, random_events

from panewise.engine.wide_columns import query_schema
from panewise.errors import HistoryError
from panewise.language.model import Query
from panewise.language.printer import print_query
from panewise.language.workload import Workload
from panewise.spark import slot_compaction
from panewise.spark.job import Job
from panewise.spark.lookup_client import LookupClient
from panewise.spark.slot_log import write_job
from panewise.windows import RowWindow

ORIGIN_US = 1_356_998_400_000_000
Event = dict[str, Any]


def draw_row_query(dice: SeededDice, stream: Any, name: str) -> Query:
    """A query over rows, most often those of substreams."""
    while True:
        query = draw_query(dice, stream, name, ["rows", "rows between"])
        if query.window.partition_by or one_in(dice, 4):
            return query


def random_row_workload(seed: int, *, mixed: bool) -> Workload:
    """Queries over rows, if mixed among others."""
    dice = SeededDice(seed)
    stream = draw_stream(dice, UNIT_US if mixed else dice.pick((None, UNIT_US)))
    drawn = [draw_row_query(dice, stream, f"r{place}") for place in range(4)]
    if mixed:
        drawn += [draw_query(dice, stream, f"q{place}", ["range slide", "range"]) for place in range(2)]
    return Workload({stream.name: stream}, {query.name: query for query in drawn})


def by_content(event: Event, names: Sequence[str]) -> list[tuple]:
    """The place of an event among those of its time: NaN above all numbers, NULL last."""
    return [_place(event[name]) for name in names]


def _place(value: Any) -> tuple:
    if value is None:
        return (2, 0)
    if isinstance(value, float) and math.isnan(value):
        return (1, 0)
    return (0, value.encode() if isinstance(value, str) else value)


def check_rows(
    client: LookupClient, job: Job, accepted: dict[int, list[Event]], at_us: int | None = None, dropped_us: int = 0
) -> int:
    """Every query over rows, over all groups and some; how many could not be answered, as only the past may be."""
    client.check_invariants()
    gone = 0
    for base in job.row_bases.values():
        time, names = base.stream.timestamp, [name for name in base.stream.attributes if name != base.stream.timestamp]
        for query in base.queries.values():
            since_us = base.since_us[query.name]
            seen = [event for event in accepted[base.number] if since_us is None or event[time] >= since_us]
            seen.sort(key=lambda event: by_content(event, names))
            newest_us = max((event[time] for event in seen), default=0)
            wanted = oracle.lookup(query, time, seen, newest_us if at_us is None else at_us)
            try:
                table = client.lookup(query.name, at=at_us)
            except HistoryError:
                assert at_us is not None
                assert at_us < dropped_us
                gone += 1
                continue
            assert table.schema == query_schema(base.stream, query)
            oracle.assert_same_answers(to_answers(table, job.workload, query.name), wanted, print_query(query))
            groups = {answer.group for answer in wanted}
            keys = [tuple(value for _, value in group) for group in sorted(groups, key=repr)[::2]]
            if query.group_by and keys and not any(isinstance(value, float) for key in keys for value in key):
                some = client.lookup(query.name, keys=keys, at=at_us)
                assert some.schema == table.schema
                there = [one for one in wanted if tuple(value for _, value in one.group) in keys]
                oracle.assert_same_answers(to_answers(some, job.workload, query.name), there, print_query(query))
                many = client.lookup_many(query.name, keys, at=at_us)
                assert all(len(column) == len(keys) for column in many.values())
    return gone


def merge_early(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(slot_compaction, "KEPT_APART", 2)
    patch.setattr(slot_compaction, "MERGE_AT", 4)


@dataclass
class Program:
    """A random program over a simulated Spark: batches that are repeated and lost, restarts, a client that sleeps."""

    seed: int
    folder: Path
    live: bool = False
    mixed: bool = True
    accepted: dict[int, list[Event]] = field(default_factory=dict)
    gone: int = 0
    joined: int = 0

    def __post_init__(self) -> None:
        self.dice = SeededDice(self.seed + 1)
        self.workload = random_row_workload(self.seed, mixed=self.mixed)
        (self.stream,) = self.workload.streams.values()
        self.spark = SimulatedSpark(self.workload, self.folder, live=self.live, lookups=True)
        write_job(self.folder, self.job)
        self.client = LookupClient(self.folder, refresh_every_s=0)
        self.names = list(self.workload.queries)

    @property
    def job(self) -> Job:
        return self.spark.packed.at(self.spark.batch)

    def run(self, batches: int = 12) -> None:
        delay_us = self.stream.watermark_us + self.dice.integer(0, 4) * UNIT_US
        rows = random_events(
            self.seed, self.stream, 12 * batches, span_us=40 * UNIT_US, disorder_us=delay_us, origin_us=ORIGIN_US
        )
        for number in range(batches):
            batch = [] if one_in(self.dice, 6) else rows[number * 12 : number * 12 + 12]
            self._accept(batch)
            self.spark.run_batch(
                {self.stream.name: batch},
                self._statements(),
                attempts=self.dice.integer(1, 2),
                shift=self.dice.integer(0, 3),
                is_skipped=one_in(self.dice, 6),
            )
            if one_in(self.dice, 5):
                self.spark.start()
            if one_in(self.dice, 5):
                self.client = LookupClient(self.folder, refresh_every_s=0)
            if one_in(self.dice, 2):
                self.check()
        self.check()
        self.client = LookupClient(self.folder)
        self.check()

    def check(self) -> None:
        watermark_us = self.spark.watermark_ms * 1000
        accepted = {number: self.accepted.get(number, []) for number in self.job.row_bases}
        check_rows(self.client, self.job, accepted)
        at_us = ORIGIN_US + self.dice.integer(-10 * UNIT_US, 40 * UNIT_US)
        self.gone += check_rows(self.client, self.job, accepted, at_us, dropped_us=watermark_us)

    def _accept(self, batch: list[Event]) -> None:
        watermark_us = self.spark.watermark_ms * 1000 if self.live else self.spark.watermark_of_spark_us
        for number, base in self.job.row_bases.items():
            for event in batch:
                slot_end_us = (event[self.stream.timestamp] // base.slot_us + 1) * base.slot_us
                if not watermark_us or slot_end_us > watermark_us:
                    self.accepted.setdefault(number, []).append(event)

    def _statements(self) -> list[str]:
        """Queries over rows that come and go: new ones, ones like those that are there, and dropped ones."""
        made: list[str] = []
        if not self.live or not one_in(self.dice, 3):
            return made
        query = draw_row_query(self.dice, self.stream, f"n{len(self.names)}")
        alive = self.job.workload.queries
        if one_in(self.dice, 2):
            like = [one for one in alive.values() if isinstance(one.window, RowWindow)]
            if like:
                window = replace(self.dice.pick(like).window, left=self.dice.integer(6, 12))
                query = replace(self.dice.pick(like), name=query.name)
                query = replace(query, window=replace(window, partition_by=query.window.partition_by))
                self.joined += 1
        self.names.append(query.name)
        made.append(print_query(query) + ";")
        if len(alive) > 2 and one_in(self.dice, 2):
            made.append(f"DROP QUERY {self.dice.pick(list(alive))};")
        return made
