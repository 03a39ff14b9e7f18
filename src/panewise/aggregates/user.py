"""User-defined aggregates: any associative function of two numbers that numba can compile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from panewise.aggregates.types import Type
from panewise.errors import ArgumentError

Number = int | float


@dataclass(frozen=True, eq=False)
class UserAggregate:
    """An aggregate given by its functions.

    `combine(a, b)` must be associative, with `identity` neutral on both sides; it gets neighbours in the order of the
    stream and need not be commutative. `inverse(whole, prefix)` is optional: it takes a prefix off again and must be
    exact; R-INT needs it. Both may be plain functions or numba's. `lift` and `lower` are optional and map whole arrays:
    values to elements before combining, and combined elements to answers after it.

    >>> import math
    >>> UserAggregate("gcd", lambda a, b: b if a == 0 else a, identity=0, type=Type.BIGINT).name
    'gcd'
    """

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Number
    type: Type = Type.DOUBLE
    inverse: Callable[[Any, Any], Any] | None = None
    lift: Callable[[Any], Any] | None = None
    lower: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.type not in (Type.BIGINT, Type.DOUBLE):
            raise ArgumentError(f"aggregate {self.name}: its elements must be BIGINT or DOUBLE, not {self.type}")

    @cached_property
    def compiled_combine(self) -> Any:
        """`combine` as a function pointer."""
        return self._compile(self.combine)

    @cached_property
    def compiled_inverse(self) -> Any:
        """`inverse` as a function pointer."""
        if self.inverse is None:
            raise ArgumentError(f"aggregate {self.name} has no inverse; give one, or use a structure that needs none")
        return self._compile(self.inverse)

    def _compile(self, function: Callable[[Any, Any], Any]) -> Any:
        from numba import cfunc, types
        from numba.core.errors import NumbaError

        number = types.int64 if self.type is Type.BIGINT else types.float64
        try:
            return cfunc(number(number, number))(getattr(function, "py_func", function))
        except NumbaError as error:
            raise ArgumentError(
                f"aggregate {self.name}: numba cannot compile its function for {self.type}; "
                f"use numbers, math and NumPy's scalar functions only\n{error}"
            ) from error
