"""Shapes: statements that differ in constants and in the query's name alone are parsed and bound once.

The shape of a statement is its text with a gap for each constant. The first statement of a shape is parsed and bound;
it tells which gaps are free: those of literals that are compared in WHERE and HAVING, and those of whole numbers in
RANGE and SLIDE, unless the window has more than these. What the binder checks there depends on the types of literals,
and on the length of durations, which is checked again. Other constants belong to the shape. Where something does not
fit, the statement is parsed.

Cost: a few regular expressions for each statement, instead of a parse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from panewise.aggregates.types import Type
from panewise.language.expressions import Comparison, Expression, InList, Literal, Logical, Not
from panewise.language.limits import MAX_STATEMENT_CHARACTERS
from panewise.language.literals import INT64_MAX, LONGEST_DURATION_US, unquoted
from panewise.language.model import Query, Stream
from panewise.language.statements import CreateQuery, Duration
from panewise.language.words import RESERVED
from panewise.windows import TimeWindow, Window

Value = int | float | str
Values = Sequence[Value]

_HEAD = re.compile(r"\s*CREATE\s+QUERY\s+([^\W\d]\w*)(?=\s+AS\b)", re.IGNORECASE)
_CONSTANT = re.compile(
    r"('[^']*(?:''[^']*)*'|(?<![\w.])[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(?![\w.]))",
)
_MOST_DIGITS = 18
"""Longer integers may not fit an int64."""
_MOST_KEPT = 1 << 16
"""So many conditions of a template are kept, to be used again."""


@dataclass(frozen=True)
class Cut:
    """A statement without its name and constants, and these."""

    name: str
    shape: tuple[str, str]
    """The text between the constants, and the kind of each: integer, decimal or string."""
    constants: list[str]

    @staticmethod
    def of(statement: str) -> Cut | None:
        """A statement cut up, or None if it is not one that shapes are for."""
        head = _HEAD.match(statement)
        if head is None or len(statement) > MAX_STATEMENT_CHARACTERS or head[1].upper() in RESERVED:
            return None
        parts = _CONSTANT.split(statement[head.end() :])
        constants = parts[1::2]
        kinds = "".join(["s" if one[0] == "'" else "i" if one.isdigit() else "d" for one in constants])
        return Cut(head[1], ("\0".join(parts[::2]), kinds), constants)


def places_of(statement: str) -> dict[int, int]:
    """The number of each constant of a statement, by where it starts. A number in the query's name is none."""
    head = _HEAD.match(statement)
    found = _CONSTANT.finditer(statement, 0 if head is None else head.end())
    return {match.start(): place for place, match in enumerate(found)}


def value_of(constant: str) -> Value:
    """What a constant stands for."""
    if constant[0] == "'":
        return unquoted(constant)
    return int(constant) if constant.isdigit() else float(constant)


@dataclass
class Template:
    """A query, and where other values of its constants go. `free` has the places of constants that may differ."""

    query: Query
    stream: Stream
    free: tuple[int, ...]
    lengths: tuple[tuple[int, int], ...]
    """The place of each free duration, and its unit in microseconds; RANGE first."""
    where: Callable[[Values], Expression] | None
    having: Callable[[Values], Expression] | None
    _windows: dict[tuple[Value, ...], Window] = field(default_factory=dict)
    _conditions: dict[tuple[Value, ...], tuple[Expression | None, Expression | None]] = field(default_factory=dict)

    @staticmethod
    def of(query: Query, statement: CreateQuery, stream: Stream, text: str) -> Template:
        """The template that a bound statement is. `text` is what it was parsed from."""
        gaps = _Gaps(text, places_of(text))
        where, having = gaps.condition(query.where), gaps.condition(query.having)
        lengths = gaps.lengths(statement, query)
        return Template(query, stream, tuple(sorted(gaps.free)), lengths, where, having)

    def filled(self, name: str, values: Values) -> Query | None:
        """The query with another name and other values; None if the binder must look at it."""
        window = self._window(values)
        if window is None:
            return None
        key = tuple([values[place] for place in self.free])
        conditions = self._conditions.get(key)
        if conditions is None:
            if any(not _fits(value) for value in key):
                return None
            conditions = (
                self.query.where if self.where is None else self.where(values),
                self.query.having if self.having is None else self.having(values),
            )
            if len(self._conditions) >= _MOST_KEPT:
                self._conditions.clear()
            self._conditions[key] = conditions
        one = self.query
        return Query(
            name,
            one.stream,
            window,
            one.select,
            conditions[0],
            one.group_by,
            conditions[1],
            one.within,
            one.using,
            one.overflow_is_error,
        )

    def _window(self, values: Values) -> Window | None:
        """The window with other durations; None if one is out of range or no multiple of the stream's granularity."""
        if not self.lengths:
            return self.query.window
        given = tuple([values[place] for place, _ in self.lengths])
        window = self._windows.get(given)
        if window is not None:
            return window
        step = self.stream.granularity_us or 1
        lengths = [number * unit_us for number, (_, unit_us) in zip(given, self.lengths) if isinstance(number, int)]
        if any(not 0 < us <= LONGEST_DURATION_US or us % step for us in lengths) or len(lengths) < len(given):
            return None
        window = TimeWindow(lengths[0], slide_us=lengths[1]) if len(lengths) > 1 else TimeWindow(lengths[0])
        self._windows[given] = window
        return window


class Templates:
    """The templates of some statements, by shape and by the constants that belong to it."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[tuple[str, ...], Template]] = {}
        self._fixed: dict[tuple[str, str], tuple[int, ...]] = {}

    def clear(self) -> None:
        """Forget all: a stream came, or one of answers went, and a binder might now say something else."""
        self._found.clear()
        self._fixed.clear()

    def query(self, cut: Cut) -> Query | None:
        """The query that a statement creates, if a template tells it."""
        variants = self._found.get(cut.shape)
        if variants is None:
            return None
        template = variants.get(tuple([cut.constants[place] for place in self._fixed[cut.shape]]))
        if template is None:
            return None
        try:
            return template.filled(cut.name, [value_of(one) for one in cut.constants])
        except ValueError:  # an integer with more digits than Python reads
            return None

    def learn(self, cut: Cut, query: Query, statement: CreateQuery, stream: Stream, text: str) -> None:
        """Keep what a bound statement, parsed from `text`, tells about its shape."""
        template = Template.of(query, statement, stream, text)
        fixed = tuple(place for place in range(len(cut.constants)) if place not in template.free)
        if self._fixed.setdefault(cut.shape, fixed) == fixed:
            self._found.setdefault(cut.shape, {})[tuple(cut.constants[place] for place in fixed)] = template


@dataclass
class _Gaps:
    """The constants of a text, by where they start, and the places of those that were found to be free."""

    text: str
    places: dict[int, int]
    free: set[int] = field(default_factory=set)

    def condition(self, expression: Expression | None) -> Callable[[Values], Expression] | None:
        """How to make a condition with other constants; None if it has no free one."""
        match expression:
            case Comparison():
                left, right = self._operand(expression.left), self._operand(expression.right)
                return _joined(expression, left, right)
            case Logical():
                return _joined(expression, self.condition(expression.left), self.condition(expression.right))
            case Not():
                operand = self.condition(expression.operand)
                return None if operand is None else lambda values: replace(expression, operand=operand(values))
            case InList():
                items = [(self._operand(item), item) for item in expression.items]
                if all(made is None for made, _ in items):
                    return None
                return lambda values: replace(
                    expression, items=tuple(item if made is None else made(values) for made, item in items)
                )
        return None

    def lengths(self, statement: CreateQuery, query: Query) -> tuple[tuple[int, int], ...]:
        """The place of each duration of a RANGE window and its unit; none if one is not a whole number."""
        clause, window = statement.source.window, query.window
        if clause is None or not isinstance(window, TimeWindow) or query.has_own_windows:
            return ()
        if window.is_unbounded or window != TimeWindow(window.left_us, slide_us=window.slide_us):
            # What is more than RANGE and SLIDE is checked together with them.
            return ()
        found = [self._length(duration) for duration in clause.durations]
        if any(one is None for one in found):
            return ()
        lengths = tuple(one for one in found if one is not None)
        self.free.update(place for place, _ in lengths)
        return lengths

    def _length(self, duration: Duration) -> tuple[int, int] | None:
        place = self.places.get(duration.span.start)
        match = _CONSTANT.match(self.text, duration.span.start)
        if place is None or match is None or not match[0].isdigit():
            return None
        number = int(match[0])
        return (place, duration.us // number) if number and duration.us % number == 0 else None

    def _operand(self, expression: Expression) -> Callable[[Values], Literal] | None:
        """How to make a literal with another value; None if the expression is no literal of one token."""
        if not isinstance(expression, Literal) or expression.type not in (Type.BIGINT, Type.DOUBLE, Type.STRING):
            return None
        start, kind, span = expression.span.start, expression.type, expression.span
        sign = -1 if self.text[start : start + 1] == "-" else 1
        if sign < 0:
            start = span.end - len(self.text[start + 1 : span.end].lstrip())
        match = _CONSTANT.match(self.text, start)
        place = self.places.get(start)
        if place is None or match is None or match.end() != span.end:
            return None
        self.free.add(place)
        if sign > 0:
            return lambda values: Literal(values[place], kind, span=span)
        return lambda values: Literal(-values[place], kind, span=span)  # type: ignore[operator]


def _joined(
    expression: Comparison | Logical,
    left: Callable[[Values], Expression] | None,
    right: Callable[[Values], Expression] | None,
) -> Callable[[Values], Expression] | None:
    """How to make an expression of two sides, of which at least one has a free constant."""
    if left is None and right is None:
        return None
    kept_left, kept_right = expression.left, expression.right
    kind, operator, span = type(expression), expression.operator, expression.span
    return lambda values: kind(
        operator,
        kept_left if left is None else left(values),
        kept_right if right is None else right(values),
        span=span,
    )


def _fits(value: Value) -> bool:
    """Whether a literal can have a value, whatever its sign."""
    if isinstance(value, int):
        return value <= INT64_MAX and len(str(value)) <= _MOST_DIGITS
    return isinstance(value, str) or value - value == 0  # not infinite
