"""The program behind `panewise reproduce`: figures of the papers, measured on this machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.figures import SCALES, chosen, every_figure
from experiments.run import reproduce
from rich.console import Console
from rich.text import Text

from panewise.errors import PanewiseError


def main() -> int:
    """Reproduce what the command line names; without a name, list the figures."""
    parser = argparse.ArgumentParser(prog="panewise reproduce", description=__doc__)
    parser.add_argument("figure", nargs="?", help="a figure, or all")
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--output", type=Path, default=Path("reproduced"))
    parser.add_argument("--seed", type=int)
    parser.add_argument("--redraw", action="store_true")
    parser.add_argument("--traceback", action="store_true")
    options = parser.parse_args()
    console = Console()
    if options.figure is None:
        for figure in every_figure().values():
            console.print(Text(f"{figure.name:12} {figure.title}"), soft_wrap=True)
        return 0
    try:
        figures = chosen(options.figure)
        reproduce(figures, options.scale, options.output, console, seed=options.seed, redraw=options.redraw)
    except PanewiseError as error:
        if options.traceback:
            raise
        Console(stderr=True).print(Text(f"error: {error}", style="red"), soft_wrap=True)
        return 2
    except KeyboardInterrupt:
        Console(stderr=True).print("stopped; figures that were finished are in the output folder")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
