"""Reading workloads: from a file or a text, and statements on top of a workload that already runs."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from panewise.errors import ArgumentError, FileAccessError, StatementError
from panewise.language.answer_streams import sources_of
from panewise.language.binder import Binding
from panewise.language.for_each import NO_BREAK, ForEach
from panewise.language.limits import check_length, may_have_rows, statements_of
from panewise.language.parser import check_encodable, parse_checked
from panewise.language.shapes import Cut, Templates
from panewise.language.source import PlacedError, UnknownSourceError, excerpt, located, shortened, span_at
from panewise.language.statements import CreateQuery, CreateStream, DropQuery, Statement
from panewise.language.workload import Workload

_MOST_LOOKED_THROUGH = 1000
"""So many statements of a text are looked through for a source that is created too late."""
_EMPTY_HINT = "write CREATE STREAM and CREATE QUERY statements, each ended by ;"


def read(source: str | os.PathLike[str]) -> Workload:
    """Read a workload from a file, or from a text.

    Args:
        source: A path or a text. A string with a line break or a semicolon, or that starts with CREATE, is a text; any
            other is a path.

    Raises:
        StatementError: A statement is wrong; the error has the line, the column and a hint.
        PanewiseError: The file cannot be read.

    Cost: linear in the text. Queries that differ in constants and names alone are parsed once.

    >>> list(read("CREATE STREAM s (t TIMESTAMP) TIMESTAMP BY t;").streams)
    ['s']
    """
    if not isinstance(source, (str, os.PathLike)):
        raise ArgumentError(
            f"a workload is read from a text of statements or from the path of a file, not from {type(source).__name__}"
        )
    if isinstance(source, str) and _is_text(source):
        return apply(Workload(), source)
    return apply(Workload(), read_text(source))


def read_text(path: str | os.PathLike[str]) -> str:
    """The statements in a file, as text."""
    return _decode(_read_bytes(path))


def apply(workload: Workload, text: str) -> Workload:
    """A new workload: the given one after the statements of a text. On an error nothing has changed.

    Cost: linear in the text, and a copy of the workload's dictionaries.
    """
    return changed(workload, text)[0]


def changed(workload: Workload, text: str) -> tuple[Workload, list[str]]:
    """The same, and the names of the queries that the statements created or dropped."""
    if not isinstance(text, str):
        raise ArgumentError(f"statements are given as text, not as {type(text).__name__}")
    with located(text):
        check_encodable(text)
        binding = Binding(workload)
        if not _run(binding, text):
            raise StatementError("there is no statement here", line=1, column=1, hint=_EMPTY_HINT)
    return binding.workload, list(binding.named)


def _run(binding: Binding, text: str) -> bool:
    """Run the statements of a text, one after the other; returns whether there was one.

    Those that differ from an earlier one in constants and the query's name alone are not parsed: so thousands of rows
    of FOR EACH are parsed once.
    """
    templates = Templates()
    has_any = False
    for start, piece in statements_of(text):
        several = ForEach.of(text, start, piece)
        if several is not None:
            run_for_each(binding, templates, text, several)
            has_any = True
            continue
        if may_have_rows(text, start, start + len(piece)):
            check_length(text, start, start + len(piece))
        try:
            has_any |= _run_one(binding, templates, piece)
        except PlacedError:
            # The same again, with its place in the whole text.
            for statement in parse_checked(NO_BREAK.sub(" ", text[:start]) + piece):
                try:
                    binding.run(statement)
                except UnknownSourceError as error:
                    raise _explained(error, statement, text, start) from None
            raise
    return has_any


def _run_one(binding: Binding, templates: Templates, piece: str) -> bool:
    """Run a statement; returns whether there was one."""
    cut = Cut.of(piece)
    query = None if cut is None or binding.has(cut.name) else templates.query(cut)
    if query is not None:
        binding.add(query)
        return True
    statements = parse_checked(piece)
    for statement in statements:
        binding.run(statement)
        match statement:
            case CreateStream() | DropQuery():
                templates.clear()
            case CreateQuery() if cut is not None and cut.name in binding.queries:
                bound = binding.queries[cut.name]
                templates.learn(cut, bound, statement, binding.streams[bound.stream], piece)
    return bool(statements)


def _explained(error: UnknownSourceError, statement: Statement, text: str, start: int) -> PlacedError:
    """What is wrong with a query whose source is created further down: the two may read each other."""
    assert isinstance(statement, CreateQuery)
    first, reads = statement.name.text, _reads_of(text, start)
    if error.name not in reads:
        return error
    way = [first, error.name]
    while way[-1] in reads and way[-1] not in way[:-1]:
        following = [name for name in reads[way[-1]] if name in reads or name == first]
        if not following:
            break
        way.append(first if first in following else following[0])
    if way[-1] in way[:-1]:
        shown = " reads ".join(way[way.index(way[-1]) :])
        hint = "let one of them read a stream: a query reads only queries that were created before it"
        return PlacedError(f"queries read each other in a circle: {shown}", error.span, hint)
    hint = "create it before the query that reads its answers"
    return PlacedError(f"the query {shortened(error.name)} is created only further down", error.span, hint)


def _reads_of(text: str, start: int) -> dict[str, list[str]]:
    """What each query reads that a text creates from some place on, by name; statements with mistakes are left out."""
    found = {}
    for at, piece in islice(statements_of(text), _MOST_LOOKED_THROUGH):
        if at < start:
            continue
        try:
            statements = parse_checked(piece)
        except PlacedError:
            continue
        for one in statements:
            if isinstance(one, CreateQuery):
                found[one.name.text] = [source.text for source in sources_of(one)]
    return found


def run_for_each(binding: Binding, templates: Templates, text: str, several: ForEach) -> None:
    """Run the query of each row. A mistake is shown where it stands in the template, or where its row begins."""
    for row, piece in enumerate(several.statements()):
        try:
            check_length(piece, 0, len(piece))
            _run_one(binding, templates, piece)
        except PlacedError as error:
            place = span_at(text, several.place_of(row, error.span.start))
            raise PlacedError(f"row {row + 1} of FOR EACH: {error.message}", place, error.hint) from None


def _is_text(source: str) -> bool:
    return "\n" in source or ";" in source or not source.strip() or source.lstrip()[:6].upper() == "CREATE"


def _read_bytes(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        message = f"no such file: {os.fspath(path)!r}. A text, unlike a path, begins with CREATE or holds a semicolon"
        raise FileAccessError(message) from None
    except (OSError, ValueError) as error:
        raise FileAccessError(f"cannot read {os.fspath(path)!r}: {error}") from error


def _decode(data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8")
        line_start = before.rfind("\n") + 1
        raise StatementError(
            f"the byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8",
            line=before.count("\n") + 1,
            column=len(before) - line_start + 1,
            text=excerpt(before, len(before)),
            hint="save the file as UTF-8",
        ) from None
    return text.removeprefix("\ufeff")
