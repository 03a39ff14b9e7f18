"""The H-INDEX: values in hash buckets (Indexing, section 4.2).

Invariant: a value is in the bucket that it hashes to; each bucket is a list, values ascending.
Cost: O(D / h) to find a value, O(1) when the buckets grow with the values; a sorted answer sorts D values.
Needs: nothing. Space: 2 D and h buckets beside counts.

The number of buckets doubles when there are as many values, unless it is fixed as in the paper's experiments.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from panewise.arrays import Ints
from panewise.errors import IndexingError
from panewise.indexes.set_index import FIRST_NODES, NodeIndex
from panewise.indexes.sheet import Cost, SetIndexSheet, log2
from panewise.kernels.set_index_hash import (
    bucket_of,
    find_in_buckets,
    locate_in_buckets,
    rehash,
    remove_from_buckets,
    scan_buckets,
)

_NO_LIMIT = np.iinfo(np.int64).max


class HashIndex(NodeIndex):
    """Values in hash buckets; `buckets` fixes their number, otherwise there are about as many buckets as values."""

    sheet: ClassVar[SetIndexSheet] = SetIndexSheet(
        name="h_index",
        title="H-INDEX",
        source="4.2",
        locate=Cost("D/h", lambda s: s.chain),
        histogram=Cost("D log D", lambda s: s.distinct * log2(s.distinct)),
        space=Cost("2 D + h", lambda s: 2.0 * s.distinct + s.distinct / s.chain),
    )

    def __init__(self, sides: int = 1, purge: str = "periodic", buckets: int | None = None) -> None:
        super().__init__(sides, purge)
        if buckets is not None and not 0 < buckets < 1 << 31:
            raise IndexingError(f"the H-INDEX needs at least one bucket, got {buckets}")
        self._is_fixed = buckets is not None
        self._heads = np.full(buckets or FIRST_NODES, -1, np.int64)

    @property
    def scans_in_order(self) -> bool:
        """A scan goes bucket by bucket."""
        return False

    def _locate(self, codes: Ints, begin: int, out: Ints) -> int:
        most = _NO_LIMIT if self._is_fixed else len(self._heads)
        done = locate_in_buckets(codes, begin, out, self.state, self.values, self.links, self._heads, most)
        return int(done)

    def _grow(self) -> None:
        self.grow_nodes()
        if not self._is_fixed and self.nodes_held() >= len(self._heads):
            nodes = self.scan_nodes()
            nodes = nodes[np.argsort(self.values[nodes])]
            self._heads = np.full(2 * len(self._heads), -1, np.int64)
            rehash(nodes, self.values, self.links, self._heads)

    def find(self, codes: Ints) -> Ints:
        """The node of each code, -1 where there is none."""
        return find_in_buckets(codes, self.values, self.links, self._heads)

    def scan_nodes(self) -> Ints:
        """Every node, bucket by bucket."""
        return scan_buckets(self.state, self.links, self._heads)

    def _remove(self, nodes: Ints) -> None:
        remove_from_buckets(nodes, self.state, self.values, self.links, self._heads)

    def clear(self) -> None:
        """Empty the index."""
        super().clear()
        self._heads[:] = -1

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return super().nbytes + self._heads.nbytes

    def _check_links(self) -> None:
        for bucket, head in enumerate(self._heads.tolist()):
            node, before = head, None
            while node >= 0:
                value = int(self.values[node])
                assert bucket_of(value, len(self._heads)) == bucket, "a value is in the wrong bucket"
                assert before is None or before < value, "a bucket is not sorted"
                node, before = int(self.links[node]), value
