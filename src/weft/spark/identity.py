"""What identifies a job to its own checkpoint: everything that old state depends on.

It is written into the state, so that a job that is started again with something changed is told what, and not answered
wrongly.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from weft.language.printer import print_workload

if TYPE_CHECKING:
    from weft.spark.job import Job

FORMAT = 2
"""Of the state: its columns, and the packing of partials."""


def identity_of(job: Job) -> str:
    """A job's identity as JSON."""
    bases = [*(live.base for live in job.bases.values()), *(base.identity for base in job.row_bases.values())]
    return json.dumps(
        {
            "format": FORMAT,
            "buckets": len(job.bucket_ids),
            "bucket_ids": _hash(job.bucket_ids),
            "granularity_us": {live.plan.stream.name: live.base.granularity for live in job.bases.values()},
            "changed_only": job.changed_only,
            "statements": _hash(print_workload(job.workload)),
            "bases": _hash(bases),
        },
        sort_keys=True,
    )


def difference(then: str, now: str) -> str:
    """What to tell somebody whose job does not fit its checkpoint."""
    was, is_ = json.loads(then), json.loads(now)
    if was["format"] != is_["format"]:
        found = f"its state has format {was['format']}, and this Weft reads format {is_['format']}"
    elif was["buckets"] != is_["buckets"]:
        found = (
            f"it has {was['buckets']} buckets, and the job has {is_['buckets']}; set buckets= as it was, or "
            f"spark.sql.shuffle.partitions, from which it follows"
        )
    elif was["bucket_ids"] != is_["bucket_ids"]:
        found = "its buckets lie in other partitions; set spark.sql.shuffle.partitions as it was"
    elif was["granularity_us"] != is_["granularity_us"]:
        found = (
            f"its slots are {_granularities(was)} long, and the job's are {_granularities(is_)}; declare the old "
            f"GRANULARITY in CREATE STREAM, or undo the change of ranges and slides"
        )
    elif was["changed_only"] != is_["changed_only"]:
        found = "it was made with another changed_only; set that as it was"
    else:
        found = (
            "the queries or streams were changed since it was written; undo that, or send the changes through a "
            "control stream"
        )
    return f"the checkpoint does not fit the job: {found}, or use a new checkpoint folder"


def _granularities(identity: dict[str, dict[str, int]]) -> str:
    return ", ".join(f"{stream} {length:,} us" for stream, length in sorted(identity["granularity_us"].items()))


def _hash(value: object) -> str:
    return sha256(str(value).encode()).hexdigest()[:16]
