"""What is closed when the block of a `with` ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """Has something open. As a context manager it is closed at the end of the block."""

    @abstractmethod
    def close(self) -> None:
        """Free what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
