"""What all filters have in common: silent keys and their memory, larger windows, thresholds of any kind, errors."""

from __future__ import annotations

import numpy as np
import pytest

from panewise.errors import SubstreamError
from panewise.substreams import EVERY_FILTER, FilterShape, build, choose

NAMES = ["collective_count", "collective_sum", "collective_max", "collective_min", "scan_substreams"]
OPTIONS = {"scan_substreams": {"aggregate": "sum"}}
every_name = pytest.mark.parametrize("name", NAMES)


def make(name, largest_us=100, **options):
    return build(name, largest_us, **(OPTIONS.get(name, {}) | options))


@every_name
def test_silent_keys_leave_and_return(name) -> None:
    index = make(name, 100)
    index.update([4, 9, 4], [5, 5, 5], [0, 10, 20])
    assert index.is_live([4, 9, 5, 10**6, -1]).tolist() == [True, True, False, False, False]
    index.advance(110)
    assert index.is_live([4, 9]).tolist() == [True, False]
    index.update([9], [7], [120])
    index.check_invariants()
    assert index.is_live([4, 9]).tolist() == [False, True]
    assert index.live_keys == 1
    assert index.lookup(120, 100, ">=", 1).of(0).tolist() == [9]


@every_name
def test_memory_follows_live_keys(name) -> None:
    """New keys come all the time, and 50 are live at once: after some rounds only four bytes per code still grow."""
    index = make(name, 100)
    rng = np.random.default_rng(3)
    sizes = []
    for round_ in range(60):
        keys = 50 * round_ + rng.integers(0, 50, 400)
        index.update(keys, rng.integers(1, 1000, 400), 101 * round_ + np.sort(rng.integers(0, 100, 400)))
        assert index.live_keys <= 100
        sizes.append(index.nbytes - index._store.seat_of.nbytes)
    index.check_invariants()
    assert sizes[-1] <= 1.5 * sizes[10]
    assert index._store.seat_of.nbytes <= 4 * 2 * 60 * 50


@every_name
def test_a_burst_gives_its_memory_to_others(name) -> None:
    """One key with many events falls silent, another comes: its ring and entries are used again."""
    index = make(name, 100)
    for key in range(8):
        index.update([key] * 3000, [2] * 3000, np.full(3000, 200 * key))
        if key == 2:
            after_three = index.nbytes
    assert index.nbytes <= 1.1 * after_three
    index.check_invariants()


@every_name
def test_larger_windows(name) -> None:
    index = make(name, 50)
    index.update([0, 1, 2], [3, 3, 3], [0, 40, 100])
    with pytest.raises(SubstreamError, match=r"a window of 80 .* call hold\(\) first"):
        index.lookup(100, 80, ">=", 1)
    index.hold(200)
    assert index.held_from == 50
    with pytest.raises(SubstreamError, match="no longer held; all after 50 are"):
        index.lookup(100, 80, ">=", 1)
    index.update([1], [3], [130])
    assert sorted(index.lookup(130, 80, ">=", 1).of(0).tolist()) == [1, 2]
    index.update([1], [3], [260])
    assert sorted(index.lookup(260, 200, ">=", 1).of(0).tolist()) == [1, 2]
    index.check_invariants()
    with pytest.raises(SubstreamError, match="may only grow"):
        index.hold(100)


@every_name
def test_a_window_is_open_at_its_start(name) -> None:
    index = make(name, 100)
    index.update([0, 1], [1, 1], [10, 20])
    assert sorted(index.lookup(30, 20, ">=", 1).of(0).tolist()) == [1]
    assert sorted(index.lookup(30, 21, ">=", 1).of(0).tolist()) == [0, 1]
    assert index.lookup(30, 10, ">=", 1).of(0).tolist() == []
    assert index.lookup(30, 10, "<=", 10**9).of(0).tolist() == [], "no event in the window, so not below either"


@every_name
def test_many_lookups_in_one_call(name) -> None:
    index = make(name, 100)
    index.update([0, 1, 1], [1, 1, 1], [10, 20, 20])
    found = index.lookup([20, 25, 20], [15, 5, 5], [">=", ">=", "<"], [1, 1.0, 1e300])
    assert found.offsets.tolist() == [0, 2, 2, 3]
    assert [sorted(found.of(i).tolist()) for i in range(3)] == [[0, 1], [], [1]]


@pytest.mark.parametrize("name", ["collective_max", "collective_min"])
def test_thresholds_beyond_integers(name) -> None:
    least, greatest = -(2**63), 2**63 - 1
    index = make(name, 100)
    index.update([0, 1], [least, greatest], [1, 1])
    asked = {
        (">", greatest): [],
        (">=", greatest): [1],
        (">=", 2.0**63): [],
        (">", -1e300): [0, 1],
        ("<", least): [],
        ("<=", least): [0],
        ("<", 1e300): [0, 1],
        ("<=", -1e300): [],
        (">", least): [1],
        ("<", greatest): [0],
        (">=", 0.5): [1],
        ("<", float("inf")): [0, 1],
    }
    for (comparison, threshold), expected in asked.items():
        found = index.lookup(1, 10, comparison, threshold).of(0)
        assert sorted(found.tolist()) == expected, (comparison, threshold)


@pytest.mark.parametrize("name", ["collective_max", "collective_min"])
def test_doubles(name) -> None:
    index = make(name, 100, doubles=True)
    index.update([0, 1, 2], [0.1, float("inf"), -float("inf")], [1, 1, 1])
    assert sorted(index.lookup(1, 10, ">", 0.1).of(0).tolist()) == [1]
    assert sorted(index.lookup(1, 10, ">=", 0.1).of(0).tolist()) == [0, 1]
    assert sorted(index.lookup(1, 10, "<", 0.1).of(0).tolist()) == [2]
    assert sorted(index.lookup(1, 10, ">", float("inf")).of(0).tolist()) == []
    with pytest.raises(SubstreamError, match=r"takes no NaN, got one in row 1"):
        index.update([0, 1], [1.0, float("nan")], [2, 2])
    with pytest.raises(SubstreamError, match="takes integers, got float64"):
        make(name, 100).update([0], [0.5], [1])


def test_the_scan_takes_values_of_any_sign() -> None:
    scan = build("scan_substreams", 100, aggregate="sum")
    scan.update([0, 1, 0, 1, 2], [-5, 3, 2, -3, 0], [1, 2, 3, 4, 5])
    scan.check_invariants()
    assert scan.lookup(5, 100, "<", 0).of(0).tolist() == [0]
    assert sorted(scan.lookup(5, 100, ">=", 0).of(0).tolist()) == [1, 2]
    assert sorted(scan.lookup(5, 3, ">", 0).of(0).tolist()) == [0]


@every_name
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda f: f.update([0, 1], [1, 1], [7, 6]), r"row 1 is at 6, after one at 7; sort"),
        (lambda f: f.update([0], [1], [4]), r"row 0 is at 4, after one at 5"),
        (lambda f: f.update([-1], [1], [9]), "-1 of a key is negative"),
        (lambda f: f.update([2**40], [1], [9]), "too large"),
        (lambda f: f.update([0, 1], [1, 1], [9]), "equally long, got keys 2, values 2, times 1"),
        (lambda f: f.update([0.5], [1], [9]), "keys must be integers"),
        (lambda f: f.update([0], [1], [2**62]), "within 2"),
        (lambda f: f.lookup(4, 10, ">", 1), "only windows that end now"),
        (lambda f: f.lookup(5, 0, ">", 1), "a window of 0"),
        (lambda f: f.lookup(5, 10, "=", 1), "one of > >= < <=, got '='"),
        (lambda f: f.lookup(5, 10, ">", float("nan")), "NaN"),
        (lambda f: f.lookup(5, 10, ">", "a"), "thresholds must be numbers"),
        (lambda f: f.advance(4), "after one at 5"),
    ],
)
def test_calls_that_make_no_sense(name, call, message) -> None:
    index = make(name)
    index.update([0], [1], [5])
    with pytest.raises(SubstreamError, match=message):
        call(index)
    index.check_invariants()
    assert index.lookup(5, 10, ">=", 1).of(0).tolist() == [0], "a refused call changes nothing"


def test_names() -> None:
    assert [each.sheet.name for each in EVERY_FILTER] == NAMES
    with pytest.raises(SubstreamError, match="did you mean 'collective_sum'"):
        build("collective_sums", 10)
    with pytest.raises(SubstreamError, match="not MEDIAN"):
        build("scan_substreams", 10, aggregate="median")
    with pytest.raises(SubstreamError, match="only a count"):
        build("scan_substreams", 10, aggregate="sum", by_probe=True)
    with pytest.raises(SubstreamError, match="adds up integers"):
        build("scan_substreams", 10, aggregate="sum", doubles=True)
    with pytest.raises(SubstreamError, match="largest window"):
        build("collective_count", 0)


def test_sheets_say_why_not() -> None:
    by_name = {each.sheet.name: each.sheet for each in EVERY_FILTER}
    total = by_name["collective_sum"]
    assert total.why_not("sum", least=1) is None
    assert total.why_not("SUM", least=0) == "collective_sum takes values above zero, and the values go down to 0"
    assert "may be zero or negative" in str(total.why_not("SUM"))
    assert "doubles" in str(total.why_not("SUM", doubles=True, least=1))
    assert "not MAX" in str(total.why_not("MAX"))
    assert by_name["collective_count"].why_not("COUNT", doubles=True) is None
    assert by_name["scan_substreams"].why_not("SUM") is None


def test_sheets_prefer_the_index_where_few_keys_pass() -> None:
    shape = FilterShape(keys=5000, events=500_000, answer=200, active=4000, levels_per_size=4)
    by_name = {each.sheet.name: each.sheet for each in EVERY_FILTER}
    for name in ("collective_count", "collective_sum", "collective_max"):
        assert by_name[name].lookup_up.of(shape) * 5 < by_name["scan_substreams"].lookup_up.of(shape)
        assert by_name[name].update.of(shape) > by_name["scan_substreams"].update.of(shape)


FEW = FilterShape(keys=5000, events=500_000, answer=200, active=4000, levels_per_size=4, mean_value=100)


@pytest.mark.parametrize(
    ("aggregate", "comparison", "expected"),
    [
        ("count", ">", "collective_count"),
        ("SUM", ">=", "collective_sum"),
        ("MAX", ">", "collective_max"),
        ("MIN", "<=", "collective_min"),
    ],
)
def test_choice(aggregate, comparison, expected) -> None:
    assert choose(aggregate, comparison, FEW, lookups_per_update=1, least=1).name == expected
    rarely = choose(aggregate, comparison, FEW, lookups_per_update=1e-6, least=1)
    assert rarely.name == "scan_substreams"
    assert expected in rarely.reason


def test_choice_says_why_not() -> None:
    signed = choose("SUM", ">", FEW, lookups_per_update=1)
    assert signed.name == "scan_substreams"
    assert "may be zero or negative" in signed.reason
    assert choose("SUM", ">", FEW, lookups_per_update=1, least=1, doubles=True).name == "scan_substreams"
    with pytest.raises(SubstreamError, match="no substream filter compares AVG"):
        choose("AVG", ">", FEW, lookups_per_update=1)
    with pytest.raises(SubstreamError, match="a comparison is one of"):
        choose("SUM", "=", FEW, lookups_per_update=1)


def test_the_direction_counts() -> None:
    """For the least value, lookups downwards are the cheap ones."""
    rare = FilterShape(keys=100_000, events=1_000_000, answer=5, active=100_000)
    costs = {
        (aggregate, comparison): choose(aggregate, comparison, rare, lookups_per_update=1).reason
        for aggregate in ("MAX", "MIN")
        for comparison in (">", "<")
    }
    steps = {asked: int(reason.split()[0].replace(",", "")) for asked, reason in costs.items()}
    assert steps["MAX", ">"] == steps["MIN", "<"] < steps["MAX", "<"] == steps["MIN", ">"]
