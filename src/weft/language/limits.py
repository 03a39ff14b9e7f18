"""Limits that keep any text, however long or deep, quick to refuse."""

from __future__ import annotations

import re

from weft.aggregates.types import Type
from weft.language.expressions import Expression, Literal, children
from weft.language.literals import INT64_MAX, integer_too_large
from weft.language.source import PlacedError, span_at

MAX_STATEMENT_CHARACTERS = 64 * 1024
# Comparing, hashing and pickling an expression use Python's stack, a few frames a level.
MAX_DEPTH = 100

# What may hide a semicolon; last, when nothing else matched, the openings that are never closed. Possessive,
# so that a string that ends in a doubled quote is not taken for two strings.
_MARKS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+"|;|/\*|'|\"""",
    re.DOTALL,
)
_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)

_UNTERMINATED = {
    "'": ("unterminated string", "close it with '; inside a string, '' stands for one quote"),
    '"': ("unterminated quoted name", 'close it with "; inside a name, "" stands for one quote'),
    "/*": ("unterminated comment", "close it with */"),
}


def check_text(text: str) -> None:
    """Refuse a text with an unterminated string, name or comment, or with a statement that is too long."""
    start = 0
    multi_line: dict[str, int] = {}
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark == ";":
            _check_length(text, start, match.start())
            start = match.end()
        elif mark in _UNTERMINATED:
            # One missing quote turns all later strings inside out; the first that crosses a line is to blame.
            position = multi_line.get(mark, match.start())
            message, hint = _UNTERMINATED[mark]
            raise PlacedError(message, span_at(text, position), hint)
        elif mark[0] in "'\"" and "\n" in mark:
            multi_line.setdefault(mark[0], match.start())
    _check_length(text, start, len(text))


def _check_length(text: str, start: int, end: int) -> None:
    if end - start <= MAX_STATEMENT_CHARACTERS:
        return
    blank = _BLANK.match(text, start, end)
    start = blank.end() if blank else start
    if end - start > MAX_STATEMENT_CHARACTERS:
        message = f"the statement is too long: {end - start:,} characters, at most {MAX_STATEMENT_CHARACTERS:,}"
        raise PlacedError(message, span_at(text, start), "write several queries; end each statement with ;")


def check_expression(expression: Expression) -> None:
    """Refuse an expression that is nested too deeply, or holds an integer that does not fit an int64."""
    pending = [(expression, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise PlacedError(
                f"the expression is nested too deeply, more than {MAX_DEPTH} levels",
                node.span,
                "each AND or OR of a chain is a level: write IN (...) or BETWEEN, or split the query",
            )
        if isinstance(node, Literal):
            if node.type is Type.BIGINT and node.value == INT64_MAX + 1:
                raise integer_too_large(str(node.value), node.span)
        else:
            pending.extend((child, depth + 1) for child in children(node))
