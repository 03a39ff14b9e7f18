"""Panewise in one process: push all events, then close everything; or, as a stream, one file at a time.

In the setting `mode` = `stream` the watermark advances after each file, and answers are written as windows close.
Either way many windows close at once, and strings stay dictionaries from the engine to the file.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import panewise
from _peers.program import Folders, Job, serve
from _peers.queries import Query


def run(job: Job, folders: Folders, queries: list[Query], text: str, answers: Path) -> None:
    answers.mkdir(parents=True)
    engine = panewise.Engine(panewise.read(text), in_bulk=True)
    target = answers / "all.parquet"
    if job.settings["mode"] == "batch":
        engine.push(job.stream.name, pq.read_table(folders.batch))
        closed = engine.advance(job.stream.name, panewise.END_OF_STREAM).long(encoded=True)
        pq.write_table(closed, target, use_dictionary=_of_strings(closed))
        return
    writer = None
    files = sorted(folders.batch.glob("*.parquet"))
    for place, file in enumerate(files):
        engine.push(job.stream.name, pq.read_table(file))
        last = place == len(files) - 1
        closed = engine.advance(job.stream.name, *([panewise.END_OF_STREAM] if last else [])).long(encoded=True)
        writer = writer or pq.ParquetWriter(target, closed.schema, use_dictionary=_of_strings(closed))
        writer.write_table(closed)
    assert writer is not None
    writer.close()


def _of_strings(answers: pa.Table) -> list[str]:
    """The columns that have few different values: the times and values of answers are quicker to write as they are."""
    return [field.name for field in answers.schema if pa.types.is_dictionary(field.type)]


if __name__ == "__main__":
    serve(run, panewise.__version__)
