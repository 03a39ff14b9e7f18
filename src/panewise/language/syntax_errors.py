"""Syntax errors in the reader's words: what was found, what could be there, which keyword was meant."""

from __future__ import annotations

from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from panewise.language.expressions import Span
from panewise.language.foreign_words import foreign_hint
from panewise.language.source import PlacedError, nearest, shortened, span_at

# Terminals that begin an expression, and terminals that continue one: a list of all would be too long to read.
_STARTERS = frozenset(
    {"NAME", "QUOTED", "INTEGER", "DECIMAL", "STRING", "TIMESTAMP_LITERAL", "TRUE", "FALSE", "NULL"}
    | {"NOT", "MINUS", "LPAR", "_DISTINCT", "STAR", "CASE", "CAST", "EXTRACT"}
)
_OPERATORS = frozenset(
    {"PLUS", "MINUS", "STAR", "SLASH", "COMPARE", "_AND", "_OR", "NOT", "_IN", "_IS", "_LIKE", "_BETWEEN"} | {"_DOT"}
)

_DESCRIPTIONS = {
    "NAME": "a name",
    "QUOTED": "a name",
    "INTEGER": "a number",
    "DECIMAL": "a number",
    "STRING": "a string",
    "TIMESTAMP_LITERAL": "TIMESTAMP",
    "GROUP_STORAGE": "GROUP",
    "COMPARE": "a comparison",
    "MINUS": "'-'",
    "PLUS": "'+'",
    "STAR": "'*'",
    "SLASH": "'/'",
    "LPAR": "'('",
    "RIGHT": "')'",
    "LSQB": "'['",
    "CLOSE": "']'",
    "COMMA": "','",
    "SEMICOLON": "the end of the statement",
    "$END": "the end of the statement",
}
_LONGEST_LIST = 6


def syntax_problem(error: UnexpectedInput, text: str) -> PlacedError:
    """An error of lark in plain words."""
    if isinstance(error, UnexpectedToken):
        token = error.token
        accepted = set(error.accepts)
        if token.type == "$END":
            place = span_at(text, len(text.rstrip()))
            message = f"the text ends too early, expected {_list(accepted)}"
            return PlacedError(message, place, _hint("", accepted))
        found = str(token)
        span = Span(error.line, error.column, token.start_pos or 0, token.end_pos or 0)
        is_end = token.type == "SEMICOLON"
        what = "the statement ends too early" if is_end else f"unexpected {shortened(found)}"
        hint = foreign_hint(found, text[: span.start]) or _hint(found, accepted)
        return PlacedError(f"{what}, expected {_list(accepted)}", span, hint)
    position = error.pos_in_stream
    assert position is not None
    place = span_at(text, position)
    if isinstance(error, UnexpectedCharacters):
        character = text[position]
        return PlacedError(f"unexpected character {character!r}", place, _character_hint(character))
    return PlacedError("this cannot be read", place)


def _list(accepted: set[str]) -> str:
    """What could be here, in words."""
    left = set(accepted)
    if "INTERSECT" in left:
        # They stand where INTERSECT does, and would fill the list.
        left -= {"UNION", "EXCEPT"}
    if "INTO" in left:
        # The same with clauses that hardly any query has.
        left -= {"BASIC", "EVALUATE"}
    words = []
    if {"NULL", "TRUE"} <= left:
        words.append("an expression" if "NAME" in left else "a constant")
        left -= _STARTERS
    if "PLUS" in left:
        left -= _OPERATORS
        words.append("an operator")
    words = sorted({_describe(terminal) for terminal in left}, key=_keywords_first) + words
    if len(words) > _LONGEST_LIST:
        words = [*words[:_LONGEST_LIST], "..."]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1]


def _describe(terminal: str) -> str:
    return _DESCRIPTIONS.get(terminal) or terminal.removeprefix("_")


def _keywords_first(word: str) -> tuple[bool, str]:
    return (not word.isupper(), word)


def _hint(found: str, accepted: set[str]) -> str:
    keywords = {_describe(terminal) for terminal in accepted}
    keywords = {word for word in keywords if word.isupper()}
    close = nearest(found, keywords) if found else None
    if close is not None and found.upper() != close:
        return f"did you mean {close}?"
    if accepted == {"LSQB"}:
        return "every query needs a window, for instance [RANGE 1 HOUR SLIDE 5 MINUTES]"
    if "CREATE" in accepted:
        return "statements are CREATE STREAM, CREATE QUERY and DROP QUERY, each ended by ;"
    if found == "*" and "NULL" in accepted:
        return "name the grouped attributes and the aggregates one by one"
    if found.isidentifier() and accepted <= {"NAME", "QUOTED"}:
        return f'{found} is a reserved word; write "{found}" in double quotes to use it as a name'
    return ""


def _character_hint(character: str) -> str:
    if character in "`´‘’“”":
        return "write strings in '...', and names that need quotes in \"...\""
    return "remove it, or put it into a string '...' or a quoted name \"...\""
