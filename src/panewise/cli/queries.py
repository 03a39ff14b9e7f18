"""`panewise queries`: the live queries of a job on Spark, what statements came, and what would be refused."""

from __future__ import annotations

import json
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from panewise.cli.lookup import reading
from panewise.errors import CommandError, FileAccessError
from panewise.spark.query_audit import LiveQuery, QueryAudit, Taken


def show_queries(folder: Path, console: Console, *, statements: bool, as_json: bool) -> None:
    """Print the queries that a job has now, or all statements that came through its control stream."""
    with reading(folder):
        audit = QueryAudit(folder)
        rows = [*map(_taken, audit.taken())] if statements else [*map(_live, audit.live())]
        costs = [] if as_json or statements else _cost_lines(audit)
    if as_json:
        for row in rows:
            # Not through the console, which would wrap and colour it.
            print(json.dumps(row), flush=True)
    elif rows:
        console.print("\n".join(map(_block, rows)), highlight=False, markup=False, soft_wrap=True)
    else:
        console.print("no statement has come" if statements else "the job has no queries")
    for line in costs:
        console.print(line, highlight=False, soft_wrap=True)


def _cost_lines(audit: QueryAudit) -> list[str]:
    """What each stream's plan costs beside a fresh one, and when it was last made anew."""
    replans, batch = audit.replanned
    when = f"planned anew {replans:,} times, last after batch {batch}" if replans else "never planned anew"
    return [
        f"stream {cost.stream}: {cost.now:,.0f} operations a second now, {cost.fresh:,.0f} if planned anew; {when}"
        + ("; new bases are filling, and will take over" if cost.is_moving else "")
        for cost in audit.costs()
    ]


def check_statements(folder: Path, file: Path, console: Console) -> None:
    """Say if a job would take the statements of a file now. Nothing is sent."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileAccessError(f"cannot read {file}: {error}") from error
    with reading(folder):
        refusal = QueryAudit(folder).refusal(text)
    if refusal is not None:
        raise CommandError(f"{file}: the job would refuse it: {refusal}")
    console.print(f"{file}: the job would take it", highlight=False, soft_wrap=True)


def _live(query: LiveQuery) -> dict[str, Any]:
    came = {"since": "the start"} if query.came is None else _origin(query.came)
    return {"query": query.name, **came, "statement": query.text}


def _taken(taken: Taken) -> dict[str, Any]:
    return {
        **_origin(taken),
        "added": list(taken.added),
        "dropped": list(taken.dropped),
        "refused": taken.statement.error,
        "statement": taken.statement.text,
    }


def _origin(taken: Taken) -> dict[str, Any]:
    return {
        "since": f"batch {taken.batch}",
        "written": datetime.fromtimestamp(taken.written_s, UTC).isoformat(" ", "seconds"),
        "author": taken.statement.author,
        "position": taken.statement.position,
    }


def _block(row: dict[str, Any]) -> str:
    """A query or a statement over a few lines: in a table, texts of statements leave each other no width."""
    head = [row.get("query"), row["since"], row.get("written"), row.get("author"), row.get("position")]
    lines = ["  ".join(word for word in head if word)]
    lines += [f"  {what} {', '.join(row[what])}" for what in ("added", "dropped") if row.get(what)]
    if row.get("refused"):
        lines += textwrap.indent(f"refused: {row['refused']}", "  ").splitlines()
    return "\n".join([*lines, textwrap.indent(row["statement"].strip(), "    ")])
