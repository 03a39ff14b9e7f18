"""Random streams, bound expressions, queries and columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from panewise.aggregates.catalogue import CATALOGUE, Parameter, Partner
from panewise.aggregates.sketches import MOST_RANKS
from panewise.aggregates.types import Type
from panewise.language.expressions import (
    AggregateCall,
    Arithmetic,
    Attribute,
    Case,
    Comparison,
    Expression,
    InList,
    IsNull,
    Like,
    Literal,
    Logical,
    Negate,
    Not,
    Pair,
    QualifiedAttribute,
    aggregates_of,
)
from panewise.language.model import UNBOUNDED_US, Query, SelectItem, Stream
from panewise.language.printer import label_of
from panewise.language.row_queries import (
    DistinctQuery,
    HistogramQuery,
    IntersectionQuery,
    IntersectionSide,
    JoinQuery,
    JoinSide,
    RowColumn,
    RowQuery,
    SelectionQuery,
    SortedQuery,
    TopKQuery,
    Using,
    columns_of,
)
from panewise.language.typecheck import type_of
from panewise.language.words import INDEXES, RINGS
from panewise.windows import RowWindow, SessionWindow, TimeWindow, Window
from panewise.windows.window import DAY_US

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999

NAMES = st.one_of(
    st.sampled_from(["x", "Delay", "select", "Range", "odd name", 'quo"te', "timestamp", "ſelect", "1st", "count"]),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
# Few characters, so that patterns and equalities match now and then.
SHORT_TEXTS = st.text(st.sampled_from("ab%_\\é\n"), max_size=4)
PATTERNS = SHORT_TEXTS.filter(lambda text: (len(text) - len(text.rstrip("\\"))) % 2 == 0)
INTEGERS = st.one_of(st.integers(-3, 3), st.integers(INT64_MIN, INT64_MAX), st.sampled_from([2**53, 2**53 + 1]))
FINITE = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e16, 1e-7, float(2**53)]),
    st.floats(allow_nan=False, allow_infinity=False),
)
TIMESTAMPS = st.one_of(st.integers(FIRST_US, LAST_US), st.sampled_from([0, 1, FIRST_US, LAST_US]))
DURATIONS = st.one_of(st.integers(1, 10**9), st.builds(lambda n: n * 60_000_000, st.integers(1, 10**6)), st.just(2**60))
_VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.BOOLEAN: st.booleans(),
    Type.BIGINT: INTEGERS,
    Type.DOUBLE: FINITE,
    Type.STRING: st.one_of(SHORT_TEXTS, TEXTS),
    Type.TIMESTAMP: TIMESTAMPS,
}
_NUMBERS = [Type.BIGINT, Type.DOUBLE]
_COMPARABLE = [*((kind, kind) for kind in Type), (Type.BIGINT, Type.DOUBLE), (Type.DOUBLE, Type.BIGINT)]


def literals(kind: Type) -> st.SearchStrategy[Literal]:
    return _VALUES[kind].map(lambda value: Literal(value, kind))


class Expressions:
    """Well-typed expressions over attributes, with aggregates as further leaves when `calls` are given."""

    def __init__(self, attributes: Mapping[str, Type], typed_calls: Sequence[tuple[AggregateCall, Type]] = ()) -> None:
        self.leaves: list[tuple[Expression, Type]] = [(Attribute(name), kind) for name, kind in attributes.items()]
        self.leaves.extend(typed_calls)

    def value(self, kind: Type, depth: int) -> st.SearchStrategy[Expression]:
        options: list[st.SearchStrategy[Expression]] = [literals(kind), st.just(Literal(None, None))]
        leaves = [leaf for leaf, leaf_kind in self.leaves if leaf_kind is kind]
        if leaves:
            options.extend([st.sampled_from(leaves)] * 3)
        if depth > 0 and kind is Type.DOUBLE:
            number = st.sampled_from(_NUMBERS).flatmap(lambda side: self.value(side, depth - 1))
            options.append(st.builds(Arithmetic, st.sampled_from("+-*/"), number, number))
            # The parser folds a minus sign into a number.
            options.append(st.builds(Negate, number.filter(lambda node: not _is_number(node))))
        if depth > 1:
            options.append(self._case(kind, depth - 1))
        if depth > 0 and kind is Type.BOOLEAN:
            options.extend([self.condition(depth)] * 2)
        return st.one_of(options)

    def anything(self, depth: int) -> st.SearchStrategy[Expression]:
        return st.sampled_from(list(Type)).flatmap(lambda kind: self.value(kind, depth))

    def condition(self, depth: int) -> st.SearchStrategy[Expression]:
        if depth <= 0:
            return self.value(Type.BOOLEAN, 0)
        below = depth - 1
        boolean = self.value(Type.BOOLEAN, below)
        negated = st.booleans()
        return st.one_of(
            st.sampled_from([(k, k) for k in Type] + [(Type.BIGINT, Type.DOUBLE), (Type.DOUBLE, Type.BIGINT)]).flatmap(
                lambda kinds: st.builds(
                    Comparison,
                    st.sampled_from(["=", "<>", "<", "<=", ">", ">="]),
                    self.value(kinds[0], below),
                    self.value(kinds[1], below),
                )
            ),
            st.builds(Logical, st.sampled_from(["AND", "OR"]), boolean, boolean),
            st.builds(Not, boolean),
            st.builds(IsNull, self.anything(below), negated),
            st.sampled_from(list(Type)).flatmap(
                lambda kind: st.builds(InList, self.value(kind, below), self._items(kind), negated)
            ),
            st.builds(Like, self.value(Type.STRING, below), PATTERNS, negated),
        )

    def _case(self, kind: Type, depth: int) -> st.SearchStrategy[Expression]:
        branches = st.lists(st.tuples(self.value(Type.BOOLEAN, 0), self.value(kind, depth)), min_size=1, max_size=2)
        otherwise = st.none() | self.value(kind, 0)
        return st.builds(lambda some, other: Case(*zip(*some, strict=True), other), branches, otherwise)

    @staticmethod
    def _items(kind: Type) -> st.SearchStrategy[tuple[Literal, ...]]:
        kinds = _NUMBERS if kind in _NUMBERS else [kind]
        item = st.sampled_from(kinds).flatmap(literals)
        return st.lists(item, min_size=1, max_size=4).map(tuple)


def _is_number(node: Expression) -> bool:
    return isinstance(node, Literal) and node.type in _NUMBERS


@st.composite
def streams(draw: st.DrawFn, name: str | None = None) -> Stream:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    kinds = [Type.TIMESTAMP, *(draw(st.sampled_from(list(Type))) for _ in names[1:])]
    return Stream(
        name or draw(NAMES),
        dict(zip(names, kinds)),
        names[0],
        draw(st.one_of(st.just(0), DURATIONS)),
        draw(st.one_of(st.none(), st.sampled_from([1, 1000, 60_000_000]))),
        units=draw(
            st.dictionaries(
                st.sampled_from([name for name, kind in zip(names, kinds) if kind is Type.TIMESTAMP]),
                st.sampled_from(["s", "ms", "us", "ns"]),
                max_size=2,
            )
        ),
        future_bound_us=draw(st.one_of(st.none(), st.just(UNBOUNDED_US), DURATIONS)),
    )


@st.composite
def windows(draw: st.DrawFn, granularity_us: int | None = None, keys: Sequence[str] = ()) -> Window:
    count = st.integers(1, 2**40)
    if draw(st.booleans()):
        unit = granularity_us or 1
        left = unit * draw(st.one_of(count.filter(lambda n: n * unit <= 2**60), st.integers(1, 200)))
        form = draw(st.sampled_from(["on demand", "sliding", "historical"]))
        if form == "sliding":
            slide = draw(st.integers(1, 10**6))
            offset = unit * draw(st.just(0) | st.integers(0, slide - 1))
            match draw(st.sampled_from(["plain", "plain", "grows", "zone", "sessions"])):
                case "sessions":
                    return SessionWindow(unit * slide, unit * draw(st.integers(slide, 10**7)))
                case "grows":
                    return TimeWindow(unit * slide * 3, slide_us=unit * slide, offset_us=offset, grows=True)
                case "zone" if 1_800_000_000 % unit == 0:
                    zone = draw(st.sampled_from(["Europe/Berlin", "Asia/Kolkata"]))
                    return TimeWindow(2 * DAY_US, slide_us=7 * DAY_US, offset_us=offset % DAY_US, zone=zone)
            return TimeWindow(left, slide_us=unit * slide, offset_us=offset)
        return TimeWindow(left, unit * draw(st.integers(0, left // unit - 1)) if form == "historical" else 0)
    rows = draw(count)
    form = draw(st.sampled_from(["on demand", "sliding", "historical"]))
    if form == "sliding":
        return RowWindow(rows, slide=draw(count))
    partition = tuple(draw(st.permutations(keys))[: draw(st.integers(0, len(keys)))]) if keys else ()
    return RowWindow(rows, draw(st.integers(0, rows - 1)) if form == "historical" else 0, partition_by=partition)


@st.composite
def typed_calls(draw: st.DrawFn, attributes: Mapping[str, Type], timestamp: str) -> tuple[AggregateCall, Type]:
    aggregate = CATALOGUE[draw(st.sampled_from(sorted(CATALOGUE)))]
    if aggregate.name == "COUNT_ALL":
        return AggregateCall("COUNT_ALL"), Type.BIGINT
    kind = draw(st.sampled_from([kind for kind in Type if aggregate.accepts(kind)]))
    # NULL has no type to aggregate, and neither has a CASE of nothing but NULLs.
    argument = draw(Expressions(attributes).value(kind, 2).filter(lambda node: type_of(node, attributes) is not None))
    parameter = draw(st.floats(0, 1)) + 0.0 if aggregate.parameter is Parameter.PHI else None
    if aggregate.parameter is Parameter.RANK:
        parameter = draw(st.integers(1, MOST_RANKS))
    if aggregate.parameter is Parameter.HALF_LIFE:
        parameter = draw(DURATIONS)
    most = 1
    if aggregate.parameter is Parameter.MOST:
        parameter = most = draw(st.integers(1, 10_000))
    if aggregate.partner is Partner.TIME:
        half_life_us = float(parameter or 0) if aggregate.parameter is Parameter.HALF_LIFE else 0.0
        argument = Pair(argument, Attribute(timestamp), half_life_us, most)
    if aggregate.partner is Partner.ARGUMENT:
        kinds = [one for one in Type if one in aggregate.partner_types]
        partner = Expressions(attributes).value(draw(st.sampled_from(kinds)), 2)
        argument = Pair(argument, draw(partner.filter(lambda node: node != Literal(None, None))))
    return AggregateCall(aggregate.name, argument, parameter), aggregate.result_type(kind)


@st.composite
def queries(draw: st.DrawFn, stream: Stream) -> Query:
    attributes = stream.attributes
    group_by = draw(st.lists(st.sampled_from(list(attributes)), max_size=3, unique=True))
    calls = draw(st.lists(typed_calls(attributes, stream.timestamp), min_size=1, max_size=3))
    selected: list[Expression] = [call for call, _ in calls[:2]]
    computable = [(call, kind) for call, kind in calls if not CATALOGUE[call.function].is_list]
    numbers = [(call, kind) for call, kind in computable if CATALOGUE[call.function].is_exact]
    within = draw(st.one_of(st.none(), st.floats(0, 1, exclude_min=True, exclude_max=True)))
    if within is None and numbers:
        computed = Expressions({name: attributes[name] for name in group_by}, numbers).value(Type.DOUBLE, 2)
        selected.extend(draw(st.lists(computed.filter(aggregates_of), max_size=2)))
    selected.extend(Attribute(name) for name in group_by if draw(st.booleans()))
    items = [SelectItem(node, draw(st.one_of(st.none(), NAMES))) for node in draw(st.permutations(selected))]
    unique = {label_of(item): item for item in items}
    if not any(item.is_answer for item in unique.values()):
        unique = {"COUNT(*)": SelectItem(AggregateCall("COUNT_ALL"))}
    grouped = Expressions({name: attributes[name] for name in group_by}, computable)
    return Query(
        draw(NAMES),
        stream.name,
        draw(windows(stream.granularity_us, group_by)),
        tuple(unique.values()),
        draw(st.one_of(st.none(), Expressions(attributes).condition(3))),
        tuple(group_by),
        draw(st.one_of(st.none(), grouped.condition(2))),
        within,
        overflow_is_error=draw(st.booleans()),
    )


_USINGS = {
    "values": [Using(index, storage) for index in INDEXES[:3] for storage in ("list", "aggr", "hash")],
    "ranges": [Using("g_index", "group"), Using("g_index", "list")],
    "tuples": [Using(ring, index) for ring in RINGS for index in INDEXES[:3]],
}


_FIXED = ("window_start", "window_end", "value", "count", "rank", "low", "high")


@st.composite
def row_queries(draw: st.DrawFn, stream: Stream) -> RowQuery:
    """A query of any operator over a stream, or over a stream and itself."""
    attributes = stream.attributes
    unit = stream.granularity_us or 1
    suffix = st.builds(TimeWindow, st.integers(1, 200).map(lambda n: n * unit)) | st.builds(
        RowWindow, st.integers(1, 99)
    )
    slide = draw(st.integers(1, 50))
    lengths = st.integers(1, 9).map(lambda n: n * slide)
    sliding = st.builds(lambda n: TimeWindow(n * unit, slide_us=slide * unit), lengths)
    if draw(st.booleans()):
        sliding = st.builds(lambda n: RowWindow(n, slide=slide), lengths)
    name, into = draw(NAMES), draw(st.none() | suffix)
    where = st.none() | Expressions(attributes).condition(2)
    kind = draw(st.sampled_from(list(attributes.values())))
    value = Expressions(attributes).value(kind, 1).filter(lambda node: node != Literal(None, None))

    names = [name for name in attributes if name not in _FIXED]
    groups = st.lists(st.sampled_from(names), max_size=2, unique=True).map(tuple) if names else st.just(())

    def using(what: str) -> st.SearchStrategy[Using | None]:
        return st.none() | st.sampled_from(_USINGS[what])

    def columns(leaves: Mapping[str, Type], taken: tuple[str, ...]) -> tuple[RowColumn, ...]:
        drawn = [RowColumn(draw(value_of(leaves)), draw(NAMES)) for _ in range(draw(st.integers(1, 3)))]
        return tuple({label_of(column): column for column in drawn if label_of(column) not in taken}.values())

    def value_of(leaves: Mapping[str, Type]) -> st.SearchStrategy[Expression]:
        return st.sampled_from(list(leaves)).map(lambda key: _leaf(key, leaves))

    match draw(st.sampled_from(["histogram", "top", "distinct", "sorted", "intersection", "join", "selection"])):
        case "histogram":
            width = draw(st.none() | st.integers(1, 2**62)) if kind.is_number else None
            width = float(width) if width is not None and kind is Type.DOUBLE else width
            if width is not None and draw(st.booleans()):
                width = (width, 2 * width, 3 * width) if kind is Type.DOUBLE else (-width, 0, width)
            group_by = draw(groups)
            chosen = draw(using("values" if width is None or group_by else "ranges"))
            return HistogramQuery(
                name=name,
                into=into,
                using=chosen,
                stream=stream.name,
                window=draw(sliding),
                where=draw(where),
                argument=draw(value),
                group_by=group_by,
                width=width,
            )
        case "distinct":
            return DistinctQuery(
                name=name,
                into=into,
                using=draw(using("values")),
                stream=stream.name,
                window=draw(sliding),
                where=draw(where),
                argument=draw(value),
                group_by=draw(groups),
            )
        case "top":
            return TopKQuery(
                name=name,
                into=into,
                using=draw(using("values")),
                stream=stream.name,
                window=draw(sliding),
                where=draw(where),
                argument=draw(value),
                group_by=draw(groups),
                k=draw(st.integers(1, 2**40)),
            )
        case "intersection":
            sides = [IntersectionSide(stream.name, draw(sliding), draw(value), draw(where)) for _ in range(2)]
            return IntersectionQuery(
                name=name,
                into=into,
                using=draw(using("values")),
                left=sides[0],
                right=sides[1],
                operation=draw(st.sampled_from(["INTERSECT", "UNION", "EXCEPT"])),
            )
        case "join":
            left, right = draw(st.lists(NAMES, min_size=2, max_size=2, unique=True))
            keys = draw(st.lists(st.sampled_from(list(attributes)), min_size=1, max_size=3))
            leaves = {(side, attribute): kind for side in (left, right) for attribute, kind in attributes.items()}
            shown = columns(leaves, ("time",))  # type: ignore[arg-type]
            query: RowQuery = JoinQuery(
                name=name,
                into=into,
                using=draw(using("tuples")),
                left=JoinSide(stream.name, draw(suffix), left),
                right=JoinSide(stream.name, draw(suffix), right),
                left_keys=tuple(QualifiedAttribute.of(left, key) for key in keys),
                right_keys=tuple(QualifiedAttribute.of(right, key) for key in keys),
                columns=shown or (RowColumn(QualifiedAttribute.of(left, keys[0]), "z"),),
            )
        case "selection":
            shown = columns(attributes, ("time",))
            first = next(iter(attributes))
            query = SelectionQuery(
                name=name,
                into=into,
                stream=stream.name,
                columns=shown or (RowColumn(Attribute(first), "z"),),
                where=draw(where),
            )
        case _:
            fixed = ("window_start", "window_end", "position")
            shown = columns(attributes, fixed)
            first = next(iter(attributes))
            query = SortedQuery(
                name=name,
                into=into,
                using=draw(using("tuples")),
                stream=stream.name,
                window=draw(sliding),
                where=draw(where),
                columns=shown or (RowColumn(Attribute(first), "z"),),
                by=draw(st.sampled_from(list(attributes))),
                group_by=draw(groups),
                descending=draw(st.booleans()),
                limit=draw(st.none() | st.integers(1, 2**40)),
            )
    assert columns_of(query)
    return query


def _leaf(key: Any, leaves: Mapping[Any, Type]) -> Expression:
    return Attribute(key) if isinstance(key, str) else QualifiedAttribute.of(*key)
