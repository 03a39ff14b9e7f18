"""APPROX_TOP_K(x, k): short for the k most frequent values, each with its count, as 2 k aggregates.

An answer has one number, so the value at each rank is an aggregate of its own, APPROX_TOP_ITEM(x, rank), and so is its
count, APPROX_TOP_COUNT(x, rank). The binder expands the short form, with names that show where they come from, and
nothing after the binder knows the short form. All of these aggregates come from the same sketch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from panewise.aggregates.catalogue import CATALOGUE
from panewise.aggregates.types import Type
from panewise.language.expressions import AggregateCall, Expression, Span
from panewise.language.functions import APPROX_TOP_K
from panewise.language.limits import MAX_STATEMENT_CHARACTERS
from panewise.language.model import Query
from panewise.language.printer import print_expression, print_query
from panewise.language.source import PlacedError
from panewise.language.statements import Item, Name
from panewise.language.typecheck import type_of

ITEM, COUNT = "APPROX_TOP_ITEM", "APPROX_TOP_COUNT"


def written_out(item: Item, attributes: Mapping[str, Type]) -> Iterator[Item]:
    """A SELECT item; for APPROX_TOP_K the aggregates that it stands for, named `top[1]`, `top[1] count`, ..."""
    call = item.expression
    if not isinstance(call, AggregateCall) or call.function != APPROX_TOP_K:
        yield item
        return
    assert call.argument is not None
    assert call.parameter is not None
    _check(call, call.argument, attributes)
    label = item.alias.text if item.alias else print_expression(call)
    place = item.alias.span if item.alias else call.span
    for rank in range(1, int(call.parameter) + 1):
        for function, name in ((ITEM, f"{label}[{rank}]"), (COUNT, f"{label}[{rank}] count")):
            yield Item(AggregateCall(function, call.argument, rank, call.over, span=call.span), Name(name, place))


def check_length(query: Query, span: Span) -> None:
    """Refuse a query whose expanded text is too long to be read again."""
    length = len(print_query(query))
    if length > MAX_STATEMENT_CHARACTERS:
        message = f"the query written out makes {length:,} characters, at most {MAX_STATEMENT_CHARACTERS:,}"
        raise PlacedError(message, span, "ask for fewer values and use fewer aliases, or write several queries")


def _check(call: AggregateCall, argument: Expression, attributes: Mapping[str, Type]) -> None:
    """Refuse values that do not fit into answers, and say what to use instead."""
    found = type_of(argument, attributes)
    if found is None or CATALOGUE[ITEM].accepts(found):
        return
    written = print_expression(argument)
    raise PlacedError(
        f"{APPROX_TOP_K} needs {' or '.join(str(kind) for kind in Type if CATALOGUE[ITEM].accepts(kind))}, "
        f"{written} is {found}, and an answer is a number",
        call.span,
        f"the row query SELECT TOP_K({written}, {call.parameter}) gives such values, and {COUNT}({written}, 1) tells "
        f"how often the most frequent one occurs",
    )
