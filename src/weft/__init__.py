"""Weft: thousands of sliding-window aggregate queries over one stream, for about the price of one.

Names are loaded when they are first used, so that `import weft` starts neither Spark nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from weft.errors import StatementError, WeftError, WeftWarning

if TYPE_CHECKING:
    from weft.engine.answers import wide
    from weft.engine.engine import Engine
    from weft.language.model import Query, Stream, Workload
    from weft.language.reader import read
    from weft.planning.optimize import optimize
    from weft.planning.plan import Plan
    from weft.spark.lookup_client import LookupClient
    from weft.windows.clock import END_OF_STREAM

__version__ = "0.1.0"

_HOMES = {
    "END_OF_STREAM": "weft.windows.clock",
    "Engine": "weft.engine.engine",
    "LookupClient": "weft.spark.lookup_client",
    "Plan": "weft.planning.plan",
    "Query": "weft.language.model",
    "Stream": "weft.language.model",
    "Workload": "weft.language.model",
    "optimize": "weft.planning.optimize",
    "read": "weft.language.reader",
    "wide": "weft.engine.answers",
}

__all__ = [
    "END_OF_STREAM",
    "Engine",
    "LookupClient",
    "Plan",
    "Query",
    "StatementError",
    "Stream",
    "WeftError",
    "WeftWarning",
    "Workload",
    "optimize",
    "read",
    "wide",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
