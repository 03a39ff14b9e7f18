"""Parameters: a table with a row of values for each query that a template makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from panewise.errors import ArgumentError


def columns_of(parameters: object) -> dict[str, list[Any]]:
    """The columns of a table as lists of equal length."""
    table: Any = parameters
    if hasattr(table, "to_pydict"):  # Arrow
        table = table.to_pydict()
    elif hasattr(table, "get_columns"):  # Polars
        table = {column.name: column.to_list() for column in table.get_columns()}
    elif hasattr(table, "columns") and hasattr(table, "items"):  # pandas
        table = {str(name): column.tolist() for name, column in table.items()}
    elif isinstance(table, list):
        table = _turned(table)
    if not isinstance(table, Mapping):
        raise ArgumentError(
            "parameters are an Arrow, pandas or Polars table, a dict of lists or a list of dicts, not "
            f"{type(parameters).__name__}"
        )
    columns = {name: values.tolist() if hasattr(values, "tolist") else list(values) for name, values in table.items()}
    if len({len(values) for values in columns.values()}) > 1:
        lengths = ", ".join(f"{name} {len(values)}" for name, values in columns.items())
        raise ArgumentError(f"the columns of the parameters have different lengths: {lengths}")
    return columns


def rows_of(parameters: object) -> Iterator[dict[str, Any]]:
    """The rows of a table."""
    columns = columns_of(parameters)
    return (dict(zip(columns, row)) for row in zip(*columns.values()))


def _turned(rows: list[Any]) -> dict[str, list[Any]]:
    """The columns of dicts that have the same keys."""
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping) or row.keys() != rows[0].keys():
            raise ArgumentError(f"row {number} of the parameters is {row!r}; give dicts with the same keys")
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
