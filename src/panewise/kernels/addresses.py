"""Addresses: arrays and compiled functions as plain numbers inside kernels.

numba compiles a function anew into each function that calls it, and again into their callers. Where a kernel calls a
function by its address instead, the two are compiled apart, and the function only if somebody asks for its address.
numba lets go of an array after its last use by name: who takes the address of one uses it again after the call, or has
it from a caller.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)


def _make_pointer(context: Any, address: Any) -> Any:
    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), cast


def _make_address(context: Any, array: Any) -> Any:
    def cast(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(context.make_array(array)(context, builder, arguments[0]).data, _WORD)

    return types.int64(array), cast


def _make_load(context: Any, address: Any) -> Any:
    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _WORD.as_pointer()))

    return types.int64(types.int64), load


def _make_call(context: Any, function: Any, numbers: Any) -> Any:
    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = cgutils.unpack_tuple(builder, arguments[1])  # type: ignore[no-untyped-call]
        kind = ir.FunctionType(_WORD, [_WORD] * len(words))
        return builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), words)

    return types.int64(types.int64, numbers), call


pointer_to: Any = types.CPointer
"""pointer_to(type): the type of pointers that a C function takes."""
pointer: Any = intrinsic(_make_pointer)
"""pointer(address): what `carray` takes."""
address_of: Any = intrinsic(_make_address)
"""address_of(array): where a contiguous array begins."""
word_at: Any = intrinsic(_make_load)
"""word_at(address): the int64 there."""
call: Any = intrinsic(_make_call)
"""call(function, numbers): what a C function of int64s, given by its address, returns for a tuple of int64s."""
