"""The builder in a process of its own: reading files takes nothing from the interpreter that answers requests.

The server starts it, and hands it the lock of the directory that both map. The process ends with its standard input, so
it never outlives the server. It runs with a lower priority: answers may grow older while the machine is busy, but
requests do not wait.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from panewise.errors import FolderError, PanewiseError, StatementError
from panewise.serve.places import SharedPlace
from panewise.serve.snapshot_builder import SnapshotBuilder, give_memory_back
from panewise.serve.snapshots import Snapshots

LOOK_EVERY_S = 0.02
"""How often a builder looks for new files, and a server for new snapshots."""
AFTER_FAILURE_S = 0.5
"""How long they wait after a look that failed."""
NICE = 5
"""How much it stands back behind those who answer requests."""


class BuilderProcess:
    """Starts the process, and starts it again if it ends."""

    def __init__(self, folder: Path, place: SharedPlace, version: Callable[[], int]) -> None:
        self._folder = folder
        self._place = place
        self._version = version
        """The version that the server answers from."""
        self._process: subprocess.Popen[bytes] | None = None

    def build(self) -> None:
        """See that the process runs.

        Raises what kept it from beginning, or that it ended. The next call starts it again.
        """
        if self._process is None:
            self._start()
        elif self._process.poll() is not None:
            self._raise(self._process)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._end(self._process)
            self._process = None

    def _start(self) -> None:
        given = Given(self._folder, self._place.directory, self._place.lock, self._place.is_private, self._version())
        command = [sys.executable, "-m", __name__, *map(str, given)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=(given.lock,))

    def _raise(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        told = process.stdout.read()
        self._end(process)
        self._process = None
        if told:
            error, cause = pickle.loads(told)
            raise error from cause
        raise FolderError(
            f"the process that reads {self._folder} ended with {process.returncode}; it is started again, and answers "
            f"stay as they are until it has read the folder"
        )

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Given(NamedTuple):
    """The arguments of the process."""

    folder: Path
    directory: Path
    lock: int
    is_private: bool
    after: int

    @classmethod
    def read(cls, arguments: list[str]) -> Given:
        """Those of the command line."""
        folder, directory, lock, is_private, after = arguments
        return cls(Path(folder), Path(directory), int(lock), is_private == str(True), int(after))


def follow(builder: SnapshotBuilder, place: SharedPlace) -> None:
    """Build whenever there is something new, until standard input ends."""
    builder.build()
    pause_s = 0.0
    while not (select.select([sys.stdin], [], [], pause_s)[0] and not os.read(sys.stdin.fileno(), 1)):
        try:
            builder.build()
            problem, pause_s = None, LOOK_EVERY_S
        except (PanewiseError, OSError) as error:
            problem, pause_s = str(error), AFTER_FAILURE_S
        place.tell(problem)


def main(arguments: list[str]) -> int:
    """Build for the server that started this process. What keeps it from beginning goes to standard output."""
    given = Given.read(arguments)
    os.nice(NICE)
    give_memory_back()
    # They are meant for the server, which ends this process in its own time.
    for meant_for_the_server in (signal.SIGINT, signal.SIGTERM):
        signal.signal(meant_for_the_server, signal.SIG_IGN)
    place = SharedPlace(given.directory, given.lock, is_private=given.is_private)
    place.may_build()
    try:
        follow(SnapshotBuilder(given.folder, Snapshots(place), given.after), place)
    except (PanewiseError, OSError) as error:
        # A statement's error takes more than its text to make again, and the text says all.
        shown = PanewiseError(str(error)) if isinstance(error, StatementError) else error
        sys.stdout.buffer.write(
            pickle.dumps((shown, error.__cause__ if isinstance(error.__cause__, OSError) else None))
        )
        return 1
    place.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
