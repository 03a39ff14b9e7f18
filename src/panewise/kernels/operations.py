"""Operations: how two neighbouring elements of a structure become one.

An element is an int64, a double, or a pair of doubles (`kernels.pairs`) as one complex number: `real` is the high part
and `imag` the low one. One kernel serves all of them, and user-defined functions too: those come as a function
pointer (None for built-in operations), so another function needs no new compilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types
from numba.extending import overload

from panewise.kernels.pairs import add_pairs

ADD, MAX, MIN, USER = range(4)


def combine(operation: int, user: Any, a: Any, b: Any) -> Any:
    """`a` followed by `b`. For use inside kernels only."""
    raise NotImplementedError


@njit
def is_greater(a: Any, b: Any) -> bool:
    """Whether a is above b. NaN is above all numbers; for integers the last test is never true."""
    return bool(a > b or (a != a and b == b))


@overload(combine)
def _combine(operation: Any, user: Any, a: Any, b: Any) -> Any:
    if not isinstance(user, types.NoneType):
        # A kernel of its own for functions: beside a call that may do anything, loops over numbers are not optimised.
        def call_user(operation: Any, user: Any, a: Any, b: Any) -> Any:
            return user(a, b)

        return call_user
    if isinstance(a, types.Complex):

        def combine_pairs(operation: Any, user: Any, a: Any, b: Any) -> Any:
            high, low = add_pairs(a.real, a.imag, b.real, b.imag)
            return complex(high, low)

        return combine_pairs

    def combine_numbers(operation: Any, user: Any, a: Any, b: Any) -> Any:
        if operation == ADD:
            return a + b
        # NaN is above all numbers; for integers the second tests are never true.
        if operation == MAX:
            return b if b > a or b != b else a
        return b if b < a or a != a else a

    return combine_numbers


@njit
def differs(a: Any, b: Any) -> bool:
    """Whether two elements are not the same; a NaN is the same as another."""
    return bool(not (a == b or (a != a and b != b)))


def is_dear(user: Any, element: Any) -> bool:
    """Whether a combine takes longer than a branch that is guessed wrong: pairs and users' functions. For kernels."""
    raise NotImplementedError


@overload(is_dear, inline="always")
def _is_dear(user: Any, element: Any) -> Any:
    if not isinstance(user, types.NoneType) or isinstance(element, types.Complex):

        def dear(user: Any, element: Any) -> Any:
            return True

        return dear

    def cheap(user: Any, element: Any) -> Any:
        return False

    return cheap


def take_off(inverse: Any, whole: Any, prefix: Any) -> Any:
    """`whole` without its `prefix`: the difference, or a user's inverse. For use inside kernels only."""
    raise NotImplementedError


@overload(take_off)
def _take_off(inverse: Any, whole: Any, prefix: Any) -> Any:
    if isinstance(inverse, types.NoneType):

        def difference(inverse: Any, whole: Any, prefix: Any) -> Any:
            return whole - prefix

        return difference

    def call_inverse(inverse: Any, whole: Any, prefix: Any) -> Any:
        return inverse(whole, prefix)

    return call_inverse


@njit(cache=True, nogil=True)
def greatest_magnitude(values: npt.NDArray[np.int64]) -> float:
    """The greatest |value|; 0 if there is no value."""
    least = greatest = 0
    for i in range(len(values)):
        least = min(least, values[i])
        greatest = max(greatest, values[i])
    return max(-float(least), float(greatest))
