"""Progresses of batches, as Spark 4.3 reports them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row

COUNTS = {
    "answers": 4_210,
    "late_events": 12,
    "untimed_events": 0,
    "lifted": 7,
    "fed": 5,
    "folded": 3,
    "cache_hits": 3,
    "catch_ups": 1,
    "rebuilds": 0,
    "combine_ns": 600_000_000,
    "feed_ns": 100_000_000,
    "close_ns": 300_000_000,
    "pack_ns": 0,
}
BUCKETS: dict[str, str | None] = {"bucket_0": "[0,60000,900,0,0]", "bucket_4": "[1,4000,100,0,0]"}
"""The sizes that two buckets tell."""


def progress(number: int, **changed: Any) -> dict[str, Any]:
    """Half a million rows in two and a half seconds."""
    return {
        "id": "08e7",
        "runId": "0f12",
        "name": "flights",
        "timestamp": "2013-01-01T06:00:00.500Z",
        "batchId": number,
        "numInputRows": 500_000,
        "processedRowsPerSecond": 181_234.6,
        "durationMs": {"triggerExecution": 2_500, "addBatch": 2_000, "walCommit": 300, "commitOffsets": 200},
        "eventTime": {"watermark": "2013-01-01T05:30:00.000Z", "max": "2013-01-01T05:45:00.250Z"},
        "stateOperators": [
            {"numRowsTotal": 8, "memoryUsedBytes": 1_000, "customMetrics": {"rocksdbSstFileSize": 500}},
            {"numRowsTotal": 2, "memoryUsedBytes": -1, "customMetrics": {}},
        ],
        "sources": [
            {
                "description": "FileStreamSource[file:/flights]",
                "endOffset": '{"logOffset":3}',
                "numInputRows": 500_000,
                "metrics": {},
            }
        ],
        "observedMetrics": {"panewise": Row(**COUNTS, **BUCKETS)},
    } | changed


def touching(number: int, **buckets: str | None) -> dict[str, Any]:
    """A batch with these sizes of buckets; None for one that it did not touch."""
    return progress(number, observedMetrics={"panewise": Row(**COUNTS, **BUCKETS | buckets)})
