"""The order of words is that of NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.thoroughness import examples

from panewise.kernels.ordering import order_words


@settings(max_examples=examples(200), deadline=None)
@given(st.data(), st.sampled_from([0, 1, 2**11 - 1, 2**11, 2**40, 2**62, 2**63 - 1]))
def test_words_are_ordered(data: st.DataObject, highest: int) -> None:
    near = st.integers(0, highest) | st.integers(max(0, highest - 3), highest) | st.just(0)
    words = np.array(data.draw(st.lists(near, max_size=60)), np.int64)
    assert order_words(words, highest).tolist() == np.argsort(words, kind="stable").tolist()


@pytest.mark.parametrize("highest", [1, 5000, 2**33])
def test_many_words(highest: int) -> None:
    words = np.random.default_rng(3).integers(0, highest + 1, 50_000)
    assert np.array_equal(order_words(words, highest), np.argsort(words, kind="stable"))
