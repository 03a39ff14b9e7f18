"""The description that a package index shows: README.md, with links that lead somewhere from there, too.

Everything else stands in pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
_LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:)([^)\s]+)\)")


def description() -> str:
    """README.md with links through the project's own address instead of relative ones."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    home = project["urls"]["Homepage"]

    def absolute(link: re.Match[str]) -> str:
        is_picture, text, target = link.groups()
        if target.startswith("#"):
            return f"{text}({home}{target})"
        kind = "raw" if is_picture else "tree" if target.endswith("/") else "blob"
        return f"{is_picture}{text}({home}/{kind}/main/{target})"

    return _LINK.sub(absolute, (ROOT / "README.md").read_text(encoding="utf-8"))


setup(long_description=description(), long_description_content_type="text/markdown")
