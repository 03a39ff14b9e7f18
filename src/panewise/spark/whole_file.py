"""Files of the shared folder: there as a whole or not at all, also after a machine failed, and closed to others.

A file is written under another name, brought to the disk, and renamed; then its folder is brought to the disk too. So
who finds the file finds all of it, and what a batch wrote before Spark committed it is there when the job goes on.

Nobody but the owner may read what is written, and the folder's group if the folder itself is open to its group. A
folder that is missing is made for the owner alone; who wants to share it makes it beforehand, with the mode it needs.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

UNFINISHED = ".unfinished"
_GROUP_MAY = 0o070
_CAN_SYNC_FOLDERS = os.name == "posix"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file into a folder that is there, in place of one of the same name. Cost: two waits for the disk."""
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # By name, and not when it is opened: the user's umask may be meant for other files.
        os.chmod(unfinished, 0o600 | _mode(path.parent) & _GROUP_MAY & 0o060)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def make_folder(root: Path, inside: str = ".") -> Path:
    """The shared folder, or one inside it, made where it is missing."""
    if not root.is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        _make(root, 0o700)
    folder = root
    for name in Path(inside).parts:
        folder = folder / name
        if not folder.is_dir():
            _make(folder, 0o700 | _mode(root) & _GROUP_MAY)
    return folder


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return  # Another task was faster.
    # A folder of a group stays the group's: the bits above those of access are kept.
    os.chmod(folder, folder.stat().st_mode & 0o7000 | mode)
    sync_folder(folder.parent)


def _mode(folder: Path) -> int:
    return folder.stat().st_mode


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    if _CAN_SYNC_FOLDERS:
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
