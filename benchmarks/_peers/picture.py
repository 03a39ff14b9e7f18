"""The picture: seconds against the number of queries, both logarithmic, one panel for each data set and mode.

It is drawn only from the benchmark's JSON lines, so that a file of them is enough to draw it again.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from panewise.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that stay apart for colour-blind readers (Okabe and Ito); Panewise's lines are thick, the peers' thin.
COLOURS = (
    *("#0072B2", "#56B4E9", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#000000", "#999999"),
    *("#7B3F00", "#4B0082"),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
PANEL_INCHES = (6.6, 4.4)
CAPTION_COLUMNS = 105
Lines = list[dict[str, Any]]


def draw(lines: Lines, target: Path) -> None:
    """Draw what was measured into a PNG file."""
    require("plots", "drawing")
    from matplotlib.figure import Figure

    facts = next(line for line in lines if line["section"] == "facts")
    points = [line for line in lines if line["section"] == "point"]
    places = {label: place for place, label in enumerate(dict.fromkeys(point["label"] for point in points))}
    datasets, modes = ([*dict.fromkeys(point[name] for point in points)] for name in ("data", "mode"))
    width, height = PANEL_INCHES[0] * len(modes), PANEL_INCHES[1] * len(datasets)
    caption = textwrap.fill(_caption(facts), CAPTION_COLUMNS * len(modes))
    below = 0.3 + 0.16 * (caption.count("\n") + 1)
    figure = Figure(figsize=(width, height + below), dpi=120, layout="constrained")
    figure.get_layout_engine().set(rect=(0, below / (height + below), 1, height / (height + below)))
    panels = figure.subplots(len(datasets), len(modes), squeeze=False)
    for row, data in enumerate(datasets):
        for column, mode in enumerate(modes):
            chosen = [point for point in points if point["data"] == data and point["mode"] == mode]
            _draw_panel(panels[row][column], chosen, facts, places)
    figure.text(0.01, 0.01, caption, fontsize=8, va="bottom", ha="left")
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, format="png")


def _draw_panel(axes: Axes, points: Lines, facts: dict[str, Any], places: dict[str, int]) -> None:
    """One data set in one mode; `places` gives a label the same colour in all panels."""
    labels = [*dict.fromkeys((point["way"], point["label"], point["is_panewise"]) for point in points)]
    counts = sorted({point["queries"] for point in points})
    for way, label, is_panewise in labels:
        mine = [point for point in points if point["way"] == way]
        finished = [point for point in mine if point["status"] == "finished"]
        colour, marker = COLOURS[places[label] % len(COLOURS)], MARKERS[places[label] % len(MARKERS)]
        axes.plot(
            [point["queries"] for point in finished], [point["seconds"] for point in finished], label=label,
            color=colour, marker=marker, linewidth=2.6 if is_panewise else 1.2, markersize=6,
            zorder=3 if is_panewise else 2,
        )  # fmt: skip
        missed = [point for point in mine if point["status"] == "not finished"]
        if missed and finished:
            axes.plot(
                [finished[-1]["queries"], missed[0]["queries"]], [finished[-1]["seconds"], facts["limit_s"]],
                color=colour, linestyle=":", linewidth=1.2,
            )  # fmt: skip
        axes.plot([one["queries"] for one in missed], [facts["limit_s"]] * len(missed), color=colour, marker="x", ls="")
    axes.axhline(facts["limit_s"], color="#999999", linewidth=0.8, linestyle="--")
    axes.annotate(
        f"limit {facts['limit_s']:g} s", (counts[0], facts["limit_s"]), fontsize=7, va="bottom", color="#666666"
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set_xlabel("queries")
    axes.set_ylabel("seconds, all queries")
    axes.set_title(f"{points[0]['data']} ({points[0]['events']:,} events), {points[0]['mode']}", fontsize=10)
    axes.grid(True, which="major", linewidth=0.4)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)


def _caption(facts: dict[str, Any]) -> str:
    return (
        f"{facts['command']}. {facts['processor']}, {facts['cores']} cores, Python {facts['python']}. Lower is better; "
        f"x: stopped at the limit. Same queries and same answers for all, checked by checksum; planning, reading, "
        f"computing and writing are in the time, starting and warming up are not."
    )


def lines_of(text: Iterable[str]) -> Lines:
    """The JSON lines of a file; other lines are ignored."""
    return [json.loads(line) for line in text if line.startswith("{")]
