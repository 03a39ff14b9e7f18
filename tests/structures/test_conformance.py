"""Every structure, every aggregate that it serves, with groups and without, beside a dictionary of lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.structures.oracle import Value, agrees, answer
from tests.thoroughness import examples

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.errors import AnswerOverflowError, HistoryError, WindowError
from panewise.structures import EVERY_STRUCTURE, Structure, build, restore
from panewise.structures.partitions import partitions_of
from panewise.structures.sheet import Lookups

SERVED = [
    pytest.param(kind, aggregate, id=f"{kind.sheet.name}-{aggregate}")
    for kind in EVERY_STRUCTURE
    for aggregate, entry in CATALOGUE.items()
    if entry.is_exact and kind.sheet.served_types(aggregate)
]

integers = st.integers(-(10**6), 10**6) | st.integers(-(2**62), 2**62) | st.sampled_from([2**63 - 1, -(2**63)])
doubles = st.floats(-1e9, 1e9, width=32) | st.sampled_from([0.0, -0.0, 1e-300, 1e300, np.nan, np.inf, -np.inf])
close_doubles = st.integers(0, 5).map(lambda step: 1e15 + step / 8)
large_and_small = st.sampled_from([1e155, -1e155, 3e-170, 1.7e308, -1.7e308, 5e-324, 1.0])
all_keys = st.integers(0, 3) | st.integers(0, 40) | st.sampled_from([300, 1000])
some_windows = st.integers(1, 40).flatmap(lambda left: st.tuples(st.just(left), st.integers(0, left - 1)))

STEPS = ["append", "append", "append many", "look up", "look up", "look up all", "forget", "add", "remove", "snapshot"]


class Run:
    """A structure beside the lists of all elements of each key, and the first position that each still holds.

    Without groups there is key 0, and calls name no key.
    """

    def __init__(self, kind: type[Structure], aggregate: str, type: Type, has_groups: bool, draw: Any) -> None:
        self.aggregate, self.type, self.has_groups, self.draw = aggregate, type, has_groups, draw
        self.windows: list[tuple[int, int]] = draw(st.lists(some_windows, min_size=1, max_size=4), "windows")
        self.structure = kind(aggregate, self.windows, type=type)
        self.streams: dict[int, list[Value]] = {}
        self.first: dict[int, int] = {}
        self.values = doubles | close_doubles | large_and_small if type is Type.DOUBLE else integers
        if draw(st.booleans(), "NULLs"):
            self.values = self.values | st.none()

    def step(self) -> None:
        """One of the calls, at random."""
        match self.draw(st.sampled_from(STEPS), "step"):
            case "append":
                pairs = self.draw(st.lists(st.tuples(self.a_key(), self.values), max_size=12))
                self.append([key for key, _ in pairs], [value for _, value in pairs])
            case "append many":
                random = np.random.default_rng(self.draw(st.integers(0, 2**32)))
                few = self.draw(st.lists(self.values, min_size=1, max_size=8))
                codes = random.integers(0, 8, int(random.integers(1, 200)))
                codes[random.random(len(codes)) < 0.5] = random.integers(0, 8)
                self.append(codes.tolist(), [few[place] for place in random.integers(0, len(few), len(codes))])
            case "look up":
                asked = self.draw(st.lists(st.tuples(self.a_key(), self.a_window()), min_size=1, max_size=8))
                self.look_up([key for key, _ in asked], [window for _, window in asked])
            case "look up all":
                self.look_up_all(self.draw(self.a_window()))
            case "forget":
                gone = self.draw(st.lists(self.a_key(), max_size=4))
                self.structure.forget(gone)
                for key in gone:
                    self.streams.pop(key, None)
                    self.first.pop(key, None)
            case "add":
                window = self.draw(some_windows)
                self.structure.add_window(*window)
                self.windows.append(window)
            case "remove" if len(self.windows) > 1:
                window = self.draw(st.sampled_from(self.windows))
                self.structure.remove_window(*window)
                self.windows.remove(window)
                self.let_go(list(self.streams))
            case "snapshot":
                self.structure = restore(self.structure.snapshot())
        self.check()

    def check(self) -> None:
        self.structure.check_invariants()
        live = sorted(key for key, stream in self.streams.items() if stream)
        assert self.structure.live_keys.tolist() == live
        assert self.structure.lengths([*live, 5000]).tolist() == [*(len(self.streams[key]) for key in live), 0]
        assert self.structure.length == len(self.streams.get(0, []))
        assert self.structure.windows == sorted(self.windows)

    def a_key(self) -> st.SearchStrategy[int]:
        return all_keys if self.has_groups else st.just(0)

    def a_window(self) -> st.SearchStrategy[tuple[int, int]]:
        """Its own windows as often as any others."""
        return st.sampled_from(self.windows) | some_windows

    def append(self, codes: list[int], values: list[Value]) -> None:
        array = pa.array(values, pa.float64() if self.type is Type.DOUBLE else pa.int64())
        if self.has_groups:
            self.structure.update(array, keys=codes)
        else:
            codes = [0] * len(values)
            self.structure.update(array)
        for key, value in zip(codes, values, strict=True):
            self.streams.setdefault(key, []).append(value)
            self.first.setdefault(key, 0)
        self.let_go(codes)

    def let_go(self, codes: list[int]) -> None:
        largest = max(left for left, _ in self.windows)
        for key in codes:
            self.first[key] = max(self.first[key], len(self.streams[key]) - largest)

    def covered(self, key: int, window: tuple[int, int]) -> tuple[int, int]:
        length = len(self.streams.get(key, []))
        return max(length - window[0], 0), length - window[1]

    def is_held(self, key: int, window: tuple[int, int]) -> bool:
        low, high = self.covered(key, window)
        return low >= self.first.get(key, 0) or high <= low

    def is_served(self, key: int, window: tuple[int, int]) -> bool:
        low, high = self.covered(key, window)
        if self.structure.sheet.lookups is Lookups.ANY or self.aggregate in ("COUNT", "COUNT_ALL") or high <= low:
            return True
        if self.structure.sheet.lookups is Lookups.REGISTERED:
            return any(self.covered(key, own) == (low, high) for own in self.windows)
        length, width = len(self.streams[key]), high - low
        for one in partitions_of(self.windows):
            spacing = 1 << one.level
            is_everywhere = one.suffixes >= self.structure.largest and one.prefixes > self.structure.largest
            # A range from the beginning lies in the first block while that is not complete.
            fits = spacing <= width < 2 * spacing or (low == 0 and width <= spacing)
            reaches = length - low <= one.suffixes and length - high < one.prefixes - spacing
            if fits and (is_everywhere or reaches):
                return True
        return False

    def look_up(self, codes: list[int], asked: list[tuple[int, int]]) -> None:
        served: list[tuple[int, tuple[int, int]]] = []
        for key, window in zip(codes, asked, strict=True):
            is_held = self.structure.is_held(*window, keys=self.named([key]))
            assert is_held.tolist() == [self.is_held(key, window)]
            if not is_held[0]:
                with pytest.raises(HistoryError, match="held from position"):
                    self.find([key], [window], None)
            elif not self.is_served(key, window):
                with pytest.raises(WindowError, match="add the window"):
                    self.find([key], [window], None)
            else:
                served.append((key, window))
        if served:
            self.compare([key for key, _ in served], [window for _, window in served], self.find)

    def look_up_all(self, window: tuple[int, int]) -> None:
        live = sorted(key for key, stream in self.streams.items() if stream)
        if live and all(self.is_held(key, window) and self.is_served(key, window) for key in live):

            def find_all(codes: list[int], asked: list[tuple[int, int]], phis: Any) -> list[Value]:
                found, answers = self.structure.lookup_all(*window, phis)
                assert found.tolist() == codes
                return answers.tolist()

            self.compare(live, [window] * len(live), find_all)

    def named(self, codes: list[int]) -> list[int] | None:
        return codes if self.has_groups else None

    def find(self, codes: list[int], asked: list[tuple[int, int]], phis: Any) -> list[Value]:
        lefts, rights = np.array(asked).T
        if self.aggregate == "QUANTILE" and phis is None:
            phis = 0.5
        return self.structure.lookup(lefts, rights, phis, keys=self.named(codes)).tolist()

    def compare(self, codes: list[int], asked: list[tuple[int, int]], find: Callable[..., list[Value]]) -> None:
        phis: list[float] | None = None
        if self.aggregate == "QUANTILE":
            percents = self.draw(st.lists(st.integers(1, 100), min_size=len(codes), max_size=len(codes)))
            phis = [percent / 100 for percent in percents]
        rows = []
        for key, window in zip(codes, asked, strict=True):
            low, high = self.covered(key, window)
            rows.append(self.streams.get(key, [])[low : max(high, low)])
        values = [[value for value in row if value is not None] for row in rows]
        wanted = [
            answer(self.aggregate, found, None if phis is None else phis[place], len(rows[place]))
            for place, found in enumerate(values)
        ]
        if self.aggregate == "SUM" and any(isinstance(w, int) and not -(2**63) <= w < 2**63 for w in wanted):
            with pytest.raises(AnswerOverflowError):
                find(codes, asked, phis)
            return
        got = find(codes, asked, phis)
        for place, window in enumerate(asked):
            assert agrees(self.aggregate, got[place], wanted[place], values[place]), (window, got[place], rows[place])


@pytest.mark.parametrize("has_groups", [False, True], ids=["one stream", "by key"])
@pytest.mark.parametrize(("kind", "aggregate"), SERVED)
@settings(max_examples=examples(25))
@given(data=st.data())
def test_agrees_with_the_oracle(kind: type[Structure], aggregate: str, has_groups: bool, data: st.DataObject) -> None:
    type = data.draw(st.sampled_from(kind.sheet.served_types(aggregate)))
    run = Run(kind, aggregate, type, has_groups, data.draw)
    for _ in range(data.draw(st.integers(1, 12), label="steps")):
        run.step()
    for key in sorted(run.streams):
        run.look_up([key] * len(run.windows), list(run.windows))


@pytest.mark.parametrize("has_groups", [False, True], ids=["one stream", "by key"])
@pytest.mark.parametrize("kind", EVERY_STRUCTURE, ids=lambda kind: kind.sheet.name)
def test_the_window_of_every_update_size(kind: type[Structure], has_groups: bool) -> None:
    """Batches shorter than, as long as, and longer than the largest window."""
    aggregate = "SUM" if kind.sheet.why_not("SUM") is None else "MEDIAN"
    key = [7] if has_groups else None
    for size in (1, 7, 8, 9, 100):
        structure = build(kind.sheet.name, aggregate, [(8, 0), (5, 2)])
        elements: list[Value] = []
        for batch in range(5):
            values = [(31 * (batch * size + i)) % 17 for i in range(size)]
            structure.update(values, keys=None if key is None else key * size)
            elements += values
            got = structure.lookup([8, 5], [0, 2], keys=key).tolist()
            m = len(elements)
            assert got == [answer(aggregate, elements[max(m - a, 0) : max(m - b, 0)]) for a, b in [(8, 0), (5, 2)]]
