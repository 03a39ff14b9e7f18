"""Limits, so that a text of any length or depth is refused quickly."""

from __future__ import annotations

import re
from collections.abc import Iterator

from panewise.aggregates.types import Type
from panewise.language.expressions import Expression, Literal, Span, children
from panewise.language.literals import INT64_MAX, integer_too_large
from panewise.language.source import PlacedError, span_at

MAX_STATEMENT_CHARACTERS = 64 * 1024
# Comparing, hashing and pickling an expression use Python's stack, a few frames a level.
MAX_DEPTH = 100

# What may hide a semicolon or a parenthesis; last, if nothing else matched, the openings that are never closed. The end
# of a statement includes the empty statements behind it. Possessive, so that a string that ends in a doubled quote does
# not match as two strings.
_MARKS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+"|[()]|;(?:[\s;]++|--[^\n]*+|/\*.*?\*/)*+|/\*|'|\"""",
    re.DOTALL,
)
_HAS_ROWS = re.compile(r"\bFOR\s+EACH\b", re.IGNORECASE)
_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)*", re.DOTALL)

_UNTERMINATED = {
    "'": ("unterminated string", "close it with '; inside a string, '' stands for one quote"),
    '"': ("unterminated quoted name", 'close it with "; inside a name, "" stands for one quote'),
    "/*": ("unterminated comment", "close it with */"),
}


def check_text(text: str) -> str:
    """The text without empty statements, which are costly to parse; everything else stays where it is.

    Refuses an unterminated string, name or comment, a statement that is too long, and parentheses that are too many.
    """
    return _checked(text)[0]


def statements_of(text: str) -> Iterator[tuple[int, str]]:
    """The statements of a text, each with its place; their semicolons end them. It refuses what `check_text` does."""
    cleaned, ends = _checked(text)
    start = 0
    for end in (*ends, len(cleaned)):
        if end > start:
            yield start, cleaned[start:end]
        start = end


def _checked(text: str) -> tuple[str, list[int]]:
    """The text without empty statements, and where each statement ends."""
    start = is_open = 0
    ends: list[int] = []
    multi_line: dict[str, int] = {}
    pieces: list[str] = []
    copied = 0
    for match in _MARKS.finditer(text):
        mark = match[0]
        if mark[0] == ";":
            _check_length(text, start, match.start())
            start, is_open = match.end(), 0
            ends.append(start)
            if ";" in mark[1:]:
                pieces += text[copied : match.start() + 1], mark[1:].replace(";", " ")
                copied = match.end()
        elif mark == "(":
            is_open += 1
            if is_open > MAX_DEPTH:
                raise _too_deep(span_at(text, match.start()), "take out parentheses, or split the query")
        elif mark == ")":
            is_open -= 1
        elif mark in _UNTERMINATED:
            # One missing quote turns all later strings inside out; blame the first that crosses a line.
            position = multi_line.get(mark, match.start())
            message, hint = _UNTERMINATED[mark]
            raise PlacedError(message, span_at(text, position), hint)
        elif mark[0] in "'\"" and "\n" in mark:
            multi_line.setdefault(mark[0], match.start())
    _check_length(text, start, len(text))
    return "".join([*pieces, text[copied:]]), ends


def _check_length(text: str, start: int, end: int) -> None:
    # A template may have any number of rows: whoever reads it checks the statements that they make.
    if not may_have_rows(text, start, end):
        check_length(text, start, end)


def may_have_rows(text: str, start: int, end: int) -> bool:
    """Whether a long statement looks like a template, and so may be long."""
    is_long = end - start > MAX_STATEMENT_CHARACTERS
    return is_long and _HAS_ROWS.search(text, start, start + MAX_STATEMENT_CHARACTERS) is not None


def check_length(text: str, start: int, end: int) -> None:
    """Refuse a statement that is too long."""
    if end - start <= MAX_STATEMENT_CHARACTERS:
        return
    blank = _BLANK.match(text, start, end)
    start = blank.end() if blank else start
    if end - start > MAX_STATEMENT_CHARACTERS:
        message = f"the statement is too long: {end - start:,} characters, at most {MAX_STATEMENT_CHARACTERS:,}"
        raise PlacedError(message, span_at(text, start), "write several queries; end each statement with ;")


def not_too_deep(expression: Expression) -> Expression:
    """The expression, or an error: each chain is checked as it grows, so that a long one is refused at once."""
    if expression.depth > MAX_DEPTH:
        check_expression(expression)
    return expression


def check_expression(expression: Expression) -> None:
    """Refuse an expression that is nested too deeply, or holds an integer that does not fit an int64."""
    pending = [(expression, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            hint = "each AND or OR of a chain is a level: write IN (...) or BETWEEN, or split the query"
            raise _too_deep(node.span, hint)
        if isinstance(node, Literal):
            if node.type is Type.BIGINT and node.value == INT64_MAX + 1:
                raise integer_too_large(str(node.value), node.span)
        else:
            pending.extend((child, depth + 1) for child in children(node))


def _too_deep(span: Span, hint: str) -> PlacedError:
    return PlacedError(f"the expression is nested too deeply, more than {MAX_DEPTH} levels", span, hint)
