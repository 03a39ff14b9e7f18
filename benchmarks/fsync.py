"""What it costs that files of lookups are on the disk before they are seen: a batch with and without the waits.

    panewise bench fsync --json --folder /mnt/shared/scratch

A batch writes a file of the slot log and one of the manifest for each bucket, with two waits for the disk each. Here
one process writes them one after the other; on Spark, tasks share the buckets, so a batch waits for those of one task.
Without waits is measured by taking `os.fsync` away, which no job can. Prints a JSON line for each number of buckets and
size of a bucket's file: medians of milliseconds a batch.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median
from unittest import mock

from panewise.spark.manifest import write_manifest
from panewise.spark.slot_file import NO_BATCH, BatchSpan, Head, write_file
from panewise.spark.whole_file import make_folder


def batch_ms(root: Path, batch: int, buckets: int, content: bytes) -> float:
    """How long it takes to publish one batch of all buckets."""
    began = time.perf_counter()
    for bucket in range(buckets):
        head = Head(bucket, BatchSpan(batch, batch), NO_BATCH, None, None, {})
        write_file(make_folder(root, f"slots/bucket-{bucket}"), head, content)
        write_manifest(root, "slots", bucket, batch)
    return (time.perf_counter() - began) * 1e3


def measured(folder: Path, buckets: int, size: int, batches: int) -> dict[str, float]:
    """The medians with and without waits. Batches of both kinds take turns, so that both meet the same noise."""
    content = os.urandom(size)
    with tempfile.TemporaryDirectory(dir=folder) as root:
        batch_ms(Path(root), 0, buckets, content)  # makes the folders
        waiting, not_waiting = [], []
        for number in range(1, batches + 1):
            waiting.append(batch_ms(Path(root), 2 * number, buckets, content))
            with mock.patch.object(os, "fsync"):
                not_waiting.append(batch_ms(Path(root), 2 * number + 1, buckets, content))
    return {"with_fsync_ms": round(median(waiting), 3), "without_fsync_ms": round(median(not_waiting), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON lines; there is no other form")
    parser.add_argument("--folder", type=Path, default=Path(), help="a folder on the disk to measure")
    parser.add_argument("--batches", type=int, default=30, help="how many batches of each kind")
    options = parser.parse_args()
    for buckets in (4, 32):
        for size in (1_500, 100_000):
            found = measured(options.folder, buckets, size, options.batches)
            print(json.dumps({"buckets": buckets, "file_bytes": size, **found}), flush=True)


if __name__ == "__main__":
    main()
