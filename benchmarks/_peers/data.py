"""Events and queries in the forms that the programs read.

A stream's files are those of the batch and one more with a single event. It comes long after all others, so that the
watermark closes every window before it; its own windows never close. So streams and batches have the same answers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from _peers.program import Folders, Stream
from _peers.queries import Aggregate, Condition, Query, to_json
from _workload import make_flight_queries, make_trade_queries, write_in_order, write_trades
from panewise.aggregates.types import Type
from panewise.cli.demo.flights import load_flights
from panewise.errors import PanewiseError
from panewise.language.expressions import AggregateCall, Attribute, Comparison, Expression, Literal
from panewise.language.model import Query as PanewiseQuery
from panewise.language.printer import label_of
from panewise.language.workload import Workload, print_workload
from panewise.windows import TimeWindow

BATCHES = 4
FILES = 8
CLOSING_US = 30 * 86_400_000_000
"""How long after the last event the closing one comes: more than any window and watermark."""
CLOSING_PLACE = 999
"""Its file comes after all others."""
WARM_SHARE = 10
"""The warm-up runs over the first of this many parts of the events."""


@dataclass(frozen=True)
class Dataset:
    """Events on disk, and the queries over them."""

    name: str
    events: Folders
    warm_up: Folders
    count: int
    make_queries: Callable[[int], Workload]

    @property
    def stream(self) -> Stream:
        """What the programs are told about the events."""
        declared = next(iter(self.make_queries(1).streams.values()))
        columns = {name: str(kind) for name, kind in declared.attributes.items()}
        return Stream(declared.name, declared.timestamp, columns, declared.watermark_us)


def make_dataset(name: str, folder: Path, events: int, keys: int, seed: int, flights: int | None = None) -> Dataset:
    """Write the events of a data set: `generated`, or the first `flights` of the real ones (None for all)."""
    batch = folder / "batch"
    if name == "generated":
        write_trades(batch, events, keys, BATCHES, seed)
        make_queries = make_trade_queries
    else:
        batch.mkdir(parents=True)
        make_queries = make_flight_queries
        wanted = list(make_queries(1).streams["flights"].attributes)
        departures = load_flights()[0].select(wanted).slice(0, flights)
        size = -(-departures.num_rows // FILES)
        for place in range(FILES):
            write_in_order(departures.slice(place * size, size), batch, place)
    table = pq.read_table(batch)
    time = next(iter(make_queries(1).streams.values())).timestamp
    warm = folder / "warm-up"
    (warm / "batch").mkdir(parents=True)
    write_in_order(table.slice(0, -(-table.num_rows // WARM_SHARE)), warm / "batch", 0)
    return Dataset(name, _forms(folder, time), _forms(warm, time), table.num_rows, make_queries)


def _forms(folder: Path, time: str) -> Folders:
    """Write the events of `folder/batch` in the other forms too."""
    forms = Folders(*(folder / name for name in ("batch", "stream", "csv", "named-csv")))
    table = pq.read_table(forms.batch)
    # Copies keep the age of the files, because Spark orders them by it.
    shutil.copytree(forms.batch, forms.stream)
    field = table.schema.field(time)
    closing = pa.array([pc.max(table.column(time).cast(pa.int64())).as_py() + CLOSING_US]).cast(field.type)
    last = table.slice(0, 1).set_column(table.schema.get_field_index(time), field, closing)
    write_in_order(last, forms.stream, CLOSING_PLACE)
    at_ms = pc.divide(table.column(time).cast(pa.int64()), 1000)
    plain = table.drop_columns([time]).add_column(0, "at_ms", at_ms)
    for target, header in ((forms.csv, False), (forms.named_csv, True)):
        target.mkdir()
        for part in range(2):
            chosen = plain.take(pa.array(range(part, plain.num_rows, 2)))
            options = pyarrow.csv.WriteOptions(include_header=header, quoting_style="none")
            pyarrow.csv.write_csv(chosen, target / f"{part}.csv", options)
    return forms


def describe(workload: Workload) -> list[Query]:
    """The queries of a workload in the form that peers read."""
    return [_described(query, workload) for query in workload.queries.values()]


def _described(query: PanewiseQuery, workload: Workload) -> Query:
    window = query.window
    if not isinstance(window, TimeWindow) or window.slide_us is None:
        raise PanewiseError(f"query {query.name}: the peers are asked about sliding windows of time only")
    selected = [item for item in query.select if isinstance(item.expression, AggregateCall)]
    calls = [item.expression for item in selected if isinstance(item.expression, AggregateCall)]
    types = workload.streams[query.stream].attributes
    return Query(
        query.name,
        window.range_us,
        window.slide_us,
        query.group_by,
        tuple(_aggregate(call) for call in calls),
        _condition(query.where),
        _condition(query.having),
        tuple(label_of(item) for item in selected),
        tuple(_is_integer(_aggregate(call), types) for call in calls),
    )


def _aggregate(call: AggregateCall) -> Aggregate:
    if call.function == "COUNT_ALL":
        return Aggregate("COUNT")
    if not isinstance(call.argument, Attribute):
        raise PanewiseError(f"{call.function}: the peers are asked about aggregates of attributes only")
    return Aggregate(call.function, call.argument.name)


def _is_integer(one: Aggregate, types: Mapping[str, Type]) -> bool:
    is_mean = one.function in ("AVG", "STDDEV_POP")
    return one.column is None or (not is_mean and types[one.column] is Type.BIGINT)


def _condition(expression: Expression | None) -> Condition | None:
    if expression is None:
        return None
    if not isinstance(expression, Comparison) or not isinstance(expression.right, Literal):
        raise PanewiseError("the peers are asked about one comparison with a constant in WHERE and in HAVING")
    left, value = expression.left, expression.right.value
    assert isinstance(value, int | float | str)
    named = left.name if isinstance(left, Attribute) else _aggregate(left) if isinstance(left, AggregateCall) else None
    if named is None:
        raise PanewiseError("the peers are asked about conditions on an attribute or an aggregate")
    return Condition(named, expression.operator, value)


def point_of(dataset: Dataset, count: int, answers: Path) -> dict[str, Any]:
    """What a program is told about one number of queries."""
    workload = dataset.make_queries(count)
    queries = [to_json(query) for query in describe(workload)]
    return {"queries": queries, "text": print_workload(workload), "answers": str(answers)}


def folders_of(folders: Folders) -> dict[str, str]:
    """The folders as JSON can hold them."""
    return {name: str(path) for name, path in asdict(folders).items()}
