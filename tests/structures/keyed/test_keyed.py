"""Keyed structures answer as a dictionary of lists does, whatever the order of calls."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.structures import oracle

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.aggregates.user import UserAggregate
from panewise.errors import AnswerOverflowError, HistoryError, PanewiseError, SnapshotError, WindowError
from panewise.structures import BY_NAME, build
from panewise.structures.keyed import EVERY_KEYED_STRUCTURE, build_keyed, restore_keyed
from panewise.structures.sheet import SKETCHES
from panewise.structures.snapshot import unpack

Value = int | float | None

XOR = UserAggregate(
    "XOR", combine=lambda a, b: a ^ b, identity=0, type=Type.BIGINT, inverse=lambda whole, prefix: whole ^ prefix
)
LAST = UserAggregate("LAST", combine=lambda a, b: b if b != 0.0 else a, identity=0.0, lower=lambda x: x + 1.0)
USERS = {user.name: user for user in (XOR, LAST)}

INTS = [0, 1, 2, 3, -1, -7, 10**12, 2**63 - 1, -(2**63)]
DOUBLES = [0.0, -0.0, 1.5, -1.5, 1e-200, 5e-324, 1e17, -1e17, 1e100, -1e100, math.inf, -math.inf, math.nan]
KINDS = [
    (structure.sheet.name, aggregate)
    for structure in EVERY_KEYED_STRUCTURE
    for aggregate in [*CATALOGUE, *USERS]
    if structure.sheet.served_types(USERS.get(aggregate, aggregate))
    and not (aggregate == "LAST" and structure.sheet.needs_inverse)
]

keys = st.one_of(st.integers(0, 5), st.integers(0, 40), st.sampled_from([300, 1000]))
windows = st.one_of(st.integers(1, 6), st.integers(1, 40)).flatmap(
    lambda left: st.tuples(st.just(left), st.integers(0, left - 1))
)


def expected(aggregate: str, values: list[Value], phi: float) -> tuple[Any, float]:
    """The answer over the values of a window, and how far off it may be; None is NULL."""
    found = [value for value in values if value is not None]
    ordered = sorted(found, key=lambda value: (value != value, value))
    n = len(found)
    match aggregate:
        case "COUNT_ALL":
            return len(values), 0.0
        case "COUNT":
            return n, 0.0
        case "COUNT_DISTINCT":
            return len({value for value in found if value == value}) + any(value != value for value in found), 0.0
    if not n:
        return None, 0.0
    match aggregate:
        case "SUM" | "AVG":
            if all(isinstance(value, int) for value in found) and aggregate == "SUM":
                return sum(found), 0.0
            total, off = plain_sum(found), 4 * 2.0**-52 * plain_sum([abs(value) for value in found])
            return (total, off) if aggregate == "SUM" else (total / n, off / n)
        case "MIN":
            return ordered[0], 0.0
        case "MAX":
            return ordered[-1], 0.0
        case "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP":
            return moment(aggregate, found)
        case "MEDIAN":
            return ordered[(n - 1) // 2], 0.0
        case "MODE":
            return max(ordered, key=lambda value: sum(v == value or (v != v and value != value) for v in found)), 0.0
        case "QUANTILE":
            return ordered[max(1, math.floor(Fraction(str(phi)) * n)) - 1], 0.0
        case "XOR":
            total = 0
            for value in found:
                total ^= int(value)
            return total, 0.0
        case "LAST":
            return next((value for value in reversed(found) if value != 0), 0.0) + 1.0, 0.0
    raise AssertionError(aggregate)


def plain_sum(values: list[Any]) -> float:
    """The sum, as if no rounding happened before the end."""
    if all(math.isfinite(value) for value in values):
        return float(sum(Fraction(value) for value in values))
    return sum(float(value) for value in values if not math.isfinite(value))


def moment(aggregate: str, values: list[Any]) -> tuple[float | None, float]:
    """A variance or its root, and a few ulps of it."""
    sample = aggregate.endswith("SAMP")
    if len(values) <= sample:
        return None, 0.0
    if not all(math.isfinite(value) for value in values):
        return math.nan, 0.0
    wanted = oracle.answer(aggregate, values)
    assert wanted is not None
    return wanted, 0.0 if math.isinf(wanted) else 4 * 2.0**-52 * wanted + 2.0**-1060


def is_close(answer: Any, wanted: Any, off: float) -> bool:
    """Whether an answer is near enough; NaN equals NaN, and NULL equals NULL."""
    if answer is None or wanted is None:
        return answer is wanted
    return bool(answer == wanted or (answer != answer and wanted != wanted) or abs(answer - wanted) <= off)


def as_array(values: list[Value], dtype: Any) -> Any:
    """Values as an array, masked where there are NULLs."""
    array = np.array([0 if value is None else value for value in values], dtype)
    missing = [value is None for value in values]
    return np.ma.MaskedArray(array, missing) if any(missing) else array


class KeyedAgainstLists(RuleBasedStateMachine):
    """Any order of calls, beside a list of all values of each key."""

    @initialize(kind=st.sampled_from(KINDS), is_float=st.booleans(), first=st.lists(windows, max_size=2))
    def begin(self, kind: tuple[str, str], is_float: bool, first: list[tuple[int, int]]) -> None:
        name, self.aggregate = kind
        if self.aggregate in USERS:
            is_float = USERS[self.aggregate].type is Type.DOUBLE
        else:
            is_float = is_float and Type.DOUBLE in BY_NAME[name].sheet.served_types(self.aggregate)
        self.dtype = np.float64 if is_float else np.int64
        self.windows = list(first)
        self.streams: dict[int, list[Value]] = {}
        self.first: dict[int, int] = {}
        self.structure = build_keyed(name, USERS.get(self.aggregate, self.aggregate), first)

    @rule(data=st.data(), has_nulls=st.booleans())
    def append_a_few(self, data: st.DataObject, has_nulls: bool) -> None:
        value: st.SearchStrategy[Value] = st.sampled_from(self._pool_of_values())
        if self.dtype is np.float64:
            value |= st.floats(-1e100, 1e100)
        else:
            value |= st.integers(-1000, 1000)
        pair = st.tuples(keys, st.none() | value if has_nulls else value)
        self._append(data.draw(st.lists(pair, max_size=30)))

    @rule(
        seed=st.integers(0, 2**32),
        count=st.integers(1, 300),
        shape=st.sampled_from(["even", "skewed", "one key"]),
        kind=st.sampled_from(["small", "odd"]),
        nulls=st.sampled_from([0.0, 0.0, 0.2]),
    )
    def append_many(self, seed: int, count: int, shape: str, kind: str, nulls: float) -> None:
        random = np.random.default_rng(seed)
        codes = random.integers(0, 30, count)
        if shape != "even":
            codes[random.random(count) < (0.5 if shape == "skewed" else 1.0)] = seed % 7
        pool = self._pool_of_values()
        values: list[Value]
        if kind == "small":
            values = random.integers(-50, 50, count).tolist()
        else:
            values = [pool[place] for place in random.integers(0, len(pool), count)]
        self._append([(int(k), None if random.random() < nulls else v) for k, v in zip(codes, values)])

    @rule(data=st.data(), phi=st.sampled_from([0.07, 0.29, 0.5, 1.0]))
    def look_up(self, data: st.DataObject, phi: float) -> None:
        asked = data.draw(st.lists(st.tuples(keys, self._some_window()), min_size=1, max_size=12))
        held = [(key, window) for key, window in asked if self._is_held(key, *window)]
        for key, (left, right) in asked:
            assert self.structure.is_held(key, left, right).tolist() == [self._is_held(key, left, right)]
            if not self._is_held(key, left, right):
                with pytest.raises(HistoryError, match=f"of key {key} begins"):
                    self.structure.lookup(key, left, right, self._parameter(phi))
        served = [(key, window) for key, window in held if self._is_served(key, *window)]
        for key, window in held:
            if (key, window) not in served:
                with pytest.raises(WindowError, match="add the window"):
                    self.structure.lookup(key, *window)
        self._compare([key for key, _ in served], [window for _, window in served], phi)

    @rule(data=st.data())
    def look_up_all(self, data: st.DataObject) -> None:
        window = data.draw(self._some_window())
        live = sorted(key for key, stream in self.streams.items() if stream)
        if all(self._is_held(key, *window) and self._is_served(key, *window) for key in live):
            self._compare(live, [window] * len(live), 0.5, every=True)

    @rule(gone=st.lists(keys, max_size=10))
    def forget(self, gone: list[int]) -> None:
        self.structure.forget(gone)
        for key in gone:
            self.streams.pop(key, None)
            self.first.pop(key, None)

    @rule(window=windows)
    def add_window(self, window: tuple[int, int]) -> None:
        self.structure.add_window(*window)
        self.windows.append(window)

    @rule(data=st.data())
    @precondition(lambda self: self.windows)
    def remove_window(self, data: st.DataObject) -> None:
        window = data.draw(st.sampled_from(self.windows))
        self.structure.remove_window(*window)
        self.windows.remove(window)
        self._let_go(list(self.streams))

    @rule()
    def restore(self) -> None:
        self.structure = restore_keyed(self.structure.snapshot(), aggregate=USERS.get(self.aggregate))

    @invariant()
    def holds_together(self) -> None:
        if not hasattr(self, "structure"):
            return
        self.structure.check_invariants()
        live = sorted(key for key, stream in self.streams.items() if stream)
        assert self.structure.live_keys.tolist() == live
        assert self.structure.length([*live, 5000]).tolist() == [*(len(self.streams[key]) for key in live), 0]
        assert self.structure.windows == sorted(self.windows)

    def _some_window(self) -> st.SearchStrategy[tuple[int, int]]:
        """Draw its own windows as often as any others."""
        return st.sampled_from(self.windows) | windows if self.windows else windows

    def _pool_of_values(self) -> list[Any]:
        return DOUBLES if self.dtype is np.float64 else INTS

    def _parameter(self, phi: float) -> float | None:
        return phi if self.aggregate == "QUANTILE" else None

    def _append(self, pairs: list[tuple[int, Value]]) -> None:
        codes = [key for key, _ in pairs]
        self.structure.update(codes, as_array([value for _, value in pairs], self.dtype))
        for key, value in pairs:
            number = None if value is None else self.dtype(value).item()
            self.streams.setdefault(key, []).append(number)
            self.first.setdefault(key, 0)
        self._let_go(codes)

    def _let_go(self, codes: list[int]) -> None:
        largest = max([1, *(left for left, _ in self.windows)])
        for key in codes:
            self.first[key] = max(self.first[key], len(self.streams[key]) - largest)

    def _is_held(self, key: int, left: int, right: int) -> bool:
        length = len(self.streams.get(key, []))
        low, high = max(length - left, 0), length - right
        return low >= self.first.get(key, 0) or high <= low

    def _is_served(self, key: int, left: int, right: int) -> bool:
        """Landmarks serve widths from a power of two to less than twice that, and beginnings of substreams."""
        if self.structure.name != "landmark_intervals" or self.aggregate in ("COUNT", "COUNT_ALL"):
            return True
        spacings = {2 ** int(math.log2(a - b)) for a, b in self.windows}
        length = len(self.streams.get(key, []))
        low, high = max(length - left, 0), length - right
        width = high - low
        return width <= 0 or any(s <= width < 2 * s or (low == 0 and width <= s) for s in spacings)

    def _compare(self, codes: list[int], asked: list[tuple[int, int]], phi: float, *, every: bool = False) -> None:
        wanted = []
        for key, (left, right) in zip(codes, asked):
            stream = self.streams.get(key, [])
            low, high = max(len(stream) - left, 0), max(len(stream) - right, 0)
            wanted.append(expected(self.aggregate, stream[low:high], phi))
        lefts, rights = [left for left, _ in asked], [right for _, right in asked]
        if self.aggregate == "SUM" and any(isinstance(w, int) and not -(2**63) <= w < 2**63 for w, _ in wanted):
            with pytest.raises(AnswerOverflowError):
                self.structure.lookup(codes, lefts, rights)
            return
        if every and codes:
            found, answers = self.structure.lookup_all(*asked[0], self._parameter(phi))
            assert found.tolist() == codes
        else:
            answers = self.structure.lookup(codes, lefts, rights, self._parameter(phi))
        for key, window, answer, (want, off) in zip(codes, asked, answers.tolist(), wanted, strict=True):
            assert is_close(answer, want, off), (key, window, answer, want, off)


KeyedAgainstLists.TestCase.settings = settings(max_examples=150, stateful_step_count=20)
TestKeyedAgainstLists = KeyedAgainstLists.TestCase


@pytest.mark.parametrize(("name", "aggregate"), KINDS)
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_one_key_agrees_with_the_structure_of_one_stream(name: str, aggregate: str, dtype: Any) -> None:
    user, kind = USERS.get(aggregate), Type.DOUBLE if dtype is np.float64 else Type.BIGINT
    if kind not in BY_NAME[name].sheet.served_types(user or aggregate) or (user is not None and user.type is not kind):
        return
    random = np.random.default_rng(5)
    every_width = [(100, 0), *((100, 100 - (1 << level)) for level in range(7))]
    keyed, single = (make(name, user or aggregate, every_width) for make in (build_keyed, build))
    parameter = 0.3 if aggregate == "QUANTILE" else None
    for _ in range(20):
        batch = np.ma.MaskedArray(random.integers(-99, 99, 30).astype(dtype), random.random(30) < 0.1)
        keyed.update(np.full(30, 3), batch)
        single.update(batch)
        lefts = random.integers(1, 101, 50)
        rights = random.integers(0, lefts)
        answers = keyed.lookup(3, lefts, rights, parameter).tolist()
        wanted = single.lookup(lefts, rights, parameter).tolist()
        for answer, want in zip(answers, wanted, strict=True):
            assert is_close(answer, want, 1e-9)


@pytest.mark.parametrize("name", [structure.sheet.name for structure in EVERY_KEYED_STRUCTURE])
def test_a_sum_that_overflows_spoils_no_window_beside_it(name: str) -> None:
    sums = build_keyed(name, "SUM", [(4, 0), (4, 2), (4, 3)])
    sums.update([0, 0, 0, 0], [1e308, 1e308, 1e308, 5.0])
    assert sums.lookup(0, [1, 2, 3, 4], [0, 1, 2, 0]).tolist() == [5.0, 1e308, 1e308, math.inf]
    sums.update([0] * 3, [7.0, -2.0, 1.0])
    assert sums.lookup(0, [4, 3]).tolist() == [11.0, 6.0]
    sums.update([1, 1, 1, 1], [1.5e308, 2e307, 3e307, -1.0])
    assert sums.lookup(1, [3, 2], [1, 0]).tolist() == [5e307, 3e307]


@pytest.mark.parametrize("largest", [16, 100, 1000])
def test_the_error_of_sums_stays_within_the_window(largest: int) -> None:
    random = np.random.default_rng(largest)
    sums = build_keyed("running_intervals", "SUM", [(largest, 0)])
    streams: list[list[float]] = [[], [], []]
    for _ in range(40):
        codes = random.integers(0, 3, 1000)
        values = random.normal(size=1000) * 10.0 ** random.integers(-20, 20, 1000)
        sums.update(codes, values)
        for key, value in zip(codes.tolist(), values.tolist()):
            streams[key].append(value)
        lefts = random.integers(1, largest + 1, 30)
        rights = random.integers(0, lefts)
        asked = random.integers(0, 3, 30)
        answers = sums.lookup(asked, lefts, rights).filled(0.0).tolist()
        for key, left, right, answer in zip(asked.tolist(), lefts.tolist(), rights.tolist(), answers):
            end = len(streams[key])
            window = streams[key][max(end - left, 0) : max(end - right, 0)]
            assert abs(answer - math.fsum(window)) <= 2.0**-52 * math.fsum(map(abs, window))


def test_elements_of_one_key_keep_their_order() -> None:
    last = build_keyed("base_intervals", LAST, [(8, 0)])
    last.update([4, 2, 4, 2, 4, 4, 2], [1.0, 10.0, 2.0, 20.0, 3.0, 4.0, 0.0])
    assert last.lookup([4, 4, 4, 2, 2], [8, 3, 4, 8, 3], [0, 1, 3, 0, 2]).tolist() == [5.0, 4.0, 2.0, 21.0, 11.0]


def test_values_come_in_every_form() -> None:
    sums = build_keyed("base_intervals", "SUM", [(4, 0)], type=Type.DOUBLE)
    sums.update(np.array([1, 0], np.uint8), pa.array([1, None]))
    sums.update(1, 2.5)
    sums.update([], [])
    assert sums.lookup([0, 1], 4).tolist() == [None, 3.5]
    times = build_keyed("base_intervals", "MAX", [(4, 0)])
    times.update([1], np.array(["2024-01-01"], "datetime64[s]"))
    assert times.lookup(1, 1).tolist() == [1704067200 * 10**6]


def test_before_the_first_update_nothing_is_known() -> None:
    assert build_keyed("recompute", "COUNT", [(4, 0)]).lookup([0, 7], 4).tolist() == [0, 0]
    assert build_keyed("running_intervals", "SUM", [(4, 0)]).lookup([0, 7], 4).tolist() == [None, None]
    keys, answers = build_keyed("base_intervals", "MAX", [(4, 0)], type=Type.BIGINT).lookup_all(4)
    assert keys.tolist() == answers.tolist() == []


def test_a_key_that_comes_back_begins_again() -> None:
    sums = build_keyed("running_intervals", "SUM", [(4, 0)])
    sums.update([0, 0, 1, 0], [1, 2, 3, 4])
    sums.forget([0, 0, 99])
    assert sums.length([0, 1]).tolist() == [0, 1]
    assert sums.lookup([0, 1], 4).tolist() == [None, 3]
    sums.update([0], [10])
    assert sums.lookup([0, 1], 4).tolist() == [10, 3]


def test_errors_say_what_is_wrong_and_what_helps() -> None:
    with pytest.raises(
        PanewiseError, match=r"'base_interval'; did you mean 'base_intervals'\? there are base_intervals, "
    ):
        build_keyed("base_interval", "SUM")
    with pytest.raises(PanewiseError, match=r"there is no keyed structure 'search_tree'.*running_intervals, recompute"):
        build_keyed("search_tree", "SUM")
    with pytest.raises(PanewiseError, match="cannot hold the max"):
        build_keyed("running_intervals", "MAX")
    with pytest.raises(PanewiseError, match="LAST has no inverse"):
        build_keyed("running_intervals", LAST)
    with pytest.raises(PanewiseError, match="cannot hold the values that MEDIAN"):
        build_keyed("base_intervals", "MEDIAN")
    sums = build_keyed("base_intervals", "SUM", [(4, 0)])
    with pytest.raises(PanewiseError, match="2 keys and 1 values"):
        sums.update([0, 1], [1])
    with pytest.raises(PanewiseError, match="key -1"):
        sums.update([-1], [1])
    with pytest.raises(PanewiseError, match="must be below"):
        sums.update([2**40], [1])
    with pytest.raises(PanewiseError, match="must be integers, not float64"):
        sums.update([0.5], [1])
    with pytest.raises(WindowError, match=r"window \(0, 0\)"):
        sums.lookup([0], [0])
    with pytest.raises(WindowError, match=r"window \(2, 3\)"):
        sums.lookup([0], [2], [3])
    with pytest.raises(WindowError, match="shapes"):
        sums.lookup([0, 1], [2, 3, 4])
    with pytest.raises(WindowError, match="was not added"):
        sums.remove_window(9)
    sums.update([0], [1])
    with pytest.raises(PanewiseError, match="takes no parameter"):
        sums.lookup([0], [1], 0, 0.5)
    quantiles = build_keyed("recompute", "QUANTILE", [(4, 0)])
    quantiles.update([0], [1])
    with pytest.raises(PanewiseError, match="QUANTILE needs phi"):
        quantiles.lookup([0], [1])


def test_snapshots_are_told_apart() -> None:
    keyed = build_keyed("base_intervals", "SUM", [(4, 0)])
    keyed.update([0, 3, 0], [1, 2, 3])
    blob = keyed.snapshot()
    assert unpack(blob)[1]["keys"].tolist() == [0, 3]
    with pytest.raises(SnapshotError):
        restore_keyed(blob[:-9])
    with pytest.raises(PanewiseError, match="without keys"):
        restore_keyed(build("base_intervals", "SUM").snapshot())
    user = build_keyed("base_intervals", XOR, [(4, 0)])
    with pytest.raises(PanewiseError, match="'XOR'; give it"):
        restore_keyed(user.snapshot())


def test_sheets_are_those_of_one_stream() -> None:
    for structure in EVERY_KEYED_STRUCTURE:
        of_one = BY_NAME[structure.sheet.name].sheet
        assert structure.sheet == replace(of_one, kinds=of_one.kinds - SKETCHES)
