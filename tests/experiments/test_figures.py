"""Every figure is a whole folder: parameters for each scale, cases, claims, and a picture from a table alone."""

from __future__ import annotations

import pytest
from experiments.figures import SCALES, chosen, every_figure
from experiments.tables import Table
from tests.experiments.made_up import MADE_UP

from panewise.errors import PanewiseError

pytest.importorskip("matplotlib")

FIGURES = every_figure()
PAPERS = {
    "indexing": (7, 8, 9),
    "sharing": (9, 10, 11, 12),
    "tr1536": (3, 4, 5, 6, 9, 10),
    "weave": (4, 5, 6, 7, 8, 9, 10, 11, 14),
}


def test_all_figures_are_there_in_order() -> None:
    assert list(FIGURES) == [f"{paper}-{number}" for paper, numbers in PAPERS.items() for number in numbers]
    assert list(FIGURES) == sorted(MADE_UP, key=lambda name: (name.split("-")[0], int(name.split("-")[1])))


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_says_what_it_is(name: str) -> None:
    about = FIGURES[name].about
    assert f"Figure {name.split('-')[1]}," in about["source"]
    assert set(about) - {"every"} == {"title", "source", "claim", "seed", *SCALES}


@pytest.mark.parametrize("name", FIGURES)
def test_scales_have_the_same_parameters_and_cases_to_run(name: str) -> None:
    figure = FIGURES[name]
    assert len({frozenset(figure.parameters(scale)) for scale in SCALES}) == 1
    for scale in SCALES:
        cases = figure.cases(figure.parameters(scale))
        assert cases
        assert len({case.label for case in cases}) > len(cases) // 6


@pytest.mark.parametrize("name", FIGURES)
def test_a_picture_is_drawn_from_the_table_alone(name: str) -> None:
    figure = FIGURES[name]
    facts = {key: str(figure.about[key]) for key in ("title", "source", "claim")}
    drawing = figure.draw(Table.of(MADE_UP[name](True), facts))
    for axes in drawing.axes:
        assert axes.get_ylabel()
        assert axes.has_data()
    shown = " ".join(text.get_text() for text in drawing.texts)
    assert " ".join(facts["claim"].split()) in " ".join(shown.split())


def test_another_seed() -> None:
    assert FIGURES["weave-4"].parameters("tiny", seed=5)["seed"] == 5
    assert FIGURES["weave-4"].parameters("tiny")["seed"] == 1


def test_a_figure_that_is_not_there() -> None:
    with pytest.raises(PanewiseError, match="did you mean weave-4"):
        chosen("weav-4")
    with pytest.raises(PanewiseError, match="no scale"):
        FIGURES["weave-4"].parameters("huge")
    assert [figure.name for figure in chosen("all")] == list(FIGURES)
