"""Weft in one process: all events pushed, then everything closed; or, as a stream, a file at a time.

In the setting `mode` = `stream` the watermark advances after each file, and answers are written as windows close.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import weft
from _peers.program import Folders, Job, serve
from _peers.queries import Query


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    engine = weft.Engine(weft.read(text))
    target = answers / "all.parquet"
    if job.settings["mode"] == "batch":
        engine.push(job.stream.name, pq.read_table(folders.batch))
        pq.write_table(engine.advance(job.stream.name, weft.END_OF_STREAM), target)
        return
    writer = None
    files = sorted(folders.batch.glob("*.parquet"))
    for place, file in enumerate(files):
        engine.push(job.stream.name, pq.read_table(file))
        last = place == len(files) - 1
        closed = engine.advance(job.stream.name, *([weft.END_OF_STREAM] if last else []))
        writer = writer or pq.ParquetWriter(target, closed.schema)
        writer.write_table(closed)
    assert writer is not None
    writer.close()


if __name__ == "__main__":
    serve(run, weft.__version__)
