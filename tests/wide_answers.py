"""The wide tables of an engine's answers say what its long table says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa

from panewise.engine.closed_tables import Answers
from panewise.engine.families import families_of
from panewise.language.expressions import Attribute
from panewise.language.model import Query
from panewise.language.printer import label_of
from panewise.language.workload import Workload

Rows = list[tuple[tuple[Any, ...], dict[str, Any]]]
"""Windows and groups, and their values by the names of SELECT. Windows over rows may have the same times."""
Values = Counter[tuple[Any, ...]]
"""Windows and groups with a name of SELECT and its value."""


def plain(value: Any) -> Any:
    """A value that equals itself; a timestamp as a whole number would lose nothing, and a NaN is one."""
    if isinstance(value, list):
        return tuple(map(plain, value))
    return "NaN" if value != value else value


def assert_same_wide(answers: Answers, workload: Workload) -> None:
    """Check the tables of all queries and families against the long table."""
    sliding = [query for query in workload.queries.values() if query.window.is_sliding]
    sliding = [query for query in sliding if query.name in answers.tables]
    long = long_rows(answers.long(), workload)
    for query in sliding:
        table = answers.tables[query.name]
        assert_in_order(table)
        values = Counter((*place, *item) for place, items in wide_rows(table, query) for item in items.items())
        assert values == long.get(query.name, Counter()), query.name
    for name, family in families_of(sliding).items():
        assert_in_order(answers.families[name])
        assert_same_family(answers.families[name], family, answers)
    assert answers.num_rows == sum(table.num_rows for table in answers.tables.values())


def assert_in_order(table: pa.Table) -> None:
    ends = table.column("window_end").to_pylist()
    assert ends == sorted(ends), "the windows are not in the order of their ends"


def long_rows(table: pa.Table, workload: Workload) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for row in table.to_pylist():
        query = workload.queries[row["query"]]
        place = row["window_start"], row["window_end"], *(plain(row[name]) for name in query.group_by)
        value = plain(long_value(row))
        found.setdefault(query.name, Counter())[*place, row["aggregate"], value] += 1
    return found


def long_value(row: dict[str, Any]) -> Any:
    """The value of a row, or of an item of a list."""
    if row.get("items") is not None:
        return [long_value(item) for item in row["items"]]
    if row.get("text") is not None:
        return row["text"]
    return row["value"] if row["exact"] is None else row["exact"]


def wide_rows(table: pa.Table, query: Query) -> Rows:
    found: Rows = []
    columns = {name: as_plain(table.column(name)) for name in table.column_names}
    names = {item.expression.name: label_of(item) for item in query.select if isinstance(item.expression, Attribute)}
    labels = [label_of(item) for item in query.select if item.is_answer]
    starts, ends = (table.column(name).to_pylist() for name in ("window_start", "window_end"))
    groups = [table.column(names.get(name, name)).to_pylist() for name in query.group_by]
    for row in range(table.num_rows):
        place = starts[row], ends[row], *(plain(group[row]) for group in groups)
        items = {label: columns[label][row] for label in labels}
        found.append((place, items))
        if "ended" in columns and columns["ended"][row]:
            assert all(value is None for value in items.values())
    return found


def as_plain(column: pa.ChunkedArray) -> list[Any]:
    """Values as the long table has them: timestamps are microseconds."""
    if pa.types.is_timestamp(column.type) or pa.types.is_boolean(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_list(column.type) and not pa.types.is_string(column.type.value_type):
        is_whole = not pa.types.is_floating(column.type.value_type)
        column = column.cast(pa.list_(pa.int64())) if is_whole else column
    return [plain(value) for value in column.to_pylist()]


def assert_same_family(table: pa.Table, family: Any, answers: Answers) -> None:
    """Every row that a query reports is in the family, with the same values, and there is no other row."""
    columns = {name: as_plain(table.column(name)) for name in table.column_names}
    ends = table.column("window_end").to_pylist()
    typed_groups = {name: table.column(name).to_pylist() for name in family.group_by}
    at: dict[Any, list[int]] = {}
    for row in range(table.num_rows):
        at.setdefault((ends[row], *(plain(typed_groups[name][row]) for name in family.group_by)), []).append(row)
    reported = set()
    for query in family.queries:
        names = {label_of(item): name for other, item, name in family.columns if other.name == query.name}
        for (_, end, *group), items in wide_rows(answers.tables[query.name], query):
            by_name = dict(zip(query.group_by, group, strict=True))
            place = end, *(by_name[name] for name in family.group_by)
            reported.add(place)
            shown = [{label: columns[name][row] for label, name in names.items()} for row in at[place]]
            assert items in shown, (family.name, query.name, place)
    assert reported == at.keys()
