"""A file of the slot log, or of the row log: what one bucket kept in one batch, or in several neighbouring ones.

The name tells the batches: `17.weft`, or `3-16.weft` once they are merged. A file is written under another name and
renamed, so whoever opens it finds all of it; a checksum finds what disks and people do to it later. It names the file
before it (`previous`), so a reader can tell a batch in which the bucket had nothing to say from a file that is lost.
The content is a header in JSON, then packed partials or rows (Arrow); nothing is pickled.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from weft.errors import WeftError

MAGIC = b"WEFTSLOT"
FORMAT = 1
NO_BATCH = -1
"""Stands for the batch before the first."""
UNFINISHED = ".unfinished"

_PREFIX = struct.Struct("<8sHI")
_CHECKSUM = struct.Struct("<I")
_NAME = re.compile(r"(\d+)(?:-(\d+))?\.weft")


class SlotLogError(WeftError):
    """A file of the slot log that is missing, damaged, or of another job."""


class Span(NamedTuple):
    """The batches that a file covers, both ends included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """The name of the file."""
        return f"{self.first}.weft" if self.first == self.last else f"{self.first}-{self.last}.weft"

    def covers(self, other: Span) -> bool:
        """Whether all batches of another file are in this one too."""
        return self.first <= other.first and other.last <= self.last

    @staticmethod
    def of(name: str) -> Span | None:
        """The batches of a file of this name; None for a file of another kind.

        >>> Span.of("3-16.weft"), Span.of("17.weft"), Span.of("notes.txt")
        (Span(first=3, last=16), Span(first=17, last=17), None)
        """
        found = _NAME.fullmatch(name)
        return None if found is None else Span(int(found[1]), int(found[2] or found[1]))


@dataclass(frozen=True)
class Head:
    """What a file says of itself.

    `newest_slots` has the newest slot of each base that it holds partials of, `closed_us` up to where windows had been
    answered after its last batch. Where rows were left out of it, lookups from `holds_from_us` on find all they need.
    """

    bucket: int
    span: Span
    previous: int
    watermark_us: int | None
    closed_us: int | None
    newest_slots: Mapping[int, int]
    holds_from_us: int | None = None


def later(times_us: Iterable[int | None]) -> int | None:
    """The latest of the times that are known; None where none is."""
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def write_file(folder: Path, head: Head, content: bytes) -> None:
    """Write a file into a bucket's folder, in place of one of the same name."""
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
        }
    ).encode()
    blob = b"".join([_PREFIX.pack(MAGIC, FORMAT, len(encoded)), encoded, content])
    unfinished = folder / f"{head.span.name}.{uuid4().hex}{UNFINISHED}"
    try:
        unfinished.write_bytes(blob + _CHECKSUM.pack(zlib.crc32(blob)))
        os.replace(unfinished, folder / head.span.name)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def read_head(path: Path) -> Head:
    """The head alone, without a look at the checksum; FileNotFoundError where the file is gone."""
    with path.open("rb") as file:
        start = file.read(_PREFIX.size)
        length = _header_length(path, start)
        return _head(path, file.read(length))


def read_file(path: Path) -> tuple[Head, bytes]:
    """A file, checked; FileNotFoundError where it is gone."""
    blob = path.read_bytes()
    length = _header_length(path, blob)
    body = memoryview(blob)[: -_CHECKSUM.size]
    if zlib.crc32(body) != _CHECKSUM.unpack(blob[-_CHECKSUM.size :])[0]:
        raise SlotLogError(f"{path} is cut off or damaged: its checksum does not match; {_CURE}")
    begin = _PREFIX.size + length
    return _head(path, blob[_PREFIX.size : begin]), bytes(body[begin:])


_CURE = "restore the file, or start the job anew with an empty folder and a new checkpoint"


def _header_length(path: Path, blob: bytes) -> int:
    if len(blob) < _PREFIX.size or not blob.startswith(MAGIC):
        raise SlotLogError(f"{path} is no file of Weft's slot log, or it is cut off; {_CURE}")
    _, version, length = _PREFIX.unpack_from(blob)
    if version != FORMAT:
        raise SlotLogError(
            f"{path} has format {version} and this Weft reads format {FORMAT}; use the Weft that runs the job"
        )
    return int(length)


def _head(path: Path, encoded: bytes) -> Head:
    try:
        header = json.loads(encoded)
        head = Head(
            header["bucket"],
            Span(header["first"], header["last"]),
            header["previous"],
            header["watermark_us"],
            header["closed_us"],
            {int(base): slot for base, slot in header["newest_slots"].items()},
            header.get("holds_from_us"),
        )
    except (ValueError, KeyError, AttributeError) as error:
        raise SlotLogError(f"{path} is damaged: its header cannot be read; {_CURE}") from error
    if path.name != head.span.name:
        raise SlotLogError(f"{path} was renamed: it is {head.span.name} of bucket {head.bucket}; give its name back")
    return head
