"""`panewise check`: what is wrong with files of statements, a line for each mistake, as editors read it."""

from __future__ import annotations

from pathlib import Path

from panewise.errors import StatementError
from panewise.language.binder import bind
from panewise.language.for_each import NO_BREAK, templates_of, without_templates
from panewise.language.parser import parse
from panewise.language.reader import apply, read_text
from panewise.language.statements import CreateStream, Statement
from panewise.language.workload import Workload


def mistakes(file: Path) -> list[StatementError]:
    """The mistakes of a file, in their order.

    Statements behind a mistake are checked too, but for syntax, where what follows cannot be read, and for a stream,
    which all queries over it would miss.
    """
    text = ""
    statements: tuple[Statement, ...] = ()
    try:
        text = read_text(file)
        statements = parse(without_templates(text))
        apply(Workload(), text)
    except StatementError as error:
        first = error
    else:
        return []
    # One at a time only now: each binding copies the workload.
    found, workload = [], Workload()
    for statement in statements:
        try:
            workload = bind([statement], text, workload)
        except StatementError as error:
            found.append(error)
            if isinstance(statement, CreateStream):
                break
    else:
        for start, template in templates_of(text):
            try:
                apply(workload, NO_BREAK.sub(" ", text[:start]) + template)
            except StatementError as error:
                found.append(error)
    return sorted(found, key=lambda error: (error.line, error.column)) or [first]


def line_of(file: Path, error: StatementError) -> str:
    """A mistake in a line: the file, the line, the column, what is wrong, and the hint."""
    hint = f" ({error.hint})" if error.hint else ""
    return f"{file}:{error.line}:{error.column}: error: {error.message}{hint}"


def data_of(file: Path, error: StatementError) -> dict[str, object]:
    """A mistake as JSON has it."""
    return {
        "file": str(file),
        "line": error.line,
        "column": error.column,
        "message": error.message,
        "hint": error.hint,
        "text": error.text,
    }
