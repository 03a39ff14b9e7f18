"""Settings of a Spark session that Weft's streaming pipeline needs or profits from."""

from __future__ import annotations

SETTINGS = {
    # transformWithState keeps its state in RocksDB only.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Days and hours are those of UTC, as everywhere in Weft.
    "spark.sql.session.timeZone": "UTC",
    # Python reads rows in batches of this size; larger ones cost less per row.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}
"""Give these to the session's builder: `builder.config(map=weft.spark.SETTINGS)`."""

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
