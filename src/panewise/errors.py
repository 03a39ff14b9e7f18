"""The errors that Panewise raises on purpose. Each names the thing, the place and the cure."""

from __future__ import annotations


class PanewiseError(Exception):
    """The base of every error that Panewise raises on purpose."""


class UnknownNameError(PanewiseError, KeyError):
    """A name that is not there, asked of something that is read like a dict."""

    __str__ = PanewiseError.__str__


class PanewiseWarning(UserWarning):
    """Something that a user should know and may ignore."""


class CacheWarning(PanewiseWarning):
    """The folder for compiled kernels is not used: kernels are kept beside the source, or compiled by each process."""


class StatementError(PanewiseError):
    """A statement that cannot be parsed or bound: where, what is wrong, and what to write instead."""

    def __init__(self, message: str, *, line: int, column: int, text: str = "", hint: str = "") -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.hint = hint
        shown = f"\n  {text}" if text else ""
        cure = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"line {line}, column {column}: {message}{shown}{cure}")
