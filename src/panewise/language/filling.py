"""Queries given as data: one template, and a table with a row of values for each query. No row becomes text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from panewise.errors import ArgumentError, StatementError
from panewise.language.binder import Binding
from panewise.language.parameters import columns_of
from panewise.language.parser import parse
from panewise.language.reader import apply
from panewise.language.shapes import Cut, Template, Value, places_of, value_of
from panewise.language.source import located, shortened
from panewise.language.statements import CreateQuery
from panewise.language.workload import Workload

_GAP = re.compile(r"\{(\w+)\}")
_NAME_GAP = re.compile(r"\s*CREATE\s+QUERY\s+\{(\w+)\}\s+AS\b", re.IGNORECASE)
_PLACES = (
    "values go into RANGE and SLIDE of windows that have no more than these, as whole numbers, and into comparisons "
    "and IN lists of WHERE and HAVING"
)
_EXAMPLE = "CREATE QUERY {name} AS SELECT COUNT(*) FROM trades [RANGE {minutes} MINUTES] WHERE symbol = {symbol}"


def fill(template: str, parameters: object, onto: Workload) -> Workload:
    """Add a query for each row of a table of parameters.

    Args:
        template: A CREATE QUERY statement with a column's name in braces for the query's name and wherever a value
            goes, as in `CREATE QUERY {name} AS SELECT COUNT(*) FROM trades [RANGE {minutes} MINUTES] WHERE symbol =
            {symbol}`. Values go into RANGE and SLIDE of windows that have no more than these, and into comparisons and
            IN lists of WHERE and HAVING.
        parameters: An Arrow, pandas or Polars table, a dict of lists or a list of dicts, with a column for each name
            in braces. Values are whole numbers, numbers or strings, without quotes.
        onto: The workload with the stream; it is not changed.

    Returns:
        The workload with the queries of all rows.

    Raises:
        ArgumentError: A column is missing, has mixed types, or stands where no value can go; or a row's values do not
            fit, or its name is taken.
        StatementError: The template is wrong.

    Cost: O(rows), about as much as copying them: nothing is parsed but the template.
    """
    columns = columns_of(parameters)
    if _NAME_GAP.match(template) is None:
        raise ArgumentError(f"a template begins with the column of names in braces, for instance {_EXAMPLE}")
    first, *gaps = _GAP.findall(template)
    for name in (first, *gaps):
        if name not in columns:
            known = ", ".join(columns) or "none"
            raise ArgumentError(f"the template has {{{name}}}, but the parameters have no such column: {known}")
    if not columns[first]:
        return onto
    for name in gaps:
        columns[name] = _alike(name, columns[name])
    binding = Binding(onto)
    made, values, places = _template(template, {name: columns[name][0] for name in gaps}, binding)
    given = [columns[name] for name in gaps]
    for row, name in enumerate(columns[first]):
        for place, column in zip(places, given):
            values[place] = column[row]
        query = made.filled(name, values) if isinstance(name, str) and name and not binding.has(name) else None
        if query is None:
            raise _refusal(row, name, template, {gap: columns[gap][row] for gap in gaps}, binding)
        binding.add(query)
    return binding.workload


def _alike(name: str, values: list[Any]) -> list[Any]:
    """The values of a column, all strings, all whole numbers or all numbers."""
    kinds = {type(value) for value in values}
    if kinds == {int, float}:
        return [float(value) for value in values]
    if len(kinds) != 1 or not kinds <= {int, float, str}:
        found = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ArgumentError(f"the column {name!r} of the parameters has values of {found}; give strings or numbers")
    return values


def _template(template: str, example: Mapping[str, Value], binding: Binding) -> tuple[Template, list[Value], list[int]]:
    """The template, bound with one row's values; the values of all its constants; and the places of those in braces."""
    # No duration is 0, and the first row tells its own mistakes later.
    shown = {name: _unsigned(1 if value == 0 and isinstance(value, int) else value) for name, value in example.items()}
    text, starts = _written(template, "q", shown)
    (statement,) = parse(text)
    assert isinstance(statement, CreateQuery)
    with located(text):
        binding.open_answers(statement.source.stream, "")
    query = apply(Workload(binding.streams), text).queries.get("q")
    cut, numbers = Cut.of(text), places_of(text)
    if query is None or cut is None:
        raise ArgumentError(f"the template must be one query of aggregates, for instance {_EXAMPLE}")
    made = Template.of(query, statement, binding.streams[query.stream], text)
    for name, start in zip(_GAP.findall(template)[1:], starts[1:]):
        if numbers.get(start) not in made.free:
            raise ArgumentError(f"{{{name}}} stands where no value can go; {_PLACES}")
    return made, [value_of(one) for one in cut.constants], [numbers[start] for start in starts[1:]]


def _written(template: str, name: str, shown: Mapping[str, str]) -> tuple[str, list[int]]:
    """The statement of a name and of constants, and where each starts."""
    text, *rest = _GAP.split(template)
    starts = []
    for gap, after in zip(rest[::2], rest[1::2]):
        starts.append(len(text))
        text += (name if len(starts) == 1 else shown[gap]) + after
    return text, starts


def _unsigned(value: Value) -> str:
    """A value of the same type as a constant of one token."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(abs(value)) if isinstance(value, int) else repr(float(abs(value)))


def _refusal(
    row: int, name: object, template: str, values: Mapping[str, Value], binding: Binding
) -> ArgumentError | StatementError:
    """Why a row cannot be a query."""
    place = f"row {row} of the parameters"
    if not isinstance(name, str) or not name:
        return ArgumentError(f"{place}: a query's name is a text, got {name!r}")
    if binding.has(name):
        return ArgumentError(f"{place}: the query {shortened(name)} already exists; choose another name")
    signs = {gap: "-" if not isinstance(value, str) and value < 0 else "" for gap, value in values.items()}
    text, _ = _written(template, "q", {gap: signs[gap] + _unsigned(value) for gap, value in values.items()})
    try:
        apply(Workload(binding.streams), text)
    except StatementError as error:
        return ArgumentError(f"{place}: {error.message}" + (f"; {error.hint}" if error.hint else ""))
    shown = ", ".join(f"{gap} {value!r}" for gap, value in values.items())
    return ArgumentError(f"{place}: a value is out of range: {shown}")
