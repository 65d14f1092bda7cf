"""Arrays as bare pointers, and a hint to the cache.

Numba hands an array to a callee as seven words (owner, sizes, strides, ...) and looks at the sign of every index. The
kernels pass five arrays through chains of small functions; as bare pointers each is one register, and an access is one
instruction. So every kernel that Python calls begins by turning its arrays into pointers. With ``NUMBA_BOUNDSCHECK``
or ``NUMBA_DISABLE_JIT`` they stay arrays, flat ones, and every index is checked.

The plan array never changes while a kernel runs, so it is a pointer to *constants*: what was read from it once need
not be read again after every store.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, lower_builtin, models, register_model


class Constants(types.CPointer):
    """Returns the pointer to int64 words that nobody writes while the kernel runs."""

    def __init__(self) -> None:
        super().__init__(types.int64)
        self.name = "int64 const*"

    @property
    def key(self) -> Any:
        """Returns the key of the type."""
        return self.name


register_model(Constants)(models.PointerModel)
_CONSTANTS = Constants()


@lower_builtin(operator.getitem, Constants, types.Integer)
def _load_constant(context, builder, signature, args):
    pointer, index = args
    value = builder.load(builder.gep(pointer, [index]))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return impl_ret_borrowed(context, builder, signature.return_type, value)


def _pointer_to(array, pointer):
    """Returns the typing and code of a conversion of ``array`` to ``pointer``; a pointer stays what it is."""
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, signature, args: args[0]

    def codegen(context, builder, signature, args):
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return pointer(array), codegen


def _words(typingctx, array):
    """Returns the pointer to the words (int64) of a C-contiguous array, of its own dtype."""
    return _pointer_to(array, types.CPointer(array.dtype))


def _constants(typingctx, array):
    """Returns the pointer to the words (int64) of a C-contiguous array that nobody writes meanwhile."""
    return _pointer_to(array, _CONSTANTS)


def _prefetch(typingctx, array, index):
    """Starts loading ``array[index]`` into the cache and go on at once; ``index`` MUST be >= 0, but not in bounds."""

    def codegen(context, builder, signature, args):
        data = args[0]
        if not isinstance(signature.args[0], types.CPointer):
            data = context.make_array(signature.args[0])(context, builder, data).data
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        pointer = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(hint, [pointer, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


def _flat(array):
    """Returns what stands in where indices are checked."""
    return array.reshape(-1)


def _no_prefetch(array, index):
    """Stands in when kernels run as plain Python (NUMBA_DISABLE_JIT)."""


words: Any
constants: Any
prefetch: Any
if getattr(config, "DISABLE_JIT", 0):
    words, constants, prefetch = _flat, _flat, _no_prefetch
elif getattr(config, "BOUNDSCHECK", None):
    words = constants = njit(_flat)
    prefetch = intrinsic(_prefetch)
else:
    words, constants, prefetch = intrinsic(_words), intrinsic(_constants), intrinsic(_prefetch)
