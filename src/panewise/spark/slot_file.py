"""A file of the slot log, or of the row log: what one bucket kept in one batch, or in several neighbouring ones.

The name tells the batches: `17.panewise`, or `3-16.panewise` once they are merged. Whoever opens a file finds all of it
(see `whole_file`); a checksum finds what disks and people do to it later. It names the file before it (`previous`), so
a reader can tell a batch in which the bucket had nothing to say from a file that is lost, and the `oldest` batch that
the log still had. The content is a header in JSON, then packed partials or rows (Arrow); nothing is pickled.
"""

from __future__ import annotations

import json
import logging
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from panewise.errors import SlotLogError
from panewise.spark.whole_file import write_whole

T = TypeVar("T")

MAGIC = b"PANESLOT"
FORMAT = 2
NO_BATCH = -1
"""Stands for the batch before the first."""

_PREFIX = struct.Struct("<8sHI")
_CHECKSUM = struct.Struct("<I")
_NAME = re.compile(r"(\d+)(?:-(\d+))?\.panewise")


_LOGGER = logging.getLogger(__name__)


@cache
def tell_once(message: str) -> None:
    """Log what is odd in the shared folder and stops nothing, once in each process."""
    _LOGGER.warning(message)


class BatchSpan(NamedTuple):
    """The batches that a file covers, both ends included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.first}.panewise" if self.first == self.last else f"{self.first}-{self.last}.panewise"

    def covers(self, other: BatchSpan) -> bool:
        """Whether this file has all batches of another one."""
        return self.first <= other.first and other.last <= self.last

    @staticmethod
    def of(name: str) -> BatchSpan | None:
        """The batches of a file of this name; None for a file of another kind.

        >>> BatchSpan.of("3-16.panewise"), BatchSpan.of("17.panewise"), BatchSpan.of("notes.txt")
        (BatchSpan(first=3, last=16), BatchSpan(first=17, last=17), None)
        """
        found = _NAME.fullmatch(name)
        return None if found is None else BatchSpan(int(found[1]), int(found[2] or found[1]))


@dataclass(frozen=True)
class Head:
    """What a file says of itself.

    `newest_slots` has the newest slot of each base with partials in it. Windows up to `closed_us` were answered after
    its last batch. If rows were left out, lookups from `holds_from_us` on still find all they need.
    `oldest` is the first batch that the log still held, `changes` how many batches had brought statements before.
    `after` is the last batch before that every bucket took part in. `is_lossy` tells that rows are missing for good.
    """

    bucket: int
    span: BatchSpan
    previous: int
    watermark_us: int | None
    closed_us: int | None
    newest_slots: Mapping[int, int]
    holds_from_us: int | None = None
    oldest: int = NO_BATCH
    changes: int = 0
    after: int = NO_BATCH
    is_lossy: bool = False


def later(times_us: Iterable[int | None]) -> int | None:
    """The latest of the known times; None if none is known."""
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def tell_left_alone(error: SlotLogError) -> None:
    """Log a file that cannot be read, without a cure: who needs the file says so with one."""
    tell_once(f"{error.fault}; it is left alone")


def readable(read: Callable[[Path], T], path: Path) -> T | None:
    """What is read of a file; None for one that is gone, or that cannot be read, which is logged."""
    try:
        return read(path)
    except FileNotFoundError:
        return None
    except SlotLogError as error:
        tell_left_alone(error)
        return None


def write_file(folder: Path, head: Head, content: bytes) -> None:
    """Write a file into a bucket's folder; it replaces one of the same name."""
    encoded = json.dumps(
        {
            "bucket": head.bucket,
            "first": head.span.first,
            "last": head.span.last,
            "previous": head.previous,
            "watermark_us": head.watermark_us,
            "closed_us": head.closed_us,
            "newest_slots": {str(base): slot for base, slot in head.newest_slots.items()},
            **({} if head.holds_from_us is None else {"holds_from_us": head.holds_from_us}),
            "oldest": head.oldest,
            "changes": head.changes,
            "after": head.after,
            **({"is_lossy": True} if head.is_lossy else {}),
        }
    ).encode()
    blob = b"".join([_PREFIX.pack(MAGIC, FORMAT, len(encoded)), encoded, content])
    write_whole(folder / head.span.name, blob + _CHECKSUM.pack(zlib.crc32(blob)))


def read_head(path: Path) -> Head:
    """The head alone, with the checksum unchecked; FileNotFoundError if the file is gone."""
    with _reading(path, lambda: path.open("rb")) as file:
        start = _reading(path, lambda: file.read(_PREFIX.size))
        length = _header_length(path, start)
        return _head(path, file.read(length))


def read_file(path: Path) -> tuple[Head, bytes]:
    """A file, checked; FileNotFoundError if it is gone."""
    blob = _reading(path, path.read_bytes)
    length = _header_length(path, blob)
    body = memoryview(blob)[: -_CHECKSUM.size]
    if zlib.crc32(body) != _CHECKSUM.unpack(blob[-_CHECKSUM.size :])[0]:
        raise SlotLogError(f"{path} is cut off or damaged: its checksum does not match", _CURE)
    begin = _PREFIX.size + length
    return _head(path, blob[_PREFIX.size : begin]), bytes(body[begin:])


def _reading(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SlotLogError(f"cannot read {path}: {error.strerror}", "give this user the right to read it") from error


_CURE = "restore the file, or start the job anew with an empty folder and a new checkpoint"


def _header_length(path: Path, blob: bytes) -> int:
    if len(blob) < _PREFIX.size or not blob.startswith(MAGIC):
        raise SlotLogError(f"{path} is no file of Panewise's slot log, or it is cut off", _CURE)
    _, version, length = _PREFIX.unpack_from(blob)
    if version != FORMAT:
        raise SlotLogError(
            f"{path} has format {version} and this Panewise reads format {FORMAT}", "use the Panewise that runs the job"
        )
    return int(length)


def _head(path: Path, encoded: bytes) -> Head:
    try:
        header = json.loads(encoded)
        head = Head(
            header["bucket"],
            BatchSpan(header["first"], header["last"]),
            header["previous"],
            header["watermark_us"],
            header["closed_us"],
            {int(base): slot for base, slot in header["newest_slots"].items()},
            header.get("holds_from_us"),
            header["oldest"],
            header["changes"],
            header.get("after", NO_BATCH),
            header.get("is_lossy", False),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SlotLogError(f"{path} is damaged: its header cannot be read", _CURE) from error
    if path.name != head.span.name:
        raise SlotLogError(f"{path} was renamed: it is {head.span.name} of bucket {head.bucket}", "give its name back")
    return head
