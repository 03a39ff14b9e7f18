"""Windows: which events an answer covers, the edges at which windows open and close, and slots."""

from panewise.windows.window import (
    PunctuationWindow,
    RowWindow,
    SessionWindow,
    TimeWindow,
    Window,
    follows_events,
    is_unbounded,
    reports_by_substream,
)

__all__ = [
    "PunctuationWindow",
    "RowWindow",
    "SessionWindow",
    "TimeWindow",
    "Window",
    "follows_events",
    "is_unbounded",
    "reports_by_substream",
]
