"""Text to statements.

>>> [statement.name.text for statement in parse("DROP QUERY a; DROP QUERY b")]
['a', 'b']
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files

from weft.language.limits import check_text
from weft.language.source import PlacedError, located, span_at
from weft.language.statements import Statement


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order. A text that cannot be read raises a `StatementError`.

    Cost: linear in the text; one to three thousand statements a second.
    """
    with located(text):
        _check_encodable(text)
        check_text(text)
        return _reader()(text)


def _check_encodable(text: str) -> None:
    """Refuse halves of surrogate pairs, which Arrow could not store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"the character {text[error.start]!r} cannot be written as UTF-8"
        raise PlacedError(message, span_at(text, error.start), "decode the text with the right encoding") from None


@lru_cache(maxsize=1)
def _reader() -> Callable[[str], tuple[Statement, ...]]:
    """The parser, built from the grammar at first use, so that importing Weft costs nothing of it."""
    from lark import Lark
    from lark.exceptions import UnexpectedInput

    from weft.language.builder import Builder
    from weft.language.syntax_errors import syntax_problem

    grammar = files("weft.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    lark: Lark = Lark(grammar, parser="lalr", lexer="contextual", transformer=Builder())

    def read(text: str) -> tuple[Statement, ...]:
        try:
            statements: tuple[Statement, ...] = lark.parse(text)  # type: ignore[assignment]
        except UnexpectedInput as error:
            raise syntax_problem(error, text) from None
        return statements

    return read
