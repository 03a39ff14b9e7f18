"""A plan as people see it: a line of text, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator

from panewise.notebook import block, counted, folded, line, names, table
from panewise.planning.cost import cost_of
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
    from panewise.planning.explain import RATE_UNKNOWN
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


def rate_text(rate_per_s: float, *, is_assumed: bool) -> str:
    """A rate for people, and whether somebody gave it.

    >>> [rate_text(rate, is_assumed=False) for rate in (12_345.6, 0.0102)], rate_text(1000, is_assumed=True)
    (['12,346 events a second', '0.0102 events a second'], 'an assumed 1,000 events a second')
    """
    shown = f"{rate_per_s:,.0f}" if rate_per_s >= 10 else f"{rate_per_s:.3g}"
    return f"{'an assumed ' if is_assumed else ''}{shown} events a second"


def _summary(plan: PlanContent) -> str:
    sliding = sum(len(tree.queries) for tree in plan.trees)
    rate = rate_text(plan.rate, is_assumed=plan.rate_is_assumed)
    unit = "operations" if plan.weights == UNIT_WEIGHTS else "nanoseconds"
    parts = [f"{counted(sliding, 'sliding query', 'sliding queries')} in {counted(len(plan.trees), 'execution tree')}"]
    parts += [f"{len(plan.on_demand):,} on demand"] if plan.on_demand else []
    parts += [f"{len(plan.row_queries):,} of rows"] if plan.row_queries else []
    return f"{', '.join(parts)}; {cost_of(plan):,.0f} {unit} a second at {rate}"


def _tree_rows(plan: PlanContent) -> Iterator[tuple[object, ...]]:
    from panewise.planning.explain import component_text

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
