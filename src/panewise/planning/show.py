"""A plan as people see it: a line of text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from panewise.notebook import block, counted, folded, line, names, table
from panewise.planning.cost import cost_of
from panewise.planning.phrases import RATE_UNKNOWN, component_text, rate_text
from panewise.planning.picture import draw
from panewise.planning.sharing.cost import UNIT_WEIGHTS
from panewise.planning.trees import PlanContent

TREES_DRAWN = 6
"""This many trees fit on a page of a notebook; `Plan.picture` draws more."""


def plan_text(plan: PlanContent) -> str:
    """What the plan is and costs, in a line."""
    return f"Plan({_summary(plan)})"


def plan_html(plan: PlanContent) -> str:
    """The trees as a table, what they hold, and their picture. Cost: O(trees and queries)."""
    # Loaded here: it loads compiled code, for which a line of text should not wait.
    from panewise.planning.memory import consumers, show_bytes

    held = consumers(plan)
    total = show_bytes(sum(consumer.bytes for consumer in held))
    memory = f"about {total} held, most of it by {held[0].name}" if held else ""
    headings = ("tree", "stream", "grouped by", "windows", "partials", "queries")
    return block(
        f"Plan: {_summary(plan)}",
        line(RATE_UNKNOWN if plan.rate_is_assumed else memory) if held else "",
        table(headings, _tree_rows(plan), len(plan.trees)),
        line(f"answered by lookups: {names(query.name for query in plan.on_demand)}") if plan.on_demand else "",
        line(f"answered with rows: {names(row.query.name for row in plan.row_queries)}") if plan.row_queries else "",
        picture_html(plan),
    )


def picture_html(plan: PlanContent) -> str:
    """The picture of the trees, to unfold; nothing if there is no tree."""
    return folded("picture", draw(plan, most_trees=TREES_DRAWN, on_page=True)) if plan.trees else ""


def _summary(plan: PlanContent) -> str:
    sliding = sum(len(tree.queries) for tree in plan.trees)
    rate = rate_text(plan.rate, is_assumed=plan.rate_is_assumed)
    unit = "operations" if plan.weights == UNIT_WEIGHTS else "nanoseconds"
    parts = [f"{counted(sliding, 'sliding query', 'sliding queries')} in {counted(len(plan.trees), 'execution tree')}"]
    parts += [f"{len(plan.on_demand):,} on demand"] if plan.on_demand else []
    parts += [f"{len(plan.row_queries):,} of rows"] if plan.row_queries else []
    return f"{', '.join(parts)}; {cost_of(plan):,.0f} {unit} a second at {rate}"


def _tree_rows(plan: PlanContent) -> Iterator[tuple[object, ...]]:
    for stream in plan.streams.values():
        for tree in stream.trees:
            yield (
                tree.number,
                stream.stream.name,
                ", ".join(tree.group_by) or "nothing",
                len(tree.windows),
                ", ".join(component_text(stream, component) for component in tree.components),
                names(planned.query.name for planned in tree.queries),
            )
