"""`panewise serve`: a server over a folder, over an engine, or over the replay of the flights."""

from __future__ import annotations

import logging
from pathlib import Path

import panewise
from panewise.cli.lookup import reading
from panewise.cli.workload import read_workload
from panewise.errors import CommandError
from panewise.serve.application import Application
from panewise.serve.engine_source import EngineSource
from panewise.serve.folder_source import FolderSource
from panewise.serve.server import Address, check_address, read_token, serve
from panewise.serve.snapshot_builder import give_memory_back
from panewise.serve.source import AnswerSource


def run_server(
    folder: Path | None,
    engine: Path | None,
    address: Address,
    *,
    is_demo: bool,
    control: Path | None,
    share: Path | None,
    metrics: Path | None,
    token_file: Path | None,
    most_age_s: float | None,
    read_only: bool,
) -> None:
    """Serve until it is stopped."""
    if sum((folder is not None, engine is not None, is_demo)) != 1:
        raise CommandError("name the FOLDER of a job, or --engine FILE.sql, or --demo: one of them")
    if metrics is not None and folder is None:
        raise CommandError("--metrics is the metrics file of the job of a FOLDER; an engine tells its own health")
    if share is not None and folder is None:
        raise CommandError("--share is for servers over the FOLDER of a job; an engine's state is its own")
    if most_age_s is not None and not most_age_s > 0:
        raise CommandError(f"--most-age is a positive number of seconds; got {most_age_s:g}")
    token = read_token(token_file)
    check_address(address, token)
    give_memory_back()
    # What the engine warns about goes to the log, once.
    logging.captureWarnings(True)
    source: AnswerSource
    if folder is not None:
        with reading(folder):
            source = FolderSource(folder, control, share, metrics, apart=True)
    elif engine is not None:
        source = EngineSource(panewise.Engine(read_workload(engine)))
    else:
        from panewise.cli.demo.served import FlightsSource

        source = FlightsSource()
    can_add = not read_only and (folder is None or control is not None)
    application = Application(source, token=token, most_age_s=most_age_s, can_add=can_add)
    serve(application, address)
