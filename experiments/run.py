"""Reproduce figures: measure, write the CSV, check the claims, draw. The first failure stops the run."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from experiments.claims import Verdict
from experiments.drawing import require_matplotlib, save
from experiments.facts import facts
from experiments.figures import Case, Figure
from experiments.tables import Row, Table
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from panewise.errors import PanewiseError

STYLES = {"holds": "green", "does not hold": "yellow", "not measured": "dim"}


def reproduce(
    figures: Sequence[Figure],
    scale: str,
    output: Path,
    console: Console,
    *,
    seed: int | None = None,
    redraw: bool = False,
) -> list[Verdict]:
    """Reproduce figures one after the other; with `redraw`, from the existing CSV files."""
    require_matplotlib()
    output.mkdir(parents=True, exist_ok=True)
    verdicts: list[Verdict] = []
    with _bar(console) as bar:
        # Load everything and make the cases now: a mistake in any figure stops the run before it takes time.
        for figure in figures:
            figure.load()
        work = [(one, [] if redraw else one.cases(one.parameters(scale, seed))) for one in figures]
        task = bar.add_task("", total=sum(len(cases) for _, cases in work))
        for figure, cases in work:
            began = time.monotonic()
            file = output / f"{figure.name}.csv"
            if not redraw:
                table = _measured(figure, cases, scale, seed, bar, task)
                table.write(file)
            found = conclude(figure, Table.read(file), output)
            _show(console, figure, found, time.monotonic() - began, file.with_suffix(".png"))
            verdicts += found
    _count(console, verdicts)
    return verdicts


def conclude(figure: Figure, table: Table, output: Path) -> list[Verdict]:
    """Check the claims of a table that was read from a file, and draw it."""
    verdicts = [claim.check(table) for claim in figure.claims]
    text = "".join(f"{verdict}\n" for verdict in verdicts)
    (output / f"{figure.name}.claims.txt").write_text(text, encoding="utf-8")
    save(figure.draw(table), output / f"{figure.name}.png")
    return verdicts


def _measured(
    figure: Figure, cases: Sequence[Case], scale: str, seed: int | None, bar: Progress, task: TaskID
) -> Table:
    parameters = figure.parameters(scale, seed)
    about = {name: str(figure.about[name]) for name in ("title", "source", "claim")}
    stated = {"figure": figure.name, **about, "scale": scale, "seed": str(parameters["seed"])}
    rows: list[Row] = []
    for case in cases:
        bar.update(task, description=f"{figure.name}: {case.label}")
        try:
            rows += case.run()
        except (Exception, SystemExit) as error:
            raise PanewiseError(f"{figure.name} stopped at {case.label!r}: {type(error).__name__}: {error}") from error
        bar.advance(task)
    return Table.of(rows, {**stated, **facts(), "parameters": json.dumps(parameters)})


def _bar(console: Console) -> Progress:
    return Progress(
        BarColumn(30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        transient=True,
    )


def _show(console: Console, figure: Figure, verdicts: Sequence[Verdict], seconds: float, picture: Path) -> None:
    console.print(Text(f"{figure.name}  {figure.title}", style="bold"), soft_wrap=True)
    for verdict in verdicts:
        console.print(Text(f"  {verdict}", style=STYLES[verdict.word]), soft_wrap=True)
    console.print(Text(f"  {picture}, {seconds:.0f} s", style="dim"), soft_wrap=True)


def _count(console: Console, verdicts: Sequence[Verdict]) -> None:
    words = [verdict.word for verdict in verdicts]
    several = {"holds": "hold", "does not hold": "do not hold"}
    counts = {word: words.count(word) for word in STYLES if word in words}
    text = ", ".join(f"{count} {word if count == 1 else several.get(word, word)}" for word, count in counts.items())
    console.print(f"{len(words)} claims: {text}", highlight=False)
