"""The position of each row among those of its group, where groups come one after the other."""

from __future__ import annotations

import numpy as np

from panewise.arrays import Ints


def positions(groups: Ints) -> Ints:
    """The position of each row in its group, from 1 on.

    >>> positions(np.array([7, 7, 9])).tolist()
    [1, 2, 1]
    """
    starts = np.flatnonzero(np.diff(groups, prepend=groups[:1] - 1))
    lengths = np.diff(np.append(starts, len(groups)))
    return np.arange(len(groups)) - np.repeat(starts, lengths) + 1
