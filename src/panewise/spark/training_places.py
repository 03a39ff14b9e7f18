"""Places: where labels and events meet on Spark.

A key is hashed to a bucket. A bucket with many labels is cut by time into slices, each with about as many labels. A
label goes to the slice of its time, and an event to every slice with labels that may see it. So one key with many
labels is answered in several places, at the price of events that go to more than one. A place is a bucket's slice; its
id is chosen so that Spark spreads places evenly over partitions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from panewise.arrays import Floats, Ints
from panewise.spark.buckets import bucket_ids

PLACES_PER_PARTITION = 4
MOST_OVERLAP = 1.0
"""A bucket is cut while its events go to no more than this many places beside their own, on average."""
MOST_SHARES = 2
"""How many times the labels of an even share a place may have. More slices would only copy more events."""
BY_CHANCE = 16
"""A bucket with fewer labels may have twice the share of others by chance, and is not cut."""
FRACTIONS: Floats = np.linspace(0.0, 1.0, 257)
"""Which quantiles of the times of labels are known of a bucket that is cut."""

Needed = Callable[[Ints], Ints]
"""For times that labels ask for, the time of the first event that they may see."""


def bucket_count(partitions: int, *, has_keys: bool) -> int:
    """How many buckets keys are hashed to."""
    return PLACES_PER_PARTITION * partitions if has_keys else 1


def slices_wanted(labels: Mapping[int, int], partitions: int) -> dict[int, int]:
    """Into how many slices each bucket with many labels should be cut, so that no place has many more than others.

    >>> slices_wanted({0: 700, 1: 100, 2: 100, 3: 100}, partitions=2)
    {0: 3}
    """
    most = MOST_SHARES * sum(labels.values()) / (PLACES_PER_PARTITION * partitions)
    least = BY_CHANCE if len(labels) > 1 else 2
    return {
        bucket: min(count, ceil(count / most)) for bucket, count in labels.items() if count > most and count >= least
    }


def time_cuts(quantiles: Ints, slices: int, needed: Needed) -> Ints:
    """The times at which all slices but the first begin; fewer if too many events would go to several slices.

    `quantiles` are those of the labels' times at `FRACTIONS`. Events are taken to be as dense as labels.
    """
    overlaps = FRACTIONS - np.interp(needed(quantiles), quantiles, FRACTIONS)
    mean = max(float(overlaps.mean()), 1e-9)
    slices = min(slices, 1 + int(MOST_OVERLAP / mean))
    cuts = np.interp(np.arange(1, slices) / slices, FRACTIONS, quantiles).astype(np.int64)
    # Labels at one time stay together, and the first slice has some.
    return np.unique(cuts[cuts > quantiles[0]])


@dataclass(frozen=True)
class Places:
    """The ids of places: a list for each bucket, with one for each of its slices."""

    ids: Sequence[Sequence[int]]
    cuts: Sequence[Sequence[int]]
    """For each bucket the times at which its slices begin, but for the first."""
    needed: Sequence[Sequence[int]]
    """For each of these slices the time of the first event that its labels may see."""

    @staticmethod
    def of(partitions: int, buckets: int, cuts: Mapping[int, Ints], needed: Needed) -> Places:
        """Number the places, with some buckets cut at some times."""
        by_bucket = [cuts.get(bucket, np.empty(0, np.int64)) for bucket in range(buckets)]
        ids = iter(bucket_ids(partitions, buckets + sum(map(len, by_bucket))))
        # The asked time of a label is its own, or a microsecond less.
        return Places(
            [[next(ids) for _ in range(1 + len(some))] for some in by_bucket],
            [some.tolist() for some in by_bucket],
            [needed(some - 1).tolist() if len(some) else [] for some in by_bucket],
        )

    @property
    def are_cut(self) -> bool:
        """Whether some bucket has several slices."""
        return any(self.cuts)

    def of_label(self, bucket: Column, time: Column) -> Column:
        """The place of a label."""
        mine = _by_bucket(self.ids, "int")[bucket]
        return mine[_reached(self.cuts, bucket, time)] if self.are_cut else mine[0]

    def of_event(self, bucket: Column, time: Column) -> Column:
        """The places of an event, each a row."""
        mine = _by_bucket(self.ids, "int")[bucket]
        if not self.are_cut:
            return mine[0]
        first, last = _reached(self.cuts, bucket, time), _reached(self.needed, bucket, time)
        return F.explode(F.slice(mine, first + 1, last - first + 1))


def _by_bucket(lists: Sequence[Sequence[int]], kind: str) -> Column:
    """A constant with a list for each bucket; Spark reads the text once."""
    return F.from_json(F.lit(json.dumps(lists)), f"array<array<{kind}>>")


def _reached(times: Sequence[Sequence[int]], bucket: Column, time: Column) -> Column:
    """How many of the bucket's times are not behind a time."""
    reached = F.size(F.filter(_by_bucket(times, "bigint")[bucket], lambda one: one <= time))
    # Spark calls the function for each time by itself, and most rows are in buckets that are not cut.
    return F.when(bucket.isin(*(number for number, some in enumerate(times) if some)), reached).otherwise(0)
