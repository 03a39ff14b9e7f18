"""How the figures look: one style, panels side by side, the paper's claim as the caption below.

Everything in a drawing comes from a table: the title, the source and the claim are among its facts.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.tables import Table

from panewise.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# Colours that stay apart for colour-blind readers (Okabe and Ito); markers tell lines apart in black and white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL_INCHES = 5.2
HEIGHT_INCHES = 5.6
CAPTION_COLUMNS = 88


def require_matplotlib() -> None:
    """Stop before measuring if drawing is not possible."""
    require("plots", "drawing")


def sheet(table: Table, panels: int = 1) -> tuple[Drawing, list[Axes]]:
    """An empty drawing with the title above, the caption below, and panels between."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    width = max(1.35, panels) * PANEL_INCHES
    facts = table.facts
    columns = round(CAPTION_COLUMNS * width / (1.35 * PANEL_INCHES))
    claim = textwrap.fill(
        f"The paper ({facts.get('source', '?')}): {facts.get('claim', '?')}", columns, break_on_hyphens=False
    )
    made = (
        f"Scale {facts.get('scale', '?')}, seed {facts.get('seed', '?')}, commit {facts.get('commit', '?')}; "
        f"{facts.get('processor', '?')}, {facts.get('cores', '?')} cores; {facts.get('measured', '?')}"
    )
    made = textwrap.fill(made, round(1.25 * columns))
    below = 0.25 + 0.19 * (claim.count("\n") + 1) + 0.15 * (made.count("\n") + 1)
    height = HEIGHT_INCHES + below
    between = ConstrainedLayoutEngine(rect=(0.0, below / height, 1.0, 1 - below / height))
    drawing = Drawing(figsize=(width, height), dpi=120, layout=between)
    title = textwrap.fill(facts.get("title", ""), round(0.75 * columns))
    drawing.suptitle(title, fontsize=12, fontweight="bold")
    drawing.text(0.02, (below - 0.12) / height, claim, fontsize=9.5, va="top")
    drawing.text(0.02, 0.08 / height, made, fontsize=7, va="bottom", color="#555555")
    axes = [drawing.add_subplot(1, panels, place + 1) for place in range(panels)]
    for each in axes:
        each.grid(True, which="major", color="#dddddd", linewidth=0.7)
        each.set_axisbelow(True)
        for side in ("top", "right"):
            each.spines[side].set_visible(False)
    return drawing, axes


def lines(
    axes: Axes,
    table: Table,
    x: str,
    y: str,
    by: str,
    *,
    names: Mapping[Any, str] | None = None,
    faint: str = "",
) -> None:
    """One line for each value of a column, through the means of rows with the same x. `names` chooses and orders.

    Lines in `faint` are for comparison only; it names them too.
    """
    kinds = [kind for kind in (names or table.distinct(by)) if table.has(**{by: kind})]
    every = list(names or table.distinct(by))
    for kind in kinds:
        rows = Table.of(row for row in table.where(**{by: kind}).rows if row.get(y) is not None)
        if not len(rows):
            continue
        xs = rows.distinct(x)
        place = every.index(kind)
        name = (names or {}).get(kind, f"{kind:,.12g}" if isinstance(kind, (int, float)) else str(kind))
        axes.plot(
            xs,
            [rows.mean(y, **{x: each}) for each in xs],
            label=f"{name}, {faint}" if faint else name,
            alpha=0.4 if faint else 1.0,
            linestyle=":" if faint else "-",
            color=COLOURS[place % len(COLOURS)],
            marker=MARKERS[place % len(MARKERS)],
            markersize=5,
            linewidth=1.6,
        )


def bars(
    axes: Axes,
    table: Table,
    groups: Sequence[tuple[str, Mapping[str, Any]]],
    y: str,
    by: str,
    names: Mapping[Any, str],
) -> None:
    """Bars side by side: one group for each label and its conditions, one bar in it for each value of a column."""
    kinds = [kind for kind in names if table.has(**{by: kind})]
    width = 0.8 / max(1, len(kinds))
    for place, kind in enumerate(kinds):
        found = [
            (number, table.mean(y, **{by: kind}, **where))
            for number, (_, where) in enumerate(groups)
            if table.has(**{by: kind}, **where)
        ]
        axes.bar(
            [number + (place - (len(kinds) - 1) / 2) * width for number, _ in found],
            [value for _, value in found],
            width,
            label=names[kind],
            color=COLOURS[place % len(COLOURS)],
            hatch="//" if place >= len(COLOURS) else None,
        )
    axes.set_xticks(range(len(groups)), [label for label, _ in groups])
    # Room for the legend above the bars.
    axes.margins(y=0.45)


def label(axes: Axes, x: str, y: str, *, title: str = "", legend: str = "", log: str = "", zero: bool = False) -> None:
    """Names of the axes with their units, a legend with a heading, and which axes are logarithmic."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if title:
        axes.set_title(title, fontsize=10)
    if "x" in log:
        axes.set_xscale("log")
        axes.margins(x=0.06)
        axes.xaxis.set_major_formatter("{x:,.12g}")
    if "y" in log:
        axes.set_yscale("log")
    elif zero:
        axes.set_ylim(bottom=0)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(title=legend or None, fontsize=8, title_fontsize=8, framealpha=0.9)


def save(drawing: Drawing, file: Path) -> None:
    """Write a PNG, whole or not at all."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(drawing)
    half = file.with_suffix(".part.png")
    drawing.savefig(half, format="png")
    half.replace(file)
