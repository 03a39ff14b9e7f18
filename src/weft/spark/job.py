"""The job: a planned workload and its buckets, all that the Python workers need to know."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import pyarrow as pa

from weft.engine.answers import answers_schema
from weft.language.model import Workload
from weft.language.printer import print_workload
from weft.planning.optimize import optimize
from weft.planning.plan import Base, Plan, StreamPlan, Tree
from weft.spark.packed_job import PackedJob
from weft.windows.slots import lengths_of


@dataclass(frozen=True)
class FedBase:
    """A base, with the plan of its stream and the trees that it feeds."""

    plan: StreamPlan
    base: Base

    @cached_property
    def trees(self) -> tuple[Tree, ...]:
        """The trees that it feeds."""
        return self.plan.fed_by(self.base)

    @cached_property
    def longest(self) -> int:
        """The length of the longest window that its partials may belong to."""
        return max(lengths_of(window)[0] for tree in self.trees for window in tree.windows)


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
    def bases(self) -> dict[int, FedBase]:
        """Every base by number."""
        return {base.number: FedBase(plan, base) for plan in self.plan.streams.values() for base in plan.bases}

    @cached_property
    def counting_bases(self) -> frozenset[int]:
        """One base of each stream: the one whose partials are counted as the stream's events."""
        return frozenset(plan.bases[0].number for plan in self.plan.streams.values())

    def packed(self) -> PackedJob:
        """The job for the workers that answer. Its fingerprint tells all that old state depends on."""
        bases = [plan.bases for plan in self.plan.streams.values()]
        identity = f"{print_workload(self.workload)}\nbuckets {self.bucket_ids}\nbases {bases}"
        return PackedJob(pickle.dumps(self), sha256(identity.encode()).hexdigest())

    def packed_for_combining(self) -> PackedJob:
        """The job for the combine step, which needs no trees: it stays small however many queries there are."""
        streams = {name: replace(stream, trees=()) for name, stream in self.plan.streams.items()}
        plan = replace(self.plan, streams=streams, on_demand=())
        return PackedJob(pickle.dumps(Job(Workload(self.workload.streams), plan, self.bucket_ids)), "")


def plan_job(workload: Workload, bucket_ids: list[int], rate: float, groups: Mapping[str, int] | None) -> Job:
    """Plan a workload for some buckets."""
    return Job(workload, optimize(workload, rate=rate, groups=groups), tuple(bucket_ids))
