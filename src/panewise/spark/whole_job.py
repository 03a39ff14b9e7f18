"""The sizes of the whole job in every batch, also in one that touched few of its buckets or none.

A batch tells the sizes of the buckets that it touched. Those of the others have not changed since, so the last ones are
kept. A batch with events touches every bucket. Until a run has had one, the sizes are not known and are None: a part
would look like a state that has shrunk.
"""

from __future__ import annotations

from dataclasses import replace

from panewise.spark.batch_metrics import BatchMetrics
from panewise.spark.counts import Sizes, whole


class WholeJob:
    """Keeps the last sizes of each bucket, by run."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Sizes]] = {}

    def complete(self, batch: BatchMetrics) -> BatchMetrics:
        """The batch with the sizes of all buckets. Batches of a run come in order."""
        known = self._known.setdefault(batch.run, {})
        known.update({bucket: sizes for bucket, sizes in batch.buckets.items() if sizes is not None})
        if batch.buckets.keys() - known.keys():
            return replace(batch, sizes=None)
        return replace(batch, sizes=whole(known.values()))

    def forget(self, run: str) -> None:
        """A run has ended."""
        self._known.pop(run, None)
