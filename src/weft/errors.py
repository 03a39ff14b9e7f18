"""The errors that Weft raises on purpose. Each names the thing, the place and the cure."""

from __future__ import annotations


class WeftError(Exception):
    """The base of every error that Weft raises on purpose."""


class WeftWarning(UserWarning):
    """Something that a user should know and may ignore."""


class StatementError(WeftError):
    """A statement that cannot be parsed or bound: where, what, and what to write instead."""

    def __init__(self, message: str, *, line: int, column: int, text: str = "", hint: str = "") -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.hint = hint
        shown = f"\n  {text}" if text else ""
        cure = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"line {line}, column {column}: {message}{shown}{cure}")
