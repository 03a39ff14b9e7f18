"""The `panewise` command. Each part imports what it needs when it runs: `panewise --help` starts nothing."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from traceback import print_exception
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from panewise import __version__
from panewise.cli.exit_codes import ExitCode, exit_code_of, failure
from panewise.errors import PanewiseError
from panewise.extras import require

_TRACEBACK = "traceback"
_JSON_LINES = "json lines"


class _Commands(TyperGroup):
    """The group of all commands. It shows an error that Panewise raises on purpose as a sentence.

    Commands that print JSON lines print the failure as the last of them too, whatever it is.
    """

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except PanewiseError as error:
            _tell(ctx, error)
            if ctx.meta.get(_TRACEBACK):
                print_exception(error)
            Console(stderr=True).print(Text(f"error: {error}", style="red"), soft_wrap=True)
            raise typer.Exit(exit_code_of(error)) from None
        except Exception as error:
            # With an exit code of its own it is no fault, but how the command line ends a command.
            if not hasattr(error, "exit_code") and not isinstance(error, typer.Abort):
                _tell(ctx, error)
            raise


def _tell(ctx: Any, error: Exception) -> None:
    if ctx.meta.get(_JSON_LINES):
        print(dumps(failure(error)), flush=True)


app = typer.Typer(
    name="panewise",
    cls=_Commands,
    help="Thousands of sliding-window aggregate queries over one stream, for about the price of one.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"panewise {__version__}")
        raise typer.Exit


def _keep_traceback(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_TRACEBACK] = True


def _keep_json(ctx: typer.Context, wanted: bool) -> bool:
    ctx.meta[_JSON_LINES] = wanted
    return wanted


Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show where an error comes from.", callback=_keep_traceback)
]
_JOB_FOLDER = typer.Argument(
    metavar="FOLDER", help="The folder of a job on Spark: answers(folder=...).", readable=False
)


@app.callback()
def _panewise(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
    traceback: Traceback = False,
) -> None:
    pass


@app.command()
def plan(
    file: Annotated[Path, typer.Argument(metavar="FILE.sql", help="Statements: streams and queries.")],
    rate: Annotated[float | None, typer.Option(help="Events per second; without it, no memory is told.")] = None,
    groups: Annotated[
        list[str] | None,
        typer.Option("--groups", metavar="ATTRIBUTE=N", help="About how many values an attribute has."),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option("--measured", help="Count nanoseconds as `panewise calibrate` measured them, not operations."),
    ] = False,
    method: Annotated[
        str, typer.Option(help="Which method decides what shares a tree, such as no_share or shared.")
    ] = "weave_share",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Also draw fragments and windows into this file.")
    ] = None,
    traceback: Traceback = False,
) -> None:
    """Show how queries would be answered together, and at what cost."""
    from panewise.cli.plan import draw_plan, make_plan, show_plan

    made = make_plan(file, rate_per_s=rate, groups=groups or [], measured=measured, method=method)
    if picture is not None:
        draw_plan(made, picture)
    show_plan(made, Console(), as_json=json)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.sql...", help="Statements: streams and queries.")],
    json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each mistake.")] = False,
    traceback: Traceback = False,
) -> None:
    """Check files of statements. Each mistake is a line FILE:LINE:COLUMN: error: ..., and the exit code is 2."""
    from panewise.cli.check import data_of, line_of, mistakes

    wrong = [(file, error) for file in files for error in mistakes(file)]
    for file, error in wrong:
        print(dumps(data_of(file, error)) if json else line_of(file, error))
    if wrong:
        raise typer.Exit(ExitCode.PERMANENT)


@app.command(name="format")
def format_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.sql...", help="Statements: streams and queries.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: list the files that would change; exit code 4.")
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Lay out files of statements in one manner: keywords in capitals, a line for each clause, comments kept."""
    from panewise.cli.layout import lay_out

    changed = lay_out(files, is_dry=check)
    for file in changed:
        print(file)
    if check and changed:
        raise typer.Exit(ExitCode.DIFFERS)


@app.command()
def run(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="Queries, sources, sink and settings.", readable=False)
    ],
    json: Annotated[
        bool,
        typer.Option(
            "--json",
            help="Print JSON lines: one for each batch, and one at the end or at a failure.",
            callback=_keep_json,
        ),
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Answer the queries of a job on Spark, as a stream or as a batch. Ctrl-C and SIGTERM stop after a batch."""
    require("spark", "panewise run")
    from panewise.cli.run import run_job

    run_job(job, Console(stderr=json), verbose=traceback, as_json=json)


@app.command()
def training_set(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="Queries, labels, events and output.", readable=False)
    ],
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON instead of text, at a failure too.", callback=_keep_json)
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Give every label of a file the answers of all queries as they were at its time."""
    from panewise.cli.training_set import write_training_set

    typer.echo(write_training_set(job, as_json=json))


@app.command()
def audit(
    log: Annotated[
        Path, typer.Argument(metavar="LOG", help="The log of a client: LookupClient(..., log=...).", readable=False)
    ],
    events: Annotated[
        list[str],
        typer.Argument(
            metavar="EVENTS...", help="A file or folder of events; STREAM=PATH for each of several streams."
        ),
    ],
    queries: Annotated[
        Path | None, typer.Option(metavar="FILE.sql", help="Replay with these statements, not with those of the log.")
    ] = None,
    arrived: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of events with the batch that brought each.")
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON lines: one for each difference, then the counts.", callback=_keep_json),
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Replay logged lookups through a training set: what agrees, and what differs and why. Exit code 4: some differ."""
    from panewise.cli.audit import run_audit

    raise typer.Exit(run_audit(log, events, queries=queries, arrived=arrived, as_json=json))


@app.command()
def lookup(
    folder: Annotated[Path, _JOB_FOLDER],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="The query's name.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="ATTRIBUTE=VALUE", help="The group to show; without it, all groups."),
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="Look it up at this time (UTC) instead of now.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Print again whenever the answers change.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines instead of a table.", callback=_keep_json)
    ] = False,
    traceback: Traceback = False,
) -> None:
    """Look up the answers of a query that runs on Spark, as they are now."""
    from panewise.cli.lookup import look_up

    raise typer.Exit(look_up(folder, query, Console(), keys=key or [], at=at, watch=watch, as_json=json))


@app.command()
def queries(
    folder: Annotated[Path, _JOB_FOLDER],
    statements: Annotated[
        bool, typer.Option("--statements", help="List all statements that came, and those that were refused.")
    ] = False,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE.sql", help="Say if the job would take these statements; send nothing.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
    traceback: Traceback = False,
) -> None:
    """List the queries that a job on Spark has now, and which statement brought each."""
    from panewise.cli.queries import check_statements, show_queries

    if check is not None:
        check_statements(folder, check, Console())
    else:
        show_queries(folder, Console(), statements=statements, as_json=json)


@app.command()
def serve(
    folder: Annotated[Path | None, _JOB_FOLDER] = None,
    engine: Annotated[
        Path | None, typer.Option(metavar="FILE.sql", help="Answer these queries here; events come by POST.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Replay a year of flights, again and again.")] = False,
    control: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the job's control stream reads statements.")
    ] = None,
    metrics: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The job's metrics file, to show the health of its batches.")
    ] = None,
    share: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Share memory with other servers over FOLDER; a directory of your own."),
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen at; another than loopback needs a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8787,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token that clients must send; else PANEWISE_TOKEN.")
    ] = None,
    certificate: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Serve with TLS.")] = None,
    certificate_key: Annotated[Path | None, typer.Option(metavar="FILE.pem", help="Its private key.")] = None,
    most_age: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Not ready if the newest events are older than this.")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Add and drop no queries.")] = False,
    traceback: Traceback = False,
) -> None:
    """Answer lookups over HTTP, live answers too, with a page to watch them."""
    require("serve", "panewise serve")
    from panewise.cli.serve import run_server
    from panewise.serve.server import Address

    address = Address(host, port, certificate, certificate_key)
    run_server(
        folder,
        engine,
        address,
        is_demo=demo,
        control=control,
        share=share,
        metrics=metrics,
        token_file=token_file,
        most_age_s=most_age,
        read_only=read_only,
    )


@app.command()
def calibrate(
    output: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Where to store it, instead of the user's configuration.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    traceback: Traceback = False,
) -> None:
    """Measure what operations cost on this machine, so that plans use these costs."""
    from panewise.cli.calibrate import calibrate_text

    typer.echo(calibrate_text(output, as_json=json))


@app.command()
def demo(traceback: Traceback = False) -> None:
    """Answer a hundred queries over a year of flights, beside plain Spark."""
    require("demo", "panewise demo")
    from panewise.cli.demo.demo import run_demo

    run_demo()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []})
def bench(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(help="Its name; without one, all are listed.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    traceback: Traceback = False,
    show_help: Annotated[bool, typer.Option("--help", help="Show this message, or the help of the named one.")] = False,
) -> None:
    """Run a benchmark of a source checkout. Everything after the name is passed to it."""
    from panewise.cli.bench import benchmarks, run_benchmark

    if name is None:
        typer.echo(ctx.get_help() if show_help else "\n".join(benchmarks()))
        return
    flags = {"--json": json, "--help": show_help}
    raise typer.Exit(run_benchmark(name, [*(flag for flag, is_set in flags.items() if is_set), *ctx.args]))


@app.command()
def reproduce(
    figure: Annotated[
        str | None, typer.Argument(metavar="FIGURE", help="Its name, or all; without one, all are listed.")
    ] = None,
    scale: Annotated[
        str, typer.Option(help="small (all figures in a quarter of an hour), paper, large (beyond it), or tiny.")
    ] = "small",
    output: Annotated[Path, typer.Option(metavar="DIR", help="Where measurements and pictures go.")] = Path(
        "reproduced"
    ),
    seed: Annotated[int | None, typer.Option(help="A seed to use instead of the figure's own.")] = None,
    redraw: Annotated[bool, typer.Option("--redraw", help="Measure nothing: draw and check old numbers.")] = False,
    traceback: Traceback = False,
) -> None:
    """Reproduce a figure of the papers in a source checkout: measure, draw, and check what they claim."""
    from panewise.cli.reproduce import run_experiments

    arguments = ["--scale", scale, "--output", str(output)]
    arguments += [figure] if figure is not None else []
    arguments += ["--seed", str(seed)] if seed is not None else []
    arguments += ["--redraw"] if redraw else []
    arguments += ["--traceback"] if traceback else []
    raise typer.Exit(run_experiments(arguments))
