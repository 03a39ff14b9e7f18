"""When a job last published a batch for lookups, by the files of its folder: also after its writer has died."""

from __future__ import annotations

import os
from pathlib import Path

from panewise.spark.manifest import MANIFEST
from panewise.spark.whole_file import UNFINISHED


def published_s(folder: str | os.PathLike[str]) -> float | None:
    """When some bucket was last written, in Unix seconds by the clock of the folder's disk; None if none was.

    Cost: a look at each file of the manifest, of which a bucket has one or two.
    """
    try:
        with os.scandir(Path(folder) / MANIFEST) as files:
            return max((_written_s(file) for file in files if not file.name.endswith(UNFINISHED)), default=None)
    except OSError:
        # A folder that cannot be read tells nothing: the metric is then absent, and the job itself says why.
        return None


def _written_s(file: os.DirEntry[str]) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0  # Replaced since the listing.
