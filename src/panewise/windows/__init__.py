"""Windows: which events an answer covers, the edges at which windows open and close, and slots."""

from panewise.windows.window import RowWindow, TimeWindow, Window, reports_by_substream

__all__ = ["RowWindow", "TimeWindow", "Window", "reports_by_substream"]
