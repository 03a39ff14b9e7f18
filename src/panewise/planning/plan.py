"""The plan of a workload, with the ways to look at it. `panewise.planning.optimize` makes plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from panewise.planning.cost import cost_of
from panewise.planning.picture import draw
from panewise.planning.show import plan_html, plan_text
from panewise.planning.trees import PlanContent


@dataclass(frozen=True, repr=False)
class Plan(PlanContent):
    """The plan of a workload."""

    def __repr__(self) -> str:
        return plan_text(self)

    def _repr_html_(self) -> str:
        return plan_html(self)

    @property
    def cost(self) -> float:
        """The cost of all bases and trees together, in operations a second."""
        return cost_of(self)

    def picture(self) -> str:
        """The plan as an SVG picture: fragments on a time line, and the windows over them."""
        return draw(self)

    def explain(self) -> str:
        """The plan as text: trees, what they hold, and which queries are in them."""
        # It loads compiled code, for which other uses of a plan do not wait.
        from panewise.planning.explain import explain_text

        return explain_text(self)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data, for JSON."""
        # It loads compiled code, for which other uses of a plan do not wait.
        from panewise.planning.explain import explain_data

        return explain_data(self)
