"""FOR EACH: one statement that stands for many queries, one for each row of values behind it.

`CREATE QUERY busy_{symbol} AS SELECT ... WHERE symbol = {symbol} FOR EACH (symbol, least) IN (('W', 5), ('P', 7))`
has a column's name in braces wherever a value goes. Each row makes the text of a query; texts that differ in constants
and in the name alone are parsed once (`panewise.language.shapes`). In strings, in quoted names and in comments braces
are characters like any other.

Cost: linear in the texts that it stands for; a few regular expressions for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from panewise.language.limits import statements_of
from panewise.language.literals import unquoted
from panewise.language.printer import print_name
from panewise.language.source import PlacedError, hint_for, located, shortened, span_at

WORDS = ("EACH", "FOR")
"""The keywords that the grammar does not have."""

_SKIPPED = r"""--[^\n]*|/\*.*?\*/|'[^']*+(?:''[^']*+)*+'|"[^"]*+(?:""[^"]*+)*+\""""
_BLANK = r"(?:\s|--[^\n]*|/\*.*?\*/)*+"
_VALUE = (
    r"(?:TIMESTAMP\s*)?'[^']*+(?:''[^']*+)*+'|-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?(?!\w)|(?:TRUE|FALSE)\b"
)
_FLAGS = re.DOTALL | re.IGNORECASE

_HEAD = re.compile(rf"{_BLANK}CREATE{_BLANK}QUERY{_BLANK}(?P<name>[\w{{}}]*)", _FLAGS)
_MARK = re.compile(rf"{_SKIPPED}|\{{(?P<column>[^}}\s]*)\}}?|(?P<rows>\bFOR\s+EACH\b)", _FLAGS)
_GAP = re.compile(r"\{(\w+)\}")
_COLUMNS = re.compile(rf"{_BLANK}\({_BLANK}(\w+(?:{_BLANK},{_BLANK}\w+)*){_BLANK}\){_BLANK}IN{_BLANK}\(", _FLAGS)
_ROW = re.compile(
    rf"{_BLANK}(\({_BLANK}(?:{_VALUE})(?:{_BLANK},{_BLANK}(?:{_VALUE}))*{_BLANK}\)){_BLANK}([,)])", _FLAGS
)
_VALUES = re.compile(rf"{_SKIPPED.split('|')[0]}|/\*.*?\*/|({_VALUE})", _FLAGS)
_END = re.compile(rf"{_BLANK};?{_BLANK}\Z", _FLAGS)
NO_BREAK = re.compile(r"[^\n]")
_EXAMPLE = "FOR EACH (symbol, least) IN (('W', 5), ('P', 7))"


@dataclass(frozen=True)
class ForEach:
    """A template with its rows. Places are counted in the whole text."""

    head: str
    """What stands before the query's name."""
    name: str
    """The name, with columns in braces."""
    body: list[tuple[int, str, str | None]]
    """What stands behind the name, up to each gap: where it begins, and the column of the gap; None at the end."""
    rows: list[tuple[int, dict[str, str]]]
    """Where each row begins, and its values as they are written."""

    @staticmethod
    def of(text: str, start: int, statement: str) -> ForEach | None:
        """The template that a statement of a text is; None if it is none."""
        if "{" not in statement:
            return None
        head = _HEAD.match(statement)
        first = statement.find("{")
        if head is None:
            return None
        body: list[tuple[int, str, str | None]] = []
        at = head.end()
        rows = None
        for mark in _MARK.finditer(statement, at):
            if mark["rows"] is not None:
                rows = mark
                break
            if mark["column"] is not None:
                _check_gap(text, start + mark.start(), mark[0])
                body.append((start + at, statement[at : mark.start()], mark["column"]))
                at = mark.end()
        used = [*_GAP.findall(head["name"]), *(column for _, _, column in body)]
        if rows is None:
            if not used:
                return None
            hint = f"add the values behind the query: {_EXAMPLE}"
            raise PlacedError("a query with names in braces needs FOR EACH", span_at(text, start + first), hint)
        name_start = start + head.start("name")
        if not _GAP.search(head["name"]):
            hint = "put a column into the name, as in CREATE QUERY busy_{symbol} AS"
            raise PlacedError(
                "each row of FOR EACH makes a query, and all would have one name", span_at(text, name_start), hint
            )
        body.append((start + at, statement[at : rows.start()], None))
        columns, found = _rows_of(text, start, statement, rows.end())
        for column in used:
            if column not in columns:
                place = start + statement.index(f"{{{column}}}")
                hint = hint_for(str(column), columns, "there are no columns")
                raise PlacedError(f"FOR EACH has no column {shortened(str(column))}", span_at(text, place), hint)
        return ForEach(statement[: head.start("name")], head["name"], body, found)

    def statements(self) -> Iterator[str]:
        """The text of each query."""
        for _, values in self.rows:
            pieces = [self.head, self._name(values)]
            for _, before, column in self.body:
                pieces += (before, "" if column is None else values[column])
            yield "".join(pieces)

    def place_of(self, row: int, position: int) -> int:
        """Where a place in the statement of a row is in the text; in a value that is where the row begins."""
        start, values = self.rows[row]
        at = len(self.head) + len(self._name(values))
        for source, before, column in self.body:
            if at <= position < at + len(before):
                return source + position - at
            at += len(before) + len("" if column is None else values[column])
        return start

    def _name(self, values: dict[str, str]) -> str:
        return print_name(_GAP.sub(lambda gap: _plain(values[gap[1]]), self.name))


def _plain(value: str) -> str:
    """A value as a part of a name."""
    return unquoted(value) if value[0] == "'" else value


def _check_gap(text: str, place: int, gap: str) -> None:
    if _GAP.fullmatch(gap) is None:
        hint = "write the name of a column of FOR EACH in braces, as in symbol = {symbol}"
        raise PlacedError(f"{shortened(gap)} is no column in braces", span_at(text, place), hint)


def _rows_of(text: str, start: int, statement: str, at: int) -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """The columns and the rows of FOR EACH."""
    header = _COLUMNS.match(statement, at)
    if header is None:
        raise PlacedError("FOR EACH needs columns and rows", span_at(text, start + at), f"write {_EXAMPLE}")
    columns = re.findall(r"\w+", re.sub(_SKIPPED, " ", header[1]))
    if len(set(columns)) < len(columns):
        raise PlacedError("two columns of FOR EACH have one name", span_at(text, start + header.start(1)), "rename one")
    rows: list[tuple[int, dict[str, str]]] = []
    at, behind = header.end(), ","
    while behind == ",":
        row = _ROW.match(statement, at)
        if row is None:
            blank = re.compile(_BLANK, _FLAGS).match(statement, at)
            place = start + (at if blank is None else blank.end())
            hint = "a row is constants in parentheses, one for each column: ('W', 5)"
            raise PlacedError(
                f"row {len(rows) + 1} of FOR EACH cannot be read", span_at(text, min(place, len(text) - 1)), hint
            )
        values = [value for value in _VALUES.findall(row[1]) if value]
        if len(values) != len(columns):
            message = f"row {len(rows) + 1} of FOR EACH has {len(values)} values, and there are {len(columns)} columns"
            hint = f"give a value for each of {', '.join(columns)}"
            raise PlacedError(message, span_at(text, start + row.start(1)), hint)
        rows.append((start + row.start(1), dict(zip(columns, values))))
        at, behind = row.end(), row[2]
    if _END.match(statement, at) is None:
        raise PlacedError(
            "nothing may follow the rows of FOR EACH", span_at(text, start + at), "end the statement with ;"
        )
    return columns, rows


def templates_of(text: str) -> Iterator[tuple[int, str]]:
    """The templates among the statements of a text, each with its place. A wrong one raises a `StatementError`."""
    with located(text):
        for start, statement in statements_of(text):
            if ForEach.of(text, start, statement) is not None:
                yield start, statement


def without_templates(text: str) -> str:
    """A text with blanks in place of its templates."""
    for start, statement in list(templates_of(text)):
        text = text[:start] + NO_BREAK.sub(" ", statement) + text[start + len(statement) :]
    return text
