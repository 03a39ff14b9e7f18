"""The examples under deploy/: they are well formed, and their restart policies follow the exit codes of the command."""

from __future__ import annotations

import json
import re
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

import panewise
from panewise.cli.exit_codes import ExitCode
from panewise.cli.job import JobFile, read_job

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
BACKUP = DEPLOY / "backup.sh"
UNITS_S = {"s": 1, "min": 60, "h": 3600}


def seconds(text: str) -> int:
    """A length of time as systemd writes it."""
    number, unit = re.fullmatch(r"(\d+)(s|min|h)", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS_S[unit]


def unit() -> dict[str, dict[str, str]]:
    parser = ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(DEPLOY / "panewise@.service")
    return {name: dict(parser[name]) for name in parser.sections()}


def test_the_unit_restarts_as_the_exit_codes_say() -> None:
    sections = unit()
    assert list(sections) == ["Unit", "Service", "Install"]
    service = sections["Service"]
    assert service["Restart"] == "on-failure"
    prevented = {ExitCode(int(code)) for code in service["RestartPreventExitStatus"].split()}
    assert prevented == {ExitCode.PERMANENT}
    assert sections["Unit"]["StartLimitIntervalSec"] == "0"
    assert service["KillMode"] == "mixed"
    assert service["ExecStart"].endswith("/panewise run --json /etc/panewise/%i.toml")


def test_the_units_job_is_a_job_that_has_time_to_stop() -> None:
    job = read_job(DEPLOY / "trades.toml")
    assert panewise.read(job.queries).queries
    assert seconds(unit()["Service"]["TimeoutStopSec"]) > job.stream.stop_within_s


def documents() -> dict[str, dict[str, Any]]:
    yaml = pytest.importorskip("yaml")
    return {found["kind"]: found for found in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


def kubernetes_job(folder: Path) -> JobFile:
    for name, content in documents()["ConfigMap"]["data"].items():
        (folder / name).write_text(content)
    return read_job(folder / "trades.toml")


def test_kubernetes_restarts_as_the_exit_codes_say() -> None:
    job = documents()["Job"]["spec"]
    (container,) = job["template"]["spec"]["containers"]
    by_action: dict[str, set[ExitCode]] = {}
    for rule in job["podFailurePolicy"]["rules"]:
        if "onExitCodes" in rule:
            codes = rule["onExitCodes"]
            assert (codes["containerName"], codes["operator"]) == (container["name"], "In")
            by_action.setdefault(rule["action"], set()).update(map(ExitCode, codes["values"]))
    assert by_action == {"FailJob": {ExitCode.PERMANENT}, "Ignore": {ExitCode.PASSING}}
    # Kubernetes takes a policy for pods that are never restarted in place.
    assert job["template"]["spec"]["restartPolicy"] == "Never"
    assert (job["parallelism"], job["podReplacementPolicy"]) == (1, "Failed")
    assert job["completions"] > 1, "a pod that is asked to stop must not complete the job"


def test_kubernetes_mounts_what_the_job_names(tmp_path: Path) -> None:
    job = kubernetes_job(tmp_path)
    assert panewise.read(tmp_path / "trades.sql").queries
    pod = documents()["Job"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > job.stream.stop_within_s
    (container,) = pod["containers"]
    mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    assert set(mounts.values()) == {volume["name"] for volume in pod["volumes"]}
    for path in (job.stream.checkpoint, job.lookups, job.sink.path):
        assert path is not None
        assert mounts[str(Path(path).parent)] == "state"
    assert container["args"] == ["/etc/panewise/trades.toml"]
    assert [port["containerPort"] for port in container["ports"]] == [job.metrics.port]
    assert job.log_file is None, "a container's log is its standard error"


def test_the_container_is_panewise_itself() -> None:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    known = {"ARG", "FROM", "COPY", "RUN", "USER", "ENV", "ENTRYPOINT", "CMD", "STOPSIGNAL"}
    assert {name for name, _ in steps} <= known
    assert steps[0][0] == "FROM"
    last = dict(steps)
    # A shell between would keep signals and exit codes to itself.
    assert json.loads(last["ENTRYPOINT"]) == ["panewise", "run", "--json"]
    assert json.loads(last["CMD"]) == ["/etc/panewise/trades.toml"]
    assert last["USER"] == "panewise"


def backup(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BACKUP, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_a_backup_brings_checkpoint_and_folder_back_together(tmp_path: Path) -> None:
    checkpoint, lookups, saved = tmp_path / "check point", tmp_path / "lookups", tmp_path / "saved.tar"
    for folder in (checkpoint, lookups):
        (folder / "inner").mkdir(parents=True)
        (folder / "inner" / "0").write_text(f"{folder.name} then")
    lookups.chmod(0o700)
    done = backup("save", saved, checkpoint, lookups)
    assert done.returncode == 0, done.stderr
    (checkpoint / "inner" / "1").touch()

    refused = backup("restore", saved)
    assert (refused.returncode, "move it away first" in refused.stderr) == (2, True)
    assert (checkpoint / "inner" / "1").exists(), "nothing is touched"

    for folder in (checkpoint, lookups):
        folder.rename(folder.with_name(f"{folder.name} now"))
    done = backup("restore", saved)
    assert (done.returncode, done.stdout.splitlines()) == (0, [str(checkpoint), str(lookups)]), done.stderr
    assert [path.name for path in (checkpoint / "inner").iterdir()] == ["0"]
    assert (lookups / "inner" / "0").read_text() == "lookups then"
    assert lookups.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["save", "{folder}/new.tar"], "name the folders"),
        (["save", "{folder}/new.tar", "relative"], "write the whole path"),
        (["save", "{folder}/new.tar", "{folder}/nothing"], "is no folder"),
        (["save", "{folder}/old.tar", "{folder}"], "exists; choose another name"),
        (["restore", "{folder}/nothing.tar"], "there is no file"),
        (["forget", "{folder}/old.tar"], "write save or restore"),
        (["save"], "usage"),
    ],
)
def test_a_backup_refuses_what_it_cannot_do(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "old.tar").touch()
    done = backup(*(argument.format(folder=tmp_path) for argument in arguments))
    assert done.returncode == 2
    assert message in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.tar"]


def test_the_page_lists_every_exit_code() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    assert listed == {int(code) for code in ExitCode}
    for file in ("panewise@.service", "Containerfile", "kubernetes.yaml", "backup.sh", "trades.toml"):
        assert f"deploy/{file}" in page
