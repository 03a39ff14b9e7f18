"""The names of the methods: known before any of them, and what they are compiled of, is loaded."""

from __future__ import annotations

from panewise.errors import UnknownNameError

EXHAUSTIVE = "exhaustive"
WEAVE_SHARE = "weave_share"
METHODS = (
    "no_share",
    "shared",
    "random",
    "insert_then_weave",
    "local_search_from_no_share",
    "local_search_from_random",
    EXHAUSTIVE,
    WEAVE_SHARE,
    "incremental_weave_share",
)
"""Every method, in the order of `EVERY_METHOD`."""


def check_method(name: object) -> None:
    """Refuse a name that no method has."""
    if name not in METHODS:
        raise UnknownNameError(f"unknown method of sharing {name!r}; use one of {', '.join(METHODS)}")
