"""What a job saw of a stream: how many events, at what rate, in how many groups.

The first bucket counts. It sees the events of every batch, and its share of the groups: keys are spread evenly, so all
buckets together have about as many times more. What it saw is written into the statement log, and every worker plans
by what stands there. So a replay decides alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from panewise.engine.slot_store import SlotStore
from panewise.planning.cost import Prices
from panewise.planning.trees import Base, Tree
from panewise.spark.flow import Flow


@dataclass(frozen=True)
class Observed:
    """What was seen of a stream. `sets` has sorted attributes, and how many groups they make."""

    events: int
    rate: float | None = None
    values: Mapping[str, int] | None = None
    sets: tuple[tuple[tuple[str, ...], int], ...] = ()
    combinations: int = 1

    @staticmethod
    def of_json(found: Mapping[str, Any]) -> Observed:
        """From the statement log."""
        sets = tuple((tuple(names), count) for names, count in found["sets"])
        return Observed(**{**found, "sets": sets})

    def after(self, before: Observed | None) -> Observed:
        """The same with what was seen before of groups of which nothing was seen now."""
        if before is None:
            return self
        sets = {**dict(before.sets), **dict(self.sets)}
        return replace(
            self,
            rate=self.rate or before.rate,
            values={**(before.values or {}), **(self.values or {})},
            sets=tuple(sorted(sets.items())),
            combinations=max(before.combinations, self.combinations),
        )

    def in_place_of(self, prices: Prices) -> Prices:
        """What planning is told, with what was seen in place of what was said or assumed."""
        return replace(
            prices,
            rate=self.rate or prices.rate,
            groups={**prices.groups, **(self.values or {})},
            seen={**prices.seen, **dict(self.sets)},
            combinations=max(prices.combinations, self.combinations),
        )


def observed(
    flow: Flow, newest_us: int | None, stores: Iterable[tuple[Base, Tree, SlotStore]], buckets: int
) -> Observed:
    """What was seen of a stream, given the trees of one of several buckets."""
    values: dict[str, int] = {}
    sets: dict[tuple[str, ...], int] = {}
    combinations = 1
    for base, tree, store in stores:
        combinations = max(combinations, store.combinations)
        if not store.live_keys or not tree.group_by:
            continue
        times = buckets if base.together_by else 1
        sets[tree.group_by] = store.live_keys * times
        for name, count in zip(tree.group_by, store.count_values()):
            # Only what keys are spread by has other values in each bucket.
            values[name] = count * times if base.together_by == (name,) else count
    return Observed(flow.events, flow.rate(newest_us), values, tuple(sorted(sets.items())), combinations)
