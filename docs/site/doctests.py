"""The examples of docstrings, shown as code: a paragraph that begins with >>> becomes a section `Examples`."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> (?:.+\n?)+")


class Doctests(griffe.Extension):
    """Turns the doctests of every docstring into sections."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _EXAMPLE.sub(_section, obj.docstring.value)


def _section(example: re.Match[str]) -> str:
    return "Examples:\n" + textwrap.indent(example[0].rstrip("\n"), "    ") + "\n"
