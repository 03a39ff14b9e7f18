"""The types of attributes and of expressions."""

from __future__ import annotations

from enum import Enum


class Type(Enum):
    """A type of the language. The value is its name in statements."""

    BOOLEAN = "BOOLEAN"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    TIMESTAMP = "TIMESTAMP"

    @property
    def is_number(self) -> bool:
        """Whether arithmetic is defined on it."""
        return self in (Type.BIGINT, Type.DOUBLE)

    @property
    def is_integral(self) -> bool:
        """Whether its values are held as int64."""
        return self in (Type.BIGINT, Type.TIMESTAMP, Type.BOOLEAN)

    def __str__(self) -> str:
        return self.value
