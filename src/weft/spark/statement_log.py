"""The statement log: which statements came through the control stream, in which batch.

A file for each batch that brought some, in the folder that all workers share. It is written in that batch and read from
the next one on. Spark's offsets fix what the batch brings, and the next batch begins when all of it is done, so a batch
always finds the same files, also when it is repeated.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

from weft.errors import WeftError
from weft.spark.job import Change, Statement

FORMAT = 1


class StatementLog:
    """The statements of a job's control stream, in its folder."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder, "statements")

    def put(self, change: Change) -> None:
        """Write the change of a batch; a batch that is repeated finds it there already."""
        path = self._path(change.batch)
        content = json.dumps({"format": FORMAT, **asdict(change)}, sort_keys=True, indent=1)
        if path.exists():
            if path.read_text(encoding="utf-8") != content:
                raise WeftError(
                    f"{path} was written by another run of batch {change.batch}; this folder belongs to another "
                    f"checkpoint: give the job a folder of its own"
                )
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(f".{uuid4().hex}.unfinished")
        unfinished.write_text(content, encoding="utf-8")
        unfinished.rename(path)

    def before(self, batch: int) -> list[Change]:
        """The changes that hold in a batch, in order."""
        return [self._read(number) for number in self.batches() if number < batch]

    def batches(self) -> list[int]:
        """The batches that brought statements, in order."""
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        return sorted(int(name.removesuffix(".json")) for name in names if name.endswith(".json"))

    def _path(self, batch: int) -> Path:
        return self._folder / f"{batch:012}.json"

    def _read(self, batch: int) -> Change:
        path = self._path(batch)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise WeftError(f"{path} has format {content['format']}, this Weft reads format {FORMAT}")
            statements = tuple(Statement(**statement) for statement in content["statements"])
            return Change(content["batch"], statements, content["newest_us"], content["watermark_us"])
        except (ValueError, KeyError, TypeError) as error:
            raise WeftError(f"{path} is no file of statements that Weft wrote: {error}") from error
