"""Panewise on Spark: a DataFrame of events in, a DataFrame of answers out.

Names are loaded on first use. Spark starts a Python process for each query to learn its state, and that process then
imports only what it needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panewise.extras import require
from panewise.lazy import load

if TYPE_CHECKING:
    from panewise.spark.aside_rows import set_aside
    from panewise.spark.batch_metrics import BatchMetrics
    from panewise.spark.java import JavaRuntime, ensure_java
    from panewise.spark.job import check_workload
    from panewise.spark.metrics_file import MetricsFile
    from panewise.spark.pipeline import answers
    from panewise.spark.progress_listener import ProgressListener
    from panewise.spark.prometheus import PrometheusEndpoint
    from panewise.spark.quotas import Quotas
    from panewise.spark.settings import SETTINGS
    from panewise.spark.table_frames import DeltaSink, FileSink, TableBatch, Tables, rows, tables
    from panewise.spark.training_frames import training_set
    from panewise.spark.worker_python import choose_worker_python

_HOMES = {
    "SETTINGS": "panewise.spark.settings",
    "BatchMetrics": "panewise.spark.batch_metrics",
    "DeltaSink": "panewise.spark.table_frames",
    "FileSink": "panewise.spark.table_frames",
    "JavaRuntime": "panewise.spark.java",
    "MetricsFile": "panewise.spark.metrics_file",
    "ProgressListener": "panewise.spark.progress_listener",
    "PrometheusEndpoint": "panewise.spark.prometheus",
    "Quotas": "panewise.spark.quotas",
    "TableBatch": "panewise.spark.table_frames",
    "Tables": "panewise.spark.table_frames",
    "answers": "panewise.spark.pipeline",
    "check_workload": "panewise.spark.job",
    "choose_worker_python": "panewise.spark.worker_python",
    "ensure_java": "panewise.spark.java",
    "rows": "panewise.spark.table_frames",
    "set_aside": "panewise.spark.aside_rows",
    "tables": "panewise.spark.table_frames",
    "training_set": "panewise.spark.training_frames",
}

_NEED_PYSPARK = frozenset(
    {
        "DeltaSink",
        "FileSink",
        "ProgressListener",
        "TableBatch",
        "Tables",
        "answers",
        "rows",
        "set_aside",
        "tables",
        "training_set",
    }
)
"""The rest works without it: you can check a job and read its metrics."""

__all__ = [
    "SETTINGS",
    "BatchMetrics",
    "DeltaSink",
    "FileSink",
    "JavaRuntime",
    "MetricsFile",
    "ProgressListener",
    "PrometheusEndpoint",
    "Quotas",
    "TableBatch",
    "Tables",
    "answers",
    "check_workload",
    "choose_worker_python",
    "ensure_java",
    "rows",
    "set_aside",
    "tables",
    "training_set",
]


def __getattr__(name: str) -> Any:
    if name in _NEED_PYSPARK:
        require("spark", f"panewise.spark.{name}")
    return load(__name__, _HOMES, name)
