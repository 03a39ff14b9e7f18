"""Hints for an unknown name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint with the nearest known name, or with all known names if none is near.

    >>> did_you_mean("Formt", ["format", "path"])
    '; did you mean format?'
    >>> did_you_mean("color", ["format", "path"])
    '; the known ones are format, path'
    """
    by_folded = {word.casefold(): word for word in known}
    near = get_close_matches(name.casefold(), by_folded, n=1)
    if near:
        return f"; did you mean {by_folded[near[0]]}?"
    return f"; the known ones are {', '.join(by_folded.values())}" if by_folded else ""
