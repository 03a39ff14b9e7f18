"""Weft on Spark: a DataFrame of events in, a DataFrame of answers out.

Names are loaded when they are first used: Spark starts a Python process for each query to learn its state, and what
that process does not import, it does not wait for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft.spark.batch_metrics import BatchMetrics
    from weft.spark.java import JavaRuntime, ensure_java
    from weft.spark.metrics_file import MetricsFile
    from weft.spark.pipeline import answers, check_workload
    from weft.spark.progress_listener import ProgressListener
    from weft.spark.prometheus import PrometheusEndpoint
    from weft.spark.settings import SETTINGS
    from weft.spark.worker_python import choose_worker_python

_HOMES = {
    "SETTINGS": "weft.spark.settings",
    "BatchMetrics": "weft.spark.batch_metrics",
    "JavaRuntime": "weft.spark.java",
    "MetricsFile": "weft.spark.metrics_file",
    "ProgressListener": "weft.spark.progress_listener",
    "PrometheusEndpoint": "weft.spark.prometheus",
    "answers": "weft.spark.pipeline",
    "check_workload": "weft.spark.pipeline",
    "choose_worker_python": "weft.spark.worker_python",
    "ensure_java": "weft.spark.java",
}

__all__ = [
    "SETTINGS",
    "BatchMetrics",
    "JavaRuntime",
    "MetricsFile",
    "ProgressListener",
    "PrometheusEndpoint",
    "answers",
    "check_workload",
    "choose_worker_python",
    "ensure_java",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft.spark' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
