"""`panewise plan`: how a file of queries would be answered, and at what cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

import panewise
from panewise.cli.workload import read_workload
from panewise.errors import ArgumentError, FileAccessError, UnknownNameError
from panewise.planning.calibration import weights_for
from panewise.planning.explain import explain_data, heading_lines, other_lines
from panewise.planning.sharing.names import WEAVE_SHARE

_MOST_QUERIES = 12


def make_plan(
    file: Path, *, rate_per_s: float | None, groups: list[str], measured: bool, method: str = WEAVE_SHARE
) -> panewise.Plan:
    """The plan of a file of queries; `groups` has texts like "origin=300"."""
    if rate_per_s is not None and not 0 < rate_per_s < float("inf"):
        raise ArgumentError(f"--rate must be positive, got {rate_per_s:g}")
    workload = read_workload(file)
    attributes = {name for stream in workload.streams.values() for name in stream.attributes}
    given = dict(_group(text, attributes) for text in groups)
    plan = panewise.optimize(workload, rate=rate_per_s, groups=given, method=method)
    kinds = {
        component.kind for stream in plan.streams.values() for base in stream.bases for component in base.components
    }
    if not measured or not kinds:
        return plan
    return panewise.optimize(workload, rate=rate_per_s, groups=given, weights=weights_for(kinds), method=method)


def draw_plan(plan: panewise.Plan, file: Path) -> None:
    """Write a plan's picture to a file."""
    try:
        file.write_text(plan.picture(), encoding="utf-8")
    except OSError as error:
        raise FileAccessError(f"--picture {file}: cannot write it: {error.strerror}; choose another place") from error


def show_plan(plan: panewise.Plan, console: Console, *, as_json: bool) -> None:
    """Print a plan as JSON, or as text with a table of queries for each tree."""
    data = explain_data(plan)
    if as_json:
        # Not through the console, which would wrap and colour it.
        print(json.dumps(data, indent=2))
        return
    for line in heading_lines(data):
        console.print(line, highlight=False, soft_wrap=True)
    for base in data["bases"]:
        console.print()
        console.print(Text(base["title"], style="bold"), soft_wrap=True)
        _facts(
            console,
            2,
            **({} if base["reads"] is None else {"reads": base["reads"]}),
            partials=", ".join(base["components"]),
            cost=f"{base['cost_per_s']:,.0f} {data['unit']} a second",
        )
        for tree in data["trees"]:
            if tree["base"] == base["base"]:
                _show_tree(tree, data["unit"], console)
    for line in other_lines(data):
        console.print(Text(line), soft_wrap=True)


def _show_tree(tree: dict[str, Any], unit: str, console: Console) -> None:
    console.print()
    console.print(Text(f"  {tree['title']}", style="bold cyan"), soft_wrap=True)
    _facts(
        console,
        4,
        fragments=tree["fragments"],
        partials=", ".join(tree["components"]),
        predicates=", ".join(tree["predicates"]) or "none",
        cost=f"{tree['cost_per_s']:,.0f} {unit} a second, overlap {tree['overlap']:,.1f}",
        reason=tree["reason"],
    )
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("query", "window", "where", "cost a second"):
        table.add_column(name, justify="right" if name == "cost a second" else "left", overflow="fold")
    for query in tree["queries"][:_MOST_QUERIES]:
        cells = (query["query"], query["window"], query["where"] or "", f"{query['cost_per_s']:,.1f}")
        table.add_row(*(Text(cell) for cell in cells))
    console.print(Padding(table, (0, 0, 0, 4)))
    if len(tree["queries"]) > _MOST_QUERIES:
        rest = len(tree["queries"]) - _MOST_QUERIES
        console.print(f"    and {rest:,} queries more (--json lists them)", style="dim", highlight=False)


def _facts(console: Console, indent: int, **facts: str) -> None:
    for name, fact in facts.items():
        line = Text(" " * indent + f"{name:<12}", style="dim") + Text(fact, style="default")
        console.print(line, soft_wrap=True)


def _group(text: str, attributes: set[str]) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number.isdecimal() or int(number) < 1:
        raise ArgumentError(f"--groups {text}: write an attribute and a whole number, as in origin=300")
    if name not in attributes:
        there = ", ".join(sorted(attributes))
        raise UnknownNameError(f"--groups {text}: no stream has an attribute {name!r}; there are: {there}")
    return name, int(number)
