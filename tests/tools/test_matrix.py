"""The parts of the matrix that need no other environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.matrix import (
    DELTA_APART,
    SPARK,
    MatrixError,
    Outcome,
    Table,
    delta_environment,
    oldest_allowed,
    spark_environment,
)

PAGE = "# Versions\n\n<!-- spark matrix: begin -->\n{}<!-- spark matrix: end -->\n\nThe end.\n"
HEADING = ("Spark", "batch", "stream")


def test_a_table_keeps_the_rows_and_cells_that_did_not_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(""))
    Table(HEADING, [("4.2.1", "3 passed", "4 passed")]).write_into(page, "spark matrix")
    Table(HEADING, [("4.0.4", "3 passed", "**1 failed**")]).write_into(page, "spark matrix")
    Table(HEADING, [("4.0.5", "", "4 passed")]).write_into(page, "spark matrix")
    heading = "| Spark | batch | stream |\n| --- | --- | --- |\n"
    rows = "| 4.0.5 | 3 passed | 4 passed |\n| 4.2.1 | 3 passed | 4 passed |\n"
    assert page.read_text() == PAGE.format(heading + rows)


def test_a_table_with_other_columns_begins_anew(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE.format("| Spark | old |\n|---|---|\n| 4.1.0 | 1 passed |\n"))
    Table(HEADING, [("4.2.1", "3 passed", "4 passed")]).write_into(page, "spark matrix")
    assert "4.1.0" not in page.read_text()
    with pytest.raises(MatrixError, match="has no marks for the table"):
        Table(HEADING).write_into(page, "python matrix")


def test_an_outcome_is_green_if_something_passed_and_nothing_failed() -> None:
    assert Outcome(passed=1, skipped=2).is_green
    assert str(Outcome(passed=1, skipped=2)) == "1 passed, 2 skipped"
    assert not Outcome(skipped=2).is_green
    assert not Outcome(passed=3, failures=["a"]).is_green


def test_every_dependency_of_the_core_names_its_oldest_version() -> None:
    bounds = dict(oldest_allowed())
    assert {"numpy", "numba", "pyarrow", "lark", "typer", "rich"} <= bounds.keys()
    assert all(version.replace(".", "").isdecimal() for version in bounds.values())


def test_an_environment_of_spark_has_that_version_and_what_belongs_beside_it() -> None:
    for version, beside in SPARK.items():
        environment = spark_environment(version, "python3")
        assert environment.name == f"spark-{version}"
        assert environment.requirements == (f"pyspark[connect]=={version}.*", *beside)


def test_delta_shares_the_environment_of_its_spark_unless_it_needs_an_older_patch() -> None:
    assert delta_environment("4.1", "python3") == spark_environment("4.1", "python3")
    apart = delta_environment("4.2", "python3")
    assert apart.name == "delta-4.2"
    assert apart.requirements == ("pyspark[connect]==4.2.*", *DELTA_APART["4.2"])
