"""What operations cost on this machine: the numbers that `panewise calibrate` measured, or else the shipped ones.

For each kind of component there are two numbers, in nanoseconds: adding one event to a partial (for ROWS, which every
partial has, this includes finding the partial), and what one fragment costs one window that is folded with two stacks
or by prefix sums, so that the fold factor of a query is 1. VALUES is folded by sorting each instance, so its number is
for one fragment and one instance: there the factor is range over slide. Four more numbers are for the engine's trees,
of any components: feeding a partial to a tree, a tree at each step of the stream, a closing of it, and each window that
closes.

The file is PANEWISE_WEIGHTS if that is set, otherwise `panewise/weights.json` in XDG_CONFIG_HOME or `~/.config`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from math import isfinite
from pathlib import Path
from typing import Any

from panewise.aggregates.components import Kind
from panewise.errors import ArgumentError, CalibrationError
from panewise.planning.sharing.cost import Weights

VARIABLE = "PANEWISE_WEIGHTS"


@dataclass(frozen=True)
class KindCost:
    """Nanoseconds for one component: to add an event, and to combine a fragment."""

    event_ns: float
    combine_ns: float


@dataclass(frozen=True)
class TreeCost:
    """Nanoseconds of a tree beside its combines: see `Weights`."""

    feed_ns: float
    tree_ns: float
    closing_ns: float
    window_ns: float


@dataclass(frozen=True)
class Calibration:
    """The costs of every kind and of trees, and where they come from."""

    costs: Mapping[Kind, KindCost]
    trees: TreeCost
    source: str

    def weights_for(self, kinds: Iterable[Kind]) -> Weights:
        """The weights of a partial with components of these kinds, in nanoseconds."""
        found = [self.costs[kind] for kind in kinds]
        if not found:
            raise ArgumentError("weights are for at least one kind of component")
        combine_ns, trees = sum(cost.combine_ns for cost in found), self.trees
        return Weights(
            sum(cost.event_ns for cost in found),
            combine_ns,
            source=self.source,
            feed=trees.feed_ns / combine_ns,
            tree=trees.tree_ns / combine_ns,
            closing=trees.closing_ns / combine_ns,
            window=trees.window_ns / combine_ns,
        )


SHIPPED = Calibration(
    {
        Kind.ROWS: KindCost(1.3, 2.1),
        Kind.COUNT: KindCost(0.6, 2.1),
        Kind.SUM_INT: KindCost(1.1, 4.3),
        Kind.SUM_FLOAT: KindCost(2.1, 15.6),
        Kind.SQUARES_INT: KindCost(2.0, 4.3),
        Kind.SQUARES: KindCost(7.0, 19.0),
        Kind.MIN: KindCost(0.9, 6.5),
        Kind.MAX: KindCost(0.9, 6.6),
        Kind.MOMENTS: KindCost(32.0, 43.0),
        Kind.COMOMENTS: KindCost(24.0, 39.0),
        Kind.DECAYED: KindCost(49.0, 39.0),
        Kind.AT_LEAST: KindCost(57.0, 6.9),
        Kind.AT_GREATEST: KindCost(57.0, 6.9),
        Kind.VALUES: KindCost(40.0, 367.0),
        Kind.QUANTILES: KindCost(180.0, 27_000.0),
        Kind.DISTINCT: KindCost(490.0, 90_000.0),
        Kind.FREQUENT: KindCost(900.0, 150_000.0),
        Kind.LEAST_VALUES: KindCost(100.0, 900.0),
        Kind.GREATEST_VALUES: KindCost(100.0, 900.0),
    },
    TreeCost(170.0, 37_000.0, 380_000.0, 50_000.0),
    "shipped with Panewise; run `panewise calibrate` to measure this machine",
)
"""Measured once with `panewise calibrate --json` on two virtual cores of a server (AMD EPYC); what is joined was
measured later, on a busy one, and so were trees."""


def weights_path(environment: Mapping[str, str] | None = None) -> Path:
    """The file with the weights of this machine."""
    there = os.environ if environment is None else environment
    if there.get(VARIABLE):
        return Path(there[VARIABLE])
    folder = there.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "panewise" / "weights.json"


def calibration(environment: Mapping[str, str] | None = None) -> Calibration:
    """The numbers of this machine if it was calibrated, otherwise the shipped ones."""
    there = os.environ if environment is None else environment
    path = weights_path(there)
    if not path.exists():
        if there.get(VARIABLE):
            raise CalibrationError(
                f"{VARIABLE} names {path}, which does not exist; unset it, or run `panewise calibrate`"
            )
        return SHIPPED
    return read_calibration(path)


def weights_for(kinds: Iterable[Kind]) -> Weights:
    """The weights of a partial with components of these kinds; `source` tells whether they were measured here."""
    return calibration().weights_for(kinds)


def read_calibration(path: Path) -> Calibration:
    """Read a file that `panewise calibrate` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(path, f"it cannot be read: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("kinds"), dict):
        raise _damaged(path, "it has no table `kinds`")
    # Sketches are measured only if their package is installed, and older files lack what is joined, and trees.
    known = [kind for kind in Kind if kind.value in data["kinds"] or not (kind.is_sketch or kind.is_joined)]
    costs = dict(SHIPPED.costs) | {kind: _cost(path, data["kinds"], kind) for kind in known}
    trees = _trees(path, data["trees"]) if "trees" in data else SHIPPED.trees
    return Calibration(costs, trees, f"measured, from {path}")


def _cost(path: Path, kinds: dict[str, Any], kind: Kind) -> KindCost:
    entry = kinds.get(kind.value)
    if not isinstance(entry, dict):
        raise _damaged(path, f"it has no numbers for {kind.value}")
    return KindCost(*(_positive(path, entry, name, kind.value) for name in ("event_ns", "combine_ns")))


def _trees(path: Path, entry: object) -> TreeCost:
    if not isinstance(entry, dict):
        raise _damaged(path, "it has no numbers for trees")
    return TreeCost(*(_positive(path, entry, one.name, "trees") for one in fields(TreeCost)))


def _positive(path: Path, entry: dict[str, Any], name: str, what: str) -> float:
    number = entry.get(name)
    if isinstance(number, bool) or not isinstance(number, int | float) or not (isfinite(number) and number > 0):
        raise _damaged(path, f"{name} of {what} must be a positive number, got {number!r}")
    return float(number)


def _damaged(path: Path, why: str) -> CalibrationError:
    return CalibrationError(f"{path} is not a file of weights: {why}.\n  Run `panewise calibrate` to write it again.")
