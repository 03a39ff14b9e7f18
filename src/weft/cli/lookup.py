"""`weft lookup`: answers of a running job, from its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table

import weft
from weft.aggregates.types import Type
from weft.cli.nearest import did_you_mean
from weft.errors import WeftError
from weft.spark.lookup_client import LookupClient
from weft.windows import RowWindow
from weft.windows.clock import show_time

_MOST_ROWS = 40
_LOOK_EVERY_S = 0.2


def look_up(
    folder: Path, query: str, console: Console, *, keys: list[str], at: str | None, watch: bool, as_json: bool
) -> None:
    """Print the answers of a query; with `watch`, again whenever they change, until Ctrl-C."""
    with LookupClient(folder) as client:
        if query not in client.workload.queries:
            raise WeftError(f"{folder}: there is no query {query}{did_you_mean(query, client.workload.queries)}")
        for answers in _answers(client, query, _keys(client, query, keys), at, watch):
            if as_json:
                for row in answers.to_pylist():
                    # Not through the console, which would wrap and colour it.
                    print(json.dumps(_plain(row)), flush=True)
            else:
                _show(client, query, answers, console)


def _answers(client: LookupClient, query: str, keys: object, at: str | None, watch: bool) -> Iterator[pa.Table]:
    """The answers, and with `watch` each time that they differ from those before."""
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
            raise WeftError(
                f'--at {at}: this is no time; write it as "2013-01-01 05:00:00", in UTC, or in microseconds since 1970'
            ) from None
        return at
    return int(at)


def _keys(client: LookupClient, query: str, given: list[str]) -> dict[str, list[Any]] | None:
    """The groups that are asked for; `given` has texts like "origin=JFK"."""
    if not given:
        return None
    bound = client.workload.queries[query]
    types = client.workload.streams[bound.stream].attributes
    keys: dict[str, list[Any]] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise WeftError(f"--key {text}: write it as ATTRIBUTE=VALUE")
        if name not in bound.group_by:
            groups = ", ".join(bound.group_by) or "nothing"
            raise WeftError(f"--key {text}: query {query} groups by {groups}{did_you_mean(name, bound.group_by)}")
        keys.setdefault(name, []).append(_value(text, types[name], value))
    # An attribute that is given once holds for all groups.
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
        raise WeftError(f"--key {text}: {value!r} is no {kind}") from None


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}


def _show(client: LookupClient, query: str, answers: pa.Table, console: Console) -> None:
    """One query's answers as a table, below the window that they are of where it is one."""
    wide = weft.wide(answers, client.workload, query)
    if not wide.num_rows:
        console.print(f"{query}: no answer yet, or no such group; {_progress(client)}", highlight=False)
        return
    bound = client.workload.queries[query]
    if isinstance(bound.window, RowWindow):
        # Each substream has its own rows, and so its own times.
        console.print(f"{query}: {_progress(client)}", highlight=False)
        shown = wide
    else:
        start, end = wide.column("window_start")[0].as_py(), wide.column("window_end")[0].as_py()
        console.print(f"{query}: {start} to {end}; {_progress(client)}", highlight=False)
        shown = wide.drop_columns(["window_start", "window_end"])
    groups = [name for name in bound.group_by if name in shown.column_names]
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
    if client.is_batch:
        return "at the end of a batch job"
    watermark_us = client.watermark_us
    return "no watermark yet" if watermark_us is None else f"watermark {show_time(watermark_us)}"
