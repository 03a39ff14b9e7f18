"""Periodic edge sets: instants that repeat for ever, held as residues modulo a period.

A window with range r, slide s and offset o opens at o + k * s and closes at o + k * s + r: its edges have at most two
residues modulo s. The edges of several windows are a union of such sets, and repeat after the least common multiple of
the slides, which may be astronomically long. Nothing here expands to it unless it is short:

- an edge of residue a modulo L meets one of residue b modulo M iff a = b modulo gcd(L, M), once in lcm(L, M);
- sets with coprime periods are independent, so the share of time that they leave free is a product;
- otherwise a prime that divides several periods splits time into that many cases, each with shorter periods.

When even that is too much work, the union gets a lower and an upper bound, which are always right.
Source: Krishnamurthy, Wu and Franklin, SIGMOD 2006 (paired windows); Guirguis et al., sections 3, 4 and 8.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import gcd, lcm, prod

import numpy as np
import numpy.typing as npt

from panewise.errors import TooManyEdgesError

MOST_BITS = 1 << 22
"""No bitmap of instants is longer than this, unless the caller allows it."""
MOST_WORK = 200_000
"""How many residues an exact count may handle before it gives way to bounds."""
_MOST_BITS_OF_A_CORE = 1 << 20
_MOST_PAIRED = 300
_FINE = 1 << 96
"""Bounds are multiples of 1 / _FINE, rounded outwards: sums of many fractions would have endless denominators."""


@dataclass(frozen=True, slots=True)
class PeriodicSet:
    """The instants x with x modulo `period` among `residues`, which are sorted and lie in [0, period)."""

    period: int
    residues: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.period < 1:
            raise ValueError(f"a period must be positive, got {self.period}")
        if any(not 0 <= residue < self.period for residue in self.residues):
            raise ValueError(f"residues must lie in [0, {self.period}), got {self.residues}")
        if any(left >= right for left, right in zip(self.residues, self.residues[1:])):
            raise ValueError(f"residues must be sorted and different, got {self.residues}")

    @classmethod
    def of(cls, period: int, residues: Iterable[int]) -> PeriodicSet:
        """The set of some residues, in its shortest period, so that equal sets compare equal.

        >>> PeriodicSet.of(8, [1, 13])
        PeriodicSet(period=4, residues=(1,))
        """
        if period < 1:
            raise ValueError(f"a period must be positive, got {period}")
        found = {residue % period for residue in residues}
        for prime in prime_factors(gcd(len(found), period)) if found else ():
            while period % prime == 0 and all((residue + period // prime) % period in found for residue in found):
                period //= prime
                found = {residue % period for residue in found}
        return cls(period, tuple(sorted(found)))

    @property
    def rate(self) -> Fraction:
        """Edges per unit of time."""
        return Fraction(len(self.residues), self.period)

    def __contains__(self, instant: int) -> bool:
        return instant % self.period in self.residues

    def up_to(self, end: int) -> list[int]:
        """The edges in (0, end].

        >>> paired(12, 9).up_to(18)
        [3, 9, 12, 18]
        """
        first = [residue or self.period for residue in self.residues]
        return sorted(edge for start in first for edge in range(start, end + 1, self.period))


def paired(length: int, slide: int, offset: int = 0) -> PeriodicSet:
    """The edges of a window with a range, a slide and an offset, in any whole unit of time or of rows.

    >>> paired(10, 6), paired(16, 4), paired(6, 4)
    (PeriodicSet(period=6, residues=(0, 4)), PeriodicSet(period=4, residues=(0,)), PeriodicSet(period=2, residues=(0,)))
    """
    if length < 1 or slide < 1:
        raise ValueError(f"a window needs a positive range and slide, got {length} and {slide}")
    return PeriodicSet.of(slide, (offset, offset + length))


def fragments(length: int, slide: int) -> tuple[int, ...]:
    """The lengths of the fragments that a slide is cut into: two, or one when the slide divides the range.

    >>> fragments(12, 9), fragments(16, 4)
    ((3, 6), (4,))
    """
    first = length % slide
    return (first, slide - first) if first else (slide,)


@dataclass(frozen=True, slots=True)
class RateBounds:
    """Edges per unit of time: exact when both bounds are equal."""

    lower: Fraction
    upper: Fraction

    @property
    def is_exact(self) -> bool:
        """Whether the rate is known exactly."""
        return self.lower == self.upper

    @property
    def exact(self) -> Fraction:
        """The rate, which must be known exactly."""
        if not self.is_exact:
            raise TooManyEdgesError(
                f"the edge rate is only known to lie in [{float(self.lower):.6g}, {float(self.upper):.6g}]; "
                "raise most_bits or most_work to count further"
            )
        return self.lower


def common_rate(first: PeriodicSet, second: PeriodicSet) -> Fraction:
    """How often an edge of one set is also an edge of the other, without writing either out.

    >>> common_rate(paired(12, 9), paired(10, 6))  # 12 and 18 in every 18
    Fraction(1, 9)
    """
    shared = gcd(first.period, second.period)
    counts: dict[int, int] = defaultdict(int)
    for residue in first.residues:
        counts[residue % shared] += 1
    meetings = sum(counts.get(residue % shared, 0) for residue in second.residues)
    return Fraction(meetings, lcm(first.period, second.period))


def union(sets: Iterable[PeriodicSet], *, most_edges: int = MOST_BITS) -> PeriodicSet:
    """The union of some sets, written out over the least common multiple of their periods.

    >>> union([paired(12, 9), paired(10, 6)]).residues
    (0, 3, 4, 6, 9, 10, 12, 16)
    """
    sets = list(sets)
    period = lcm(*(one.period for one in sets))
    edges = sum(period // one.period * len(one.residues) for one in sets)
    if edges > most_edges:
        raise TooManyEdgesError(
            f"{len(sets)} edge sets have up to {edges} edges in a period of {period}, more than the {most_edges} that "
            "may be written out; use union_rate, which counts without writing out"
        )
    found = {edge for one in sets for start in one.residues for edge in range(start, period, one.period)}
    return PeriodicSet.of(period, found)


def union_rate(sets: Iterable[PeriodicSet], *, most_bits: int = MOST_BITS, most_work: int = MOST_WORK) -> RateBounds:
    """The edge rate of a union: exact if the work allows, otherwise bounds.

    Cost: at most `most_work` residues handled, and bitmaps of at most `most_bits` instants.

    >>> union_rate([paired(12, 9), paired(10, 6)]).exact
    Fraction(4, 9)
    >>> union_rate([paired(m, m) for m in (7, 11, 13, 9973, 99991, 999983)]).is_exact
    True
    """
    sets = list(sets)
    exact = exact_union_rate(sets, most_bits=most_bits, most_work=most_work)
    return union_bounds(sets, most_bits=most_bits) if exact is None else RateBounds(exact, exact)


def exact_union_rate(
    sets: Iterable[PeriodicSet], *, most_bits: int = MOST_BITS, most_work: int = MOST_WORK
) -> Fraction | None:
    """The exact edge rate of a union, or None if that takes too much work."""
    table, grid = _on_grid(sets)
    try:
        return (1 - _Count(most_bits, most_work).free(table)) / grid
    except _TooMuchWorkError:
        return None


def union_bounds(sets: Iterable[PeriodicSet], *, most_bits: int = MOST_BITS) -> RateBounds:
    """Bounds on the edge rate of a union that take little work."""
    table, grid = _on_grid(sets)
    bounds = _bounds(table, min(most_bits, _MOST_BITS_OF_A_CORE))
    return RateBounds(bounds.lower / grid, bounds.upper / grid)


def weaveability(
    first: Sequence[PeriodicSet], second: Sequence[PeriodicSet], *, most_bits: int = MOST_BITS
) -> Fraction:
    """Common edges over all edges of two trees: 1 when sharing adds no edge to either, 0 when they never meet.

    >>> weaveability([paired(12, 9)], [paired(10, 6)])
    Fraction(1, 4)
    """
    both = union_rate([*first, *second], most_bits=most_bits).exact
    apart = sum((union_rate(one, most_bits=most_bits).exact for one in (first, second)), Fraction(0))
    return (apart - both) / both


Table = dict[int, set[int]]
"""Residues by modulus."""


class _TooMuchWorkError(Exception):
    """An exact count has handled all the residues that it may."""


class _Count:
    """Counts the share of time that a table of residues leaves free."""

    def __init__(self, most_bits: int, most_work: int) -> None:
        self.most_bits = most_bits
        self.work_left = most_work

    def free(self, table: Table) -> Fraction:
        """The share of instants that have none of the residues."""
        self._spend(len(table) ** 2 >> 5)
        table = without_covered(table)
        if any(len(residues) == modulus for modulus, residues in table.items()):
            return Fraction(0)
        return prod((self._free_of_linked(part) for part in _independent_parts(table)), start=Fraction(1))

    def _free_of_linked(self, table: Table) -> Fraction:
        """The same for moduli that are linked by common factors."""
        self._spend(sum(map(len, table.values())))
        if len(table) == 1:
            ((modulus, residues),) = table.items()
            return Fraction(modulus - len(residues), modulus)
        period = lcm(*table)
        if period <= self.most_bits:
            self._spend(period >> 8)
            return 1 - Fraction(int(np.count_nonzero(_bitmap(table, period))), period)
        return self._free_by_cases(table, _most_common_prime(table))

    def _free_by_cases(self, table: Table, prime: int) -> Fraction:
        """Split instants by their remainder modulo a prime; remainders that no residue has are all the same case."""
        cases: dict[int, Table] = defaultdict(lambda: defaultdict(set))
        others = {modulus: residues for modulus, residues in table.items() if modulus % prime}
        for modulus, residues in table.items():
            if modulus % prime == 0:
                for residue in residues:
                    case = residue % prime
                    cases[case][modulus // prime].add((residue - case) // prime)
        total = Fraction(0)
        for case, part in cases.items():
            for modulus, residues in others.items():
                inverse = pow(prime, -1, modulus)
                part[modulus] |= {(residue - case) * inverse % modulus for residue in residues}
                self._spend(len(residues))
            total += self.free(dict(part))
        if len(cases) < prime:
            total += (prime - len(cases)) * self.free(others)
        return total / prime

    def _spend(self, work: int) -> None:
        self.work_left -= work
        if self.work_left < 0:
            raise _TooMuchWorkError


def _on_grid(sets: Iterable[PeriodicSet]) -> tuple[Table, int]:
    """Residues by modulus, counted from the first edge in units of the grid that all edges lie on; and that grid."""
    different = {one for one in sets if one.residues}
    if not different:
        return {}, 1
    origin = min(one.residues[0] for one in different)
    grid = gcd(*(one.period for one in different), *(r - origin for one in different for r in one.residues))
    table: Table = defaultdict(set)
    for one in different:
        table[one.period // grid].update((r - origin) // grid % (one.period // grid) for r in one.residues)
    return dict(table), grid


def without_covered(table: Mapping[int, set[int]]) -> Table:
    """Leave out the residues that a shorter modulus already covers.

    >>> without_covered({6: {0, 4}, 3: {0}})
    {3: {0}, 6: {4}}
    """
    kept: Table = {}
    moduli = np.array(sorted(table), np.int64)
    for place, modulus in enumerate(moduli.tolist()):
        left = table[modulus]
        for shorter in moduli[:place][modulus % moduli[:place] == 0].tolist():
            if shorter in kept:
                left = {residue for residue in left if residue % shorter not in kept[shorter]}
        if left:
            kept[modulus] = left
    return kept


def _independent_parts(table: Table) -> list[Table]:
    """Split the moduli into parts that have no factor in common."""
    parts: list[tuple[int, Table]] = []
    for modulus, residues in table.items():
        linked = [part for part in parts if gcd(part[0], modulus) > 1]
        parts = [part for part in parts if gcd(part[0], modulus) == 1]
        joined: Table = {modulus: residues}
        for _, part in linked:
            joined |= part
        parts.append((lcm(modulus, *(product for product, _ in linked)), joined))
    return [part for _, part in parts]


def _most_common_prime(table: Table) -> int:
    """The prime that divides the most moduli, by the number of their residues."""
    weights: dict[int, tuple[int, int]] = {}
    for modulus, residues in table.items():
        for prime in prime_factors(modulus):
            moduli, count = weights.get(prime, (0, 0))
            weights[prime] = (moduli + 1, count + len(residues))
    shared = {prime: count for prime, (moduli, count) in weights.items() if moduli > 1}
    return max(shared, key=lambda prime: (shared[prime], -prime))


@lru_cache(maxsize=1 << 16)
def prime_factors(number: int) -> tuple[int, ...]:
    """The different primes that divide a number.

    >>> prime_factors(360)
    (2, 3, 5)
    """
    found = []
    candidate = 2
    while candidate * candidate <= number:
        if number % candidate == 0:
            found.append(candidate)
            while number % candidate == 0:
                number //= candidate
        candidate += 1 if candidate == 2 else 2
    return (*found, number) if number > 1 else tuple(found)


def _bitmap(table: Mapping[int, Iterable[int]], period: int) -> npt.NDArray[np.bool_]:
    bitmap = np.zeros(period, np.bool_)
    for modulus, residues in table.items():
        for residue in residues:
            bitmap[residue::modulus] = True
    return bitmap


def _bounds(table: Table, most_bits: int) -> RateBounds:
    """Bounds on the share of time covered: a core of moduli is counted exactly, and each other modulus against it.

    The union is at most the core plus what each other modulus would add to it alone. It is at least the core plus what
    some others add, minus what each two of those share.
    """
    table = without_covered(table)
    core: Table = {}
    period = 1
    order = sorted(table, key=lambda one: (-len(table[one]) / one, one))
    for modulus in order:
        if lcm(period, modulus) <= most_bits:
            period = lcm(period, modulus)
            core[modulus] = table[modulus]
    bitmap = _bitmap(core, period)
    covered = Fraction(int(np.count_nonzero(bitmap)), period)
    folds: dict[int, npt.NDArray[np.int64]] = {}
    chosen: list[int] = []
    least, most = 0, 0
    for place, modulus in enumerate(one for one in order if one not in core):
        residues = table[modulus]
        shared = gcd(modulus, period)
        if shared not in folds:
            folds[shared] = bitmap.reshape(-1, shared).sum(axis=0, dtype=np.int64)
        met = sum(int(folds[shared][residue % shared]) for residue in residues)
        # Each residue has a share of 1 / modulus, of which met * shared / (period * modulus) lies in the core.
        added, whole = len(residues) * period - met * shared, period * modulus
        most += -(-added * _FINE // whole)
        if place < _MOST_PAIRED:
            gain = added * _FINE // whole - sum(_common_fine(table, modulus, other) for other in chosen)
            if gain > 0:
                least += gain
                chosen.append(modulus)
    return RateBounds(covered + Fraction(least, _FINE), min(Fraction(1), covered + Fraction(most, _FINE)))


def _common_fine(table: Table, left: int, right: int) -> int:
    """The share of time that both of two moduli cover, in units of 1 / _FINE, rounded up."""
    shared = gcd(left, right)
    counts: dict[int, int] = defaultdict(int)
    for residue in table[left]:
        counts[residue % shared] += 1
    meetings = sum(counts.get(residue % shared, 0) for residue in table[right])
    return -(-meetings * _FINE // lcm(left, right))
