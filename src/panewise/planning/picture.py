"""A plan as a picture: for each tree a time line of its fragments, with its queries' windows over them, as SVG."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import pairwise

import numpy as np

from panewise.language.literals import print_duration
from panewise.language.printer import print_window
from panewise.notebook import counted
from panewise.planning.trees import Clock, PlanContent, Tree
from panewise.windows import Window
from panewise.windows.instances import ends_of, starts_of
from panewise.windows.slots import lengths_of

WIDTH = 1000
_LEFT = 290
_RIGHT = 45
_LINE = 18
_MOST_FRAGMENTS = 240
_MOST_TREES = 40
_MOST_WINDOWS = 16
_INSTANCES = 3
_TICKS = 5
_COLOURS = ("#4c78a8", "#72b7b2", "#e45756", "#b279a2", "#54a24b", "#9d755d")


def draw(plan: PlanContent, *, most_trees: int = _MOST_TREES, on_page: bool = False) -> str:
    """The picture as the text of an SVG file. Only the first trees and windows are drawn if there are very many.

    `on_page` makes it fit into a page of HTML: as wide as there is room, in the page's colours, light or dark.
    """
    bands = [_Band(stream.stream.name, tree) for stream in plan.streams.values() for tree in stream.trees]
    shown = bands[:most_trees]
    parts: list[str] = []
    top = 2 * _LINE
    for band in shown:
        parts += band.draw(top)
        top += band.height
    left_out = len(bands) - len(shown)
    queries = counted(sum(len(band.tree.queries) for band in bands), "query", "queries")
    heading = f"{queries} in {counted(len(bands), 'execution tree')}"
    if left_out:
        heading += f"; {counted(left_out, 'tree is', 'trees are')} not drawn"
    size = f'style="width:100%;max-width:{WIDTH}px;height:auto"' if on_page else f'width="{WIDTH}" height="{top}"'
    colour = "currentColor" if on_page else "#000"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {top}" '
            f'font-family="sans-serif" font-size="12" fill="{colour}">',
            *([] if on_page else [f'<rect width="{WIDTH}" height="{top}" fill="white"/>']),
            _text(10, _LINE, heading, weight="bold"),
            *parts,
            "</svg>",
            "",
        ]
    )


@dataclass(frozen=True)
class _Band:
    """One tree's part of the picture."""

    stream: str
    tree: Tree

    @property
    def windows(self) -> tuple[Window, ...]:
        return self.tree.windows[:_MOST_WINDOWS]

    @property
    def height(self) -> int:
        left_out = len(self.tree.windows) > _MOST_WINDOWS
        return _LINE * (4 + len(self.windows) + left_out)

    @cached_property
    def span(self) -> int:
        """How many slots are drawn: three instances of the longest window, if their fragments can be told apart."""
        wanted = max(sum(lengths_of(window)) + lengths_of(window)[1] for window in self.tree.windows)
        room = _MOST_FRAGMENTS / self.tree.cuts.rate
        return max(2, min(-(-wanted // self.tree.granularity), int(room)))

    def draw(self, top: int) -> Iterator[str]:
        tree = self.tree
        groups = ", ".join(tree.group_by) or "one group"
        queries = counted(len(tree.queries), "query", "queries")
        yield _text(10, top + _LINE, f"tree {tree.number}: {self.stream} by {groups}, {queries}", weight="bold")
        yield _text(10, top + 2 * _LINE, "fragments")
        yield from self._fragments(top + _LINE + 5)
        counts = dict.fromkeys(self.windows, 0)
        for planned in tree.queries:
            if planned.query.window in counts:
                counts[planned.query.window] += 1
        for place, (window, count) in enumerate(counts.items()):
            line = top + (2 + place) * _LINE
            label = print_window(window) + (f" x {count}" if count > 1 else "")
            yield _text(10, line + _LINE, label)
            yield from self._instances(window, line + 5, _COLOURS[place % len(_COLOURS)])
        bottom = top + (2 + len(counts)) * _LINE
        if len(tree.windows) > len(counts):
            yield _text(10, bottom + _LINE, f"and {len(tree.windows) - len(counts)} more windows")
            bottom += _LINE
        yield from self._axis(bottom + _LINE)

    def _fragments(self, y: int) -> Iterator[str]:
        starts = np.unique(self.tree.cuts.starts(np.arange(self.span)))
        bounds = [*starts.clip(0).tolist(), self.span]
        for place, (begin, end) in enumerate(pairwise(bounds)):
            shade = "#d0d0d0" if place % 2 else "#efefef"
            yield self._bar(begin, end, y, _LINE - 4, shade, "#888888")

    def _instances(self, window: Window, y: int, colour: str) -> Iterator[str]:
        """The first instances, one below the other; those that reach past the picture are cut off at its edge."""
        height = (_LINE - 4) / _INSTANCES
        for place in range(_INSTANCES):
            begin = max(starts_of(window, place) // self.tree.granularity, 0)
            end = min(ends_of(window, place) // self.tree.granularity, self.span)
            if begin < end:
                yield self._bar(begin, end, y + place * height, height - 1, colour, colour)

    def _axis(self, y: int) -> Iterator[str]:
        for tick in range(_TICKS + 1):
            slot = self.span * tick // _TICKS
            ticks = slot * self.tree.granularity
            label = f"{ticks} rows" if self.tree.clock is Clock.ROWS else print_duration(ticks).lower()
            yield _text(self._x(slot), y - 4, label if ticks else "0", anchor="middle", size=9, opacity=0.7)

    def _bar(self, begin: int, end: int, y: float, height: float, fill: str, stroke: str) -> str:
        x, width = self._x(begin), self._x(end) - self._x(begin)
        return (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="0.4"/>'
        )

    def _x(self, slot: int) -> float:
        return _LEFT + (WIDTH - _LEFT - _RIGHT) * slot / self.span


def _text(
    x: float,
    y: float,
    text: str,
    *,
    weight: str = "normal",
    anchor: str = "start",
    size: int = 12,
    opacity: float = 1,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-weight="{weight}" text-anchor="{anchor}" font-size="{size}" '
        f'opacity="{opacity}">{escape(text)}</text>'
    )
