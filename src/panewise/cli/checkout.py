"""Folders that only a checkout of the source has."""

from __future__ import annotations

from pathlib import Path

import panewise
from panewise.errors import CommandError


def folder_of_checkout(name: str, command: str) -> Path:
    """A folder beside `src`; `command` does without this installation what was asked for."""
    folder = Path(panewise.__file__).resolve().parents[2] / name
    if not folder.is_dir():
        raise CommandError(
            f"the {name} are not part of the installed package.\n  Clone the source of Panewise, and in it: {command}"
        )
    return folder
