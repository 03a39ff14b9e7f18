"""The elements that a TimeGram holds: the value bucket of each, and how many of each bucket lie before each block.

Buckets of equal width follow the data. A value outside of them stretches the outermost bucket at once, in O(1). The
buckets are checked again when new elements make up a quarter of those held: if one was stretched, or if the data cover
less than half of them, they are laid out again. That is a pass over what is held for each quarter of it, so O(1) an
element. The values are held only for this; with bounds of the user's own, they are not held.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from panewise.aggregates.types import Type
from panewise.arrays import Ints
from panewise.errors import StructureError
from panewise.kernels.timegram import (
    SUM,
    fold_buckets,
    fold_refined,
    pair_differences,
    put,
    put_refined,
    recount_blocks,
)
from panewise.structures.timegram_buckets import SPARE

Elements = npt.NDArray[Any]

EXACT_LIMIT = 2**62
"""Sums of integers are integers while the largest possible one stays below this; beyond it, intervals of doubles."""

_ULP = 2.0**-52


class BucketedElements:
    """Elements in `buckets` buckets, whose bounds the user gives or the data decide."""

    def __init__(self, buckets: int, bounds: Sequence[float] | None, *, is_refined: bool, is_timed: bool) -> None:
        self.buckets = buckets
        self.bounds = bounds
        self.is_refined = is_refined
        self.is_timed = is_timed
        self.length = 0
        self.held_from = 0
        self.type: Type | None = None
        self.block = max(16, 1 << (buckets - 1).bit_length())
        self.base = self.end = 0
        """Positions base .. base + end - 1 lie in the arrays, from 0 on."""
        self.since_look = 0
        self.is_stretched = self.has_buckets = False
        self.low_end: Any = 0
        self.high_end: Any = 0

    def open(self, type: Type) -> None:
        """Take values of this type from now on."""
        if type not in (Type.BIGINT, Type.DOUBLE):
            raise StructureError(f"a TimeGram takes BIGINT and DOUBLE values, not {type}")
        if type is Type.BIGINT and any(bound != int(bound) for bound in self.bounds or ()):
            raise StructureError(
                "the bounds of buckets for BIGINT values must be whole; or build with type=Type.DOUBLE"
            )
        self.type = type
        self.number: np.dtype[Any] = np.dtype(np.float64 if type is Type.DOUBLE else np.int64)
        self.edges = np.zeros(self.buckets, self.number)
        self.lows, self.highs = self.edges.copy(), self.edges.copy()
        self.scale = 0.0
        self.codes, self.totals = np.zeros(0, np.uint16), np.zeros(0, np.int32)
        self._lay_out(0)
        if self.bounds is not None:
            exact = [int(bound) for bound in self.bounds] if type is Type.BIGINT else self.bounds
            self.edges = np.array(exact[:-1], self.number)
            self.lows, self.highs = self.edges.copy(), np.array(exact[1:], self.number)
            self.has_buckets = True

    @property
    def times_held(self) -> Ints:
        """The times of the elements held."""
        return self.times[self.held_from - self.base : self.end]

    @property
    def codes_held(self) -> Elements:
        """The buckets of the elements held."""
        return self.codes[self.held_from - self.base : self.end]

    def arrays(self) -> dict[str, Elements]:
        """All arrays by name."""
        names = (
            "codes counts totals values times offsets least greatest sums running magnitudes running_magnitudes "
            "edges lows highs"
        )
        return {name: getattr(self, name) for name in names.split()}

    def take(self, values: Elements, times: Ints) -> None:
        """Append one piece; the buckets follow the data unless the user gave bounds."""
        if self.bounds is None and len(values):
            self._follow(values)
        self._make_room(len(values))
        self._append(values, times)
        self.length += len(values)
        self.since_look += len(values)

    def _append(self, values: Elements, times: Ints) -> None:
        """Put elements behind those already there; there must be room for them."""
        end = self.end + len(values)
        if len(self.values):
            self.values[self.end : end] = values
        if self.is_timed:
            self.times[self.end : end] = times
        stretched = put(
            values, self.end, self.codes, self.counts, self.totals, self.edges, self.scale, self.lows,
            self.highs, self.block,
        )  # fmt: skip
        self.is_stretched = self.is_stretched or bool(stretched)
        if self.is_refined:
            put_refined(
                values, values.astype(self.sums.dtype), self.end, self.sums, self.magnitudes, self.running,
                self.running_magnitudes, self.least, self.greatest, self.offsets, self.block,
            )  # fmt: skip
        self.end = end

    def fold(self, kinds: Ints, low: Ints, high: Ints, widths: Ints) -> tuple[Elements, Elements]:
        """The intervals of slots, widened on both sides by what rounding may have cost sums."""
        ends, sums = (self.lows, self.highs), kinds == SUM
        has_sums = bool(sums.any())
        fits = self.type is Type.DOUBLE or not has_sums or self._fits(int(widths.max()))
        if not fits:
            ends = np.nextafter(ends[0].astype(np.float64), -np.inf), np.nextafter(ends[1].astype(np.float64), np.inf)
        if not self.is_refined or not fits:
            lows, highs, magnitudes = fold_buckets(
                kinds, low, high, self.codes, self.counts, self.totals, self.block, self.end, *ends
            )
            rounding = (self.buckets + 4) * _ULP * magnitudes
        else:
            lows, highs, magnitudes, first, last = fold_refined(
                kinds, low, high, self.codes, self.block, self.end, *ends, self.least, self.greatest, self.offsets
            )
            rounding = (2 * self.block + 4) * _ULP * magnitudes
            if has_sums and self.type is Type.BIGINT:
                whole = self.running[last] - self.running[first]
                lows, highs = lows + whole, highs + whole
            elif has_sums:
                exact = pair_differences(self.running, first, last)
                lows, highs = lows + exact, highs + exact
                rounding += 2 * _ULP * (np.abs(exact) + magnitudes)
                rounding += len(self.codes) * 2.0**-96 * self.running_magnitudes[last]
        if has_sums and lows.dtype == np.float64:
            with np.errstate(invalid="ignore"):
                lows, highs = lows - rounding, highs + rounding
            if not np.isfinite(rounding.max()):
                # A sum too large for a double is somewhere between the infinities.
                lows, highs = np.where(np.isnan(lows), -np.inf, lows), np.where(np.isnan(highs), np.inf, highs)
        return lows, highs

    def check_invariants(self) -> None:
        """Assert what must hold between two calls."""
        assert 0 <= self.base <= self.held_from <= self.length == self.base + self.end
        if self.type is None or not self.end:
            return
        codes = self.codes[: self.end].astype(np.int64)
        assert np.array_equal(np.bincount(codes, minlength=self.buckets), self.totals)
        for row in range(self.end // self.block + 1):
            before = np.bincount(codes[: row * self.block], minlength=self.buckets)
            assert np.array_equal(before, self.counts[row])
        assert np.all(self.edges[:-1] <= self.edges[1:])
        assert not self.counts[0].any()
        if self.is_timed:
            assert np.all(np.diff(self.times[: self.end]) >= 0)
        if len(self.values):
            held = self.values[: self.end]
            assert np.all(self.lows[codes] <= held)
            assert np.all(held <= self.highs[codes])
            if self.is_refined:
                for block in range(-(-self.end // self.block)):
                    inside = held[block * self.block : (block + 1) * self.block]
                    assert self.least[block] == inside.min()
                    assert self.greatest[block] == inside.max()

    def _lay_out(self, elements: int) -> None:
        """Empty storage with room for twice as many elements; uses the existing arrays again if they fit."""
        self.end = 0
        if elements and 2 * elements <= len(self.codes) <= 8 * elements:
            # Rows and blocks are written before they are read, and those at 0 stay zero.
            self.totals.fill(0)
            return
        blocks = max(4, -(-2 * elements // self.block))
        capacity = blocks * self.block
        if capacity >= 2**31:
            raise StructureError(f"a TimeGram holds fewer than {2**30} elements, and the windows need {elements}")
        sizes = [max(1, blocks >> level) for level in range(blocks.bit_length())] if self.is_refined else [0]
        levels, of_blocks = sum(sizes), blocks if self.is_refined else 0
        sum_type: np.dtype[Any] = np.dtype(np.complex128 if self.type is Type.DOUBLE else np.int64)
        self.codes = np.zeros(capacity, np.uint16)
        self.counts = np.zeros((blocks + 1, self.buckets), np.int32)
        self.totals = np.zeros(self.buckets, np.int32)
        self.values = np.zeros(capacity if self.bounds is None else 0, self.number)
        self.times = np.zeros(capacity if self.is_timed else 0, np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.least, self.greatest = np.zeros(levels, self.number), np.zeros(levels, self.number)
        self.sums, self.running = np.zeros(of_blocks, sum_type), np.zeros(of_blocks + 1, sum_type)
        self.magnitudes, self.running_magnitudes = np.zeros(of_blocks), np.zeros(of_blocks + 1)

    def _follow(self, coming: Elements) -> None:
        """Lay the buckets out again if the values held and coming need others, once enough elements have come."""
        if self.has_buckets and self.since_look < max(1, (self.length - self.held_from) // 4):
            return
        self.since_look = 0
        held = self.values[self.held_from - self.base : self.end]
        low, high = coming.min().item(), coming.max().item()
        if len(held):
            low, high = min(low, held.min().item()), max(high, held.max().item())
        if self.has_buckets:
            covered, span = self.high_end - self.low_end, high - low
            is_outside = low < self.low_end or high > self.high_end
            if not (is_outside or self.is_stretched or 2 * span < covered):
                return
            spare = span / SPARE if self.type is Type.DOUBLE else span // SPARE
            if isfinite(spare):
                limits = (-np.inf, np.inf) if self.type is Type.DOUBLE else (-(2**63), 2**63 - 1)
                reached = low - spare if low < self.low_end else low, high + spare if high > self.high_end else high
                low = reached[0] if limits[0] < reached[0] else low
                high = reached[1] if reached[1] < limits[1] else high
        self.set_buckets(low, high)
        kept, times = held.copy(), self.times[self.held_from - self.base : self.end].copy()
        self._lay_out(len(kept) + len(coming))
        self.base = self.held_from
        self._append(kept, times)
        self.is_stretched = False

    def set_buckets(self, low: Any, high: Any) -> None:
        """Buckets of equal width from low to high."""
        count = self.buckets
        if self.type is Type.BIGINT:
            edges = [low + (high - low + 1) * i // count for i in range(count)]
            self.edges = np.array(edges, np.int64)
            # With more buckets than numbers, some buckets are empty; no value falls into those.
            self.highs = np.array([max(edge - 1, low) for edge in edges[1:]] + [high], np.int64)
        else:
            # Divide each end first, so that no span is too large for a double.
            steps = np.arange(count) / count
            self.edges = np.clip(low * (1.0 - steps) + high * steps, low, high)
            self.edges = np.maximum.accumulate(self.edges)
            self.highs = np.append(self.edges[1:], high)
        self.lows = self.edges.copy()
        span = float(high) - float(low)
        scale = count / span if span > 0.0 else 0.0
        self.scale = scale if isfinite(scale) and isfinite(span) else 0.0
        self.low_end, self.high_end = low, high
        self.has_buckets = True

    def _make_room(self, coming: int) -> None:
        """Drop the blocks that have left when the storage is full."""
        if self.end + coming <= len(self.codes):
            return
        old, end, block = self.arrays(), self.end, self.block
        gone = (self.held_from - self.base) // block
        kept = end - gone * block
        row, totals = old["counts"][gone].copy(), old["totals"].copy()
        self._lay_out(kept + coming)
        rows = kept // block + 1
        for name in ("codes", "values", "times"):
            array = getattr(self, name)
            array[: min(kept, len(array))] = old[name][gone * block : end]
        self.counts[:rows] = old["counts"][gone : gone + rows] - row
        self.totals[:] = totals - row
        if self.is_refined:
            blocks = -(-kept // block)
            for name in ("sums", "magnitudes", "least", "greatest"):
                getattr(self, name)[:blocks] = old[name][gone : gone + blocks]
            recount_blocks(
                self.sums, self.magnitudes, self.running, self.running_magnitudes, self.least, self.greatest,
                self.offsets, kept // block, blocks,
            )  # fmt: skip
        self.base += gone * block
        self.end = kept

    def _fits(self, width: int) -> bool:
        return max(abs(int(self.lows[0])), abs(int(self.highs[-1])), 1) * max(width, 1) < EXACT_LIMIT
