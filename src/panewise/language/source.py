"""Places in a text, and problems found there.

The parser and the binder raise `PlacedError` with a span only; `located` knows the text and turns it into the
`StatementError` that users see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from panewise.errors import StatementError
from panewise.language.expressions import Span

EXCERPT_LENGTH = 100
LISTED_NAMES = 8


class PlacedError(Exception):
    """What is wrong, where, and the cure; it later becomes a `StatementError`."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        self.message = message
        self.span = span
        self.hint = hint
        super().__init__(message)


class UnknownSourceError(PlacedError):
    """A query reads what is not there, or not yet."""

    def __init__(self, name: str, span: Span, hint: str) -> None:
        self.name = name
        super().__init__(f"unknown stream {shortened(name)}", span, hint)


@contextmanager
def located(text: str) -> Iterator[None]:
    """Turn a `PlacedError` raised inside into a `StatementError` that shows the line of `text` it is on."""
    try:
        yield
    except PlacedError as problem:
        span = problem.span
        raise StatementError(
            problem.message,
            line=span.line,
            column=span.column,
            text=excerpt(text, span.start),
            hint=problem.hint,
        ) from None


def span_at(text: str, start: int, end: int | None = None) -> Span:
    """The span of the characters from `start` up to `end`, one character when `end` is not given."""
    line_start = text.rfind("\n", 0, start) + 1
    return Span(text.count("\n", 0, start) + 1, start - line_start + 1, start, start + 1 if end is None else end)


def joined(first: Span, last: Span) -> Span:
    """From the start of one span to the end of another."""
    return Span(first.line, first.column, first.start, last.end)


def excerpt(text: str, position: int) -> str:
    """The line around a position, cut to `EXCERPT_LENGTH` characters when it is long.

    >>> excerpt("SELECT x\\n  FROM s", 11)
    'FROM s'
    """
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : len(text) if end < 0 else end]
    if len(line) > EXCERPT_LENGTH:
        first = max(0, min(position - start - EXCERPT_LENGTH // 3, len(line) - EXCERPT_LENGTH))
        last = first + EXCERPT_LENGTH
        line = ("..." if first > 0 else "") + line[first:last] + ("..." if last < len(line) else "")
    return line.strip()


def shortened(word: str, length: int = 40) -> str:
    """A word of the text for use in a message, in quotes and cut when it is long."""
    word = str(word)  # a token of lark prints its type, too
    return repr(word if len(word) <= length else word[: length - 3] + "...")


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like a word, if any is like it.

    >>> nearest("Dealy", ["delay", "origin"])
    'delay'
    """
    # Case is ignored: Delay for delay is the typo to catch first.
    by_folded = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold()[:200], by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def hint_for(word: str, known: Iterable[str], none_known: str) -> str:
    """The hint for an unknown name: the nearest one, or the first few that exist."""
    names = list(known)
    if not names:
        return none_known
    close = nearest(word, names)
    if close is not None:
        return f"did you mean {close}?"
    return "known: " + ", ".join(names[:LISTED_NAMES]) + (", ..." if len(names) > LISTED_NAMES else "")
