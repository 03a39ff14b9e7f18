"""Every way of answering the workload: its program, its environment, and which way of Weft it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft import spark as weft_spark


@dataclass(frozen=True)
class Way:
    """One line of the picture."""

    name: str
    label: str
    mode: str
    """`batch` or `streaming`."""
    program: str
    environment: str | None = None
    """None for the environment that Weft itself is in."""
    against: str | None = None
    """The way of Weft that a user of this peer would take instead; None for Weft itself."""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def is_weft(self) -> bool:
        return self.against is None


TREE = "spark.sql.window.segmentTree.enabled"
# Spark's default is meant for partitions of many thousands of rows; a partition here is one group's panes.
SMALLEST = "spark.sql.window.segmentTree.minPartitionRows"
BATCH, STREAM = {"mode": "batch"}, {"mode": "stream"}

EVERY_WAY = (
    Way("weft", "Weft, one process", "batch", "weft_engine", settings=BATCH),
    Way("weft-spark", "Weft on Spark", "batch", "weft_on_spark", settings=BATCH | weft_spark.SETTINGS),
    Way("duckdb", "DuckDB", "batch", "duckdb_panes", "duckdb", "weft"),
    Way("polars", "Polars", "batch", "polars_dynamic", "polars", "weft"),
    Way("pandas", "pandas rolling", "batch", "pandas_rolling", None, "weft"),
    Way("spark-window", "Spark window()", "batch", "spark_window", None, "weft-spark", BATCH),
    Way("spark-over", "Spark OVER", "batch", "spark_over", None, "weft-spark", {TREE: "false"}),
    Way("spark-over-tree", "Spark OVER, segment tree", "batch", "spark_over", None, "weft-spark",
        {TREE: "true", SMALLEST: "1"}),
    Way("weft-stream", "Weft, one process", "streaming", "weft_engine", settings=STREAM),
    Way("weft-spark-stream", "Weft on Spark", "streaming", "weft_on_spark", settings=STREAM | weft_spark.SETTINGS),
    Way("spark-window-stream", "Spark window()", "streaming", "spark_window", None, "weft-spark-stream", STREAM),
    Way("flink", "Flink HOP", "streaming", "flink_hop", "flink", "weft-stream"),
    Way("pathway", "Pathway", "streaming", "pathway_sliding", "pathway", "weft-stream"),
)  # fmt: skip
"""Weft first: the others are compared with its answers and its times."""
