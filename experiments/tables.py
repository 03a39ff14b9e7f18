"""A figure's measurements: rows of named values, with the facts of the measurement, as a CSV file.

The file begins with a line `# name: value` for each fact (commit, seed, machine, parameters); the CSV follows. A table
that is written and read again is the same table: plots and claims see nothing else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from panewise.errors import PanewiseError

Row = Mapping[str, Any]


class NotMeasuredError(PanewiseError):
    """A claim or a plot needs rows that this scale did not measure."""


@dataclass(frozen=True)
class Table:
    """Rows in the order in which they were measured, and the facts."""

    rows: tuple[Row, ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[Row], facts: Mapping[str, str] | None = None) -> Table:
        """A table of any rows."""
        return cls(tuple(rows), facts or {})

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, **values: Any) -> Table:
        """The rows that have these values."""
        kept = (row for row in self.rows if all(row.get(name) == value for name, value in values.items()))
        return Table(tuple(kept), self.facts)

    def distinct(self, name: str) -> list[Any]:
        """The different values of a column, in order; there must be at least one."""
        found = {row[name] for row in self.rows if row.get(name) is not None}
        if not found:
            raise NotMeasuredError(f"no row has a {name}")
        return sorted(found)

    def mean(self, name: str, **values: Any) -> float:
        """The mean of a column over the rows with these values; such rows may differ only in the seed."""
        found = [float(row[name]) for row in self.where(**values).rows if row.get(name) is not None]
        if not found:
            raise NotMeasuredError(f"no row has {', '.join(f'{k} {v}' for k, v in values.items())} and a {name}")
        return sum(found) / len(found)

    def has(self, **values: Any) -> bool:
        """Whether any row has these values."""
        return len(self.where(**values)) > 0

    def text(self) -> str:
        """The text of the file. A row without a value in some column has an empty cell."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        out = io.StringIO()
        for name, value in self.facts.items():
            out.write(f"# {name}: {value}\n")
        writer = csv.DictWriter(out, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _shown(value) for name, value in row.items()} for row in self.rows)
        return out.getvalue()

    def write(self, file: Path) -> None:
        """Write the file whole or not at all."""
        half = file.with_suffix(file.suffix + ".part")
        half.write_text(self.text(), encoding="utf-8")
        half.replace(file)

    @classmethod
    def read(cls, file: Path) -> Table:
        """The table in a file."""
        if not file.is_file():
            raise PanewiseError(f"there is no {file}; measure the figure before drawing it again")
        facts: dict[str, str] = {}
        lines = file.read_text(encoding="utf-8").splitlines()
        while lines and lines[0].startswith("# "):
            name, _, value = lines.pop(0)[2:].partition(": ")
            facts[name] = value
        rows = [{name: _value(cell) for name, cell in row.items() if cell != ""} for row in csv.DictReader(lines)]
        return cls(tuple(rows), facts)


def _shown(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _value(cell: str) -> Any:
    if cell in ("True", "False"):
        return cell == "True"
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell
