"""Queries made in Python: the same model as the text, which `str` gives.

Columns are expressions: operators and functions make further ones. A query is a value: every method returns another. A
`parameter` stands for a constant, or a length of a window, that comes later from each row of a table.

>>> s = declare("s", {"t": "TIMESTAMP", "k": "STRING", "x": "DOUBLE"}, timestamp="t")
>>> late = query("late").over(s, range="1 HOUR", slide="5 MINUTES").where(s.x > parameter("least"))
>>> print(late.group_by(s.k).select(s.k, mean=call("SUM", s.x) / call("COUNT")).filled(least=15))
CREATE QUERY late AS SELECT k, SUM(x) / COUNT(*) AS mean FROM s [RANGE 1 HOUR SLIDE 5 MINUTES] WHERE x > 15 GROUP BY k;
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from panewise.aggregates.types import Type
from panewise.errors import ArgumentError, StatementError
from panewise.language import functions
from panewise.language.answer_streams import stream_of_answers
from panewise.language.binder import bind
from panewise.language.expressions import (
    NOWHERE,
    AggregateCall,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
    RowCall,
    ScalarCall,
    walk,
    with_children,
)
from panewise.language.literals import read_duration
from panewise.language.model import Query, SelectItem, Stream
from panewise.language.parameters import rows_of
from panewise.language.printer import print_query, print_stream
from panewise.language.reader import read
from panewise.language.source import PlacedError
from panewise.language.statements import CreateQuery, Duration, Item, Name, Source, WindowClause
from panewise.language.window_clauses import (
    punctuation_window,
    range_window,
    rows_window,
    session_window,
)
from panewise.language.window_clauses import (
    unbounded as unbounded_window,
)
from panewise.language.words import TYPES
from panewise.language.workload import Workload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class MadeParameter(Expression):
    """A constant that a row of a table gives later."""

    name: str


Length = str | timedelta | int | MadeParameter
"""A duration as in the text, a timedelta, or a number of rows."""


@dataclass(frozen=True, eq=False)
class MadeColumn:
    """An expression. `&`, `|` and `~` are AND, OR and NOT; a comparison gives a condition."""

    expression: Expression

    def __add__(self, other: object) -> MadeColumn:
        return self._with("+", other)

    def __sub__(self, other: object) -> MadeColumn:
        return self._with("-", other)

    def __mul__(self, other: object) -> MadeColumn:
        return self._with("*", other)

    def __truediv__(self, other: object) -> MadeColumn:
        return self._with("/", other)

    def __radd__(self, other: object) -> MadeColumn:
        return MadeColumn(_expression(other))._with("+", self)

    def __rsub__(self, other: object) -> MadeColumn:
        return MadeColumn(_expression(other))._with("-", self)

    def __rmul__(self, other: object) -> MadeColumn:
        return MadeColumn(_expression(other))._with("*", self)

    def __rtruediv__(self, other: object) -> MadeColumn:
        return MadeColumn(_expression(other))._with("/", self)

    def __neg__(self) -> MadeColumn:
        return MadeColumn(Negate(self.expression))

    def __eq__(self, other: object) -> MadeColumn:  # type: ignore[override]
        return self._compared("=", other)

    def __ne__(self, other: object) -> MadeColumn:  # type: ignore[override]
        return self._compared("<>", other)

    def __lt__(self, other: object) -> MadeColumn:
        return self._compared("<", other)

    def __le__(self, other: object) -> MadeColumn:
        return self._compared("<=", other)

    def __gt__(self, other: object) -> MadeColumn:
        return self._compared(">", other)

    def __ge__(self, other: object) -> MadeColumn:
        return self._compared(">=", other)

    def __and__(self, other: object) -> MadeColumn:
        return MadeColumn(Logical("AND", self.expression, _expression(other)))

    def __or__(self, other: object) -> MadeColumn:
        return MadeColumn(Logical("OR", self.expression, _expression(other)))

    def __invert__(self) -> MadeColumn:
        return MadeColumn(Not(self.expression))

    def __bool__(self) -> bool:
        raise ArgumentError("a column has no truth by itself; write & for AND, | for OR and ~ for NOT")

    def is_in(self, *values: object) -> MadeColumn:
        """`x IN (...)`."""
        items = tuple(item for item in map(_expression, values) if isinstance(item, Literal))
        if len(items) != len(values):
            raise ArgumentError("is_in takes constants; compare columns and parameters with == and join them with |")
        return MadeColumn(InList(self.expression, items, False))

    def like(self, pattern: str) -> MadeColumn:
        """`x LIKE pattern`."""
        return MadeColumn(Like(self.expression, pattern, False))

    def is_null(self) -> MadeColumn:
        """`x IS NULL`."""
        return MadeColumn(IsNull(self.expression, False))

    def filter(self, condition: MadeColumn) -> MadeColumn:
        """`AGG(x) FILTER (WHERE condition)`."""
        call = self.expression
        if not isinstance(call, AggregateCall | RowCall | ScalarCall):
            raise ArgumentError("filter stands behind an aggregate: call('SUM', s.x).filter(s.x > 0)")
        with _without_place():
            return MadeColumn(functions.filtered(call, condition.expression, NOWHERE))

    def _with(self, operator: str, other: object) -> MadeColumn:
        return MadeColumn(Arithmetic(operator, self.expression, _expression(other)))

    def _compared(self, operator: str, other: object) -> MadeColumn:
        return MadeColumn(Comparison(operator, self.expression, _expression(other)))

    __hash__ = None  # type: ignore[assignment]


def parameter(name: str) -> MadeColumn:
    """A constant that `filled` or `for_each` gives a value."""
    return MadeColumn(MadeParameter(name))


def call(function: str, *arguments: object, half_life: str | timedelta | None = None) -> MadeColumn:
    """An aggregate or another function by its name; `call("COUNT")` is COUNT(*)."""
    with _without_place():
        name = functions.find_function(function, NOWHERE)
        values = [_expression(argument) for argument in arguments]
        if half_life is not None:
            return MadeColumn(functions.call_half_life(name, values[0], _microseconds(half_life), NOWHERE))
        if not values:
            return MadeColumn(functions.call_all_rows(name, NOWHERE))
        return MadeColumn(functions.call(name, values, NOWHERE))


def distinct(column: MadeColumn) -> MadeColumn:
    """`COUNT(DISTINCT x)`."""
    with _without_place():
        return MadeColumn(functions.call_distinct(functions.COUNT, column.expression, NOWHERE))


@dataclass(frozen=True)
class DeclaredStream:
    """A stream. Its attributes are columns: `s.x`, or `s["x"]` where the name is no Python name or a method's."""

    model: Stream

    def __getattr__(self, name: str) -> MadeColumn:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __getitem__(self, name: str) -> MadeColumn:
        if name not in self.model.attributes:
            known = ", ".join(self.model.attributes)
            raise ArgumentError(f"stream {self.model.name} has no attribute {name!r}; it has {known}")
        return MadeColumn(Attribute(name))

    def __str__(self) -> str:
        return print_stream(self.model)


def declare(
    name: str,
    attributes: Mapping[str, str | Type],
    *,
    timestamp: str,
    watermark: str | timedelta = "0 SECONDS",
    granularity: str | timedelta | None = None,
) -> DeclaredStream:
    """Declare a stream, as CREATE STREAM does."""
    types = {one: kind if isinstance(kind, Type) else TYPES.get(kind.upper()) for one, kind in attributes.items()}
    for one, kind in types.items():
        if kind is None:
            raise ArgumentError(
                f"stream {name}: {one} has the unknown type {attributes[one]!r}; known: {', '.join(TYPES)}"
            )
    known = {one: kind for one, kind in types.items() if kind is not None}
    finest = None if granularity is None else _microseconds(granularity)
    stream = Stream(name, known, timestamp, _microseconds(watermark), finest)
    return DeclaredStream(read(print_stream(stream)).streams[name])


@dataclass(frozen=True)
class MadeWindow:
    """A window: `kind` says what it is by the argument of `over` that makes it."""

    kind: str
    lengths: Mapping[str, Length]
    """By the arguments of `over`."""
    opens: Expression | None = None
    closes: Expression | None = None

    def clause(self) -> WindowClause:
        """What the parser would have made of its text."""
        given = self.lengths
        counts = {name: (length, NOWHERE) for name, length in given.items() if isinstance(length, int)}
        if self.kind == "range" and "range" in counts:
            if len(counts) < len(given):
                raise ArgumentError(f"a window over rows slides by a number of rows, got {given['slide']!r}")
            return rows_window(counts["range"], counts.get("slide"))
        durations = {name: Duration(_microseconds(length), NOWHERE) for name, length in given.items()}
        slide, longest = durations.get("slide"), durations.get("max")
        match self.kind:
            case "session_gap":
                return session_window(durations["session_gap"], longest, NOWHERE)
            case "from_when":
                assert self.opens is not None
                assert self.closes is not None
                return punctuation_window(self.opens, self.closes, longest, NOWHERE)
            case "unbounded":
                return unbounded_window(slide, None)
        return range_window(durations["range"], slide, None, None)

    def filled(self, values: Mapping[str, object], expressions: Mapping[str, Expression]) -> MadeWindow:
        """The window with values for its parameters."""
        opens, closes = (None if one is None else _filled(one, expressions) for one in (self.opens, self.closes))
        lengths = {name: _chosen(length, values) for name, length in self.lengths.items()}
        return MadeWindow(self.kind, lengths, opens, closes)


@dataclass(frozen=True)
class MadeQuery:
    """A query, or a template of queries if it has parameters."""

    name: str
    stream: Stream | None = None
    window: MadeWindow | None = None
    condition: Expression | None = None
    keys: tuple[str, ...] = ()
    items: tuple[SelectItem, ...] = ()
    passing: Expression | None = None

    def over(
        self,
        stream: DeclaredStream,
        range: Length | MadeColumn | None = None,
        slide: Length | MadeColumn | None = None,
        *,
        unbounded: bool = False,
        session_gap: Length | MadeColumn | None = None,
        from_when: MadeColumn | None = None,
        until_when: MadeColumn | None = None,
        max: Length | MadeColumn | None = None,
    ) -> MadeQuery:
        """The stream and the window.

        Args:
            stream: What `declare` or `answers` returned.
            range: How far back it goes: a duration for a window over time, a number for one over rows.
            slide: How often it is reported; without it, it is looked up.
            unbounded: Everything since the start.
            session_gap: Sessions: the pause that ends one.
            from_when: The condition of the event that opens a window.
            until_when: The condition of the event that closes it.
            max: How long a session or a window from one event to another may be.
        """
        kinds = {"range": range, "unbounded": unbounded or None, "session_gap": session_gap, "from_when": from_when}
        named = [name for name, given in kinds.items() if given is not None]
        if len(named) != 1:
            raise ArgumentError(
                f"query {self.name} has {f'{named[0]}= and {named[1]}=' if named else 'no window'}; "
                f"say one of over(stream, range=...), unbounded=True, session_gap= and from_when="
            )
        (kind,) = named
        takes = {"session_gap": ("max",), "from_when": ("until_when", "max")}.get(kind, ("slide",))
        for name, given in {"slide": slide, "until_when": until_when, "max": max}.items():
            if given is not None and name not in takes:
                raise ArgumentError(f"query {self.name}: {name}= does not belong to {kind}=; leave it out")
        if from_when is not None and until_when is None:
            raise ArgumentError(f"query {self.name}: from_when= opens a window; say what closes it with until_when=")
        lengths = {"range": range, "slide": slide, "session_gap": session_gap, "max": max}
        opens, closes = (None if one is None else one.expression for one in (from_when, until_when))
        given_lengths = {name: _length(length) for name, length in lengths.items() if length is not None}
        return replace(self, stream=stream.model, window=MadeWindow(kind, given_lengths, opens, closes))

    def where(self, condition: MadeColumn) -> MadeQuery:
        """Only events that pass; a further condition must hold too."""
        return replace(self, condition=_both(self.condition, condition.expression))

    def group_by(self, *columns: MadeColumn) -> MadeQuery:
        """The attributes to group by."""
        names = [column.expression.name for column in columns if isinstance(column.expression, Attribute)]
        if len(names) != len(columns):
            raise ArgumentError(f"query {self.name}: group_by takes attributes of the stream")
        return replace(self, keys=tuple(names))

    def select(self, *columns: MadeColumn, **named: MadeColumn) -> MadeQuery:
        """Grouped attributes and aggregates; a keyword is the name of its column."""
        items = [SelectItem(column.expression) for column in columns]
        items += [SelectItem(column.expression, name) for name, column in named.items()]
        return replace(self, items=(*self.items, *items))

    def having(self, condition: MadeColumn) -> MadeQuery:
        """Only groups that pass; a further condition must hold too."""
        return replace(self, passing=_both(self.passing, condition.expression))

    def filled(self, **values: object) -> MadeQuery:
        """The query with values for its parameters, also in its name: `late_{least}`."""
        given = {name: _expression(value) for name, value in values.items() if not isinstance(value, timedelta)}
        items = tuple(replace(item, expression=_filled(item.expression, given)) for item in self.items)
        try:
            name = self.name.format(**values)
        except (LookupError, ValueError) as error:
            raise ArgumentError(
                f"query {self.name}: its name needs a value for each parameter in braces ({error}); give it with filled"
            ) from None
        return replace(
            self,
            name=name,
            window=None if self.window is None else self.window.filled(values, given),
            condition=None if self.condition is None else _filled(self.condition, given),
            items=items,
            passing=None if self.passing is None else _filled(self.passing, given),
        )

    def for_each(self, table: object) -> list[MadeQuery]:
        """A query for each row of a table: an Arrow table, a pandas or Polars DataFrame, or a list of dicts.

        Cost: O(rows times nodes); no text is written or read.
        """
        return [self.filled(**row) for row in rows_of(table)]

    @property
    def answers(self) -> DeclaredStream:
        """The stream of its answers, for other queries to read: `query("daily").over(hourly.answers, ...)`."""
        if self.stream is None:
            raise ArgumentError(f"query {self.name} has no stream; say over(stream, range=...)")
        bound = bind([self.statement()], "", Workload({self.stream.name: self.stream})).queries[self.name]
        with _without_place():
            return DeclaredStream(stream_of_answers(bound, self.stream, Name(self.name, NOWHERE)))

    @property
    def model(self) -> Query:
        """The query as a value, with names and types not yet checked."""
        left = [node.name for one in self._expressions() for node in walk(one) if isinstance(node, MadeParameter)]
        lengths = () if self.window is None else self.window.lengths.values()
        left += [length.name for length in lengths if isinstance(length, MadeParameter)]
        if left:
            raise ArgumentError(f"query {self.name}: no value for the parameter {left[0]!r}; give it with filled(...)")
        if self.stream is None:
            raise ArgumentError(f"query {self.name} has no stream; say over(stream, range=...)")
        return Query(
            self.name, self.stream.name, self._clause().window, self.items, self.condition, self.keys, self.passing
        )  # fmt: skip

    def statement(self) -> CreateQuery:
        """What the parser would have made of its text."""
        query = self.model
        items = tuple(
            Item(item.expression, None if item.alias is None else Name(item.alias, NOWHERE)) for item in query.select
        )
        source = Source(Name(query.stream, NOWHERE), self._clause())
        groups = tuple(Name(name, NOWHERE) for name in query.group_by)
        name = Name(query.name, NOWHERE)
        return CreateQuery(name, source, items, query.where, groups, query.having, None, NOWHERE)

    def __str__(self) -> str:
        return print_query(self.model)

    def _clause(self) -> WindowClause:
        if self.window is None:
            raise ArgumentError(f"query {self.name} has no window; say over(stream, range=...)")
        try:
            return self.window.clause()
        except PlacedError as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise ArgumentError(f"query {self.name}: {error.message}{hint}") from None
        except ArgumentError as error:
            raise ArgumentError(f"query {self.name}: {error}") from None

    def _expressions(self) -> Iterable[Expression]:
        shown = (item.expression for item in self.items)
        marks = () if self.window is None else (self.window.opens, self.window.closes)
        return (one for one in (*shown, self.condition, self.passing, *marks) if one is not None)


def query(name: str) -> MadeQuery:
    """Begin a query."""
    return MadeQuery(name)


def build(*queries: MadeQuery) -> Workload:
    """The workload of some queries and their streams, with every name and type checked.

    Queries that others read come before them. A mistake raises a `StatementError` with its place in the text of the
    query.
    """
    # Those of answers follow from the queries.
    read_by = (one.stream for one in queries if one.stream is not None)
    streams = {stream.name: stream for stream in read_by if not stream.is_of_answers}
    try:
        return bind([one.statement() for one in queries], "", Workload(streams))
    except StatementError:
        _point_out(queries, streams)
        raise


def _point_out(queries: Iterable[MadeQuery], streams: Mapping[str, Stream]) -> None:
    """Raise the first mistake with its place in the text."""
    read("\n".join([*map(print_stream, streams.values()), *map(str, queries)]))


@contextmanager
def _without_place() -> Iterator[None]:
    """What is made in Python has no place in a text."""
    try:
        yield
    except PlacedError as error:
        raise ArgumentError(f"{error.message}; {error.hint}" if error.hint else error.message) from None


def _expression(value: object) -> Expression:
    """A column as it is, and a Python value as a constant."""
    match value:
        case MadeColumn():
            return value.expression
        case bool():
            return Literal(value, Type.BOOLEAN)
        case int():
            return Literal(value, Type.BIGINT)
        case float():
            return Literal(value, Type.DOUBLE)
        case str():
            return Literal(value, Type.STRING)
        case datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=UTC)
            return Literal((moment - EPOCH) // timedelta(microseconds=1), Type.TIMESTAMP)
        case None:
            return Literal(None, None)
        case _:
            raise ArgumentError(
                f"no constant of the language is like {value!r}; give a number, a text, a bool or a time"
            )


def _length(given: Length | MadeColumn) -> Length:
    if isinstance(given, MadeColumn):
        if not isinstance(given.expression, MadeParameter):
            raise ArgumentError("the length of a window is a duration, a number of rows, or a parameter")
        return given.expression
    return given


def _microseconds(length: Length) -> int:
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    number, _, unit = str(length).partition(" ")
    with _without_place():
        return read_duration(number, unit, NOWHERE, NOWHERE)


def _chosen(length: Length, values: Mapping[str, object]) -> Length:
    if not isinstance(length, MadeParameter) or length.name not in values:
        return length
    value = values[length.name]
    if not isinstance(value, str | timedelta | int):
        raise ArgumentError(f"the parameter {length.name!r} is a length of a window, and {value!r} is none")
    return value


def _filled(node: Expression, values: Mapping[str, Expression]) -> Expression:
    if isinstance(node, MadeParameter):
        return values.get(node.name, node)
    return with_children(node, lambda child: _filled(child, values))


def _both(one: Expression | None, other: Expression) -> Expression:
    return other if one is None else Logical("AND", one, other)
