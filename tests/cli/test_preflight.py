"""Checks of how a job runs, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.cli.job import JobError, read_job
from panewise.cli.preflight import check_job
from panewise.errors import PanewiseError
from panewise.language.model import UNBOUNDED_US

STATEMENTS = """
CREATE STREAM trades (at TIMESTAMP, volume BIGINT) TIMESTAMP BY at WATERMARK 1 MINUTE;
CREATE STREAM quotes (at TIMESTAMP, price DOUBLE) TIMESTAMP BY at WATERMARK 2 MINUTES;
CREATE QUERY volume AS SELECT SUM(volume) FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES];
"""
JOB = """
queries = "queries.sql"
source.trades.format = "rate"
source.quotes.format = "rate"
stream.checkpoint = "checkpoint"
"""
MINUTE = 60_000_000


def watermarks_us(folder: Path, more: str) -> dict[str, int]:
    (folder / "queries.sql").write_text(STATEMENTS)
    (folder / "job.toml").write_text(JOB + more)
    workload = check_job(read_job(folder / "job.toml"))
    return {name: stream.watermark_us for name, stream in workload.streams.items()}


@pytest.mark.parametrize(
    ("more", "minutes"),
    [
        ("", {"trades": 1, "quotes": 2}),
        ('stream.watermark = "10 minutes"', {"trades": 10, "quotes": 10}),
        ('stream.watermark.quotes = "0 seconds"', {"trades": 1, "quotes": 0}),
    ],
)
def test_watermarks_of_the_job_file_win(tmp_path: Path, more: str, minutes: dict[str, int]) -> None:
    assert watermarks_us(tmp_path, more) == {name: delay * MINUTE for name, delay in minutes.items()}


def test_the_bound_of_the_job_file_wins(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(STATEMENTS.replace("1 MINUTE;", "1 MINUTE FUTURE BOUND 1 DAY;"))
    for given, bound_us in (("", {3_600_000_000 * 24, None}), ("1 minute", {MINUTE}), ("none", {UNBOUNDED_US})):
        (tmp_path / "job.toml").write_text(JOB + (f'stream.future_bound = "{given}"' if given else ""))
        workload = check_job(read_job(tmp_path / "job.toml"))
        assert {stream.future_bound_us for stream in workload.streams.values()} == bound_us


def test_a_source_that_removes_files_cannot_be_read_twice(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(STATEMENTS)
    (tmp_path / "job.toml").write_text(
        JOB + 'source.quotes.options.cleanSource = "delete"\nset_aside.format = "console"\n'
    )
    with pytest.raises(JobError, match=r"\[source.quotes\] options cleanSource: would remove files"):
        check_job(read_job(tmp_path / "job.toml"))


def test_queries_without_slide_need_a_folder_of_lookups(tmp_path: Path) -> None:
    (tmp_path / "queries.sql").write_text(
        STATEMENTS + "CREATE QUERY now AS SELECT COUNT(*) FROM quotes [RANGE 1 HOUR];"
    )
    (tmp_path / "job.toml").write_text(JOB)
    with pytest.raises(PanewiseError, match="query now"):
        check_job(read_job(tmp_path / "job.toml"))
    (tmp_path / "job.toml").write_text(JOB + 'lookups.folder = "lookups"')
    assert "now" in check_job(read_job(tmp_path / "job.toml")).queries


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            'stream.watermark.quote = "1 minute"',
            r"\[stream\.watermark\] quote: queries\.sql has no such stream; did you mean quotes?",
        ),
        (
            'control.format = "text"\ncontrol.path = "statements"\nlookups.folder = "lookups"',
            r"\[control\] path: there is nothing at .*statements",
        ),
    ],
)
def test_mistakes_are_named_before_spark_starts(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        watermarks_us(tmp_path, more)


TABLE = "trades_every_5_minutes"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("[sink.trades_every_5_minute]\nformat='orc'\npath='o'", rf"gives no table .*; did you mean {TABLE}\?"),
        ("by='query'\n[sink.volumes]\nformat='orc'\npath='o'", r"\[sink.volumes\]: .*; did you mean volume\?"),
        (f"[sink.{TABLE}]\nformat='orc'\npath='o'\n", None),
        ("[sink]\nformat='orc'\npath='o'\n", None),
        ("", None),
        ("[sink]\nformat='orc'\n", rf"\[sink\] path: is missing; format orc writes files, and table {TABLE} has no"),
    ],
)
def test_wide_tables_and_their_sinks(tmp_path: Path, more: str, message: str | None) -> None:
    if message is None:
        assert watermarks_us(tmp_path, 'layout = "wide"\n' + more)
        return
    with pytest.raises(JobError, match=message):
        watermarks_us(tmp_path, 'layout = "wide"\n' + more)


def test_each_wide_table_needs_a_sink(tmp_path: Path) -> None:
    second = "CREATE QUERY prices AS SELECT MAX(price) FROM quotes [RANGE 1 HOUR SLIDE 1 HOUR];"
    (tmp_path / "queries.sql").write_text(STATEMENTS + second)
    (tmp_path / "job.toml").write_text(JOB + f"layout='wide'\n[sink.{TABLE}]\nformat='orc'\npath='o'")
    with pytest.raises(JobError, match=r"\[sink.quotes_every_1_hour\]: is missing; table quotes_every_1_hour needs"):
        check_job(read_job(tmp_path / "job.toml"))


ROW_QUERIES = """
CREATE QUERY busiest AS SELECT TOP_K(volume, 3) FROM trades [RANGE 1 HOUR SLIDE 5 MINUTES];
CREATE QUERY all_prices AS SELECT price FROM quotes [RANGE 1 HOUR SLIDE 5 MINUTES] ORDER BY price;
"""
SINKS = "".join(f"[sink.{name}]\nformat='orc'\npath='{name}'\n" for name in ("busiest", "all_prices"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("most_rows = 9\n[sink]\nformat='orc'\npath='o'\n" + SINKS, None),
        ("most_rows = 9\nlayout = 'wide'\n[sink]\nformat='orc'\npath='o'\n", None),
        ("most_rows = 9\n" + SINKS, r"\[sink\]: is missing; it says where the answers of the aggregates go"),
        ("most_rows = 9\n", r"\[sink.busiest\]: is missing; query busiest answers with rows, which need a sink of"),
        (SINKS, "query all_prices: ORDER BY without LIMIT .*; write LIMIT, or give most_rows="),
        ("most_rows = 0\n" + SINKS, "most_rows"),
        ("most_rows = 9\n[sink.busyest]\nformat='orc'\npath='o'", r"\[sink.busyest\]: is of no .* mean busiest\?"),
    ],
)
def test_each_row_query_needs_a_sink(tmp_path: Path, more: str, message: str | None) -> None:
    (tmp_path / "queries.sql").write_text(STATEMENTS + ROW_QUERIES)
    (tmp_path / "job.toml").write_text(JOB + more)
    if message is None:
        assert len(check_job(read_job(tmp_path / "job.toml")).row_queries) == 2
        return
    with pytest.raises(PanewiseError, match=message):
        check_job(read_job(tmp_path / "job.toml"))
