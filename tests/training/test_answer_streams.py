"""Labels see the answers of queries as they were at their times, as far as windows had ended."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from tests import chain_oracle, oracle

import panewise
from panewise.language.expressions import Attribute

MINUTE = 60_000_000
TEXT = """
    CREATE STREAM s (t TIMESTAMP, k STRING, x BIGINT) TIMESTAMP BY t WATERMARK 2 MINUTES FUTURE BOUND NONE;
    CREATE QUERY minutes AS SELECT k, SUM(x) AS total FROM s [RANGE 1 MINUTE SLIDE 1 MINUTE] GROUP BY k;
    CREATE QUERY fives AS SELECT k, MAX(total) AS best FROM minutes [RANGE 5 MINUTES SLIDE 5 MINUTES] GROUP BY k;
    CREATE QUERY recent AS SELECT k, SUM(total), COUNT(*) FROM minutes [RANGE 7 MINUTES] GROUP BY k;
    CREATE QUERY worst AS SELECT MAX(best) FROM fives [RANGE 20 MINUTES];
"""


@pytest.mark.parametrize("edge", ["before", "at"])
def test_a_label_sees_the_answers_of_windows_that_had_ended(edge: str) -> None:
    dice = random.Random(edge)
    workload = panewise.read(TEXT)
    rows = [
        {"t": dice.randrange(60 * MINUTE), "k": dice.choice("ab"), "x": dice.choice([None, 1, 5])} for _ in range(300)
    ]
    labels = [{"t": dice.randrange(70) * MINUTE + dice.choice([-1, 0, 1]), "k": dice.choice("abc")} for _ in range(60)]
    found = panewise.training_set(
        pa.Table.from_pylist(labels), pa.Table.from_pylist(rows), workload, edge=edge, queries=["recent", "worst"]
    ).to_pylist()
    for name, columns in (("recent", ["recent__SUM(total)", "recent__COUNT(*)"]), ("worst", ["worst__MAX(best)"])):
        query = workload.queries[name]
        events = chain_oracle.events_of(workload, query.stream, {"s": rows})
        items = [place for place, item in enumerate(query.select) if not isinstance(item.expression, Attribute)]
        for label, row in zip(labels, found, strict=True):
            at = label["t"] - (1 if edge == "before" else 0)
            answers = oracle.lookup(query, "window_time", events, at)
            mine = {one.item: one.value for one in answers if one.group in ((), (("k", label["k"]),))}
            assert [row[column] for column in columns] == [mine.get(item) for item in items], (label, row)


def test_what_no_label_can_see_is_refused() -> None:
    labels, events = pa.table({"t": [0], "k": ["a"]}), pa.table({"t": [0], "k": ["a"], "x": [1]})
    with pytest.raises(panewise.QueryKindError, match="query fives slides over the answers of query minutes"):
        panewise.training_set(labels, events, TEXT)
    with pytest.raises(panewise.ArgumentError, match="leave out memory_limit"):
        panewise.training_set(labels, events, TEXT, queries=["recent"], memory_limit=10_000_000)
