"""Training sets in bounded memory: events go to Arrow files by key, and are answered file by file.

Events of keys that no label asks for are left out. The others go to one of `FILES` files by the number of their key,
with the columns that queries read. Files are answered one after the other. If the events of one do not fit, because a
key has many or there is no GROUP BY, it is cut by time: labels in their order are answered with the events that their
windows can reach, and with the last rows of each substream before these, for windows over rows. A window that slides
over rows counts them from the first one, so its files are not cut.

Memory: the labels and their answers; for each event in memory its columns and `WORDS` words for structures; the last
rows of each substream; and a word for each event of a file that is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.ipc

from panewise.arrays import Ints
from panewise.engine.as_of.answers import AnswersAt, answers_at, blank_answers
from panewise.engine.as_of.ranges import BEFORE_ALL
from panewise.engine.columns import arrow_type
from panewise.engine.ingest import GivenTimes, read_events
from panewise.engine.tables import KeyTable
from panewise.language.model import Query, Stream
from panewise.training.places import attributes_read, by_group, needed_from, together_by
from panewise.windows import RowWindow, TimeWindow
from panewise.windows.instances import last_ending

FILES = 64
WORDS = 24
"""Words that structures take for an event: prefixes, blocks and wavelets of a few inputs."""
PIECE_ROWS = 1 << 16


def pieces(events: object) -> Iterator[object]:
    """Events piece by piece: a dataset, a reader or an iterator as it comes, a table in slices."""
    if isinstance(events, pa.dataset.Dataset):
        yield from events.to_batches(batch_size=PIECE_ROWS)
    elif isinstance(events, pa.Table):
        yield from events.to_batches(max_chunksize=PIECE_ROWS)
    elif isinstance(events, (pa.RecordBatchReader, Iterator)):
        yield from events
    else:
        yield events


def come_in_pieces(events: object) -> bool:
    """Whether events can be read piece by piece only."""
    return isinstance(events, (pa.dataset.Dataset, Iterator)) and not isinstance(events, pa.RecordBatchReader)


def spilled_answers(
    stream: Stream,
    queries: Sequence[Query],
    events: object,
    times: Ints,
    columns: Mapping[str, pa.Array],
    threads: int | None,
    memory_limit: int,
    look: Callable[[Ints, GivenTimes], None],
) -> list[AnswersAt]:
    """As `answers_at`, with events in any pieces and at most so many bytes of them at a time.

    `look` is shown the times of the first piece.
    """
    with TemporaryDirectory(prefix="panewise-training-") as folder:
        groups = [
            _Spill(Path(folder, str(number)), stream, some, times, columns)
            for number, some in enumerate(by_group(queries))
        ]
        closing = _Closing(stream, queries)
        for number, piece in enumerate(pieces(events)):
            batch, given = read_events(stream, piece)
            come = np.asarray(batch.column(stream.timestamp))
            if not number:
                look(come, given)
            closing.take(come)
            for group in groups:
                group.take(batch)
        found = {}
        for group in groups:
            group.close()
            for one in group.answers(threads, memory_limit, closing.times()):
                found[one.query.name] = one
    return [found[query.name] for query in queries]


class _Closing:
    """The times of events that closed a window of some sliding query, as far as they have come."""

    def __init__(self, stream: Stream, queries: Iterable[Query]) -> None:
        self._delay_us = stream.watermark_us
        windows = [query.window for query in queries if query.window.is_sliding]
        # Over rows, every event may close one.
        self._all: list[Ints] | None = [] if any(isinstance(window, RowWindow) for window in windows) else None
        self._first: dict[TimeWindow, tuple[Ints, Ints]] = {
            window: (np.empty(0, np.int64), np.empty(0, np.int64))
            for window in windows
            if isinstance(window, TimeWindow)
        }

    def take(self, times: Ints) -> None:
        """Take the times of a piece in."""
        if self._all is not None:
            self._all.append(times)
        for window, (instances, first) in self._first.items():
            known = np.append(first, times)
            found = np.append(instances, last_ending(window, times - self._delay_us))
            order = np.lexsort((known, found))
            found, places = np.unique(found[order], return_index=True)
            self._first[window] = found, known[order][places]

    def times(self) -> Ints | None:
        """The times, in order; None if no query slides."""
        if self._all is not None:
            return np.sort(np.concatenate([np.empty(0, np.int64), *self._all]))
        if not self._first:
            return None
        return np.unique(np.concatenate([first for _, first in self._first.values()]))


@dataclass
class _File:
    """The events of some keys on the disk."""

    path: Path
    schema: pa.Schema
    rows: int = 0
    _writer: Any = None

    def append(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self.path, self.schema)
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        if self.rows:
            with pa.OSFile(str(self.path)) as source, pa.ipc.open_stream(source) as reader:
                yield from reader

    def events(self, time: str, begin_us: int | None = None, end_us: int | None = None) -> pa.RecordBatch:
        """The events, or those from a time up to and with another one."""
        kept = []
        for batch in self.batches():
            if begin_us is not None:
                column = batch.column(time)
                batch = batch.filter(pc.and_(pc.greater_equal(column, begin_us), pc.less_equal(column, end_us)))
            if batch.num_rows:
                kept.append(batch)
        table = pa.Table.from_batches(kept, self.schema).combine_chunks()
        return table.to_batches()[0] if table.num_rows else pa.RecordBatch.from_pylist([], self.schema)


class _Spill:
    """The queries of one GROUP BY, and the files of their events."""

    def __init__(
        self, folder: Path, stream: Stream, queries: Sequence[Query], times: Ints, columns: Mapping[str, pa.Array]
    ) -> None:
        folder.mkdir()
        self._stream, self._queries = stream, queries
        self._names = attributes_read(stream, queries)
        self._together = together_by(stream, queries)
        self._times = times
        self._columns = {name: columns[name] for name in queries[0].group_by}
        self._table = KeyTable([stream.attributes[name] for name in self._together])
        asked = [self._columns[name] for name in self._together]
        self._asked_files = self._table.ids(asked, len(times)) % FILES
        schema = pa.schema([(name, arrow_type(stream.attributes[name])) for name in self._names])
        self._files = [_File(folder / str(number), schema) for number in range(FILES if self._together else 1)]

    def take(self, batch: pa.RecordBatch) -> None:
        """Append each event to the file of its key."""
        batch = batch.select(self._names)
        if not self._together:
            self._files[0].append(batch)
            return
        keys = self._table.find([batch.column(name) for name in self._together], batch.num_rows)
        known = np.flatnonzero(keys >= 0)
        places = keys[known] % FILES
        order = np.argsort(places, kind="stable")
        bounds = np.searchsorted(places[order], np.arange(FILES + 1))
        for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
            if begin < end:
                self._files[number].append(batch.take(pa.array(known[order[begin:end]])))

    def close(self) -> None:
        """Nothing more comes."""
        for file in self._files:
            file.close()

    def answers(self, threads: int | None, memory_limit: int, closing: Ints | None) -> list[AnswersAt]:
        """The answers of all labels."""
        found = {
            query.name: AnswersAt(query, blank_answers(self._stream, query, len(self._times)))
            for query in self._queries
        }
        most_rows = max(1, memory_limit // (8 * (len(self._names) + WORDS)))
        stream = self._stream
        for number, file in enumerate(self._files):
            labels = np.flatnonzero(self._asked_files == number)
            if not len(labels):
                continue
            for some, events in self._fitting(file, labels, most_rows, closing):
                keys = {name: column.take(pa.array(some)) for name, column in self._columns.items()}
                for part in answers_at(stream, self._queries, events, self._times[some], keys, threads, closing):
                    whole = found[part.query.name]
                    whole.overflows += part.overflows
                    for call, column in part.columns.items():
                        whole.columns[call].values[some] = column.values
                        whole.columns[call].valid[some] = column.valid
        return list(found.values())

    def _fitting(
        self, file: _File, labels: Ints, most_rows: int, closing: Ints | None
    ) -> Iterator[tuple[Ints, pa.RecordBatch]]:
        """Labels of a file with the events that they need: all of it if it fits, else by time."""
        time = self._stream.timestamp
        counts_all = any(isinstance(query.window, RowWindow) and query.window.is_sliding for query in self._queries)
        if file.rows <= most_rows or counts_all:
            yield labels, file.events(time)
            return
        order = labels[np.argsort(self._times[labels], kind="stable")]
        asked = self._times[order]
        needed = needed_from(self._stream, self._queries, asked, closing)
        times = np.sort(np.concatenate([np.asarray(batch.column(time)) for batch in file.batches()]))
        last_rows = _LastRows(self._stream, self._queries, file, times, most_rows)
        first = np.searchsorted(times, needed)
        behind = np.searchsorted(times, asked, side="right")
        begin = 0
        while begin < len(order):
            # As many labels as fit with what they see, and at least one.
            end = max(begin + 1, int(np.searchsorted(behind, first[begin] + most_rows, side="right")))
            begin_us = int(needed[begin:end].min())
            reached = file.events(time, begin_us, int(asked[end - 1]))
            yield order[begin:end], _joined(last_rows.before(begin_us), reached)
            begin = end


class _LastRows:
    """The last rows before a time, as many of each substream as windows over rows cover; the time moves on only."""

    def __init__(self, stream: Stream, queries: Iterable[Query], file: _File, times: Ints, most_rows: int) -> None:
        self._stream, self._file, self._times, self._most_rows = stream, file, times, most_rows
        self._windows = {query.window for query in queries if isinstance(query.window, RowWindow)}
        self._kept = pa.RecordBatch.from_pylist([], file.schema)
        self._until_us = BEFORE_ALL

    def before(self, time_us: int) -> pa.RecordBatch:
        """The rows, in the order of time."""
        while self._windows and self._until_us < time_us:
            behind = int(np.searchsorted(self._times, self._until_us)) + self._most_rows
            end_us = time_us
            if behind < len(self._times):
                # No more than fit, but all of one time.
                end_us = min(time_us, max(int(self._times[behind]), self._until_us + 1))
            piece = self._file.events(self._stream.timestamp, self._until_us, end_us - 1)
            self._kept = self._last(_joined(self._kept, piece))
            self._until_us = end_us
        return self._kept

    def _last(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        batch = batch.take(pa.array(np.argsort(np.asarray(batch.column(self._stream.timestamp)), kind="stable")))
        is_kept = np.zeros(batch.num_rows, np.bool_)
        for window in self._windows:
            names = window.partition_by
            table = KeyTable([self._stream.attributes[name] for name in names])
            keys = table.ids([batch.column(name) for name in names], batch.num_rows)
            order = np.argsort(keys, kind="stable")
            ends = np.searchsorted(keys[order], keys[order], side="right")
            is_kept[order] |= ends - np.arange(len(order)) <= window.left
        return batch.filter(pa.array(is_kept))


def _joined(first: pa.RecordBatch, second: pa.RecordBatch) -> pa.RecordBatch:
    return pa.concat_batches([first, second]) if first.num_rows else second
