"""The settings of a job's Spark session."""

from __future__ import annotations

import pytest

from weft.cli.session import local_cores, session_settings


def test_settings_of_the_job_win() -> None:
    settings = session_settings({"master": "local[2]", "spark.sql.session.timeZone": "CET", "spark.x": "1"})
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.sql.shuffle.partitions"] == "2"
    assert settings["spark.sql.session.timeZone"] == "CET"
    assert settings["spark.x"] == "1"
    assert "master" not in settings


def test_a_cluster_keeps_its_own_number_of_partitions() -> None:
    settings = session_settings({"spark.master": "yarn"})
    assert settings["spark.master"] == "yarn"
    assert "spark.sql.shuffle.partitions" not in settings


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[4]", 4), ("local[4,3]", 4), ("spark://host:7077", None)]
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores
