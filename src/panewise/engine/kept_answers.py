"""Kept answers: those of one aggregate and one moving window, for each key, until something of the key changes.

Cost: O(keys that are asked for). Space: an answer for each key.
"""

from __future__ import annotations

import numpy as np

from panewise.aggregates.lowering import Lowered
from panewise.arrays import Ints, Numbers


class KeptAnswers:
    """The answers of some keys."""

    def __init__(self, keys: int) -> None:
        self._is_fresh = np.zeros(keys, np.bool_)
        self._answers: Lowered | None = None

    @property
    def nbytes(self) -> int:
        """The memory of all answers."""
        return self._is_fresh.nbytes + (0 if self._answers is None else self._answers.nbytes)

    def cover(self, keys: int) -> None:
        """Have room for the answers of so many keys."""
        missing = keys - len(self._is_fresh)
        self._is_fresh = np.concatenate([self._is_fresh, np.zeros(missing, np.bool_)])
        if self._answers is not None:
            self._answers = Lowered.joined([self._answers, self._answers.take(np.zeros(missing, np.int64))])

    def renumber(self, used: Ints) -> None:
        """Keep some keys, which get the numbers of their places."""
        self._is_fresh = self._is_fresh[used]
        if self._answers is not None:
            # Without a key there is no answer to take after; the next ones tell again what they are made of.
            self._answers = self._answers.take(used) if len(used) else None

    def forget(self, keys: Numbers) -> None:
        """The answers of some keys no longer hold."""
        self._is_fresh[keys] = False

    def stale_among(self, keys: Ints) -> Ints:
        """Those of some keys whose answers are not known."""
        return keys[~self._is_fresh[keys]]

    def put(self, keys: Ints, answers: Lowered) -> None:
        """Keep the answers of some keys."""
        if self._answers is None:
            self._answers = answers.take(np.zeros(len(self._is_fresh), np.int64))
        self._answers.put(keys, answers)
        self._is_fresh[keys] = True

    def of(self, keys: Ints) -> Lowered:
        """The answers of some keys; all are known."""
        assert self._answers is not None
        return self._answers.take(keys)
