"""The folder of a job over `measurements (t, k, x)`, written without Spark: what Panewise alone costs. And the events
as files, for a job on Spark."""

from __future__ import annotations

import select
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import panewise
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.spark.buckets import bucket_places
from panewise.spark.job import Job
from panewise.spark.packing import PackedPart, pack
from panewise.spark.slot_log import Entry, SlotLog, write_job


def feed(statements: str, folder: Path, events_per_s: int, keys: int, trigger_ms: int) -> None:
    """Write a batch at each trigger, with the events since the last, until standard input ends."""
    workload = panewise.read(statements)
    stream = workload.streams["measurements"]
    job = Job.of(workload, [0, 1, 2, 3], rate=events_per_s)
    write_job(folder, job)
    log = SlotLog(folder, job.bases)
    ((plan, _),) = job.plans_of(stream.name)
    chance = np.random.default_rng(1)
    began_us, batch = int(time.time() * 1e6), 0
    watermark_us: int | None = None
    while not select.select([sys.stdin], [], [], trigger_ms / 1e3)[0]:
        now_us = int(time.time() * 1e6)
        size = int((now_us - began_us) * events_per_s / 1e6)
        times = np.linspace(began_us, now_us, size, endpoint=False).astype(np.int64)
        columns = {"t": times, "k": chance.integers(0, keys, size), "x": chance.random(size)}
        events = project(plan, to_batch(stream, columns))
        parts: dict[int, list[PackedPart]] = {job.bucket_ids[0]: []}
        combiner = Combiner(plan, events)
        for base in plan.bases:
            partials = combiner.partials(base, times // base.granularity)
            places = bucket_places(plan, base, partials, len(job.bucket_ids))
            for place, bucket in enumerate(job.bucket_ids):
                share = partials.filter(pa.array(places == place))
                if share.num_rows:
                    parts.setdefault(bucket, []).append(PackedPart(base.number, pack(share), share))
        for bucket, some in parts.items():
            log.put(bucket, batch, Entry.of(some, watermark_us, watermark_us))
        began_us, batch = now_us, batch + 1
        watermark_us = now_us - stream.watermark_us


def write_files(folder: Path, events_per_s: int, keys: int, trigger_ms: int) -> None:
    """Write a file at each trigger, with the events since the last, until standard input ends."""
    chance = np.random.default_rng(1)
    began_us, number = int(time.time() * 1e6), 0
    while not select.select([sys.stdin], [], [], trigger_ms / 1e3)[0]:
        now_us = int(time.time() * 1e6)
        size = int((now_us - began_us) * events_per_s / 1e6)
        times = np.linspace(began_us, now_us, size, endpoint=False).astype(np.int64)
        events = pa.table(
            {
                "t": pa.array(times).cast(pa.timestamp("us", "UTC")),
                "k": chance.integers(0, keys, size),
                "x": chance.random(size),
            }
        )
        # Spark reads a file that has its name, so it gets it when it is whole.
        unfinished = folder / f".{number:06}.parquet"
        pq.write_table(events, unfinished)
        unfinished.rename(folder / f"{number:06}.parquet")
        began_us, number = now_us, number + 1
