"""The figures: each is a folder with parameters.toml, measure.py, plot.py and claims.py.

- `parameters.toml`: title, source and claim of the figure, a seed, what all scales share in [every], and the scales.
- `measure.py`: `measure(parameters)` returns the cases; each is timed work that gives rows.
- `claims.py`: `CLAIMS`, functions of the rows.
- `plot.py`: `plot(table)` draws the rows of the CSV and sees nothing else.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.claims import Claim
from experiments.tables import Row, Table

from panewise.cli.nearest import did_you_mean
from panewise.errors import PanewiseError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

FOLDER = Path(__file__).resolve().parent
SCALES = ("tiny", "small", "paper", "large")
Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One step of a measurement: its name in the progress bar, and the work that gives its rows."""

    label: str
    run: Callable[[], Iterable[Row]]


@dataclass(frozen=True)
class Figure:
    """A figure of a paper, by the name of its folder with a hyphen."""

    name: str
    folder: Path

    @cached_property
    def about(self) -> dict[str, Any]:
        """What parameters.toml says."""
        with (self.folder / "parameters.toml").open("rb") as file:
            return tomllib.load(file)

    @property
    def title(self) -> str:
        """One line."""
        return str(self.about["title"])

    def parameters(self, scale: str, seed: int | None = None) -> dict[str, Any]:
        """The parameters of a scale, with those of every scale and a seed."""
        if scale not in self.about:
            raise PanewiseError(f"{self.name} has no scale {scale}{did_you_mean(scale, SCALES)}")
        seed = self.about["seed"] if seed is None else seed
        return {"seed": seed, **self.about.get("every", {}), **self.about[scale]}

    def cases(self, parameters: Parameters) -> list[Case]:
        """The cases to measure."""
        return list(self._part("measure").measure(parameters))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What the paper claims about it."""
        return tuple(self._part("claims").CLAIMS)

    def draw(self, table: Table) -> Drawing:
        """Draw the picture of a table."""
        drawn: Drawing = self._part("plot").plot(table)
        return drawn

    def load(self) -> None:
        """Import every part of the figure."""
        for name in ("measure", "claims", "plot"):
            self._part(name)

    def _part(self, name: str) -> Any:
        return import_module(f"experiments.{self.folder.name}.{name}")


def every_figure() -> dict[str, Figure]:
    """All figures by name, paper by paper and in the order of their numbers."""
    folders = sorted((file.parent for file in FOLDER.glob("*/parameters.toml")), key=_order)
    return {name: Figure(name, folder) for folder in folders for name in [folder.name.replace("_", "-")]}


def chosen(name: str) -> list[Figure]:
    """The figure with this name, or all of them for `all`."""
    figures = every_figure()
    if name == "all":
        return list(figures.values())
    if name not in figures:
        raise PanewiseError(f"there is no figure {name}{did_you_mean(name, [*figures, 'all'])}")
    return [figures[name]]


def _order(folder: Path) -> tuple[str, int]:
    paper, _, number = folder.name.rpartition("_")
    return paper, int(number)
