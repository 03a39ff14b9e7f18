"""The examples of the documents that need Spark; how they are written is said in tests/test_docs.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.test_docs import PAGES, blocks_of, run_blocks

WITH_SPARK = [page for page in PAGES if any(block.needs_spark for block in blocks_of(page, "python"))]


@pytest.mark.spark
@pytest.mark.parametrize("page", WITH_SPARK, ids=lambda page: page.name)
def test_spark_examples(spark: SparkSession, page: Path) -> None:
    run_blocks(page, blocks_of(page, "python"))
