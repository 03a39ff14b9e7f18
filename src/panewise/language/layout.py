"""Layout: statements written in one manner, with their comments.

Keywords are in capitals. A statement that fits stands in one line; otherwise each clause begins a line. The parser says
which words are keywords, so an attribute called `range` keeps its name.

>>> print(laid_out("create query a as select count(*) from s [range 1 HOUR]"), end="")
CREATE QUERY a AS SELECT count(*) FROM s [RANGE 1 HOUR];
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

from panewise.language.for_each import templates_of
from panewise.language.limits import check_text
from panewise.language.parser import lark_of, parse

if TYPE_CHECKING:
    from lark import Lark, Token

WIDTH = 100
"""The longest line that a whole statement, or the items of a SELECT, may have."""

_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(r"\n\s*\n")
_CONTENT = frozenset({"NAME", "QUOTED", "STRING", "DECIMAL", "INTEGER"})
_SETS = frozenset({"INTERSECT", "UNION", "EXCEPT"})
_CLAUSES = _SETS | {
    "_SELECT",
    "_FROM",
    "JOIN",
    "_WHERE",
    "_GROUP",
    "_HAVING",
    "_WITHIN",
    "ORDER",
    "INTO",
    "USING",
    "BASIC",
    "EVALUATE",
}
_OPTIONS = frozenset({"_TIMESTAMP", "WATERMARK", "GRANULARITY", "_ON", "FUTURE"})
_OPENING, _CLOSING = frozenset("(["), frozenset(")]")


@dataclass
class _Piece:
    """A token as it is written, with the comments before it."""

    token: Token
    comments: list[tuple[str, bool]] = field(default_factory=list)
    """Each comment, and whether it stands in a line of its own."""
    blank_before: bool = False
    depth: int = 0

    @property
    def text(self) -> str:
        word = str(self.token)
        return word if self.token.type in _CONTENT or not word.isalpha() else word.upper()


def laid_out(text: str) -> str:
    """A text of statements in the one manner. A text that cannot be read raises a `StatementError`.

    Cost: linear in the text.
    """
    lines: list[str] = []
    rest = 0
    for start, statement in templates_of(text):
        lines += _laid_out(text[rest:start])
        # The rows of a template are a table, which its writer has arranged.
        lines += statement.strip().splitlines()
        rest = start + len(statement)
    return "".join(f"{line}\n" for line in [*lines, *_laid_out(text[rest:])])


def _laid_out(text: str) -> list[str]:
    """The lines of a text without templates."""
    parse(text)
    pieces, last = _pieces(text)
    lines: list[str] = []
    statement: list[_Piece] = []
    for piece in pieces:
        if str(piece.token) != ";":
            statement.append(piece)
            continue
        if statement:
            _write(statement, piece.comments, lines)
        statement = []
    if statement:
        _write(statement, [], lines)
    if last and not last[0][1] and lines:
        lines[-1] += f"  {last.pop(0)[0]}"
    return lines + [comment for comment, _ in last]


@lru_cache(maxsize=1)
def _grammar() -> Lark:
    return lark_of(files("panewise.language").joinpath("grammar.lark").read_text(encoding="utf-8"))


def _pieces(text: str) -> tuple[list[_Piece], list[tuple[str, bool]]]:
    """The tokens with the comments before each, and the comments behind all."""
    tokens = list(_grammar().parse_interactive(check_text(text)).iter_parse())
    pieces: list[_Piece] = []
    end = depth = 0
    for token in tokens:
        assert token.start_pos is not None
        assert token.end_pos is not None
        depth -= str(token) in _CLOSING
        gap = text[end : token.start_pos]
        pieces.append(_Piece(token, list(_comments(gap, end == 0)), _BLANK.search(gap) is not None, depth))
        depth += str(token) in _OPENING
        end = token.end_pos
    return pieces, list(_comments(text[end:], end == 0))


def _comments(gap: str, is_first: bool) -> Iterator[tuple[str, bool]]:
    for found in _COMMENT.finditer(gap):
        before = gap[: found.start()]
        yield found.group().rstrip(), is_first or "\n" in before


def _write(statement: list[_Piece], behind: list[tuple[str, bool]], lines: list[str]) -> None:
    """One statement, with the comments before its semicolon."""
    first = statement[0]
    leading, first.comments = first.comments, []
    # A comment in the line of the statement before belongs to that one.
    if leading and not leading[0][1] and lines:
        lines[-1] += f"  {leading.pop(0)[0]}"
    if first.blank_before and lines:
        lines.append("")
    lines += [comment for comment, _ in leading]
    whole = _line(statement) + ";"
    if len(whole) <= WIDTH and not any(piece.comments for piece in statement):
        lines.append(whole)
    else:
        lines += _broken(statement)
    # What was written before the semicolon comes behind it.
    if behind and not behind[0][1] and lines[-1].endswith(";"):
        lines[-1] += f"  {behind.pop(0)[0]}"
    lines += [comment for comment, _ in behind]


def _broken(statement: list[_Piece]) -> list[str]:
    """The lines of a statement with a line for each clause."""
    written = [line for clause in _clauses(statement) for line in _clause(clause)]
    # The semicolon stands behind the last word; comments behind that stay behind.
    code, mark, comment = written[-1].partition(_BEFORE_COMMENT)
    written[-1] = f"{code};{mark}{comment}"
    return [("  " if place else "") + line.replace(_BEFORE_COMMENT, "  ") for place, line in enumerate(written)]


_BEFORE_COMMENT = "\0"
"""Marks a comment behind code until the line is done: a string may have dashes too."""


def _clauses(statement: list[_Piece]) -> list[list[_Piece]]:
    """The pieces of each line to be."""
    is_stream = len(statement) > 1 and statement[1].token.type == "_STREAM"
    starts = _OPTIONS if is_stream else _CLAUSES
    found: list[list[_Piece]] = [[]]
    for place, piece in enumerate(statement):
        following = statement[place + 1].token.type if place + 1 < len(statement) else ""
        before = statement[place - 1].token.type if place else ""
        begins = piece.token.type in starts and before not in _SETS | {"_BY"}
        begins |= piece.token.type == "_ON" and following == "OVERFLOW"
        if piece.depth == 0 and begins and place:
            found.append([])
        found[-1].append(piece)
    return found


def _clause(pieces: list[_Piece]) -> list[str]:
    """The lines of a clause; a list that does not fit goes on below."""
    lines, current = [], ""
    for place, piece in enumerate(pieces):
        for comment, is_alone in piece.comments:
            if current and is_alone:
                lines.append(current)
                current = ""
            if current:
                lines.append(f"{current}{_BEFORE_COMMENT}{comment}")
            else:
                lines.append(f"  {comment}" if lines else comment)
            current = ""
        gap = _gap(pieces[place - 1], piece) if place else ""
        if not current:
            current = f"  {piece.text}" if lines else piece.text
        elif (
            str(pieces[place - 1].token) == ","
            and piece.depth <= 1
            and len(current) + len(_item(pieces, place)) > WIDTH
        ):
            lines.append(current)
            current = f"  {piece.text}"
        else:
            current += gap + piece.text
    return [*lines, current]


def _item(pieces: list[_Piece], place: int) -> str:
    """What stands up to the next comma of this depth."""
    depth, end = pieces[place].depth, place
    while end < len(pieces) and not (str(pieces[end].token) == "," and pieces[end].depth == depth):
        end += 1
    return _line(pieces[place:end])


def _line(pieces: list[_Piece]) -> str:
    """The pieces in one line."""
    if not pieces:
        return ""
    return pieces[0].text + "".join(_gap(one, other) + other.text for one, other in pairwise(pieces))


def _gap(one: _Piece, other: _Piece) -> str:
    """What stands between two tokens: a space or nothing."""
    before, after = str(one.token), str(other.token)
    is_called = one.token.type in ("CAST", "EXTRACT") or (
        one.token.type == "NAME" and one.token.end_pos == other.token.start_pos
    )
    if before in _OPENING or after in (",", ";", *_CLOSING) or "." in (before, after) or after == "%":
        return ""
    if after == "(" and is_called:
        return ""
    # A minus sign that was next to its operand stays there, unless two would begin a comment.
    is_sign = before == "-" and one.token.end_pos == other.token.start_pos and after != "-"
    return "" if is_sign else " "
