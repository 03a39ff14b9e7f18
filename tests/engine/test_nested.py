"""Windows of one edge or of several, folded together over many runs: every way gives the oracle's answers."""

from __future__ import annotations

from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import oracle
from tests.answers import to_answers
from tests.engine.test_conformance import as_table
from tests.thoroughness import examples

import panewise
from panewise.errors import AnswerOverflowError

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT, y DOUBLE) TIMESTAMP BY t;
CREATE QUERY a AS SELECT COUNT(*), SUM(x), MAX(y) FROM s [RANGE 4 SECONDS SLIDE 1 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT AVG(y), MIN(y) FROM s [RANGE 2 SECONDS SLIDE 1 SECONDS] GROUP BY k HAVING MAX(x) > 2;
CREATE QUERY c AS SELECT SUM(x), MIN(x) FROM s [RANGE 5 SECONDS SLIDE 2 SECONDS] WHERE x > 1 GROUP BY k;
CREATE QUERY d AS SELECT SUM(y), MAX(x) FROM s [RANGE 1 SECONDS SLIDE 1 SECONDS] WHERE x > 1 GROUP BY k
  HAVING COUNT(*) > 1;
CREATE QUERY e AS SELECT VARIANCE(x), COUNT(y) FROM s [RANGE 3 SECONDS SLIDE 3 SECONDS] WHERE k <> 'c' GROUP BY k
  HAVING SUM(x) > 3 AND COUNT(*) < 9;
CREATE QUERY f AS SELECT MAX(y), SUM(y) FROM s [RANGE 9 SECONDS SLIDE 1 SECONDS] WHERE x > 1 GROUP BY k
  HAVING MIN(x) < 4;
CREATE QUERY g AS SELECT STDDEV(y), MIN(y) FROM s [RANGE 30 SECONDS SLIDE 1 SECONDS] GROUP BY k;
"""
USUAL: dict[str, int] = {}
FEW_KEYS = {
    "nested.FEW_CELLS": 0,
    "nested.FEW": 1,
    "slot_store.MOST_PIECES": 2,
    "runs.SMALL": 3,
    "partial_store.FEWEST_NEW": 2,
}
ALL_KEYS = {"nested.FEW_CELLS": 0, "nested.FEW": 10**9, "slot_store.MOST_EDGES": 1, "runs.SMALL": 0}
MOVING = {"moved_windows.MOVED_ROWS": 0.0, "moved_windows.FEWEST_CLOSINGS": 0}
SOMETIMES_MOVING = {"moved_windows.MOVED_ROWS": 0.5, "moved_windows.FEWEST_CLOSINGS": 2, "runs.SMALL": 3}
WAYS = {
    "usual": USUAL,
    "few_keys": FEW_KEYS,
    "all_keys": ALL_KEYS,
    "moving": MOVING,
    "moving_over_runs": MOVING | {"runs.SMALL": 3, "partial_store.FEWEST_NEW": 2, "slot_store.MOST_EDGES": 2},
    "sometimes_moving": SOMETIMES_MOVING,
}
values = st.integers(0, 5)
events = st.lists(
    st.tuples(
        st.integers(-2, 3),
        st.sampled_from("abcdefgh"),
        st.none() | values,
        st.none() | values.map(float) | st.sampled_from([float("nan"), float("inf"), -0.5]),
    ),
    max_size=14,
)


@pytest.mark.parametrize("changed", WAYS.values(), ids=WAYS)
@settings(max_examples=examples(40), deadline=None)
@given(steps=st.lists(st.tuples(events, st.integers(0, 3)), max_size=16))
def test_answers_of_every_way(changed: dict[str, int], steps) -> None:
    workload = panewise.read(TEXT)
    with ExitStack() as patches:
        for name, value in changed.items():
            patches.enter_context(patch(f"panewise.engine.{name}", value))
        engine = panewise.Engine(workload)
        taken: list[dict] = []
        watermark, now = None, 0
        for some, more in [*steps, ([], 12)]:
            rows = [{"t": (now + d) * US, "k": k, "x": x, "y": y} for d, k, x, y in some]
            engine.push("s", as_table(workload.streams["s"], rows))
            taken += [row for row in rows if watermark is None or row["t"] >= watermark]
            now += more
            expected = [
                answer
                for query in workload.queries.values()
                for answer in oracle.closed_answers(query, "t", taken, now * US, watermark)
            ]
            oracle.assert_same_answers(to_answers(engine.advance("s", now * US), workload), expected)
            watermark = now * US
            for tree in engine._streams["s"].generations[0].trees:
                tree.store.check_invariants()


OVERFLOW = """
CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t;
CREATE QUERY short AS SELECT SUM(x) FROM s [RANGE 1 SECOND SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY long AS SELECT COUNT(*) FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k;
CREATE QUERY some AS SELECT SUM(x) FROM s [RANGE 8 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) < 4
  ON OVERFLOW ERROR;
"""


@pytest.mark.parametrize("changed", [USUAL, FEW_KEYS, ALL_KEYS], ids=["usual", "few_keys", "all_keys"])
def test_a_sum_overflows_only_where_it_is_asked_for(changed: dict[str, int]) -> None:
    with ExitStack() as patches:
        for name, value in changed.items():
            patches.enter_context(patch(f"panewise.engine.{name}", value))
        workload = panewise.read(OVERFLOW)
        engine = panewise.Engine(workload)
        for second in range(6):
            keys = ["a", *("bcdefghij" if second == 0 else "")]
            engine.push("s", {"t": np.full(len(keys), second * US), "k": keys, "x": np.full(len(keys), 2**62)})
            if second == 1:
                # Twice 2**62 does not fit, and `a` has few events so far.
                with pytest.raises(AnswerOverflowError, match="query some"):
                    engine.advance("s", 2 * US)
                engine.remove("some")
                engine.add("CREATE QUERY some AS " + OVERFLOW.split("some AS ")[1].replace("< 4", "> 99"))
            answers = to_answers(engine.advance("s", (second + 1) * US), workload)
            sums = {(one.group, one.value) for one in answers if one.query == "short"}
            assert {value for _, value in sums} == {2**62}
            assert sum(one.query == "long" for one in answers) == 10
