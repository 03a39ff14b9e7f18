"""The choice follows the declared costs, the costs are those of the paper, and the docs show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from panewise.errors import IndexingError
from panewise.indexes import EVERY_INDEX, EVERY_RING, EVERY_STORAGE, IndexShape, RingWindow, SetWindow, choose
from panewise.indexes.sheet import indexes_table, maintenance, maintenance_table, rings_table, storages_table

DOCS = (Path(__file__).parents[2] / "docs" / "indexes.md").read_text(encoding="utf-8")
STORAGES = {each.sheet.name: each.sheet for each in EVERY_STORAGE}
INDEXES = {each.sheet.name: each.sheet for each in EVERY_INDEX}
RINGS = {each.sheet.name: each.sheet for each in EVERY_RING}

UNIFORM = IndexShape(basic_windows=100, basic_tuples=1000, distinct=1000, basic_distinct=632, groups=50)
REPETITIVE = IndexShape(basic_windows=100, basic_tuples=1000, distinct=10, basic_distinct=3, groups=2)


@pytest.mark.parametrize(
    "table",
    [
        storages_table(STORAGES.values()),
        indexes_table(INDEXES.values()),
        rings_table(RINGS.values()),
        maintenance_table(STORAGES.values(), INDEXES.values()),
    ],
    ids=["storages", "indexes", "rings", "table 1"],
)
def test_the_data_sheets_are_those_of_the_code(table) -> None:
    assert table in DOCS, f"put this in:\n{table}"


def test_table_1() -> None:
    """With b = 1000, d = 632, D = 1000, log D = 9.97; five buckets in HASH, 100 in the H-INDEX; counting is 2 d/b."""
    shape = IndexShape(100, 1000, 1000, 632, storage_buckets=5, index_buckets=100)
    log, share = 9.965784, 0.632
    for storage, index, expected in [
        ("list", "l_index", 1 + 1000 + 2),
        ("list", "t_index", 1 + log + 2),
        ("list", "h_index", 1 + 10 + 2),
        ("aggr", "l_index", 632 + share * (1000 + 2)),
        ("aggr", "t_index", 632 + share * (log + 2)),
        ("aggr", "h_index", 632 + share * (10 + 2)),
        ("hash", "l_index", 632 / 5 + share * (1000 + 2)),
        ("hash", "t_index", 632 / 5 + share * (log + 2)),
        ("hash", "h_index", 632 / 5 + share * (10 + 2)),
    ]:
        assert maintenance(STORAGES[storage], INDEXES[index], shape) == pytest.approx(expected, rel=1e-5)
    grouped = IndexShape(100, 1000, 1000, 632, groups=50)
    assert maintenance(STORAGES["group"], INDEXES["g_index"], grouped) == pytest.approx(50 + 50 / 1000)


def test_the_order_of_rings_is_that_of_the_paper() -> None:
    deletion = [RINGS[name].delete.of(UNIFORM) for name in ("dirty_bits", "backward", "auxiliary", "forward")]
    assert deletion == sorted(deletion)
    assert deletion[0] < deletion[1] < deletion[2] == deletion[3]
    insertion = [RINGS[name].insert.of(UNIFORM) for name in ("dirty_bits", "backward", "auxiliary", "forward")]
    assert insertion[0] == insertion[1] == insertion[2] < insertion[3]


@pytest.mark.parametrize("query", ["histogram", "quantile", "median", "distinct", "mode", "top_k", "intersection"])
@pytest.mark.parametrize("shape", [UNIFORM, REPETITIVE])
@pytest.mark.parametrize("in_ranges", [False, True])
@pytest.mark.parametrize("type", ["int64", "string"])
def test_a_choice_can_be_built(query, shape, in_ranges, type) -> None:
    found = choose(query, shape, in_ranges=in_ranges, type=type)
    assert found.ring is None
    assert found.reasons
    assert INDEXES[found.index].is_exact == (not in_ranges or type == "string" or query == "distinct")
    width = None if INDEXES[found.index].is_exact else 5
    window = SetWindow(3, type, storage=found.storage, index=found.index, purge=found.purge, group_width=width)
    window.append(["a"] if type == "string" else [1])


def test_repetition_in_a_basic_window_is_worth_a_count() -> None:
    assert choose("histogram", UNIFORM).storage == "list"
    assert choose("histogram", REPETITIVE).storage in ("aggr", "hash")


def test_frequent_sorted_answers_want_a_tree_and_rare_ones_a_table() -> None:
    assert choose("histogram", UNIFORM).index == "t_index"
    assert choose("histogram", UNIFORM, every=50).index == "h_index"
    assert choose("distinct", UNIFORM).index == "h_index"


@pytest.mark.parametrize("query", ["sorted", "join"])
def test_tuples_need_a_ring(query) -> None:
    found = choose(query, UNIFORM)
    assert (found.storage, found.ring) == ("list", "dirty_bits")
    RingWindow(3, ring=found.ring, index=found.index, purge=found.purge)
    assert choose(query, UNIFORM, ring="backward").ring == "backward"


def test_few_zero_counts_are_listed_and_many_are_scanned_for() -> None:
    assert choose("histogram", UNIFORM).purge == "periodic"
    assert choose("histogram", IndexShape(100, 1000, 90_000, 1000)).purge == "zero_list"


def test_what_is_named_is_taken() -> None:
    found = choose("histogram", UNIFORM, storage="hash", index="l_index", purge="zero_list")
    assert (found.storage, found.index, found.purge) == ("hash", "l_index", "zero_list")
    assert any("hash was asked for" in reason for reason in found.reasons)
    assert choose("histogram", UNIFORM, index="g_index").storage in ("list", "group")


def test_bad_arguments_are_named() -> None:
    for options, words in [
        ({"query": "histgram"}, "did you mean 'histogram'"),
        ({"storage": "group", "index": "t_index"}, "group t_index cannot serve"),
        ({"query": "sorted", "storage": "aggr"}, "aggr cannot serve sorted"),
        ({"type": "string", "index": "g_index"}, "cannot serve histogram of string"),
        ({"ring": "dirty_bits"}, "leave ring='dirty_bits' out"),
        ({"every": 0}, "every must be at least 1"),
        ({"index": "b_index"}, "there is no index"),
        ({"purge": "daily"}, "way of purging"),
    ]:
        with pytest.raises(IndexingError, match=words):
            choose(**{"query": "histogram", "shape": UNIFORM, **options})
