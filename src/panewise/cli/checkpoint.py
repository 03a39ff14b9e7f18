"""Which files of a checkpoint are damaged: Spark's own errors name none, or one that only a programmer knows.

Hadoop keeps a checksum beside each file that it writes to a disk: `.<name>.crc` has "crc", a zero, how many bytes a
checksum covers, and the checksums (CRC-32) in order. The logs of offsets and commits are lines: a version such as "v1",
then JSON; these are read where their checksum is gone.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

_MAGIC = b"crc\0"
_WORD = struct.Struct(">I")
_LOGS = ("offsets", "commits")


def damaged_files(checkpoint: Path) -> list[Path]:
    """The files of a checkpoint on a disk that are cut off or changed since they were written."""
    return [file for file in _files(checkpoint) if not _is_whole(file, checkpoint)]


def _files(checkpoint: Path) -> Iterator[Path]:
    for file in sorted(checkpoint.rglob("*")):
        if file.is_file() and not file.name.startswith("."):
            yield file


def _is_whole(file: Path, checkpoint: Path) -> bool:
    checksums = file.with_name(f".{file.name}.crc")
    if checksums.is_file():
        return _matches(file, checksums.read_bytes())
    if file.parent.name in _LOGS and file.parent.parent == checkpoint and file.name.isdigit():
        return _is_log_entry(file.read_bytes())
    return True


def _matches(file: Path, checksums: bytes) -> bool:
    """Whether each stretch of a file has the checksum that was written with it."""
    if len(checksums) < len(_MAGIC) + _WORD.size or not checksums.startswith(_MAGIC):
        return False
    (stretch,) = _WORD.unpack_from(checksums, len(_MAGIC))
    expected = (checksum for (checksum,) in _WORD.iter_unpack(checksums[len(_MAGIC) + _WORD.size :]))
    with file.open("rb") as content:
        found = (zlib.crc32(part) for part in iter(lambda: content.read(stretch), b""))
        return all(one == other for one, other in zip_longest(found, expected))


def _is_log_entry(content: bytes) -> bool:
    version, *lines = content.decode(errors="replace").splitlines() or [""]
    if not (version.startswith("v") and version[1:].isdigit() and lines):
        return False
    try:
        for line in lines:
            if line != "-":  # a source without an offset
                json.loads(line)
    except ValueError:
        return False
    return True
