"""Memory by address, for compiled code only.

An array that is handed from one compiled function to another is counted up and down each time, which takes longer than
reading a byte of it. The inner functions therefore take the address of the bytes, a plain number. The caller in
Python holds the array, so the bytes outlive the call; nothing here looks at bounds.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

BYTE, INT32, WORD = cgutils.int8_t, cgutils.int32_t, cgutils.intp_t


def _intrinsic(function: Any) -> Any:
    """What numba hands to the function as types are numbers and arrays to the caller: no checker follows that."""
    return intrinsic(function)


def _pointer(builder: Any, arguments: Any, kind: Any) -> Any:
    address, index = arguments[:2]
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [index])


@_intrinsic
def address_of(typing_context: Any, array: Any) -> Any:
    """Where the bytes of an array lie. One that was made in compiled code may be gone by the time they are read."""

    def address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ptrtoint(context.make_array(signature.args[0])(context, builder, arguments[0]).data, WORD)

    return types.int64(array), address


@_intrinsic
def byte_at(typing_context: Any, address: Any, place: Any) -> Any:
    """One byte, as a number from 0 to 255."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, arguments, BYTE)), WORD)

    return types.int64(types.int64, types.int64), load


@_intrinsic
def int32_at(typing_context: Any, address: Any, index: Any) -> Any:
    """One number of an array of int32."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.sext(builder.load(_pointer(builder, arguments, INT32)), WORD)

    return types.int64(types.int64, types.int64), load


@_intrinsic
def word_at(typing_context: Any, address: Any, place: Any) -> Any:
    """Eight bytes as one number, the first byte lowest."""

    def load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(builder, arguments, BYTE)
        return builder.load(builder.bitcast(pointer, WORD.as_pointer()), align=1)

    return types.uint64(types.int64, types.int64), load


@_intrinsic
def put_byte(typing_context: Any, address: Any, place: Any, value: Any) -> Any:
    def store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[2], BYTE), _pointer(builder, arguments, BYTE))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), store


@_intrinsic
def put_int32(typing_context: Any, address: Any, index: Any, value: Any) -> Any:
    def store(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(builder.trunc(arguments[2], INT32), _pointer(builder, arguments, INT32))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), store


@_intrinsic
def trailing_zeros(typing_context: Any, word: Any) -> Any:
    """How many of the lowest bits are 0; the word itself is not 0."""

    def count(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)

    return types.int64(types.uint64), count


ONES, TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
QUOTES, BACKSLASHES = np.uint64(0x2222222222222222), np.uint64(0x5C5C5C5C5C5C5C5C)
SPACES = np.uint64(0x2020202020202020)
