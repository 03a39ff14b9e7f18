"""Snapshots: what a lookup client has read, as copies that never change and that several processes share.

A client changes when it reads new files. A snapshot of its state is what requests read. The large runs of partials
never change in the client either, so each is written once, and the client and all snapshots map the same pages. The job
with its plan is written once for each change of its queries. The rest, numbers of keys above all, is written for each
snapshot. Sketches are objects, of which each process has its own.
Cost: O(new runs, and bytes of the tables of keys) a snapshot; loading one costs O(objects), whatever the bytes.

The blocks are pickles with their arrays outside (protocol 5): nothing else has the form that is in memory. They are
never read from the folder of a job, which others may write to, but only from this server's memory or from a directory
that belongs to its user alone.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Sequence
from secrets import token_hex
from typing import Any

from panewise.engine.packed_rows import PackedRows
from panewise.serve.places import Piece, Place
from panewise.spark.job import Job
from panewise.spark.lookup_state import LookupState

LEAST_BYTES = 1 << 16
"""Shorter runs are copied into each snapshot."""
_ALIGN = 64
_HEAD = struct.Struct("<q")

Objects = dict[int, Any]
"""The parts of a job by the numbers that pickling gave them."""


class Snapshots:
    """Writes snapshots into a place, and loads them from there."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._run_id = token_hex(4)
        self._number = 0
        self._job: tuple[Job, str, dict[int, int], list[object]] | None = None
        """The job that was written last, its block, and the numbers of its parts by identity, with the parts."""
        self._written: dict[int, tuple[PackedRows, str]] = {}
        """By identity, the runs of the client that are blocks."""
        self._kept: set[str] = set()
        self._jobs: dict[str, Objects] = {}
        self._runs: dict[str, PackedRows] = {}

    def publish(self, state: LookupState, about: object) -> None:
        """Write a snapshot of a state, with what to know about it, and make it the current one."""
        job_name, numbers = self._publish_job(state)
        used: dict[int, tuple[PackedRows, str]] = {}

        def shared(run: PackedRows) -> PackedRows:
            if run.nbytes < LEAST_BYTES:
                return run
            name = self._written[id(run)][1] if id(run) in self._written else self._publish_run(run)
            mapped = self._run(name)
            used[id(mapped)] = mapped, name
            return mapped

        state.replace_runs(shared)
        self._written = used
        content, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _StatePickler(content, buffers, numbers, used).dump((state, about))
        name = self._name("state")
        self.place.put(name, _packed([job_name.encode(), content.getvalue()], buffers))
        names = {name, job_name, *(one for _, one in used.values())}
        # Those of the snapshot before too: somebody may just be loading it.
        self.place.publish(name, names | self._kept)
        self._kept = names

    def load(self, name: str) -> tuple[LookupState, Any]:
        """A snapshot, and what to know about it. FileNotFoundError if there is a newer one already."""
        (job_name, content), buffers = _unpacked(self.place.get(name))
        if bytes(job_name).decode() not in self._jobs:
            # The parts of earlier jobs go with the snapshots that use them.
            self._jobs = {bytes(job_name).decode(): self._load_job(bytes(job_name).decode())}
        loading = _StateUnpickler(content, buffers, self._jobs[bytes(job_name).decode()], self._run)
        state, about = loading.load()
        self._runs = {one: self._runs[one] for one in loading.runs}
        return state, about

    def _name(self, kind: str) -> str:
        self._number += 1
        return f"{kind}-{self._run_id}-{self._number}"

    def _publish_job(self, state: LookupState) -> tuple[str, dict[int, int]]:
        if self._job is None or self._job[0] is not state.job:
            content = io.BytesIO()
            pickler = pickle.Pickler(content, protocol=5)
            # Bit by bit: requests wait while a pickler works.
            for part in (*state.job.workload.queries.values(), *state.lookups.values()):
                pickler.dump(part)
            pickler.dump(state.job)
            pickler.dump(state.lookups)
            name = self._name("job")
            self.place.put(name, _packed([content.getvalue()], []))
            # The parts must stay, so that no other object gets the identity of one.
            parts = pickler.memo.copy().values()
            self._job = state.job, name, {id(part): number for number, part in parts}, [part for _, part in parts]
        return self._job[1], self._job[2]

    def _load_job(self, name: str) -> Objects:
        ((content,), _) = _unpacked(self.place.get(name))
        source = io.BytesIO(content)
        unpickler = pickle.Unpickler(source)
        while source.tell() < len(content):
            unpickler.load()
        objects: Objects = dict(unpickler.memo.copy())
        return objects

    def _publish_run(self, run: PackedRows) -> str:
        buffers: list[pickle.PickleBuffer] = []
        content = pickle.dumps(run, protocol=5, buffer_callback=buffers.append)
        name = self._name("run")
        self.place.put(name, _packed([content], buffers))
        return name

    def _run(self, name: str) -> PackedRows:
        if name not in self._runs:
            ((content,), buffers) = _unpacked(self.place.get(name))
            self._runs[name] = pickle.loads(content, buffers=buffers)
        return self._runs[name]


class _StatePickler(pickle.Pickler):
    """Names the parts of the job, and runs that are blocks, instead of writing them again."""

    def __init__(
        self,
        content: io.BytesIO,
        buffers: list[pickle.PickleBuffer],
        numbers: dict[int, int],
        runs: dict[int, tuple[PackedRows, str]],
    ) -> None:
        super().__init__(content, protocol=5, buffer_callback=buffers.append)
        self._numbers = numbers
        self._runs = runs

    def persistent_id(self, part: object) -> int | str | None:
        """The number of a part of the job, or the name of a run."""
        if isinstance(part, PackedRows):
            found = self._runs.get(id(part))
            return None if found is None else found[1]
        return self._numbers.get(id(part))


class _StateUnpickler(pickle.Unpickler):
    """Finds what a `_StatePickler` named."""

    def __init__(self, content: Piece, buffers: Sequence[Piece], objects: Objects, run: Any) -> None:
        super().__init__(io.BytesIO(content), buffers=buffers)
        self._objects = objects
        self._run = run
        self.runs: set[str] = set()

    def persistent_load(self, name: int | str) -> Any:
        """A part of the job, or a run."""
        if isinstance(name, int):
            return self._objects[name]
        self.runs.add(name)
        return self._run(name)


def _packed(contents: list[bytes], buffers: list[pickle.PickleBuffer]) -> list[Piece]:
    """A block: how many contents there are, their lengths and those of the buffers, and then all of them, aligned."""
    parts: list[Piece] = [*contents, *(buffer.raw() for buffer in buffers)]
    head = b"".join(_HEAD.pack(number) for number in (len(contents), len(parts), *map(len, parts)))
    pieces: list[Piece] = []
    for part in (head, *parts):
        pieces += [part, bytes(-len(part) % _ALIGN)]
    return pieces


def _unpacked(block: memoryview) -> tuple[list[memoryview], list[memoryview]]:
    """The contents and the buffers of a block."""
    count, total = (_HEAD.unpack_from(block, place * _HEAD.size)[0] for place in (0, 1))
    lengths = [_HEAD.unpack_from(block, (2 + place) * _HEAD.size)[0] for place in range(total)]
    at = _aligned((2 + total) * _HEAD.size)
    parts = []
    for length in lengths:
        parts.append(block[at : at + length])
        at += _aligned(length)
    return parts[:count], parts[count:]


def _aligned(length: int) -> int:
    return length + -length % _ALIGN
