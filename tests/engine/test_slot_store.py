"""The slot store's invariants hold after every step, and it drops what no window needs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples
from tests.workloads import TIME_SLIDING, events, workloads

import panewise
from panewise.engine.combine import Combiner
from panewise.engine.ingest import to_batch
from panewise.engine.projection import project
from panewise.engine.slot_store import SlotStore
from panewise.windows.instances import oldest_slot_needed


@st.composite
def cases(draw):
    workload = draw(workloads(windows=TIME_SLIDING))
    (stream,) = workload.streams.values()
    return workload, stream, draw(st.lists(events(stream, max_size=20), min_size=1, max_size=4))


@settings(max_examples=examples(80), deadline=None)
@given(cases(), st.data())
def test_invariants(case, data) -> None:
    workload, stream, batches = case
    plan = panewise.optimize(workload).streams[stream.name]
    stores = [SlotStore(plan, tree) for tree in plan.trees]
    for rows in batches:
        batch = to_batch(stream, as_table(stream, rows))
        times = np.asarray(batch.column(stream.timestamp))
        combiner = Combiner(plan, project(plan, batch))
        for store in stores:
            granularity = store.tree.granularity
            store.append(combiner.partials(plan.base_of(store.tree), times // granularity))
            store.partials()
            store.check_invariants()
            closed = data.draw(st.integers(-(10**7), 2 * 10**7))
            oldest = oldest_slot_needed(store.tree.windows, granularity, closed)
            store.evict(oldest)
            store.check_invariants()
            assert all(slot >= oldest for slot in store.partials().column("slot").to_pylist())


def test_memory_follows_the_live_keys() -> None:
    workload = panewise.read(
        "CREATE STREAM s (t TIMESTAMP, k BIGINT) TIMESTAMP BY t;"
        "CREATE QUERY q AS SELECT COUNT(*) FROM s [RANGE 10 SECONDS SLIDE 10 SECONDS] GROUP BY k;"
    )
    engine = panewise.Engine(workload)
    (store,) = [state.store for state in engine._streams["s"].generations[0].trees]
    for round_number in range(20):
        start = round_number * 10_000_000
        keys = np.arange(1000) + 1000 * round_number
        engine.push("s", {"t": np.full(1000, start), "k": keys})
        assert engine.advance("s", start + 10_000_000).long().num_rows == 1000
        assert store.live_rows == 0
    assert store.live_keys <= 1000
