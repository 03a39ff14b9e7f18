"""The examples of deploy/ fit the server: its metrics, its options, its token."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx
import yaml
from tests.spark.log_writing import LogWriter
from typer.testing import CliRunner

import panewise
from panewise.cli.main import app
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.folder_source import FolderSource
from panewise.serve.server import running

from .conftest import STATEMENTS, trades

DEPLOY = Path(__file__).parents[2] / "deploy"


def metrics(url: str) -> set[str]:
    httpx.get(f"{url}/v1/queries")
    text = httpx.get(f"{url}/metrics").text
    return set(re.findall(r"^(panewise_\w+)(?:{| )", text, re.MULTILINE))


def test_the_dashboard_asks_for_metrics_that_exist(source: EngineSource, folder: Path) -> None:
    LogWriter(folder, panewise.read(STATEMENTS)).run(trades(0, 200))
    there: set[str] = set()
    for one in (source, FolderSource(folder)):
        with running(Application(one)) as url:
            there |= metrics(url)
    board = json.loads((DEPLOY / "grafana.json").read_text())
    asked = {
        name
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"panewise_\w+", target["expr"])
    }
    assert len(asked) > 10
    assert asked <= there


def options() -> str:
    return CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}).output


def test_the_unit_uses_options_that_exist() -> None:
    unit = (DEPLOY / "panewise-serve@.service").read_text()
    (command,) = re.findall(r"^ExecStart=.*? serve (.*)$", unit, re.MULTILINE)
    for option in re.findall(r"--[\w-]+", command):
        assert option in options()
    assert "--token-file ${CREDENTIALS_DIRECTORY}/token" in command


def test_the_compose_file_uses_options_that_exist() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    service = compose["services"]["panewise"]
    assert service["entrypoint"] == ["panewise", "serve"]
    for option in (word for word in service["command"] if word.startswith("--")):
        assert option in options()
    for name in compose["services"].values():
        for volume in name.get("volumes", []):
            assert (DEPLOY / volume.partition(":")[0]).exists()
    scraped = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["panewise:8787"]
