"""The generators of random workloads, and the oracle over them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracle import assert_same_answers, closed_answers, lookup
from tests.thoroughness import examples
from tests.workloads import (
    DECAYED,
    EVERY_WINDOW,
    LISTS,
    MOMENTS,
    OF_CONDITIONS,
    OF_TWO,
    PICKED,
    SLIDING,
    TIME_SLIDING,
    events,
    queries,
    random_events,
    random_workload,
    streams,
    workloads,
)

from panewise.aggregates.types import Type
from panewise.language.model import Stream
from panewise.language.workload import Workload
from panewise.windows.window import TimeWindow


class TestRandomWorkloads:
    """The generators and the oracle together: some facts hold for every query."""

    @given(data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_closing_step_by_step_closes_each_window_once(self, data: st.DataObject) -> None:
        workload = data.draw(workloads(sliding_only=True, max_queries=3))
        (stream,) = workload.streams.values()
        rows = data.draw(events(stream))
        steps = sorted(data.draw(st.lists(st.sampled_from([row["dep"] for row in rows] or [0]), max_size=4)))
        for each in workload.queries.values():
            together = closed_answers(each, "dep", rows, None)
            apart = []
            for previous, watermark in zip([None, *steps], [*steps, None]):
                if previous is None or previous != watermark:
                    # Events at or after the watermark may still be missing.
                    seen = [row for row in rows if watermark is None or row["dep"] < watermark]
                    apart += closed_answers(each, "dep", seen, watermark, previous)
            assert_same_answers(apart, together)

    @given(data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_lookups_do_not_see_later_events(self, data: st.DataObject) -> None:
        stream = data.draw(streams())
        each = data.draw(queries(stream, windows=[kind for kind in EVERY_WINDOW if kind not in SLIDING]))
        rows = data.draw(events(stream, in_order=True))
        moment = data.draw(st.sampled_from([row["dep"] for row in rows] or [0]))
        earlier = [row for row in rows if row["dep"] <= moment]
        assert_same_answers(lookup(each, "dep", earlier, moment), lookup(each, "dep", rows, moment))

    @given(data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_windows_fit_the_granularity_and_labels_are_unique(self, data: st.DataObject) -> None:
        workload = data.draw(workloads())
        (stream,) = workload.streams.values()
        for each in workload.queries.values():
            window, granularity = each.window, stream.granularity_us or 1
            if isinstance(window, TimeWindow):
                assert {length % granularity for length in (window.left_us, window.right_us, window.slide_us or 0)} == {
                    0
                }
            calls = [item.expression for item in each.answers]
            assert calls
            assert len(calls) == len(set(calls))

    def test_the_same_seed_gives_the_same_workload_and_events(self) -> None:
        assert random_workload(7) == random_workload(7) != random_workload(8)
        stream = random_workload(7).streams["flights"]
        assert repr(random_events(7, stream, 20)) == repr(random_events(7, stream, 20))

    def test_random_events_keep_within_their_disorder(self) -> None:
        stream = Stream("flights", {"dep": Type.TIMESTAMP, "gate": Type.BIGINT}, "dep", 3_000_000, 1_000_000)

        def largest_delay(rows: list[dict[str, Any]]) -> int:
            times: list[int] = [row["dep"] for row in rows]
            return max(max(times[: i + 1]) - time for i, time in enumerate(times))

        assert 0 < largest_delay(random_events(1, stream, 200)) <= 3_000_000
        assert largest_delay(random_events(1, stream, 200, disorder_us=9_000_000)) > 3_000_000
        assert largest_delay(random_events(1, stream, 200, disorder_us=0)) == 0

    def test_random_workloads_use_every_clause_and_aggregate(self) -> None:
        drawn = [each for seed in range(60) for each in random_workload(seed).queries.values()]
        assert {call.function for each in drawn for call in each.aggregates} == {
            *("COUNT_ALL", "COUNT", "SUM", "AVG", "MIN", "MAX", "MEDIAN", "MODE", "QUANTILE", "COUNT_DISTINCT"),
            *("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP"),
            *("APPROX_QUANTILE", "APPROX_COUNT_DISTINCT", "APPROX_TOP_ITEM", "APPROX_TOP_COUNT"),
            *(*MOMENTS, *OF_TWO, *PICKED, *DECAYED, *OF_CONDITIONS, *LISTS),
        }
        for clause in ("where", "group_by", "having"):
            assert 0 < sum(bool(getattr(each, clause)) for each in drawn) < len(drawn)

    def test_most_random_queries_have_answers(self) -> None:
        def answered(workload: Workload) -> list[bool]:
            (stream,) = workload.streams.values()
            rows = random_events(1, stream, 100)
            return [bool(closed_answers(each, "dep", rows, None)) for each in workload.queries.values()]

        found = [one for seed in range(30) for one in answered(random_workload(seed, windows=TIME_SLIDING))]
        assert sum(found) > 0.7 * len(found)
