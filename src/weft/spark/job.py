"""The job: a planned workload and its buckets, all that the Python workers need to know."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import pyarrow as pa

from weft.engine.answers import answers_schema
from weft.language.model import Workload
from weft.language.printer import print_workload
from weft.planning.plan import Plan, StreamPlan, Tree, optimize
from weft.spark.packed_job import PackedJob


@dataclass(frozen=True)
class Job:
    """A planned workload, and the ids of its buckets."""

    workload: Workload
    plan: Plan
    bucket_ids: tuple[int, ...]

    @cached_property
    def answers_schema(self) -> pa.Schema:
        """The columns of the answers."""
        return answers_schema(self.workload)

    @cached_property
    def trees(self) -> dict[int, tuple[StreamPlan, Tree]]:
        """Every tree by number, with the plan of its stream."""
        return {tree.number: (plan, tree) for plan in self.plan.streams.values() for tree in plan.trees}

    @cached_property
    def counting_trees(self) -> frozenset[int]:
        """One tree of each stream: the one whose partials are counted as the stream's events."""
        return frozenset(plan.trees[0].number for plan in self.plan.streams.values())


def pack_job(workload: Workload, bucket_ids: list[int]) -> PackedJob:
    """Plan a workload and pack it for the workers."""
    job = Job(workload, optimize(workload), tuple(bucket_ids))
    identity = f"{print_workload(workload)}\nbuckets {bucket_ids}"
    return PackedJob(pickle.dumps(job), sha256(identity.encode()).hexdigest())


def pack_combine_job(workload: Workload, bucket_ids: list[int]) -> PackedJob:
    """The same for the combine step, which needs no queries: it stays small however many there are."""
    plan = optimize(workload)
    streams = {
        name: replace(stream, trees=tuple(replace(tree, queries=()) for tree in stream.trees))
        for name, stream in plan.streams.items()
    }
    job = Job(Workload(workload.streams), replace(plan, streams=streams, on_demand=()), tuple(bucket_ids))
    return PackedJob(pickle.dumps(job), "")
