"""A query in the form that every peer reads: window, groups, aggregates, at most one condition in WHERE and in HAVING.

It needs only the standard library, so that the interpreter of any peer can read it. Attributes are never NULL in these
workloads: COUNT(*) counts the values of each of them.

>>> query = Query("q0", 600, 300, ("symbol",), (Aggregate("COUNT"), Aggregate("AVG", "price")))
>>> query.pane_us
300
>>> partials_of(query)
{'n': Aggregate(function='COUNT', column=None), 'sum_price': Aggregate(function='SUM', column='price')}
>>> final_sql(query.aggregates[1])
'sum_price / n'
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import gcd
from typing import Any

Value = int | float | str


@dataclass(frozen=True)
class Aggregate:
    """COUNT (of rows), SUM, AVG, MIN, MAX or STDDEV_POP, of a column."""

    function: str
    column: str | None = None

    @property
    def sql(self) -> str:
        """As every dialect of SQL writes it."""
        return "COUNT(*)" if self.column is None else f"{self.function}({self.column})"


@dataclass(frozen=True)
class Condition:
    """A column, or an aggregate, compared with a constant."""

    left: str | Aggregate
    operator: str
    value: Value

    def sql(self, left: str) -> str:
        """The condition, with the given text for its left side."""
        value = f"'{self.value}'" if isinstance(self.value, str) else repr(self.value)
        return f"{left} {self.operator} {value}"


@dataclass(frozen=True)
class Query:
    """Every `slide_us`, the aggregates of the last `range_us`, for each group that HAVING lets through."""

    name: str
    range_us: int
    slide_us: int
    group_by: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    where: Condition | None = None
    having: Condition | None = None
    labels: tuple[str, ...] = ()
    """The aggregates' names in Panewise's answers."""
    integers: tuple[bool, ...] = ()
    """Which aggregates are exact integers."""

    @property
    def pane_us(self) -> int:
        """The longest interval of which every window of the query consists."""
        return gcd(self.range_us, self.slide_us)

    @property
    def computed(self) -> tuple[Aggregate, ...]:
        """The aggregates of SELECT, and that of HAVING if it is another."""
        extra = () if self.having is None else (self.having.left,)
        return tuple(dict.fromkeys([*self.aggregates, *(one for one in extra if isinstance(one, Aggregate))]))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the answers that a peer delivers, in their order."""
        return ("window_start", "window_end", *self.group_by, *(f"a{place}" for place in range(len(self.aggregates))))


def partials_of(query: Query) -> dict[str, Aggregate]:
    """The partials of each pane from which the query's aggregates can be computed, by name."""
    partials = {"n": Aggregate("COUNT")}
    for one in query.computed:
        if one.column is None:
            continue
        if one.function in ("MIN", "MAX"):
            partials[f"{one.function.lower()}_{one.column}"] = one
        else:
            partials[f"sum_{one.column}"] = Aggregate("SUM", one.column)
        if one.function == "STDDEV_POP":
            partials[f"squares_{one.column}"] = Aggregate("SUM", f"{one.column} * {one.column}")
    return partials


def folding_of(partial: Aggregate) -> str:
    """The function that combines the partials of several panes."""
    return partial.function if partial.function in ("MIN", "MAX") else "SUM"


def final_sql(one: Aggregate) -> str:
    """An aggregate from the folded partials, as an expression of SQL."""
    match one.function:
        case "COUNT":
            return "n"
        case "SUM":
            return f"sum_{one.column}"
        case "AVG":
            return f"sum_{one.column} / n"
        case "STDDEV_POP":
            mean = f"(sum_{one.column} / n)"
            return f"SQRT(GREATEST(squares_{one.column} / n - {mean} * {mean}, 0))"
        case _:
            return f"{one.function.lower()}_{one.column}"


def having_sql(query: Query) -> str | None:
    """HAVING over the folded partials."""
    if query.having is None:
        return None
    assert isinstance(query.having.left, Aggregate)
    return query.having.sql(final_sql(query.having.left))


def to_json(query: Query) -> dict[str, Any]:
    """A query as JSON can hold it."""
    return asdict(query)


def from_json(record: dict[str, Any]) -> Query:
    """The query that `to_json` was given."""
    sequences = ("group_by", "labels", "integers")
    return Query(
        **{name: record[name] for name in ("name", "range_us", "slide_us")},
        **{name: tuple(record[name]) for name in sequences},
        aggregates=tuple(Aggregate(**one) for one in record["aggregates"]),
        where=_condition(record["where"]),
        having=_condition(record["having"]),
    )


def _condition(record: dict[str, Any] | None) -> Condition | None:
    if record is None:
        return None
    left = record["left"]
    return Condition(Aggregate(**left) if isinstance(left, dict) else left, record["operator"], record["value"])
