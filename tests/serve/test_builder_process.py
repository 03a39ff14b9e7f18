"""The builder in a process of its own: it answers as the thread does, is started again, and ends with its server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.serve.conftest import STATEMENTS, trades
from tests.serve.test_folder import until
from tests.serve.test_snapshots import agree
from tests.spark.log_writing import LogWriter

import panewise
from panewise.errors import FolderError
from panewise.serve.builder_process import BuilderProcess
from panewise.serve.folder_source import FolderSource


@pytest.fixture
def job(folder: Path) -> LogWriter:
    job = LogWriter(folder, panewise.read(STATEMENTS))
    job.run(trades(0, 310))
    return job


def builder_of(source: FolderSource) -> subprocess.Popen[bytes]:
    assert isinstance(source._builder, BuilderProcess)
    assert source._builder._process is not None
    return source._builder._process


def test_it_builds_again_after_it_was_killed(job: LogWriter, folder: Path) -> None:
    source = FolderSource(folder, apart=True)
    source.start()
    agree(source, folder)
    source.read(lambda reader: reader.lookup("busy", None, None), wait=True)
    job.run(trades(310, 450))
    until(lambda: source.position.batch == 1)
    agree(source, folder)
    first, version = builder_of(source), source.position.version
    first.kill()
    until(lambda: "it is started again" in (source.problem or ""))
    job.run(trades(450, 600))
    until(lambda: source.position.batch == 2 and source.problem is None)
    assert source.position.version > version
    assert builder_of(source) is not first
    agree(source, folder)
    last, directory = builder_of(source), Path(source._place.directory)  # type: ignore[attr-defined]
    source.close()
    assert last.returncode == 0
    assert not directory.exists()


def test_what_is_wrong_is_told(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    source = FolderSource(folder, apart=True)
    source.start()
    os.rename(folder, tmp_path / "away")
    until(lambda: f"cannot read {folder}" in (source.problem or ""))
    os.rename(tmp_path / "away", folder)
    until(lambda: source.problem is None)
    assert source.failures > 0
    source.close()
    (newest, *_) = (folder / "slots").rglob("*.panewise")
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.raises(FolderError, match=newest.name):
        FolderSource(folder, apart=True)


def test_it_does_not_outlive_its_server(job: LogWriter, folder: Path, tmp_path: Path) -> None:
    """Nor does a server that shares its directory wait for long."""
    program = (
        "import sys, time\n"
        "from panewise.serve.folder_source import FolderSource\n"
        "source = FolderSource(sys.argv[1], share=sys.argv[2], apart=True)\n"
        "print(source._builder._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", program, str(folder), str(tmp_path / "shared")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    builder = int(server.stdout.readline())
    other = FolderSource(folder, share=tmp_path / "shared", apart=True)
    assert not other.builds
    server.send_signal(signal.SIGKILL)
    server.wait()
    until(lambda: not is_running(builder))
    other.start()
    until(lambda: other.builds)
    job.run(trades(310, 450))
    until(lambda: other.position.batch == 1)
    agree(other, folder)
    other.close()


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    time.sleep(0.01)
    # Whoever inherits it has not yet asked how it ended.
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
