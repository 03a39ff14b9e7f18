"""Places: where the snapshots of a folder lie. In the memory of this server, or in files that several servers map.

A place holds blocks by name. A block never changes once it is there, and `current` names the newest snapshot.
"""

from __future__ import annotations

import mmap
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import gettempdir, mkdtemp

import numpy as np

from panewise.errors import CommandError, FolderError

LOCK, CURRENT, PROBLEM = "lock", "current", "problem"
"""Files of a shared directory beside the blocks."""

FORMAT = f"{version('panewise')}/{sys.version_info.major}.{sys.version_info.minor}"
"""Snapshots are what is in memory, so they are read by the Panewise and the Python that wrote them."""

Piece = bytes | memoryview


class Place(ABC):
    """Holds blocks."""

    problem: str | None = None
    """What keeps the server that builds from going on."""

    @abstractmethod
    def may_build(self) -> bool:
        """Whether this server is the one that builds: the first to ask is, until it ends."""

    @abstractmethod
    def put(self, name: str, pieces: Sequence[Piece]) -> None:
        """Keep a block."""

    @abstractmethod
    def get(self, name: str) -> memoryview:
        """A block, which must not be written to. FileNotFoundError if it is gone."""

    @abstractmethod
    def publish(self, name: str, kept: Collection[str]) -> None:
        """Make a block the current snapshot, and forget all but the kept ones."""

    @abstractmethod
    def current(self) -> str | None:
        """The newest snapshot."""

    def tell(self, problem: str | None) -> None:
        """Let the others know what keeps this server from building."""
        self.problem = problem

    def told(self) -> str | None:
        """What keeps the server that builds from going on."""
        return self.problem

    def close(self) -> None:  # noqa: B027 - memory needs none
        """Let another server build."""


class MemoryPlace(Place):
    """The memory of this process."""

    def __init__(self) -> None:
        self._blocks: dict[str, memoryview] = {}
        self._current: str | None = None

    def may_build(self) -> bool:
        """Nobody else is there."""
        return True

    def put(self, name: str, pieces: Sequence[Piece]) -> None:
        """Copy a block, into pages that go back to the system when it is forgotten."""
        block = memoryview(mmap.mmap(-1, max(1, sum(map(len, pieces)))))
        # NumPy copies without the interpreter's lock, so that requests go on meanwhile.
        copied = np.frombuffer(block, np.uint8)
        at = 0
        for piece in pieces:
            copied[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
        self._blocks[name] = block

    def get(self, name: str) -> memoryview:
        """A block, which must not be written to."""
        return self._blocks[name]

    def publish(self, name: str, kept: Collection[str]) -> None:
        """Make a block the current snapshot."""
        self._current = name
        self._blocks = {one: block for one, block in self._blocks.items() if one in kept}

    def current(self) -> str | None:
        """The newest snapshot."""
        return self._current


class SharedPlace(Place):
    """A directory of files that servers of one user map.

    Snapshots are loaded as code would be. So the directory must be the user's alone. Each folder has a part of it.
    """

    def __init__(self, directory: Path, lock: int, *, is_private: bool) -> None:
        self.directory = directory
        """Where the blocks of one folder lie."""
        self.lock = lock
        """An open file. Processes that inherit it hold its lock together."""
        self.is_private = is_private
        """Whether one server has the directory for itself, and takes it along when it ends."""
        self._builds = False

    @classmethod
    def opened(cls, share: Path, folder: Path) -> SharedPlace:
        """The part of a directory that belongs to a folder."""
        directory = share / sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
        try:
            share.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = share.stat()
            directory.mkdir(mode=0o700, exist_ok=True)
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CommandError(f"--share {share}: cannot use it: {error.strerror}; name another directory") from error
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            os.close(lock)
            raise CommandError(
                f"--share {share}: others could change what is loaded from there; make the directory yours alone "
                f"(chmod 700), or name another"
            )
        return cls(directory, lock, is_private=False)

    @classmethod
    def private(cls) -> SharedPlace:
        """A directory for one server and the process that builds for it."""
        try:
            directory = Path(mkdtemp(prefix="panewise-serve-"))
            lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise CommandError(
                f"cannot make a directory for snapshots in {gettempdir()}: {error.strerror}; free some space there, or "
                f"name another directory with --share"
            ) from error
        return cls(directory, lock, is_private=True)

    def may_build(self) -> bool:
        """Whether this process holds the lock, which the system takes away when a process ends."""
        import fcntl

        if not self._builds:
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            self._builds = True
            # What another run left there is of no use.
            for left in (CURRENT, PROBLEM):
                (self.directory / left).unlink(missing_ok=True)
        return True

    def put(self, name: str, pieces: Sequence[Piece]) -> None:
        """Write a block."""
        self._write(name, pieces)

    def get(self, name: str) -> memoryview:
        """A block, mapped: its pages are shared until somebody writes to them, and then they are his own."""
        with (self.directory / name).open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))

    def publish(self, name: str, kept: Collection[str]) -> None:
        """Name the current snapshot, and delete files that are of no use any more; who has mapped one keeps it."""
        self._write(CURRENT, [f"{FORMAT} {name}".encode()])
        for path in self.directory.iterdir():
            if path.name not in kept and path.name not in (LOCK, CURRENT, PROBLEM):
                path.unlink(missing_ok=True)

    def current(self) -> str | None:
        """The newest snapshot; raises if another Panewise wrote it."""
        written, _, name = (self._text(CURRENT) or "").partition(" ")
        if written and written != FORMAT:
            raise FolderError(
                f"{self.directory.parent}: a server of Panewise {written} builds there, and this is {FORMAT}; use the "
                f"same one, or share another directory"
            )
        return name or None

    def tell(self, problem: str | None) -> None:
        """Write down what is wrong, for the other servers."""
        if problem != self.problem:
            with suppress(OSError):
                # If it cannot be written either, the others see that answers grow old.
                self._write(PROBLEM, [(problem or "").encode()])
            self.problem = problem

    def told(self) -> str | None:
        """What the server that builds wrote down last."""
        return self._text(PROBLEM) or None

    def close(self) -> None:
        """Give the lock back."""
        os.close(self.lock)
        if self.is_private:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _text(self, name: str) -> str | None:
        try:
            return (self.directory / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _write(self, name: str, pieces: Sequence[Piece]) -> None:
        """Write a file whole: under another name first."""
        unfinished = self.directory / f".{name}.{os.getpid()}"
        try:
            with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                for piece in pieces:
                    file.write(piece)
            os.replace(unfinished, self.directory / name)
        except OSError as error:
            with suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise FolderError(
                f"cannot write into {self.directory}, which servers share: {error.strerror}; answers stay as they are "
                f"until that is mended"
            ) from error
