"""Settings of a Spark session that Panewise's streaming pipeline needs or profits from."""

from __future__ import annotations

SETTINGS = {
    # transformWithState keeps its state in RocksDB only.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Days and hours are those of UTC, as everywhere in Panewise.
    "spark.sql.session.timeZone": "UTC",
    # Rows go to Python in batches of this size. Measured: 10,000 (Spark's default) and 100,000 are both slower.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "30000",
    # A job of thousands of queries is larger than a mebibyte. Spark would send it in a way that the process which
    # learns the state's schema cannot open.
    "spark.broadcast.UDFCompressionThreshold": str(256 << 20),
}
"""Give these to the session's builder: `builder.config(map=panewise.spark.SETTINGS)`."""

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
