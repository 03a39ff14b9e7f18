"""`panewise lookup`: answers of a running job, from its folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from getpass import getuser
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from panewise.aggregates.types import Type
from panewise.cli.exit_codes import ExitCode
from panewise.cli.nearest import did_you_mean
from panewise.cli.progress import duration_text
from panewise.engine.wide_columns import group_columns
from panewise.errors import KeysError, PanewiseError, TimeError, UnknownNameError
from panewise.spark.lookup_client import LookupClient
from panewise.windows import RowWindow, TimeWindow, follows_events
from panewise.windows.clock import show_time

_MOST_ROWS = 40
_LOOK_EVERY_S = 0.2


def look_up(
    folder: Path, query: str, console: Console, *, keys: list[str], at: str | None, watch: bool, as_json: bool
) -> ExitCode:
    """Print the answers of a query; with `watch`, again whenever they change, until Ctrl-C.

    A query or group without an answer is told, and has an exit code of its own.
    """
    idle: list[str] = []
    with reading(folder), LookupClient(folder) as client:
        if query not in client.workload.queries:
            raise UnknownNameError(f"{folder}: there is no query {query}{did_you_mean(query, client.workload.queries)}")
        asked = _keys(client, query, keys)
        for answers in _answers(client, query, asked, at, watch):
            idle = _idle(client, query, answers, asked)
            if as_json:
                for row in answers.to_pylist():
                    # Not through the console, which would wrap and colour it.
                    print(json.dumps(_plain(row)), flush=True)
            elif answers.num_rows:
                _show(client, query, answers, console)
            for reason in idle:
                _tell_idle(query, f"{reason}; {_progress(client)}", as_json=as_json)
    return ExitCode.NO_ANSWER if idle else ExitCode.DONE


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """What the operating system refuses is told with the file and the cure: it is no sign that nothing is there."""
    try:
        yield
    except OSError as error:
        raise _unreadable(folder, error) from error
    except PanewiseError as error:
        if isinstance(error.__cause__, OSError):
            raise _unreadable(folder, error.__cause__) from error
        raise


def _unreadable(folder: Path, error: OSError) -> PanewiseError:
    place = error.filename or folder
    cure = "look whether its disk is mounted and well"
    if isinstance(error, PermissionError):
        cure = f"run as the job's user, or let {_user()} read it"
    return PanewiseError(f"{folder}: cannot read {place}: {error.strerror or error}; {cure}")


def _user() -> str:
    """The name of who runs this; a number where it has none."""
    try:
        return getuser()
    except (KeyError, OSError):
        return f"user {os.getuid()}"


def _idle(client: LookupClient, query: str, answers: pa.Table, asked: dict[str, list[Any]] | None) -> list[str]:
    """Why there is no answer: for the query, or for each of the groups that were asked for."""
    bound = client.workload.queries[query]
    is_closing = isinstance(bound.window, TimeWindow) and bound.window.is_sliding
    if not answers.num_rows and is_closing and client.watermark_us is None and not client.is_batch:
        return ["no window has closed yet"]
    if asked is None:
        return [] if answers.num_rows else ["no group has an answer: none has events in the window, or passes HAVING"]
    columns = group_columns(client.workload.streams[bound.stream], bound)
    names = [name for name in bound.group_by if name in asked]
    shown = (answers.column(columns[name]).to_pylist() for name in names)
    found = {tuple(map(_comparable, group)) for group in zip(*shown)}
    wanted = dict.fromkeys(zip(*(asked[name] for name in names)))
    return [
        f"{', '.join(f'{name}={value}' for name, value in zip(names, group))} is idle: it has no events in the window, "
        f"or does not pass HAVING"
        for group in wanted
        if tuple(map(_comparable, group)) not in found
    ]


def _comparable(value: Any) -> Any:
    """A key's value as one that equals itself: times are in UTC, said or not, and NaN is NaN."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return "NaN" if isinstance(value, float) and value != value else value


def _tell_idle(query: str, reason: str, *, as_json: bool) -> None:
    if as_json:
        told = {"event": "no_answer", "exit_code": int(ExitCode.NO_ANSWER), "query": query, "reason": reason}
        print(json.dumps(told), flush=True)
    else:
        Console(stderr=True).print(f"{query}: {reason}", highlight=False, soft_wrap=True)


def _answers(client: LookupClient, query: str, keys: object, at: str | None, watch: bool) -> Iterator[pa.Table]:
    """The answers, and with `watch` new ones each time they change."""
    last = client.lookup(query, keys, _time(at))
    yield last
    try:
        while watch:
            sleep(_LOOK_EVERY_S)
            answers = client.lookup(query, keys, _time(at))
            if not answers.equals(last):
                last = answers
                yield answers
    except KeyboardInterrupt:
        return


def _time(at: str | None) -> str | int | None:
    if at is None or not at.lstrip("-").isdigit():
        try:
            if at is not None:
                datetime.fromisoformat(at)
        except ValueError:
            raise TimeError(
                f'--at {at}: this is not a time; write "2013-01-01 05:00:00", in UTC, or microseconds since 1970'
            ) from None
        return at
    return int(at)


def _keys(client: LookupClient, query: str, given: list[str]) -> dict[str, list[Any]] | None:
    """The requested groups; `given` has texts like "origin=JFK"."""
    if not given:
        return None
    bound = client.workload.queries[query]
    types = client.workload.streams[bound.stream].attributes
    keys: dict[str, list[Any]] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise KeysError(f"--key {text}: write it as ATTRIBUTE=VALUE")
        if name not in bound.group_by:
            groups = ", ".join(bound.group_by) or "nothing"
            raise KeysError(f"--key {text}: query {query} groups by {groups}{did_you_mean(name, bound.group_by)}")
        keys.setdefault(name, []).append(_value(text, types[name], value))
    # An attribute that is given once applies to all groups.
    longest = max(map(len, keys.values()))
    return {name: values * longest if len(values) == 1 else values for name, values in keys.items()}


def _value(text: str, kind: Type, value: str) -> Any:
    try:
        match kind:
            case Type.BIGINT:
                return int(value)
            case Type.DOUBLE:
                return float(value)
            case Type.BOOLEAN:
                return {"true": True, "false": False}[value.lower()]
            case Type.TIMESTAMP:
                return datetime.fromisoformat(value)
            case _:
                return value
    except (ValueError, KeyError):
        raise KeysError(f"--key {text}: {value!r} is not {kind}") from None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _show(client: LookupClient, query: str, answers: pa.Table, console: Console) -> None:
    """One query's answers as a table, with their window above it if they share one."""
    bound = client.workload.queries[query]
    if isinstance(bound.window, RowWindow) or follows_events(bound.window):
        # Each substream has its own rows or sessions, so it has its own times.
        console.print(f"{query}: {_progress(client)}", highlight=False, soft_wrap=True)
        shown = answers
    else:
        start, end = answers.column("window_start")[0].as_py(), answers.column("window_end")[0].as_py()
        console.print(f"{query}: {start} to {end}; {_progress(client)}", highlight=False, soft_wrap=True)
        shown = answers.drop_columns(["window_start", "window_end"])
    groups = list(group_columns(client.workload.streams[bound.stream], bound).values())
    if groups:
        shown = shown.sort_by([(name, "ascending") for name in groups])
    table = Table()
    for name in shown.column_names:
        table.add_column(name, justify="left" if name in groups else "right")
    for row in shown.slice(0, _MOST_ROWS).to_pylist():
        table.add_row(*("NULL" if value is None else str(value) for value in row.values()))
    console.print(table)
    if shown.num_rows > _MOST_ROWS:
        console.print(f"and {shown.num_rows - _MOST_ROWS} more; --json prints all, --key picks some")


def _progress(client: LookupClient) -> str:
    """How far the job is, and how long ago it said so: of a job that is dead, only this tells."""
    if client.is_batch:
        return "at the end of a batch job"
    watermark_us, age_s = client.watermark_us, client.statistics()["age_s"]
    watermark = "no watermark yet" if watermark_us is None else f"watermark {show_time(watermark_us)}"
    return watermark if age_s is None else f"{watermark}, published {duration_text(age_s)} ago"
