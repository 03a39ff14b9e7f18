"""The root cause in what Spark 4.3 says when something fails."""

from __future__ import annotations

import pytest

from weft.cli.failure import root_cause

PYTHON_IN_STREAM = """\
[STREAM_FAILED] Query [id = 08, runId = 0f] terminated with exception: [PYTHON_EXCEPTION] An exception was \
thrown from the Python worker: Traceback (most recent call last):
  File "a.py", line 23, in boom
    raise ValueError("bad thing")
{error}
 SQLSTATE: 38000 SQLSTATE: XXKST
=== Streaming Query ===
Identifier: [id = 08, runId = 0f]
"""
JAVA = """\
An error occurred while calling o192.collectToPython.
: org.apache.spark.SparkException: [FAILED_READ_FILE] Error while reading file a.parquet. SQLSTATE: KD001
\tat org.apache.spark.sql.errors.A.b(A.scala:898)
"""
CAUSED = JAVA + "Caused by: java.io.IOException: No space left on device\n\tat java.base/B.c(B.java:1)\n\t... 12 more\n"


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (
            PYTHON_IN_STREAM.format(error="ValueError: bad thing\nin two lines"),
            "ValueError: bad thing\nin two lines",
        ),
        (PYTHON_IN_STREAM.format(error="weft.errors.WeftError: SUM(x) overflows"), "SUM(x) overflows"),
        (
            "An exception was thrown:\nTraceback (most recent call last):\n  File\nKeyError: 'a'",
            "KeyError: 'a'",
        ),
        (JAVA, "[FAILED_READ_FILE] Error while reading file a.parquet."),
        (CAUSED, "No space left on device"),
        ("[X] No column `nope`. SQLSTATE: 42703;\n'Project ['nope]\n+- Relation", "[X] No column `nope`."),
        ("[PATH_ALREADY_EXISTS] Path out exists. SQLSTATE: 42K04", "[PATH_ALREADY_EXISTS] Path out exists."),
        ("", "RuntimeError"),
    ],
)
def test_root_cause(said: str, cause: str) -> None:
    assert root_cause(RuntimeError(said)) == cause


def test_unknown_format_gets_a_cure() -> None:
    assert "spark.jars.packages" in root_cause(RuntimeError("Failed to find data source: kafka."))
