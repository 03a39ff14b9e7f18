"""Every error that Panewise raises on purpose, and every warning: one class for each meaning.

Each error names the thing, the place and the cure. All are names of the package, as in `panewise.HistoryError`.
"""

from __future__ import annotations


class PanewiseError(Exception):
    """The base of every error that Panewise raises on purpose."""


# What a caller gives


class ArgumentError(PanewiseError, ValueError):
    """An argument or an option that a function cannot take."""


class TimeError(ArgumentError):
    """Something given as a time is no time, or lies outside the years 1 to 9999."""


class KeysError(ArgumentError):
    """Keys of a lookup that do not fit the query's GROUP BY."""


class LabelsError(ArgumentError):
    """Labels of a training set that lack a time or a key, or have one that cannot be used."""


class UnknownNameError(PanewiseError, KeyError):
    """There is no stream, query, attribute or structure by that name, or one that should be new is there already."""

    __str__ = PanewiseError.__str__


class QueryKindError(PanewiseError):
    """A question that this kind of query does not answer: the message names the method that does."""


class QueryInUseError(PanewiseError):
    """A query cannot be removed: other queries read its answers."""


class StatementError(PanewiseError):
    """A statement that cannot be parsed or bound: where, what is wrong, and what to write instead."""

    def __init__(self, message: str, *, line: int, column: int, text: str = "", hint: str = "", file: str = "") -> None:
        self.message = message
        self.line = line
        self.column = column
        self.text = text
        self.hint = hint
        self.file = file
        place = f"{file}: " if file else ""
        shown = f"\n  {text}" if text else ""
        cure = f"\n  hint: {hint}" if hint else ""
        super().__init__(f"{place}line {line}, column {column}: {message}{shown}{cure}")


class NamesClashError(PanewiseError):
    """Two columns of a table of answers would have one name, or one column would have two types."""


class FileAccessError(PanewiseError):
    """A file that cannot be read or written."""


# Events and their times


class EventsError(PanewiseError):
    """Events that do not fit their stream. None of them was taken in."""


class UnlikelyTimesError(EventsError, TimeError):
    """Times that look like a mistake, refused because of `strict=True`; else they are an `UnlikelyTimesWarning`."""


class WatermarkError(PanewiseError):
    """A watermark that would go back."""


# Answers


class HistoryError(PanewiseError):
    """A lookup needs events or partials that are not held: they have left, were lost, or never were there."""


class AnswerOverflowError(PanewiseError):
    """An exact integer answer does not fit in 64 bits, and an error was asked for instead of NULL."""


class LookupTimeoutError(PanewiseError):
    """The batch or time that `wait_for` waited for did not come in time."""


# Plans and memory


class LookupLogError(PanewiseError):
    """A log of lookups that cannot be written or read: the lookup itself may have been answered."""


class MemoryBudgetError(PanewiseError):
    """Something would need more memory than it may use."""


class StructureChoiceError(PanewiseError):
    """A structure that USING names cannot answer the query."""


class TooManyEdgesError(PanewiseError):
    """A periodic set is too long to be written out."""


class TooManyQueriesError(PanewiseError):
    """A set of queries that is too large for exhaustive search."""


class CalibrationError(PanewiseError):
    """A file of weights that cannot be used."""


# Snapshots and building blocks


class SnapshotError(PanewiseError):
    """Bytes that are not a snapshot, are not whole, or cannot be read by this Panewise."""


class StructureError(PanewiseError):
    """A structure of `panewise.structures` cannot be built, fed or asked like this."""


class WindowError(StructureError):
    """A window that a structure cannot answer, or that is ill-formed."""


class SubstreamError(PanewiseError):
    """An update or a lookup that a filter of `panewise.substreams` cannot take."""


class IndexingError(PanewiseError):
    """A window, a batch or a question that an index of `panewise.indexes` cannot take."""


# Spark and the command


class SparkSetupError(PanewiseError):
    """Spark cannot start, or its settings, its version or its DataFrames do not fit what was asked."""


class TooManyRowsError(PanewiseError):
    """A window of an ORDER BY without LIMIT has more rows than was allowed."""


class NotOnSparkError(PanewiseError):
    """A query or a statement that Spark does not answer: the message says who does."""


class QuotaError(PanewiseError):
    """A statement of a control stream asks for more than the job's quotas allow."""


class CheckpointError(PanewiseError):
    """A checkpoint or a shared folder belongs to another job, or to another state of this one."""


class FolderError(PanewiseError):
    """The shared folder of a job cannot be used: it is not one, cannot be read, or has another format."""


class SlotLogError(FolderError):
    """A file of the shared folder that is missing, damaged, or of another job."""

    def __init__(self, fault: str, cure: str = "") -> None:
        self.fault = fault
        """What is wrong with the file, without the cure for those who need it."""
        super().__init__(f"{fault}; {cure}" if cure else fault)


class LostManifestError(FolderError):
    """A bucket has files, and its manifest is gone."""


class UnusableFolderError(FolderError):
    """The shared folder cannot be written now: it is full, read-only, not mounted, or closed to this user."""


class CommandError(PanewiseError):
    """A command cannot do what it was asked for here; the message says where it can."""


class ServerError(PanewiseError):
    """A server did not do what it was asked for, for a reason that has no error of its own."""


# Warnings


class PanewiseWarning(UserWarning):
    """The base of every warning of Panewise: something that a user should know and may ignore."""


class UnlikelyTimesWarning(PanewiseWarning):
    """Times that look like a mistake: integers that look like another unit, or times outside the years 1900 to 2200."""


class MixedZonesWarning(PanewiseWarning):
    """Times without a zone stand beside times in a zone other than UTC; those without a zone are taken as UTC."""


class LateWarning(PanewiseWarning):
    """All events of a push came behind the watermark, and all were dropped."""


class EndedWarning(LateWarning):
    """Events were pushed after the end of their stream, and were dropped."""


class NothingClosedWarning(PanewiseWarning):
    """An advance closed no window with events; the message says why, and so does `Engine.next_closing`."""


class SilentStreamWarning(PanewiseWarning):
    """A stream on Spark brings nothing: no events come, or all of them are late or without a time."""


class SlowerLookupsWarning(PanewiseWarning):
    """An index could not follow, and lookups of a query read more than before. Answers stay right."""


class CacheWarning(PanewiseWarning):
    """The folder for compiled kernels is not used: kernels are kept beside the source, or compiled by each process."""
