"""`panewise audit LOG EVENTS`: logged lookups, replayed through a training set over files of events."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps
from pathlib import Path
from typing import Any

import pyarrow as pa
import typer

from panewise.cli.exit_codes import ExitCode
from panewise.cli.nearest import did_you_mean
from panewise.cli.training_set import format_of, read_file_table
from panewise.cli.workload import read_workload
from panewise.engine.lookup_log import LogLine, LogReport, read_log, read_statements
from panewise.errors import CommandError, LookupLogError
from panewise.language.workload import Workload
from panewise.training.audit import Audit, Difference, Reason, audit
from panewise.windows.clock import show_time

SHOWN = 20
"""How many differences the text shows; JSON has them all."""
_MEANINGS = {
    Reason.CHANGED_QUERY: "changed query",
    Reason.EXPIRED: "expired",
    Reason.ARRIVED_LATER: "arrived later",
    Reason.UNEXPLAINED: "unexplained",
}


def run_audit(
    log: Path, events: Sequence[str], *, queries: Path | None = None, arrived: str | None = None, as_json: bool = False
) -> ExitCode:
    """Print what agrees and what differs."""
    report = LogReport()
    lines = list(read_log(log, report))
    if not lines:
        raise LookupLogError(f"{log} has no lookups; write some with LookupClient(folder, log={str(log)!r})")
    now = read_workload(queries) if queries is not None else read_statements(lines[-1].statements, log)
    found = audit(lines, _events(events, now, lines, arrived), str(log), queries=now, arrived=arrived)
    for text in _as_json(found, report) if as_json else _as_text(found, report):
        typer.echo(text)
    return ExitCode.DIFFERS if found.differences else ExitCode.DONE


def _events(
    given: Sequence[str], workload: Workload, lines: Sequence[LogLine], arrived: str | None
) -> dict[str, pa.Table]:
    """The tables of events, by stream."""
    needed = {workload.queries[line.lookup.query].stream for line in lines if line.lookup.query in workload.queries}
    paths: dict[str, Path] = {}
    for text in given:
        name, is_named, path = text.partition("=")
        if not is_named or name not in workload.streams:
            if is_named and not Path(text).exists():
                known = list(workload.streams)
                raise CommandError(f"there is no stream {name}{did_you_mean(name, known)}; streams: {', '.join(known)}")
            if len(needed) > 1 or len(given) > 1:
                raise CommandError(
                    f"the lookups read {len(needed)} streams; name the events of each: "
                    f"{' '.join(f'{one}=PATH' for one in sorted(needed))}"
                )
            name, path = next(iter(needed), next(iter(workload.streams))), text
        paths[name] = Path(path).expanduser()
    missing = sorted(needed - paths.keys())
    if missing:
        raise CommandError(f"the events of stream {missing[0]} are missing; add {missing[0]}=PATH")
    tables = {}
    for name, file in paths.items():
        if not file.exists():
            raise CommandError(f"there is no file or folder {file}")
        wanted = [*workload.streams[name].attributes, *([] if arrived is None else [arrived])]
        tables[name] = read_file_table(file, format_of(file), wanted)
    return tables


def _counts(found: Audit, report: LogReport) -> dict[str, Any]:
    return {
        "event": "audited",
        "lookups": found.lookups,
        "answers": found.answers,
        "agree": found.agree,
        "agree_without_later": found.later,
        "differ": found.differ,
        "reasons": found.reasons,
        "approximate": found.approximate,
        "broken_lines": report.broken,
        "missing_lines": report.missing,
    }


def _as_json(found: Audit, report: LogReport) -> list[str]:
    lines = [dumps({"event": "difference", **one.as_dict()}) for one in found.differences]
    return [*lines, dumps(_counts(found, report))]


def _as_text(found: Audit, report: LogReport) -> list[str]:
    shown = [_difference(one) for one in found.differences[:SHOWN]]
    if len(found.differences) > SHOWN:
        shown.append(f"... and {len(found.differences) - SHOWN:,} more; --json shows all")
    whole = f"{found.lookups:,} lookups of {found.answers:,} groups: {found.agree:,} agree, {found.differ:,} differ"
    if found.differ:
        reasons = (f"{_MEANINGS[Reason(name)]} {count:,}" for name, count in found.reasons.items() if count)
        whole += f" ({', '.join(reasons)})"
    shown.append(whole)
    if found.later:
        shown.append(f"{found.later:,} of those that agree do so without events that arrived later")
    if found.approximate:
        shown.append(f"{found.approximate:,} approximate values were not compared")
    if report.broken:
        some = ", ".join(map(str, report.broken[:5]))
        shown.append(
            f"{len(report.broken):,} lines of the log are cut off, first {some}: their lookups are not compared"
        )
    if report.missing:
        shown.append(f"{report.missing:,} lines of the log are missing: their lookups are not compared")
    return shown


def _difference(one: Difference) -> str:
    lookup = one.asked.line.lookup
    key = "" if not one.asked.key else f" of {', '.join(map(repr, one.asked.key))}"
    at = "before the first window" if lookup.time_us is None else f"at {show_time(lookup.time_us)}"
    return (
        f"line {one.asked.line.number}: {one.asked.query}{key} {at}: {one.item} was {one.served}, and is now "
        f"{one.replayed}: {_MEANINGS[one.reason]}: {one.why}"
    )
