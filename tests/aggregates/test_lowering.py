from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.lowering import quantile_ranks
from panewise.aggregates.types import Type


def test_the_rank_follows_the_decimal_that_was_written() -> None:
    assert quantile_ranks(np.array([100, 10, 1, 0]), 0.29).tolist() == [29, 2, 1, 0]
    assert quantile_ranks(np.array([3, 4, 5]), 0.5).tolist() == [1, 2, 2]
    assert quantile_ranks(np.array([7]), 1.0).tolist() == [7]
    assert quantile_ranks(np.array([7]), 0.0).tolist() == [1]


@given(st.integers(1, 10**9), st.decimals(0, 1, places=4))
def test_ranks_lie_in_the_window(n: int, phi) -> None:
    (rank,) = quantile_ranks(np.array([n]), float(phi))
    assert rank == max(1, int(n * phi))
    assert 1 <= rank <= n


def test_types() -> None:
    assert CATALOGUE["SUM"].result_type(Type.BIGINT) is Type.BIGINT
    assert CATALOGUE["AVG"].result_type(Type.BIGINT) is Type.DOUBLE
    assert CATALOGUE["MAX"].result_type(Type.TIMESTAMP) is Type.TIMESTAMP
    assert CATALOGUE["COUNT_ALL"].result_type(None) is Type.BIGINT
    assert not CATALOGUE["SUM"].accepts(Type.STRING)
    assert CATALOGUE["COUNT_DISTINCT"].accepts(Type.STRING)
