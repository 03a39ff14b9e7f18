"""Snapshots of structures: a header in JSON, then arrays, then a checksum. Nothing is pickled."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.errors import SnapshotError

MAGIC = b"PANESTRU"
FORMAT = 2
_PREFIX = struct.Struct("<8sHI")
_TYPES = {"int64", "float64", "complex128", "bool"}

Packed = tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]


def pack(header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    """A header and arrays as one blob."""
    described = [[name, str(array.dtype), len(array)] for name, array in arrays.items()]
    encoded = json.dumps(header | {"arrays": described}).encode()
    blob = b"".join([_PREFIX.pack(MAGIC, FORMAT, len(encoded)), encoded, *(a.tobytes() for a in arrays.values())])
    return blob + struct.pack("<I", zlib.crc32(blob))


def unpack(blob: bytes) -> Packed:
    """The inverse of `pack`."""
    if len(blob) < _PREFIX.size + 4 or blob[:8] != MAGIC:
        raise SnapshotError("this is not a snapshot of a structure")
    _, version, length = _PREFIX.unpack_from(blob)
    if version > FORMAT:
        raise SnapshotError(f"the snapshot has format {version} and this version of Panewise reads up to {FORMAT}")
    if zlib.crc32(blob[:-4]) != struct.unpack("<I", blob[-4:])[0]:
        raise SnapshotError("the snapshot is damaged or cut short; take a new one, or go back to an older one")
    at = _PREFIX.size + length
    header = json.loads(blob[_PREFIX.size : at])
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, dtype, count in header.pop("arrays"):
        if dtype not in _TYPES:
            raise SnapshotError(f"the snapshot holds an array of {dtype}, which no structure uses")
        arrays[name] = np.frombuffer(blob, dtype, count, at).copy()
        at += arrays[name].nbytes
    return header, arrays


def unpack_one(blob: bytes, structure: str) -> Packed:
    """The same, of a snapshot that must be of this structure."""
    header, arrays = unpack(blob)
    if header["structure"] != structure:
        raise SnapshotError(f"the snapshot is of a structure {header['structure']!r}, not of {structure!r}")
    return header, arrays
