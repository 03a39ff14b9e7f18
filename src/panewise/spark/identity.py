"""What identifies a job to its own checkpoint: everything that old state depends on.

The state contains it. A changed job that is started again then gets an error that names the change, and no wrong
answers.
"""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from panewise.language.workload import print_workload

if TYPE_CHECKING:
    from panewise.language.workload import Workload
    from panewise.spark.job import Job

FORMAT = 3
"""Of the state: its columns, and the packing of partials."""


def identity_of(job: Job) -> str:
    """A job's identity as JSON."""
    bases = [*(live.base for live in job.bases.values()), *(base.identity for base in job.row_bases.values())]
    bases += [base.identity for plan in (job.tuples, job.held) for base in plan.bases.values()]
    return json.dumps(
        {
            "format": FORMAT,
            "buckets": len(job.bucket_ids),
            "bucket_ids": _hash(job.bucket_ids),
            "granularity_us": {live.plan.stream.name: live.base.granularity for live in job.bases.values()},
            "changed_only": job.changed_only,
            "statements": _hash(print_workload(_as_state_needs(job.workload))),
            "bases": _hash(bases),
        },
        sort_keys=True,
    )


def bases_id(job: Job) -> str:
    """What the entries in the log of a running job are made of: a digest of all its bases."""
    bases: list[object] = [live.base for _, live in sorted(job.bases.items())]
    bases += [base.identity for _, base in sorted(job.row_bases.items())]
    bases += [base.identity for plan in (job.tuples, job.held) for _, base in sorted(plan.bases.items())]
    return _hash(bases)


def _as_state_needs(workload: Workload) -> Workload:
    """A workload without what no state depends on, so that it may be changed when a job is started again."""
    streams = {name: replace(stream, future_bound_us=None) for name, stream in workload.streams.items()}
    queries = {name: replace(query, overflow_is_error=False) for name, query in workload.queries.items()}
    return replace(workload, streams=streams, queries=queries)


def difference(then: str, now: str) -> str:
    """The error text for a job that does not fit its checkpoint."""
    found = what_differs(json.loads(then), json.loads(now))
    return f"the checkpoint does not fit the job: {found}, or use a new checkpoint folder"


def what_differs(was: dict[str, Any], is_: dict[str, Any]) -> str:
    """What differs between the identities of two jobs, and how to undo it."""
    if was["format"] != is_["format"]:
        return f"its state has format {was['format']}, and this Panewise reads format {is_['format']}"
    if was["buckets"] != is_["buckets"]:
        return (
            f"it has {was['buckets']} buckets, and the job has {is_['buckets']}; set buckets= as it was, or "
            f"spark.sql.shuffle.partitions, from which it follows ({_OF_CORES})"
        )
    if was["bucket_ids"] != is_["bucket_ids"]:
        return f"its buckets lie in other partitions; set spark.sql.shuffle.partitions as it was ({_OF_CORES})"
    if was["granularity_us"] != is_["granularity_us"]:
        return (
            f"its slots are {_granularities(was)} long, and the job's are {_granularities(is_)}; declare the old "
            f"GRANULARITY in CREATE STREAM, or undo the change of ranges and slides"
        )
    if was["changed_only"] != is_["changed_only"]:
        return "it was made with another changed_only; set that as it was"
    return (
        "the queries or streams were changed since it was written; undo that, or send the changes through a control "
        "stream"
    )


_OF_CORES = "in `panewise run` on a local master, the number of cores if the job does not set it"


def _granularities(identity: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{stream} {length:,} us" for stream, length in sorted(identity["granularity_us"].items()))


def _hash(value: object) -> str:
    return sha256(str(value).encode()).hexdigest()[:16]
