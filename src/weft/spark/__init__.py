"""Weft on Spark: a DataFrame of events in, a DataFrame of answers out."""

from weft.spark.java import JavaRuntime, ensure_java
from weft.spark.pipeline import answers, check_workload
from weft.spark.settings import SETTINGS

__all__ = ["SETTINGS", "JavaRuntime", "answers", "check_workload", "ensure_java"]
