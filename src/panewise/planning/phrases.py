"""What several views of a plan say in the same words."""

from __future__ import annotations

from panewise.aggregates.components import Component
from panewise.language.printer import print_expression
from panewise.planning.trees import StreamPlan

RATE_UNKNOWN = "how much is held depends on the rate; give yours, with --rate or rate=, to see it"


def component_text(stream: StreamPlan, component: Component) -> str:
    """A component and what it is made of, as in `sum_float(price)`."""
    kind, place = component.kind.value, component.input
    return kind if place is None else f"{kind}({print_expression(stream.inputs[place].expression)})"


def rate_text(rate_per_s: float, *, is_assumed: bool) -> str:
    """A rate for people, and whether somebody gave it.

    >>> [rate_text(rate, is_assumed=False) for rate in (12_345.6, 0.0102)], rate_text(1000, is_assumed=True)
    (['12,346 events a second', '0.0102 events a second'], 'an assumed 1,000 events a second')
    """
    shown = f"{rate_per_s:,.0f}" if rate_per_s >= 10 else f"{rate_per_s:.3g}"
    return f"{'an assumed ' if is_assumed else ''}{shown} events a second"
