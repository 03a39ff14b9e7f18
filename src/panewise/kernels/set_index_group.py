"""The G-INDEX in arrays: sorted groups and their counts, merged with a sorted file of changes (Indexing, 4.3)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Ints = npt.NDArray[np.int64]


@njit(cache=True, nogil=True)
def delta_file(new: Ints, new_weights: Ints, old: Ints, old_weights: Ints) -> tuple[Ints, Ints]:
    """The changes that an arriving and a leaving basic window make: groups in order, each with its difference."""
    groups = np.empty(len(new) + len(old), np.int64)
    changes = np.empty(len(groups), np.int64)
    size = 0
    i = 0
    j = 0
    while i < len(new) or j < len(old):
        comes = j == len(old) or (i < len(new) and new[i] <= old[j])
        group = new[i] if comes else old[j]
        change = new_weights[i] if comes else -old_weights[j]
        i += 1 if comes else 0
        j += 0 if comes else 1
        if size and groups[size - 1] == group:
            changes[size - 1] += change
        else:
            groups[size] = group
            changes[size] = change
            size += 1
    return groups[:size], changes[:size]


@njit(cache=True, nogil=True)
def merge_groups(
    groups: Ints, counts: npt.NDArray[np.int64], side: int, changed: Ints, changes: Ints
) -> tuple[Ints, npt.NDArray[np.int64]]:
    """Apply a file of changes to one side; leave out groups that no side counts any more."""
    sides = len(counts)
    merged = np.empty(len(groups) + len(changed), np.int64)
    out = np.zeros((sides, len(merged)), np.int64)
    size = 0
    i = 0
    j = 0
    while i < len(groups) or j < len(changed):
        has = i < len(groups) and (j == len(changed) or groups[i] <= changed[j])
        changes_it = j < len(changed) and (i == len(groups) or changed[j] <= groups[i])
        merged[size] = groups[i] if has else changed[j]
        total = 0
        for each in range(sides):
            out[each, size] = counts[each, i] if has else 0
            out[each, size] += changes[j] if changes_it and each == side else 0
            total += out[each, size]
        i += 1 if has else 0
        j += 1 if changes_it else 0
        size += 1 if total else 0
    return merged[:size], out[:, :size].copy()
