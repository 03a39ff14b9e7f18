"""Every way of answering the workload: its program, its environment, and the way of Panewise to compare it with."""

from __future__ import annotations

from dataclasses import dataclass, field

from panewise import spark as panewise_spark


@dataclass(frozen=True)
class Way:
    """One line of the picture."""

    name: str
    label: str
    mode: str
    """`batch` or `streaming`."""
    program: str
    environment: str | None = None
    """None for Panewise's own environment."""
    against: str | None = None
    """The way of Panewise that a user of this peer would use instead; None for Panewise itself."""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def is_panewise(self) -> bool:
        return self.against is None


TREE = "spark.sql.window.segmentTree.enabled"
# Spark's default is meant for partitions of many thousands of rows; a partition here is one group's panes.
SMALLEST = "spark.sql.window.segmentTree.minPartitionRows"
BATCH, STREAM = {"mode": "batch"}, {"mode": "stream"}

EVERY_WAY = (
    Way("panewise", "Panewise, one process", "batch", "panewise_engine", settings=BATCH),
    Way("panewise-spark", "Panewise on Spark", "batch", "panewise_on_spark", settings=BATCH | panewise_spark.SETTINGS),
    Way("duckdb", "DuckDB", "batch", "duckdb_panes", "duckdb", "panewise"),
    Way("polars", "Polars", "batch", "polars_dynamic", "polars", "panewise"),
    Way("pandas", "pandas rolling", "batch", "pandas_rolling", None, "panewise"),
    Way("spark-window", "Spark window()", "batch", "spark_window", None, "panewise-spark", BATCH),
    Way("spark-over", "Spark OVER", "batch", "spark_over", None, "panewise-spark", {TREE: "false"}),
    Way("spark-over-tree", "Spark OVER, segment tree", "batch", "spark_over", None, "panewise-spark",
        {TREE: "true", SMALLEST: "1"}),
    Way("panewise-stream", "Panewise, one process", "streaming", "panewise_engine", settings=STREAM),
    Way("panewise-spark-stream", "Panewise on Spark", "streaming", "panewise_on_spark",
        settings=STREAM | panewise_spark.SETTINGS),
    Way("spark-window-stream", "Spark window()", "streaming", "spark_window", None, "panewise-spark-stream", STREAM),
    Way("flink", "Flink HOP", "streaming", "flink_hop", "flink", "panewise-stream"),
    Way("pathway", "Pathway", "streaming", "pathway_sliding", "pathway", "panewise-stream"),
)  # fmt: skip
"""Panewise comes first: the others are compared with its answers and its times."""
