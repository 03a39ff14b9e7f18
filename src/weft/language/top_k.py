"""APPROX_TOP_K(x, k): short for the k most frequent values, each with its count, as 2 k aggregates.

An answer has one number, so the value at each rank is an aggregate of its own, APPROX_TOP_ITEM(x, rank), and so is its
count, APPROX_TOP_COUNT(x, rank). The binder writes the short form out, with names that show where they come from, and
nobody behind it knows the short form. All of them are made of the same sketch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.aggregates.catalogue import CATALOGUE
from weft.aggregates.types import Type
from weft.language.expressions import AggregateCall, Expression, Span
from weft.language.functions import APPROX_TOP_K
from weft.language.limits import MAX_STATEMENT_CHARACTERS
from weft.language.model import Query
from weft.language.printer import print_expression, print_query
from weft.language.source import PlacedError
from weft.language.statements import Item, Name
from weft.language.typecheck import type_of

ITEM, COUNT = "APPROX_TOP_ITEM", "APPROX_TOP_COUNT"


def written_out(item: Item, attributes: Mapping[str, Type]) -> Iterator[Item]:
    """A SELECT item as it is; of APPROX_TOP_K the aggregates that it stands for, named `top[1]`, `top[1] count`, ..."""
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
            yield Item(AggregateCall(function, call.argument, rank, span=call.span), Name(name, place))


def check_length(query: Query, span: Span) -> None:
    """Refuse a query that could not be read again as it is written out."""
    length = len(print_query(query))
    if length > MAX_STATEMENT_CHARACTERS:
        message = f"{APPROX_TOP_K} written out makes {length:,} characters, at most {MAX_STATEMENT_CHARACTERS:,}"
        raise PlacedError(message, span, "ask for fewer values, or write several queries")


def _check(call: AggregateCall, argument: Expression, attributes: Mapping[str, Type]) -> None:
    """Refuse values that answers have no place for, and say what has."""
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
