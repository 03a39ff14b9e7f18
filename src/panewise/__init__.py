"""Panewise: thousands of sliding-window aggregate queries over one stream, for about the price of one.

Names are loaded when they are first used, so that `import panewise` starts neither Spark nor numba.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from panewise.errors import PanewiseError, PanewiseWarning, StatementError

if TYPE_CHECKING:
    from panewise.engine.answers import wide
    from panewise.engine.closed_tables import Answers
    from panewise.engine.engine import Engine
    from panewise.language.model import Query, Stream, Workload
    from panewise.language.reader import read
    from panewise.planning.optimize import optimize
    from panewise.planning.plan import Plan
    from panewise.spark.lookup_client import LookupClient
    from panewise.windows.clock import END_OF_STREAM

__version__ = "0.1.0"

_HOMES = {
    "Answers": "panewise.engine.closed_tables",
    "END_OF_STREAM": "panewise.windows.clock",
    "Engine": "panewise.engine.engine",
    "LookupClient": "panewise.spark.lookup_client",
    "Plan": "panewise.planning.plan",
    "Query": "panewise.language.model",
    "Stream": "panewise.language.model",
    "Workload": "panewise.language.model",
    "optimize": "panewise.planning.optimize",
    "read": "panewise.language.reader",
    "wide": "panewise.engine.answers",
}

__all__ = [
    "END_OF_STREAM",
    "Answers",
    "Engine",
    "LookupClient",
    "PanewiseError",
    "PanewiseWarning",
    "Plan",
    "Query",
    "StatementError",
    "Stream",
    "Workload",
    "optimize",
    "read",
    "wide",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'panewise' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
