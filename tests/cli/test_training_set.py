"""`panewise training-set` reads labels and events from files, and its errors name the file, the place and the cure."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from panewise.cli.main import app

QUERIES = """
CREATE STREAM trades (ts TIMESTAMP, symbol STRING, price DOUBLE) TIMESTAMP BY ts;
CREATE QUERY last AS SELECT symbol, COUNT(*) AS n, AVG(price) AS mean FROM trades [RANGE 10 SECONDS] GROUP BY symbol;
CREATE QUERY overall AS SELECT COUNT(*) AS n FROM trades [RANGE 10 SECONDS];
"""
JOB = """
queries = "features.sql"
[labels]
path = "labels.parquet"
time = "decided"
[events]
path = "trades.csv"
[output]
path = "out/training.parquet"
"""
runner = CliRunner()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "features.sql").write_text(QUERIES)
    times = pa.array([0, 1_000_000, 2_000_000]).cast(pa.timestamp("us", tz="UTC"))
    trades = pa.table({"ts": times, "symbol": ["A", "B", "A"], "price": [1.0, 2.0, 4.0], "unused": [1, 2, 3]})
    pyarrow.csv.write_csv(trades, tmp_path / "trades.csv")
    pyarrow.parquet.write_table(
        pa.table({"symbol": ["A", "B"], "decided": times[1:], "won": [True, False]}), tmp_path / "labels.parquet"
    )
    file = tmp_path / "job.toml"
    file.write_text(JOB)
    return file


def test_a_file_of_labels_with_answers_is_written(job: Path) -> None:
    result = runner.invoke(app, ["training-set", str(job)])
    assert result.exit_code == 0, result.output
    assert "2 labels with 3 columns more" in result.output
    rows = pyarrow.parquet.read_table(job.parent / "out" / "training.parquet").to_pylist()
    assert [(row["won"], row["last__n"], row["last__mean"], row["overall__n"]) for row in rows] == [
        (True, 1, 1.0, 1),
        (False, 1, 2.0, 2),
    ]
    assert [file.name for file in (job.parent / "out").iterdir()] == ["training.parquet"]

    job.write_text("memory_limit = 100\n" + JOB)
    assert runner.invoke(app, ["training-set", str(job)]).exit_code == 0
    assert pyarrow.parquet.read_table(job.parent / "out" / "training.parquet").to_pylist() == rows


def test_formats_edges_and_chosen_queries(job: Path) -> None:
    text = JOB.replace("training.parquet", "training.arrow").replace(
        "[labels]", 'edge = "at"\nonly = ["last"]\n[labels]'
    )
    job.write_text(text.replace("[events]", "[events.trades]"))
    result = runner.invoke(app, ["training-set", str(job), "--json"])
    assert json.loads(result.output)["columns"] == 2, result.output
    table = pyarrow.feather.read_table(job.parent / "out" / "training.arrow")
    assert table.column("last__n").to_pylist() == [1, 1]
    assert table.column_names == ["symbol", "decided", "won", "last__n", "last__mean"]


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('path = "trades.csv"', 'path = "trade.csv"', "[events] path: there is no file or folder"),
        ('path = "trades.csv"', 'path = "labels.parquet"\nformat = "csv"', "labels.parquet cannot be read as csv"),
        ('time = "decided"', 'tme = "decided"', "[labels] tme: unknown key; did you mean time?"),
        ('time = "decided"', "", "the labels have no column 'ts' with their times"),
        ("[output]", "[outputs]", "outputs: unknown key; did you mean output?"),
        ('[output]\npath = "out/training.parquet"', "", "[output]: is missing"),
        ("[events]", "[events.quotes]", "declares no stream quotes; its streams are trades"),
        ('queries = "features.sql"', "", 'queries: is missing; write for example: queries = "features.sql"'),
        ('queries = "features.sql"', 'queries = "features.sql"\nedge = "after"', 'edge: must be "before" or "at"'),
        ('queries = "features.sql"', 'queries = "features.sql"\nonly = ["lst"]', "did you mean 'last'"),
        ("[labels]", "[labels", "the job file is not TOML"),
        ("[labels]", "memory_limit = 0\n[labels]", "memory_limit: must be a whole number of at least 1, got 0"),
    ],
)
def test_mistakes_name_the_place_and_the_cure(job: Path, before: str, after: str, message: str) -> None:
    assert before in JOB
    job.write_text(JOB.replace(before, after))
    result = runner.invoke(app, ["training-set", str(job)])
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_help() -> None:
    result = runner.invoke(app, ["training-set", "--help"])
    assert result.exit_code == 0
    assert "JOB.toml" in result.output
