"""Highlighting: what the words of the language are, read from the grammar, for Pygments and for VS Code.

`python -m panewise.language.highlighting > editors/vscode/syntaxes/panewise.tmLanguage.json` writes what VS Code reads.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any, ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text

from panewise.language.for_each import WORDS as FOR_EACH
from panewise.language.functions import ROW_FUNCTIONS, functions
from panewise.language.scalars import SCALARS, SYNONYMS
from panewise.language.words import TYPES, UNITS

_TERMINAL = re.compile(r"^_?[A-Z_]+(?:\.\d+)?: /([a-z]+)(?:\\b|\(\?=)", re.MULTILINE)
CONSTANTS = ("FALSE", "NULL", "TRUE")
NUMBER = r"(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)(?:[eE][+-]?[0-9]+)?"
COMPARE = r"<=|>=|<>|!=|=|<|>|\+|-|\*|/|%"


def keywords() -> tuple[str, ...]:
    """The words of the grammar, in capitals, without constants and without MAX, which is an aggregate first.

    >>> "SELECT" in keywords(), "SUM" in keywords()
    (True, False)
    """
    grammar = files("panewise.language").joinpath("grammar.lark").read_text(encoding="utf-8")
    found = {word.upper() for word in _TERMINAL.findall(grammar)}.union(FOR_EACH)
    return tuple(sorted(found.difference(CONSTANTS, functions())))


def called() -> tuple[str, ...]:
    """The names of functions and aggregates."""
    return tuple(sorted({*functions(), *ROW_FUNCTIONS, *SCALARS, *SYNONYMS} - set(keywords())))


def units() -> tuple[str, ...]:
    """The units of durations, and their plurals."""
    return tuple(sorted([*UNITS, *(f"{unit}S" for unit in UNITS)]))


class PanewiseLexer(RegexLexer):  # type: ignore[misc]
    """Statements of Panewise for Pygments: in notebooks, in Sphinx and in MkDocs."""

    name = "Panewise"
    aliases: ClassVar[list[str]] = ["panewise"]
    filenames: ClassVar[list[str]] = ["*.panewise.sql"]
    flags = re.IGNORECASE

    tokens: ClassVar[dict[str, Any]] = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"--[^\n]*", Comment.Single),
            (r"/\*[\s\S]*?\*/", Comment.Multiline),
            (r"'[^']*(?:''[^']*)*'", String.Single),
            (r'"[^"]*(?:""[^"]*)*"', Name),
            (NUMBER, Number),
            (words(CONSTANTS, prefix=r"\b", suffix=r"\b"), Keyword.Constant),
            (words(tuple(TYPES), prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(called(), prefix=r"\b", suffix=r"\b(?=\s*\()"), Name.Function),
            (words(keywords(), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(units(), prefix=r"\b", suffix=r"\b"), Keyword.Pseudo),
            (r"[^\W\d]\w*", Name),
            (COMPARE, Operator),
            (r"\{\w+\}", Name.Variable),
            (r"[\[\](),;.]", Punctuation),
        ]
    }


def textmate() -> dict[str, Any]:
    """The TextMate grammar, as VS Code and others read it."""

    def one_of(names: tuple[str, ...], behind: str = "") -> str:
        return rf"(?i)\b(?:{'|'.join(names)})\b{behind}"

    patterns = [
        {"name": "comment.line.double-dash.panewise", "match": "--.*$"},
        {"name": "comment.block.panewise", "begin": r"/\*", "end": r"\*/"},
        {"name": "string.quoted.single.panewise", "begin": "'", "end": "'(?!')"},
        {"name": "variable.other.panewise", "begin": '"', "end": '"(?!")'},
        {"name": "constant.numeric.panewise", "match": rf"\b{NUMBER}"},
        {"name": "constant.language.panewise", "match": one_of(CONSTANTS)},
        {"name": "storage.type.panewise", "match": one_of(tuple(sorted(TYPES)))},
        {"name": "support.function.panewise", "match": one_of(called(), r"(?=\s*\()")},
        {"name": "keyword.other.panewise", "match": one_of(keywords())},
        {"name": "keyword.other.unit.panewise", "match": one_of(units())},
        {"name": "keyword.operator.panewise", "match": COMPARE},
        {"name": "variable.parameter.panewise", "match": r"\{\w+\}"},
    ]
    return {"name": "Panewise", "scopeName": "source.panewise", "fileTypes": ["panewise.sql"], "patterns": patterns}


if __name__ == "__main__":
    print(json.dumps(textmate(), indent=2))
