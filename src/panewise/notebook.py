"""How values look in a notebook: headings, tables of a bounded length, and pictures, as HTML.

Everything is escaped except pictures, which are escaped when they are made. There is no script and no style sheet:
colours come from the surrounding page, so that a dark page stays dark.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice

MOST_ROWS = 20
"""Longer tables are cut, and say how many more rows there are."""

MOST_NAMES = 8
"""Longer lists of names are cut, and say how many more there are."""

_MOST_CHARACTERS = 240

_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_CELL = f"text-align:left;vertical-align:top;padding:0.25em 0.8em 0.25em 0;border-bottom:{_LINE};color:inherit"
_TABLE = "border-collapse:collapse;margin:0.4em 0;background:none;color:inherit;font-size:0.9em"


def counted(number: int, one: str, many: str | None = None) -> str:
    """A number of things.

    >>> counted(1, "query", "queries"), counted(2000, "query", "queries"), counted(2, "tree")
    ('1 query', '2,000 queries', '2 trees')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def names(found: Iterable[str]) -> str:
    """Some names, and how many more there are.

    >>> names("abcdefghij")
    'a, b, c, d, e, f, g, h and 2 more'
    """
    listed = list(found)
    rest = len(listed) - MOST_NAMES
    return ", ".join(listed[:MOST_NAMES]) + (f" and {rest:,} more" if rest > 0 else "")


def block(title: str, *parts: str) -> str:
    """One value: its title in bold, and below it parts that are HTML."""
    return f'<div style="overflow-x:auto"><strong>{escape(title)}</strong>{"".join(parts)}</div>'


def line(text: str) -> str:
    """A line of text."""
    return f"<div>{escape(text)}</div>"


def table(headings: Iterable[str], rows: Iterable[Iterable[object]], total: int) -> str:
    """The first rows as a table, and how many more of the `total` there are. Without rows, nothing.

    Cost: O(rows shown), so `rows` may be a generator over very many.
    """
    if not total:
        return ""
    head = "".join(f'<th style="{_CELL};font-weight:600">{escape(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(_cell(value) for value in row)}</tr>" for row in islice(rows, MOST_ROWS))
    more = line(f"and {total - MOST_ROWS:,} more") if total > MOST_ROWS else ""
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


def folded(title: str, content: str) -> str:
    """HTML that shows when its title is clicked."""
    return f'<details style="margin:0.4em 0"><summary>{escape(title)}</summary>{content}</details>'


def _cell(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    if len(text) > _MOST_CHARACTERS:
        text = text[: _MOST_CHARACTERS - 1] + "…"
    return f'<td style="{_CELL}">{escape(text)}</td>'
