"""The laws of components, on random partials.

They combine in any grouping and order, what was combined can be taken off where that is declared, and lowering gives
what the oracle says of all values.

Partials are made by the engine's own lifting, one for each slot, and combined by its own folding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.numbers import doubles, integers
from tests.thoroughness import examples

import panewise
from panewise.aggregates.catalogue import CATALOGUE, EVERY_AGGREGATE, Partner
from panewise.aggregates.components import Component, Kind
from panewise.aggregates.sketches import opened
from panewise.aggregates.types import Type
from panewise.engine.columns import arrow_type
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.engine.rows import Multisets, fold_stretches
from panewise.engine.sketches import column_of
from panewise.kernels.multisets import count_distinct, most_frequent, select_ranks
from panewise.kernels.pairs import sum_pairs
from panewise.language.expressions import Attribute, Pair
from panewise.planning.trees import StreamPlan
from panewise.structures import EVERY_STRUCTURE
from panewise.structures.sheet import DataSheet

JOINED = tuple(
    entry.name
    for entry in EVERY_AGGREGATE
    if entry.is_exact and any(kind.is_joined for kind in entry.kinds(sorted(entry.types, key=list(Type).index)[0]))
)
CONDITIONS = ("BOOL_AND", "BOOL_OR")
LISTS = tuple(entry.name for entry in EVERY_AGGREGATE if entry.is_list)
EXACT = tuple(
    entry.name for entry in EVERY_AGGREGATE if entry.is_exact and entry.name not in (*JOINED, *CONDITIONS, *LISTS)
)
OF_STRINGS = ("MIN", "MAX", "FIRST", "LAST", "ARG_MIN", "ARG_MAX", *LISTS)
MOST = 3
HALF_LIFE = 7
CALLS = {
    "COUNT_ALL": "COUNT(*)",
    "COUNT_DISTINCT": "COUNT(DISTINCT x)",
    "QUANTILE": "QUANTILE(x, 0.3)",
    **{name: f"{name}(x > 0)" for name in CONDITIONS},
    **{name: f"{name}(x, {MOST})" for name in LISTS},
    **{name: f"{name}(x, HALF LIFE {HALF_LIFE} MICROSECONDS)" for name in ("EWM_SUM", "EWM_AVG")},
    **{entry.name: f"{entry.name}(x, y)" for entry in EVERY_AGGREGATE if entry.partner is Partner.ARGUMENT},
}
Partial = dict[Kind, Any]
"""The columns of each component, with one value each; a multiset for VALUES."""

nulls = st.lists(st.booleans(), min_size=40, max_size=40)
cases = st.tuples(doubles() | integers(), nulls, st.integers(1, 8), st.integers(0, 2**32).map(Random))


@cache
def plan_of(type: Type, names: tuple[str, ...]) -> StreamPlan:
    """One base with the components of some aggregates."""
    calls = ", ".join(CALLS.get(name, f"{name}(x)") for name in names)
    text = (
        f"CREATE STREAM s (t TIMESTAMP, x {type.value}, y {partner_type(type).value}) TIMESTAMP BY t;"
        f"CREATE QUERY q AS SELECT {calls} FROM s [RANGE 1 SECOND SLIDE 1 SECOND];"
    )
    return panewise.optimize(panewise.read(text)).streams["s"]


def partials_of(values: Sequence[Any], parts: Sequence[int], names: tuple[str, ...] = EXACT) -> list[Partial]:
    """The partials of values, one for each part that has some; beside each stand the value at the other end, and its
    place as time."""
    plan = plan_of(type_of(values), names)
    (base,) = plan.bases
    kinds = [arrow_type(kind) for kind in (type_of(values), partner_type(type_of(values)))]
    columns = (pa.array(*column) for column in zip((values, partners_of(values)), kinds))
    events = {"t": list(range(len(values))), **dict(zip("xy", columns))}
    batch = project(plan, to_batch(plan.stream, events))
    lifted = Combiner(plan, batch).partials(base, np.array(parts, np.int64))
    return [_partial(base.components, lifted.slice(row, 1)) for row in range(lifted.num_rows)]


def type_of(values: Sequence[Any]) -> Type:
    known = next((value for value in values if value is not None), 0)
    if isinstance(known, str):
        return Type.STRING
    return Type.BIGINT if isinstance(known, int) else Type.DOUBLE


def partner_type(type: Type) -> Type:
    """Strings have lengths beside them, and numbers have numbers."""
    return Type.BIGINT if type is Type.STRING else type


def partners_of(values: Sequence[Any]) -> list[Any]:
    """What stands beside each value."""
    others = list(values[::-1])
    return [len(one) if isinstance(one, str) else one for one in others]


def _partial(components: Sequence[Component], row: pa.RecordBatch) -> Partial:
    partial: Partial = {}
    for component in components:
        columns = [row.column(name) for name in component.column_names()]
        if component.kind is Kind.VALUES:
            items, counts = (np.asarray(column.flatten()) for column in columns)
            partial[component.kind] = Multisets(items, counts, np.array([0, len(items)]))
        else:
            partial[component.kind] = tuple(np.array(column) for column in columns)
    return partial


def combined(one: Partial, other: Partial) -> Partial:
    """Two partials as one."""
    whole: Partial = {}
    for kind, columns in one.items():
        if kind is Kind.VALUES:
            whole[kind] = columns.joined(other[kind]).merged(np.array([0, 2]))
        else:
            pairs = [np.concatenate(two) for two in zip(columns, other[kind], strict=True)]
            whole[kind] = fold_stretches(kind, pairs, np.array([0, 2]))
    return whole


def combined_by_chance(partials: list[Partial], random: Random) -> Partial:
    partials = list(partials)
    while len(partials) > 1:
        one = partials.pop(random.randrange(len(partials)))
        place = random.randrange(len(partials))
        partials[place] = combined(partials[place], one)
    return partials[0]


class Folded:
    """A partial as lowering reads it."""

    is_boolean = False

    def __init__(self, partial: Partial, type: Type) -> None:
        self.is_float, self.is_string = type is Type.DOUBLE, type is Type.STRING
        self._partial = partial

    def ints(self, kind: Kind) -> tuple[Any, ...]:
        return self._partial[kind]

    floats = ints

    def sketches(self, kind: Kind) -> Any:
        (column,) = self._partial[kind]
        return column_of([opened(kind, one) for one in column])

    def select(self, ranks: Any) -> Any:
        runs = self._partial[Kind.VALUES]
        return select_ranks(runs.items, runs.counts, runs.offsets, np.array([0]), np.array([1]), ranks)

    def distinct(self) -> Any:
        runs = self._partial[Kind.VALUES]
        return count_distinct(runs.items, runs.offsets, np.array([0]), np.array([1]))

    def mode(self) -> Any:
        runs = self._partial[Kind.VALUES]
        return most_frequent(runs.items, runs.counts, runs.offsets, np.array([0]), np.array([1]))


class Call:
    """An aggregate as the oracle reads it."""

    def __init__(self, name: str) -> None:
        given = {"QUANTILE": 0.3, "EWM_SUM": 7, "EWM_AVG": 7, **dict.fromkeys(LISTS, MOST)}
        self.function, self.parameter = name, given.get(name)
        self.argument = None if name == "COUNT_ALL" else Attribute("x")
        partner = CATALOGUE[name].partner
        if partner is not None:
            self.argument = Pair(Attribute("x"), Attribute("y" if partner is Partner.ARGUMENT else "t"))


def check(partial: Partial, values: list[Any], names: tuple[str, ...] = EXACT) -> None:
    """Aggregates of a partial are what the oracle says of its values."""
    type = type_of(values)
    members = [{"t": place, "x": x, "y": y} for place, (x, y) in enumerate(zip(values, partners_of(values)))]
    for name in names:
        wanted, scale = oracle.aggregate(Call(name), members)
        lowered = CATALOGUE[name].lower(Folded(partial, type), Call(name).parameter)
        found = (lowered.values if lowered.exact is None else lowered.exact).item(0) if lowered.valid[0] else None
        assert oracle.same_value(found, wanted, scale), (name, found, wanted)


def with_nulls(values: list[Any], is_null: list[bool]) -> list[Any]:
    return [None if hide else value for value, hide in zip(values, is_null)]


@settings(max_examples=examples(60), deadline=None)
@given(cases)
def test_partials_combine_in_any_grouping_and_order(case) -> None:
    values, is_null, parts, random = case
    values = with_nulls(values, is_null)
    if all(value is None for value in values):
        return
    partials = partials_of(values, [random.randrange(parts) for _ in values])
    for _ in range(3):
        check(combined_by_chance(partials, random), values)


moderate = st.floats(-1e6, 1e6, allow_subnormal=False).map(lambda value: round(value, 3))
around = st.sampled_from([0.0, 1e9, -1.7e15, 3e-7])
some_moderate = st.builds(
    lambda values, center: [center + value for value in values], st.lists(moderate, min_size=1, max_size=40), around
) | st.lists(st.integers(-5, 5) | st.integers(10**9, 10**9 + 3), min_size=1, max_size=40)


@pytest.mark.parametrize("name", [*JOINED, *CONDITIONS])
@settings(max_examples=examples(20), deadline=None)
@given(st.tuples(some_moderate, nulls, st.integers(1, 8), st.integers(0, 2**32).map(Random)))
def test_what_is_joined_combines_in_any_grouping_and_order(name, case) -> None:
    values, is_null, parts, random = case
    values = with_nulls(values, is_null)
    if all(value is None for value in values):
        return
    if name in CONDITIONS:
        values = [None if value is None else int(value > 0) for value in values]
    partials = partials_of(values, [random.randrange(parts) for _ in values], (name,))
    check(combined_by_chance(partials, random), values, (name,))


some_strings = st.lists(st.text("ab\0é\U0001f600", max_size=3), min_size=1, max_size=40)


@settings(max_examples=examples(60), deadline=None)
@given(st.tuples(some_strings | some_moderate, nulls, st.integers(1, 8), st.integers(0, 2**32).map(Random)))
def test_kept_values_combine_in_any_grouping_and_order(case) -> None:
    values, is_null, parts, random = case
    values = with_nulls(values, is_null)
    if all(value is None for value in values):
        return
    for name in OF_STRINGS if type_of(values) is Type.STRING else LISTS:
        partials = partials_of(values, [random.randrange(parts) for _ in values], (name,))
        check(combined_by_chance(partials, random), values, (name,))


def test_moments_far_from_zero_keep_their_digits() -> None:
    """The shape of 1, 2, 4 does not depend on where it lies, and no digit of a product of large means is left over."""
    for center in (0.0, 1e9, 1e15):
        values = [center + value for value in (1.0, 2.0, 4.0, 1.0)]
        for name, wanted in (("SKEWNESS", 0.816496580927726), ("KURTOSIS", -1.0), ("COVAR_POP", 0.5), ("CORR", 1 / 3)):
            (partial,) = partials_of(values, [0] * 4, (name,))
            found = CATALOGUE[name].lower(Folded(partial, Type.DOUBLE), None).values.item(0)
            assert math.isclose(found, wanted, rel_tol=1e-14), (name, center, found)


@settings(max_examples=examples(60), deadline=None)
@given(cases)
def test_what_is_subtractable_can_be_taken_off(case) -> None:
    values, is_null, _, random = case
    values = [value for value in with_nulls(values, is_null) if value is not None]
    if len(values) < 2:
        return
    cut = random.randrange(1, len(values))
    first, rest = partials_of(values, [int(place >= cut) for place in range(len(values))])
    whole = combined(first, rest)
    for kind, columns in whole.items():
        if not kind.is_subtractable:
            continue
        if kind is Kind.SUM_FLOAT:
            left = sum_pairs(*columns, *(-column for column in first[kind]))
            # Off by the rounding of the whole, as every sum is.
            found = CATALOGUE["SUM"].lower(Folded({**rest, kind: left}, Type.DOUBLE), None).values.item(0)
            scale = oracle._sum_of_magnitudes(values)
            assert oracle.same_value(found, oracle._sum(values[cut:])[0], scale)
            continue
        with np.errstate(over="ignore"):
            left = [column - other for column, other in zip(columns, first[kind], strict=True)]
        assert [one.tolist() for one in left] == [one.tolist() for one in rest[kind]], kind


def test_infinities_and_not_a_number_combine_too() -> None:
    odd = [1.0, math.inf, 2.0, -math.inf, math.nan, None, 1e300, -0.0]
    for seed in range(20):
        random = Random(seed)
        values = random.sample(odd, random.randrange(1, len(odd)))
        if any(value is not None for value in values):
            check(combined_by_chance(partials_of(values, list(range(len(values)))), random), values)


def test_structures_that_subtract_hold_nothing_else() -> None:
    """The law decides: what cannot be taken off is refused, and what can is served."""
    for sheet in (kind.sheet for kind in EVERY_STRUCTURE):
        assert isinstance(sheet, DataSheet)
        if sheet.needs_inverse:
            assert all(kind.is_subtractable for kind in sheet.kinds)
            for entry in EVERY_AGGREGATE:
                for type in (Type.BIGINT, Type.DOUBLE):
                    if entry.accepts(type):
                        can = all(kind.is_subtractable for kind in entry.kinds(type))
                        assert (sheet.why_not(entry.name, type) is None) == can, (entry.name, type)


@pytest.mark.parametrize("kind", Kind)
def test_words(kind: Kind) -> None:
    """Components of a fixed size have a column for each word."""
    names = Component(kind, None if kind is Kind.ROWS else 0).column_names()
    assert len(set(names)) == len(names) == (kind.words or (2 if kind is Kind.VALUES else 1))
