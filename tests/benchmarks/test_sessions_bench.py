"""`panewise bench sessions`: its trades come in bursts, and its queries differ in the gap alone."""

from __future__ import annotations

import numpy as np

import sessions as bench
from panewise.windows import SessionWindow


def test_trades_come_in_bursts_and_the_last_one_closes_all() -> None:
    table = bench.trades(2_000, keys=10, seed=1)
    times = np.asarray(table.column("at").cast("int64"))
    assert table.num_rows == 2_001
    assert (np.diff(times) >= 0).all()
    # Flink knows milliseconds.
    assert (times % 1000 == 0).all()
    assert times[-1] - times[-2] == bench.DAY_US
    symbol = np.asarray(table.column("symbol").combine_chunks().dictionary_encode().indices)
    pauses = np.diff(times[symbol == symbol[0]])
    assert 0 < np.count_nonzero(pauses > bench.MINUTE_US) < len(pauses) / 10
    # No session is cut, so Spark's own are the same.
    assert times[-2] - times[0] < bench.DAY_US


def test_queries_have_rising_gaps() -> None:
    windows = [query.window for query in bench.queries(3).queries.values()]
    assert windows == [SessionWindow(gap * bench.MINUTE_US, bench.DAY_US) for gap in (1, 2, 3)]
