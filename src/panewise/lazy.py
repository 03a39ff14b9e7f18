"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def load(package: str, homes: Mapping[str, str], name: str) -> Any:
    """What the `__getattr__` of a package gives: a name from the module where it is at home, kept for the next use."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value = getattr(import_module(homes[name]), name)
    setattr(sys.modules[package], name, value)
    return value
