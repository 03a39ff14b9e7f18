"""The manifest: what a bucket's log must have, said outside the bucket's own folder.

    FOLDER/manifest/slots-<bucket>.json     the last batch in the bucket's slot log; rows-<bucket>.json of its row log

Files of a log tell which file was before them, and the newest one which batch is the oldest still held. So a file that
is lost in between, or the oldest, is seen by the others; the newest ones and a whole bucket are seen by the manifest.
It is written after the file that it names: a log may be ahead of its manifest, never behind it.
"""

from __future__ import annotations

import json
from pathlib import Path

from panewise.errors import SlotLogError
from panewise.spark.whole_file import make_folder, write_whole

MANIFEST = "manifest"


def manifest_path(root: Path, log: str, bucket_id: int) -> Path:
    """Where the manifest of a bucket's log is."""
    return root / MANIFEST / f"{log}-{bucket_id}.json"


def write_manifest(root: Path, log: str, bucket_id: int, last: int) -> None:
    """Say that the log has a batch, and all before it that are still needed."""
    make_folder(root, MANIFEST)
    write_whole(manifest_path(root, log, bucket_id), json.dumps({"bucket": bucket_id, "last": last}).encode())


def read_manifest(root: Path, log: str, bucket_id: int) -> int | None:
    """The last batch that the log must have; None where nothing is said."""
    path = manifest_path(root, log, bucket_id)
    try:
        found = json.loads(path.read_bytes())
        if found["bucket"] == bucket_id:
            return int(found["last"])
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        pass
    raise SlotLogError(
        f"{path} is damaged: it does not say what bucket {bucket_id} must have; restore it, or let the job run on: the "
        f"next batch with events of this bucket writes it anew"
    )
