"""Text to statements.

>>> [statement.name.text for statement in parse("DROP QUERY a; DROP QUERY b")]
['a', 'b']
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from panewise.cache import cache_folder
from panewise.language.limits import check_text
from panewise.language.source import PlacedError, located, span_at
from panewise.language.statements import Statement

if TYPE_CHECKING:
    from lark import Lark, Transformer

_ABANDONED_S = 60.0
"""A process that claimed to write the parser's tables this long ago has died."""


def parse(text: str) -> tuple[Statement, ...]:
    """The statements of a text, in order. A text that cannot be read raises a `StatementError`.

    Cost: linear in the text; one to three thousand statements a second.
    """
    with located(text):
        check_encodable(text)
        return parse_checked(check_text(text))


def parse_checked(text: str) -> tuple[Statement, ...]:
    """The statements of a text that was checked; one that cannot be read raises a `PlacedError`."""
    return _reader()(text)


def check_encodable(text: str) -> None:
    """Refuse halves of surrogate pairs, which Arrow could not store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        message = f"the character {text[error.start]!r} cannot be written as UTF-8"
        raise PlacedError(message, span_at(text, error.start), "decode the text with the right encoding") from None


@lru_cache(maxsize=1)
def _reader() -> Callable[[str], tuple[Statement, ...]]:
    """The parser, built from the grammar at first use, so that importing Panewise does not pay for it."""
    from lark.exceptions import UnexpectedInput

    from panewise.language.builder import Builder
    from panewise.language.syntax_errors import syntax_problem

    grammar = files("panewise.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    lark = lark_of(grammar, Builder())

    def read(text: str) -> tuple[Statement, ...]:
        try:
            statements: tuple[Statement, ...] = lark.parse(text)  # type: ignore[assignment]
        except UnexpectedInput as error:
            raise syntax_problem(error, text) from None
        return statements

    return read


def lark_of(grammar: str, builder: Transformer[Any, Any] | None = None) -> Lark:
    """Lark with its tables from the cache folder: making them takes longer than all else at the start of a process."""
    from lark import Lark, __version__

    def made(file: str | bool) -> Lark:
        return Lark(grammar, parser="lalr", lexer="contextual", transformer=builder, cache=file)

    folder = cache_folder()
    if folder is None:
        return made(False)
    version = f"{__version__}-{sys.version_info.major}.{sys.version_info.minor}"
    tables = folder / f"grammar-{sha256(grammar.encode()).hexdigest()[:20]}-{version}"
    claim = tables.with_name(f"{tables.name}.claim")
    try:
        if tables.exists() and not claim.exists():
            return made(str(tables))
        # Lark writes the file in place: one process does, and no other reads half of it.
        if claim.exists() and claim.stat().st_mtime < time.time() - _ABANDONED_S:
            claim.unlink()
        claim.touch(exist_ok=False)
    except OSError:
        return made(False)
    try:
        return made(str(tables))
    finally:
        claim.unlink(missing_ok=True)
