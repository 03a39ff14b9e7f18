"""Panewise: thousands of sliding-window aggregate queries over one stream, for about the price of one.

Names are loaded when they are first used, so that `import panewise` starts neither Spark nor numba.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from panewise.errors import (
    AnswerOverflowError,
    ArgumentError,
    CacheWarning,
    CalibrationError,
    CheckpointError,
    CommandError,
    EndedWarning,
    EventsError,
    FileAccessError,
    FolderError,
    HistoryError,
    IndexingError,
    KeysError,
    LabelsError,
    LateWarning,
    LookupLogError,
    LookupTimeoutError,
    LostManifestError,
    MemoryBudgetError,
    MixedZonesWarning,
    NamesClashError,
    NothingClosedWarning,
    NotOnSparkError,
    PanewiseError,
    PanewiseWarning,
    QueryInUseError,
    QueryKindError,
    QuotaError,
    ServerError,
    SilentStreamWarning,
    SlotLogError,
    SlowerLookupsWarning,
    SnapshotError,
    SparkSetupError,
    StatementError,
    StructureChoiceError,
    StructureError,
    SubstreamError,
    TimeError,
    TooManyEdgesError,
    TooManyQueriesError,
    TooManyRowsError,
    UnknownNameError,
    UnlikelyTimesError,
    UnlikelyTimesWarning,
    UnusableFolderError,
    WatermarkError,
    WindowError,
)
from panewise.lazy import load

if TYPE_CHECKING:
    from panewise.cli.exit_codes import JobFailedError
    from panewise.cli.job_table import JobError
    from panewise.engine.answers import wide
    from panewise.engine.closed_tables import Answers
    from panewise.engine.engine import Engine
    from panewise.engine.next_closing import NextClosing
    from panewise.extras import MissingPackageError
    from panewise.language.filling import fill
    from panewise.language.model import Query, Stream
    from panewise.language.reader import read
    from panewise.language.workload import Workload
    from panewise.planning.optimize import optimize
    from panewise.planning.plan import Plan
    from panewise.spark.lookup_client import LookupClient
    from panewise.training.training_set import training_set
    from panewise.windows.clock import END_OF_STREAM

__version__ = "0.1.0"

_HOMES = {
    "Answers": "panewise.engine.closed_tables",
    "END_OF_STREAM": "panewise.windows.clock",
    "Engine": "panewise.engine.engine",
    "JobError": "panewise.cli.job_table",
    "JobFailedError": "panewise.cli.exit_codes",
    "LookupClient": "panewise.spark.lookup_client",
    "MissingPackageError": "panewise.extras",
    "NextClosing": "panewise.engine.next_closing",
    "Plan": "panewise.planning.plan",
    "Query": "panewise.language.model",
    "Stream": "panewise.language.model",
    "Workload": "panewise.language.workload",
    "fill": "panewise.language.filling",
    "optimize": "panewise.planning.optimize",
    "read": "panewise.language.reader",
    "training_set": "panewise.training.training_set",
    "wide": "panewise.engine.answers",
}

__all__ = [
    "END_OF_STREAM",
    "AnswerOverflowError",
    "Answers",
    "ArgumentError",
    "CacheWarning",
    "CalibrationError",
    "CheckpointError",
    "CommandError",
    "EndedWarning",
    "Engine",
    "EventsError",
    "FileAccessError",
    "FolderError",
    "HistoryError",
    "IndexingError",
    "JobError",
    "JobFailedError",
    "KeysError",
    "LabelsError",
    "LateWarning",
    "LookupClient",
    "LookupLogError",
    "LookupTimeoutError",
    "LostManifestError",
    "MemoryBudgetError",
    "MissingPackageError",
    "MixedZonesWarning",
    "NamesClashError",
    "NextClosing",
    "NotOnSparkError",
    "NothingClosedWarning",
    "PanewiseError",
    "PanewiseWarning",
    "Plan",
    "Query",
    "QueryInUseError",
    "QueryKindError",
    "QuotaError",
    "ServerError",
    "SilentStreamWarning",
    "SlotLogError",
    "SlowerLookupsWarning",
    "SnapshotError",
    "SparkSetupError",
    "StatementError",
    "Stream",
    "StructureChoiceError",
    "StructureError",
    "SubstreamError",
    "TimeError",
    "TooManyEdgesError",
    "TooManyQueriesError",
    "TooManyRowsError",
    "UnknownNameError",
    "UnlikelyTimesError",
    "UnlikelyTimesWarning",
    "UnusableFolderError",
    "WatermarkError",
    "WindowError",
    "Workload",
    "fill",
    "optimize",
    "read",
    "training_set",
    "wide",
]


def __getattr__(name: str) -> Any:
    return load(__name__, _HOMES, name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
