"""A checksum of a set of answers in any order, read from the files that a program delivered.

It has for each query and aggregate: the number of answers, a hash of (query, window, groups, aggregate, exact integer)
summed over them, and the sum of their values with the sum of their magnitudes, to which its tolerance refers. A program
delivers one long table in Panewise's form (`all.parquet`), or a wide table for each query, parquet or CSV.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq

from _peers.queries import Query

Words = npt.NDArray[np.uint64]
RTOL = 1e-9
ODD = np.uint64(0x9E37_79B9_7F4A_7C15)
NOTHING = np.uint64(0x5851_F42D_4C95_7F2D)
"""Stands for NULL, and for an attribute that the query does not group by."""
LONG = "all.parquet"


@dataclass(frozen=True)
class Part:
    """The answers of one aggregate of one query."""

    rows: int
    hash: int
    total: float
    magnitude: float

    def __add__(self, other: Part) -> Part:
        hashed = (self.hash + other.hash) % 2**64
        return Part(self.rows + other.rows, hashed, self.total + other.total, self.magnitude + other.magnitude)

    def agrees(self, other: Part) -> bool:
        """Whether both belong to the same answers."""
        near = abs(self.total - other.total) <= RTOL * max(self.magnitude, other.magnitude)
        return (self.rows, self.hash) == (other.rows, other.hash) and near


EMPTY = Part(0, 0, 0.0, 0.0)
Checksum = dict[tuple[str, str], Part]


def overall(checksum: Checksum) -> Part:
    """All queries together, for people."""
    return sum(checksum.values(), EMPTY)


def differences(one: Checksum, other: Checksum) -> list[tuple[str, str]]:
    """The queries and aggregates whose answers are not the same."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if not one.get(name, EMPTY).agrees(other.get(name, EMPTY))]


def read_checksum(answers: Path, queries: list[Query]) -> Checksum:
    """The checksum of the answers that a program wrote to a folder."""
    groups = sorted({name for query in queries for name in query.group_by})
    if (answers / LONG).exists():
        return _of_long(answers / LONG, groups)
    found: Checksum = {}
    for query in queries:
        table = _read_wide(answers, query)
        if table.num_rows:
            found |= _of_wide(table, query, groups)
    return found


def _of_long(path: Path, groups: list[str]) -> Checksum:
    found: Checksum = {}
    for table in _pieces(path):
        query, aggregate = (table.column(name).combine_chunks() for name in ("query", "aggregate"))
        identity = _mixed(_text_words(query), table, groups)
        identity = _mix(_mix(identity, _text_words(aggregate)), _number_words(table.column("exact")))
        value = table.column("value").fill_null(0.0).to_numpy()
        first, second = _codes(query), _codes(aggregate)
        width = len(second.dictionary)
        code = first.indices.to_numpy().astype(np.int64) * width + second.indices.to_numpy()
        for place, part in enumerate(_parts(code, len(first.dictionary) * width, identity, value)):
            if part.rows:
                name = (first.dictionary[place // width].as_py(), second.dictionary[place % width].as_py())
                found[name] = found.get(name, EMPTY) + part
    return found


def _pieces(path: Path) -> Iterator[pa.Table]:
    for fragment in pa.dataset.dataset(path, format="parquet").get_fragments():
        file = pq.ParquetFile(fragment.path, read_dictionary=["query", "aggregate"])
        for batch in file.iter_batches(batch_size=1_000_000):
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def _parts(code: npt.NDArray[np.int64], count: int, identity: Words, value: npt.NDArray[np.float64]) -> Iterator[Part]:
    hashed = np.zeros(count, np.uint64)
    np.add.at(hashed, code, identity)
    rows, total = np.bincount(code, minlength=count), np.bincount(code, value, count)
    magnitude = np.bincount(code, np.abs(value), count)
    for place in range(count):
        yield Part(int(rows[place]), int(hashed[place]), float(total[place]), float(magnitude[place]))


def _of_wide(table: pa.Table, query: Query, groups: list[str]) -> Checksum:
    found: Checksum = {}
    began = _mixed(np.full(table.num_rows, _word(query.name)), table, groups)
    for place, (label, whole) in enumerate(zip(query.labels, query.integers)):
        column = table.column(f"a{place}")
        exact = _number_words(column) if whole else np.full(table.num_rows, NOTHING)
        identity = _mix(_mix(began, np.full(table.num_rows, _word(label))), exact)
        value = column.cast(pa.float64()).fill_null(0.0).to_numpy()
        hashed = int(np.add.reduce(identity))
        total, magnitude = float(value.sum()), float(np.abs(value).sum())
        found[query.name, label] = Part(table.num_rows, hashed, total, magnitude)
    return found


def _mixed(words: Words, table: pa.Table, groups: list[str]) -> Words:
    """Words with the window and the groups of each answer mixed in."""
    for name in ("window_start", "window_end"):
        words = _mix(words, _number_words(_microseconds(table.column(name))))
    for name in groups:
        present = name in table.column_names
        other = _text_words(table.column(name).combine_chunks()) if present else np.full(len(words), NOTHING)
        words = _mix(words, other)
    return words


def _mix(words: Words, other: Words) -> Words:
    mixed = (words ^ other) * ODD
    return mixed ^ (mixed >> np.uint64(32))


def _word(text: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little"))


def _codes(column: Any) -> Any:
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _text_words(column: Any) -> Words:
    column = _codes(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    table = np.array([NOTHING if text is None else _word(text) for text in column.dictionary.to_pylist()] + [NOTHING])
    return table[column.indices.fill_null(len(table) - 1).to_numpy()]


def _number_words(column: Any) -> Words:
    numbers = column.cast(pa.int64())
    words = numbers.fill_null(0).to_numpy().view(np.uint64)
    return np.where(numbers.is_null().to_numpy(), NOTHING, words) if numbers.null_count else words


def _microseconds(column: Any) -> Any:
    return column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _read_wide(answers: Path, query: Query) -> pa.Table:
    parquet, csv = answers / f"{query.name}.parquet", answers / f"{query.name}.csv"
    if parquet.exists():
        return pq.read_table(parquet)
    if not csv.exists():
        return pa.table({})
    files = [csv] if csv.is_file() else sorted(file for file in csv.iterdir() if file.name[0] not in "._")
    return pa.concat_tables([_read_csv(file, query) for file in files if file.stat().st_size] or [pa.table({})])


def _read_csv(file: Path, query: Query) -> pa.Table:
    """A CSV file with or without a header; times are microseconds or the text of an instant in UTC."""
    with file.open() as lines:
        has_header = "window_start" in lines.readline()
    values = {f"a{place}": pa.int64() if whole else pa.float64() for place, whole in enumerate(query.integers)}
    texts = dict.fromkeys(("window_start", "window_end", *query.group_by), pa.string())
    table = pyarrow.csv.read_csv(
        file,
        pyarrow.csv.ReadOptions(column_names=None if has_header else list(query.columns)),
        convert_options=pyarrow.csv.ConvertOptions(column_types=texts | values, include_columns=list(query.columns)),
    )
    for name in ("window_start", "window_end"):
        column = table.column(name)
        if "-" in column[0].as_py()[1:]:
            column = pc.replace_substring(column, "Z", "").cast(pa.timestamp("us")).cast(pa.int64())
        table = table.set_column(table.schema.get_field_index(name), name, column.cast(pa.int64()))
    return table
