"""The settings of a job's Spark session."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from panewise.cli.job import EventSource, JobError, JobFile, LogSettings, StreamSettings
from panewise.cli.session import local_cores, session_settings, start_session


def job(
    spark: dict[str, str], *, mode: str = "stream", log: LogSettings | None = None, at: str = "/x/out/state"
) -> JobFile:
    return JobFile(
        file=Path("/x/trades.toml"),
        queries=Path("/x/trades.sql"),
        name="trades",
        mode=mode,
        sources={"": EventSource("rate")},
        stream=StreamSettings(checkpoint=at),
        log=log or LogSettings(),
        spark=spark,
    )


def java_properties(settings: dict[str, str]) -> dict[str, str]:
    options = shlex.split(settings["spark.driver.extraJavaOptions"])
    return dict(option.removeprefix("-D").split("=", 1) for option in options if option.startswith("-D"))


def test_settings_of_the_job_win() -> None:
    settings = session_settings(job({"master": "local[2]", "spark.sql.session.timeZone": "CET", "spark.x": "1"}))
    assert settings["spark.master"] == "local[2]"
    assert settings["spark.sql.shuffle.partitions"] == "2"
    assert settings["spark.sql.session.timeZone"] == "CET"
    assert settings["spark.x"] == "1"
    assert "master" not in settings
    assert settings["spark.ui.enabled"] == "false"
    assert session_settings(job({"spark.ui.enabled": "true"}))["spark.ui.enabled"] == "true"


def test_a_cluster_keeps_its_own_number_of_partitions() -> None:
    settings = session_settings(job({"spark.master": "yarn"}))
    assert settings["spark.master"] == "yarn"
    assert "spark.sql.shuffle.partitions" not in settings


@pytest.mark.parametrize(
    ("checkpoint", "mode", "file"),
    [
        ("/x/out/state", "stream", "/x/out/state.spark.log"),
        ("file:///x/my%20out/state", "stream", "/x/my out/state.spark.log"),
        ("s3a://market/state", "stream", "/x/trades.spark.log"),
        ("/x/out/state", "batch", "/x/trades.spark.log"),
    ],
)
def test_warnings_go_to_a_file_beside_the_checkpoint(checkpoint: str, mode: str, file: str) -> None:
    settings = session_settings(job({}, mode=mode, at=checkpoint))
    properties = java_properties(settings)
    assert (properties["panewise.log.file"], properties["panewise.log.file.level"]) == (file, "warn")
    assert settings["spark.log.level"] == "WARN"
    assert "panewise.log.console.level" not in properties
    configuration = Path(properties["log4j2.configurationFile"].removeprefix("file://"))
    assert "${sys:panewise.log.file:" in configuration.read_text()


def test_the_log_goes_where_the_job_says() -> None:
    log = LogSettings(Path("/var/log/trades.log"), "debug")
    settings = session_settings(job({"spark.driver.extraJavaOptions": "-Xss2m -Dx=1"}, log=log))
    properties = java_properties(settings)
    assert (properties["panewise.log.file"], properties["panewise.log.file.level"]) == ("/var/log/trades.log", "debug")
    assert settings["spark.log.level"] == "DEBUG"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Xss2m -Dx=1")

    properties = java_properties(session_settings(job({}, log=LogSettings(console=True))))
    assert properties["panewise.log.console.level"] == "warn"
    assert "panewise.log.file" not in properties

    off = job({}, log=LogSettings(level="off"))
    assert "panewise.log.file" not in java_properties(session_settings(off))
    assert session_settings(off)["spark.log.level"] == "OFF"
    verbose = session_settings(off, verbose=True)
    assert (verbose["spark.log.level"], java_properties(verbose)["panewise.log.console.level"]) == ("WARN", "warn")


def test_a_log_that_cannot_be_written_is_told_before_spark_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    log = LogSettings(tmp_path / "file" / "spark.log")
    with pytest.raises(
        JobError, match=r"\[log\] file: cannot write Spark's log to .*; name another file, or write cons"
    ):
        start_session(job({}, log=log), verbose=False)


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[4]", 4), ("local[4,3]", 4), ("spark://host:7077", None)]
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores
