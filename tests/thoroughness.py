"""How thorough random tests are: few examples with every change, many with `make fuzz`."""

from __future__ import annotations

import os

TIMES = float(os.environ.get("PANEWISE_EXAMPLES", "0.4"))
"""What the number of examples that a test asks for is multiplied by."""
FEWEST = 5


def examples(asked: int) -> int:
    """How many examples a test has that asks for so many."""
    return max(min(asked, FEWEST), round(asked * TIMES))
