"""Claims are functions of rows: some made-up rows support them, others contradict them."""

from __future__ import annotations

from math import nan

import pytest
from experiments.claims import Claim, least, steps, worst
from experiments.figures import every_figure
from experiments.tables import NotMeasuredError, Table
from tests.experiments.made_up import MADE_UP

FIGURES = every_figure()


def table_of(name: str, holds: bool) -> Table:
    return Table.of(MADE_UP[name](holds))


@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_holds_on_rows_that_bear_it_out(name: str) -> None:
    verdicts = [claim.check(table_of(name, True)) for claim in FIGURES[name].claims]
    assert verdicts
    assert [str(verdict) for verdict in verdicts if verdict.word != "holds"] == []


@pytest.mark.parametrize("name", FIGURES)
def test_no_claim_holds_on_rows_that_contradict_it(name: str) -> None:
    verdicts = [claim.check(table_of(name, False)) for claim in FIGURES[name].claims]
    assert [str(verdict) for verdict in verdicts if verdict.word != "does not hold"] == []


@pytest.mark.parametrize("name", FIGURES)
def test_a_claim_without_its_rows_is_not_measured(name: str) -> None:
    verdicts = [claim.check(Table.of([])) for claim in FIGURES[name].claims]
    assert {verdict.word for verdict in verdicts} == {"not measured"}


def test_a_verdict_tells_the_ratio_and_what_was_wanted() -> None:
    claim = Claim("a is twice b", "a to b", lambda table: table.mean("a") / table.mean("b"), at_least=1.5, at_most=2.5)
    held = claim.check(Table.of([{"a": 4, "b": 2}]))
    assert str(held) == "holds: a is twice b (ratio 2, wanted 1.5 to 2.5: a to b)"
    failed = claim.check(Table.of([{"a": 6, "b": 2}]))
    assert str(failed) == "does not hold: a is twice b (ratio 3, wanted 1.5 to 2.5: a to b)"
    missing = claim.check(Table.of([{"a": 4}]))
    assert missing.word == "not measured"
    assert not missing.holds


def test_a_ratio_that_is_no_number_does_not_hold() -> None:
    assert Claim("odd", "nothing", lambda table: nan, at_most=1).check(Table.of([])).word == "does not hold"


def test_steps_and_extremes() -> None:
    assert steps([1, 2, 8]) == [2, 4]
    assert worst([1, 3]) == 3
    assert least([1, 3]) == 1
    with pytest.raises(NotMeasuredError):
        worst([])
