"""The builder: reads the folder of a job, and publishes a snapshot whenever it has read something new."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from time import time
from typing import NamedTuple

from panewise.errors import FolderError
from panewise.serve.snapshots import Snapshots
from panewise.serve.source import Position
from panewise.spark.lookup_client import LookupClient
from panewise.spark.slot_log import JOB_FILE

M_MMAP_THRESHOLD = -3
"""The option of the C library for the size from which on a block is one of its own."""
LARGE_BYTES = 1 << 20


class About(NamedTuple):
    """What is known about a snapshot beside its state."""

    position: Position
    rebuilds: int


class SnapshotBuilder:
    """Reads the folder of a job, and begins anew if the job does."""

    def __init__(self, folder: Path, snapshots: Snapshots, after: int) -> None:
        self.version = after
        """That of the newest snapshot. The first one that is built here comes after the given one."""
        self._folder = folder
        self._snapshots = snapshots
        # Before the client reads what the job is. If there is no job, the client says so.
        self._job_id = job_id(folder) if (folder / JOB_FILE).exists() else None
        self.client = LookupClient(folder, refresh_every_s=None)
        self._published: object = None

    def build(self) -> None:
        """Read what is new, and publish it."""
        self._refresh()
        state = self.client.state
        read = state, state.files_read, state.newest_batch, state.watermark_us
        if read == self._published:
            return
        self._snapshots.publish(state, self._about(self.version + 1))
        self.version += 1
        self._published = read

    def close(self) -> None:
        """Nothing is held beside memory."""

    def _refresh(self) -> None:
        """Read what is new.

        A job that was started anew describes itself anew. Nothing of what was read before belongs to it.
        """
        found = job_id(self._folder)
        if found != self._job_id:
            self.client = LookupClient(self._folder, refresh_every_s=None)
            self._job_id = found
        self.client.refresh()

    def _about(self, version: int) -> About:
        held, streams = self.client.statistics(), self.client.workload.streams
        position = Position(
            version=version,
            watermarks_us=dict.fromkeys(streams, held["watermark_us"]),
            newest_us={name: held["seen_us"].get(name) for name in streams},
            written_s=None if held["age_s"] is None else time() - held["age_s"],
            batch=held["newest_batch"],
        )
        return About(position, held["rebuilds"])


def job_id(folder: Path) -> tuple[int, int]:
    """Which file describes the job now."""
    try:
        found = os.stat(folder / JOB_FILE)
    except OSError as error:
        raise FolderError(
            f"cannot read {folder / JOB_FILE}: {error.strerror}; give the folder that the job was given, or bring it "
            f"back"
        ) from error
    return found.st_ino, found.st_mtime_ns


def give_memory_back() -> None:
    """Let large blocks of memory go back to the system when they are freed, instead of being kept for later.

    Partials are merged into ever larger arrays. Otherwise what was copied stays: a quarter of the memory after a start.
    """
    if sys.platform == "linux":
        set_option = getattr(ctypes.CDLL(None), "mallopt", None)
        if set_option is not None:
            set_option(M_MMAP_THRESHOLD, LARGE_BYTES)
