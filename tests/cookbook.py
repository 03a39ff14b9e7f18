"""The queries of the cookbook in docs/language.md, and events that make them answer."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import panewise
from panewise.aggregates.types import Type
from panewise.language.expressions import Cast, ScalarCall, walk
from panewise.language.model import Query, Stream
from panewise.language.workload import Workload

PAGE = Path(__file__).parents[1] / "docs" / "language.md"
FIRST_S = 1_729_879_200
"""The evening of 2024-10-25: clocks go back in Berlin in the night to the 27th."""
STRINGS = {"stock": "AB", "card": "xyz", "merchant": "mn", "country": "DE FR", "service": "api web"}
NUMBERS = {"price": (20, 60), "volume": (1, 500), "amount": (1, 150), "status": (200, 204), "ms": (20, 600)}


def cookbook() -> Workload:
    """The workload of the section."""
    text = PAGE.read_text(encoding="utf-8").partition("## Cookbook")[2].partition("\n## ")[0]
    return panewise.read("\n".join(re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)))


def events_of(stream: Stream, count: int = 150) -> list[dict[str, Any]]:
    """Events of two days, most of them in bursts, the same each time."""
    dice = random.Random(stream.name)
    rows, time_s = [], FIRST_S
    for _ in range(count):
        time_s += dice.choice((5, 5, 5, 20, 20, 20, 40, 60, 300, 9_000))
        rows.append({name: _value(dice, name, kind, time_s) for name, kind in stream.attributes.items()})
    return rows


def _value(dice: random.Random, name: str, kind: Type, time_s: int) -> Any:
    if kind is Type.TIMESTAMP:
        return time_s * 1_000_000
    if kind is Type.STRING:
        return dice.choice(STRINGS[name].split() if " " in STRINGS[name] else STRINGS[name])
    if kind is Type.BOOLEAN:
        return dice.random() < 0.6
    if name == "amount" and dice.random() < 0.6:
        return 1.5
    if name == "status":
        return dice.choice((200, 200, 404, 500))
    low, high = NUMBERS.get(name, (0, 1000))
    whole = dice.randint(low, high) if dice.random() < 0.95 else high * 50
    # Halves and quarters add up without rounding, so that answers can be compared to the last bit.
    return whole if kind is Type.BIGINT else whole + dice.randint(0, 3) / 4


def has_functions(query: Query) -> bool:
    """Whether a query uses functions, which the oracle does not know."""
    shown = [item.expression for item in query.select] + [one for one in (query.where, query.having) if one is not None]
    return any(isinstance(node, ScalarCall | Cast) for expression in shown for node in walk(expression))
