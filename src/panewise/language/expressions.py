"""Expressions: the contents of WHERE, of HAVING and of an aggregate.

Nodes are values: two expressions are equal if they mean the same, wherever they were written. The place in the text
serves only error messages. `BETWEEN` is parsed as two comparisons, so it has no node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from panewise.aggregates.types import Type
from panewise.windows import TimeWindow


@dataclass(frozen=True, slots=True)
class Span:
    """Where something is in the text: 1-based line and column, and the offsets of its two ends."""

    line: int
    column: int
    start: int
    end: int


NOWHERE = Span(0, 0, 0, 0)


@dataclass(frozen=True)
class Expression:
    """Any node."""

    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)

    @cached_property
    def depth(self) -> int:
        """How many levels of nodes there are, this one included."""
        return 1 + max((child.depth for child in children(self)), default=0)


@dataclass(frozen=True)
class Literal(Expression):
    """A constant. A timestamp is held as int microseconds since the epoch; NULL as None with type None."""

    value: bool | int | float | str | None
    type: Type | None


@dataclass(frozen=True)
class Attribute(Expression):
    """An attribute of the stream, by name."""

    name: str


@dataclass(frozen=True)
class QualifiedAttribute(Attribute):
    """An attribute of one side of a join: `side.attribute`. Its `name` is both, and unique among all attributes.

    >>> QualifiedAttribute.of("a", "price").name
    'a.price'
    """

    side: str
    attribute: str

    @staticmethod
    def of(side: str, attribute: str, *, span: Span = NOWHERE) -> QualifiedAttribute:
        """The attribute of a side; names that hold a dot are quoted, so that no two become the same."""
        return QualifiedAttribute(f"{_dotless(side)}.{_dotless(attribute)}", side, attribute, span=span)


def _dotless(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if "." in name or '"' in name else name


@dataclass(frozen=True)
class Binary(Expression):
    """An operator between two expressions."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Arithmetic(Binary):
    """`+ - * /` on numbers. Evaluated in DOUBLE; a division by zero is NULL."""


@dataclass(frozen=True)
class Negate(Expression):
    """Unary minus on a number that is not a literal. Evaluated in DOUBLE."""

    operand: Expression


@dataclass(frozen=True)
class Comparison(Binary):
    """`= <> < <= > >=`. NaN equals NaN and is above every other number, as in Spark."""


@dataclass(frozen=True)
class Logical(Binary):
    """`AND` or `OR`, in three-valued logic."""


@dataclass(frozen=True)
class Not(Expression):
    """`NOT`, in three-valued logic."""

    operand: Expression


@dataclass(frozen=True)
class IsNull(Expression):
    """`IS NULL`, or `IS NOT NULL` when negated."""

    operand: Expression
    negated: bool = False


@dataclass(frozen=True)
class InList(Expression):
    """`IN (literals)`, or `NOT IN` when negated. The items hold no NULL."""

    operand: Expression
    items: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True)
class Like(Expression):
    """`LIKE 'pattern'` with % and _ and a backslash as escape, or `NOT LIKE` when negated."""

    operand: Expression
    pattern: str
    negated: bool = False


@dataclass(frozen=True)
class Case(Expression):
    """`CASE WHEN c THEN v ... ELSE o END`: the value of the first condition that is true, else `otherwise` or NULL."""

    conditions: tuple[Expression, ...]
    values: tuple[Expression, ...]
    otherwise: Expression | None = None


@dataclass(frozen=True)
class ScalarCall(Expression):
    """A function of `panewise.language.scalars` of some arguments; the unit of EXTRACT and DATE_TRUNC is the first."""

    function: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast(Expression):
    """`CAST(x AS type)`; NULL where the type has no such value."""

    operand: Expression
    kind: Type


@dataclass(frozen=True)
class AggregateCall(Expression):
    """An aggregate of the catalogue applied to an expression; `COUNT_ALL` alone has no argument.

    `AGG(x) FILTER (WHERE c)` is AGG(CASE WHEN c THEN x END).

    `function` is a name of `panewise.aggregates.CATALOGUE`; `parameter` is the phi of quantiles, a rank, or the bound
    of a list. Until its query is bound it may also be APPROX_TOP_K, which stands for several. `over` is its own window,
    if it has one: of that range, and ending with the window of the query.
    """

    function: str
    argument: Expression | None = None
    parameter: float | None = None
    over: TimeWindow | None = None


@dataclass(frozen=True)
class Pair(Expression):
    """The argument of an aggregate of pairs: a value, and its partner. It is NULL if one of both is.

    It has the type of the value. FIRST, LAST and aggregates with a half life get the event time as partner when their
    query is bound.
    """

    operand: Expression
    partner: Expression
    half_life_us: float = 0.0
    """How long a value takes to count half as much, if the partner is the event time and values decay."""
    most: int = 1
    """How many values are kept, if the answer is a list."""


@dataclass(frozen=True)
class RowCall(Expression):
    """HISTOGRAM, TOP_K or DISTINCT: it gives rows, so it is alone in a SELECT and never inside an expression.

    `parameter` is the width of HISTOGRAM's value ranges or the bounds between them, None for single values; or the k of
    TOP_K.
    """

    function: str
    argument: Expression
    parameter: int | float | tuple[int | float, ...] | None = None


# The fields that hold other nodes, of any kind of node.
_HOLDERS = frozenset(
    {"left", "right", "operand", "partner", "argument", "items", "conditions", "values", "otherwise", "arguments"}
)
_HOLDERS_BY_KIND: dict[str, tuple[str, ...]] = {}


def _holders(node: Expression) -> tuple[str, ...]:
    kind = type(node).__name__
    if kind not in _HOLDERS_BY_KIND:
        _HOLDERS_BY_KIND[kind] = tuple(part.name for part in fields(node) if part.name in _HOLDERS)
    return _HOLDERS_BY_KIND[kind]


def children(node: Expression) -> Iterator[Expression]:
    """The nodes directly below a node, in order."""
    for name in _holders(node):
        value = getattr(node, name)
        if isinstance(value, tuple):
            yield from value
        elif value is not None:
            yield value


def walk(node: Expression, *, into_aggregates: bool = True) -> Iterator[Expression]:
    """A node and all nodes below it, or those that are not inside an aggregate; parents first."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if into_aggregates or not isinstance(current, AggregateCall):
            pending.extend(reversed(list(children(current))))


def attributes_of(node: Expression | None) -> list[str]:
    """The names of the attributes that an expression reads, each once, in order of appearance."""
    if node is None:
        return []
    return list(dict.fromkeys(n.name for n in walk(node) if isinstance(n, Attribute)))


def aggregates_of(node: Expression | None) -> list[AggregateCall]:
    """The aggregate calls in an expression, each once, in order of appearance."""
    if node is None:
        return []
    return list(dict.fromkeys(n for n in walk(node) if isinstance(n, AggregateCall)))


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The conditions that must all hold."""
    if isinstance(condition, Logical) and condition.operator == "AND":
        yield from conjuncts(condition.left)
        yield from conjuncts(condition.right)
    else:
        yield condition


def with_attributes(node: Expression, meant: Mapping[str, Expression]) -> Expression:
    """An expression with other expressions in the place of some attributes outside aggregates."""
    if isinstance(node, Attribute):
        return replace(meant[node.name], span=node.span) if node.name in meant else node
    if isinstance(node, AggregateCall):
        return node
    return with_children(node, lambda child: with_attributes(child, meant))


def with_children(node: Expression, changed: Callable[[Expression], Expression]) -> Expression:
    """A node with other nodes directly below it."""
    others: dict[str, Any] = {}
    for name in _holders(node):
        value = getattr(node, name)
        if isinstance(value, tuple):
            others[name] = tuple(changed(child) for child in value)
        elif value is not None:
            others[name] = changed(value)
    return replace(node, **others) if others else node


def with_aggregates(node: Expression, meant: Mapping[AggregateCall, AggregateCall]) -> Expression:
    """An expression with other aggregates in the place of some."""
    if isinstance(node, AggregateCall):
        return replace(meant[node], span=node.span) if node in meant else node
    return with_children(node, lambda child: with_aggregates(child, meant))


def bare_attributes(node: Expression) -> Iterator[Attribute]:
    """The attributes outside aggregates, in the order of the text."""
    return (one for one in walk(node, into_aggregates=False) if isinstance(one, Attribute))
