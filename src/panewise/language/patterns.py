"""LIKE patterns: % is any characters, _ is one, and a backslash takes the character after it as it is.

Spark's own LIKE refuses escapes that Panewise takes literally, and Arrow's reads some of them otherwise.
"""

from __future__ import annotations


def as_regular(pattern: str) -> str:
    """A LIKE pattern as a regular expression that Arrow and Java read alike."""
    out = []
    escaped = False
    for character in pattern:
        if escaped or character not in "%_\\":
            out.append(_quote(character))
            escaped = False
        elif character == "\\":
            escaped = True
        else:
            out.append(".*" if character == "%" else ".")
    if escaped:
        out.append(_quote("\\"))
    return "(?s)\\A" + "".join(out) + "\\z"


def _quote(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"
