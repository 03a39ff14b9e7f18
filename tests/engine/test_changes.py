"""With `changed_only`, following the changes gives every answer of every window."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answers import to_answers
from tests.engine.test_conformance import as_table

import weft

US = 1_000_000
TEXT = """
CREATE STREAM s (t TIMESTAMP, k STRING, x DOUBLE) TIMESTAMP BY t;
CREATE QUERY a AS SELECT k, COUNT(*), MAX(x) FROM s [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY k;
CREATE QUERY b AS SELECT SUM(x) FROM s [RANGE 5 SECONDS SLIDE 5 SECONDS] HAVING SUM(x) > 3;
CREATE QUERY c AS SELECT k, MIN(x) FROM s [RANGE 3 SECONDS SLIDE 1 SECOND] GROUP BY k HAVING COUNT(*) > 1;
CREATE QUERY r AS SELECT SUM(x) FROM s [ROWS 3 SLIDE 2];
"""
values = st.sampled_from([0.0, 1.0, 2.0, None, float("nan")])
events = st.lists(st.tuples(st.integers(0, 8), st.sampled_from(["a", "b", None]), values), max_size=6)


def by_window(answers) -> dict:
    """The value of each query, item and group, by query and the window's end."""
    found: dict = {}
    for answer in answers:
        value = "NaN" if answer.value != answer.value else answer.value
        found.setdefault((answer.query, answer.window_end), {})[answer.group, answer.item] = value
    return found


@settings(max_examples=120, deadline=None)
@given(st.lists(st.tuples(events, st.integers(0, 5), st.booleans()), max_size=12))
def test_following_the_changes_gives_every_answer(steps) -> None:
    workload = weft.read(TEXT)
    all_of_them, only_changed = weft.Engine(workload), weft.Engine(workload)
    now = 0
    held: dict = {}
    windows = {"a": (6, 2), "b": (5, 5), "c": (3, 1)}
    for some, more, ask_all in steps:
        rows = [{"t": (now + d) * US, "k": k, "x": x} for d, k, x in some]
        for engine in (all_of_them, only_changed):
            engine.push("s", as_table(workload.streams["s"], rows))
        before, now = now, now + more
        everything = by_window(to_answers(all_of_them.advance("s", now * US), workload))
        if ask_all and held:
            # Asking for all in between changes nothing of what is reported as changed later.
            assert by_window(to_answers(only_changed.advance("s", now * US), workload)) == everything
            for (query, _), rows_of in sorted(everything.items()):
                if query != "r":
                    held[query] = dict(rows_of)
            for query, (length, slide) in windows.items():
                last = (now - length) // slide * slide + length
                if last > before and (query, last * US) not in everything:
                    held[query] = {}
            continue
        changes = by_window(to_answers(only_changed.advance("s", now * US, changed_only=True), workload))
        for query, (length, slide) in windows.items():
            for end in range(before + 1, now + 1):
                if (end - length) % slide == 0:
                    known = held.setdefault(query, {})
                    report = changes.get((query, end * US), {})
                    known |= report
                    expected = everything.get((query, end * US), {})
                    assert {place: value for place, value in known.items() if value is not None} == {
                        place: value for place, value in expected.items() if value is not None
                    }
                    held[query] = {place: value for place, value in known.items() if place in expected}


def test_a_quiet_stream_reports_nothing_and_a_group_that_is_gone_once() -> None:
    engine = weft.Engine(weft.read(TEXT.split("CREATE QUERY b")[0]))
    engine.push("s", {"t": np.arange(0, 40) * US, "k": ["a"] * 40, "x": np.ones(40)})
    first = engine.advance("s", 20 * US, changed_only=True)
    # COUNT(*) grows with the first windows, and stays.
    assert first.column("window_end").to_pylist()[-1].second == 6
    assert engine.advance("s", 40 * US, changed_only=True).num_rows == 0
    gone = engine.advance("s", 60 * US, changed_only=True).to_pylist()
    assert [row["value"] for row in gone if row["aggregate"] == "COUNT(*)"] == [4.0, 2.0, None]
    assert engine.advance("s", 80 * US, changed_only=True).num_rows == 0
    restored = weft.Engine.restore(engine.snapshot())
    restored.push("s", {"t": [81 * US], "k": ["a"], "x": [1.0]})
    assert restored.advance("s", 82 * US, changed_only=True).num_rows == 2
