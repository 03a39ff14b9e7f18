"""Names of streams and queries as users give them."""

from __future__ import annotations

from difflib import get_close_matches

from panewise.errors import PanewiseError


def text_name(name: object, what: str) -> str:
    """A name, which must be text."""
    if isinstance(name, str):
        return name
    raise PanewiseError(f"{what} is named by a text, not by {type(name).__name__}")


def instead_of(name: str, known: list[str]) -> str:
    """What else a name could be, for the end of a message."""
    near = get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; there are: {', '.join(known[:10]) or 'none'}"
