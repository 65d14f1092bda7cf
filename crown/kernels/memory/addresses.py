"""Accesses memory outside of NumPy by address, such as the structs of Arrow's C data interface.

An address is an int64. Nothing is checked: the memory at the address must have the expected form.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from crown.kernels.jit import instruction

_RELEASE = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)


def _load(type_: Any) -> Any:
    def load(address):
        return np.int64(type_.from_address(int(address)).value)  # a word, which wraps

    return load


def _call(function, argument):
    """Calls the C function when kernels run as plain Python."""
    _RELEASE(int(function))(int(argument))


def _array(type_: Any) -> Any:
    def at(address, size):
        return np.ctypeslib.as_array((type_ * int(size)).from_address(int(address)))

    return at


load64: Any = instruction(_load(ctypes.c_int64), "load64")
load32: Any = instruction(_load(ctypes.c_int32), "load32")
load8: Any = instruction(_load(ctypes.c_uint8), "load8")
call: Any = instruction(_call, "call")
words_at: Any = instruction(_array(ctypes.c_int64), "words_at")
halves_at: Any = instruction(_array(ctypes.c_int32), "halves_at")
constants_at: Any = instruction(_array(ctypes.c_int64), "constants_at")
"""Returns the pointer to ``size`` words, half words or constants at ``address`` (see ``pointers``)."""
