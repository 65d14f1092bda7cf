"""A hint to the cache.

Fetch the line of an array element that will be needed soon. Never faults, never changes a result.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic


def _prefetch(typingctx, array, index):
    """Start loading ``array[index]`` into the cache and go on at once; ``index`` MUST be >= 0, but not in bounds."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte = ir.IntType(8).as_pointer()
        flag = ir.IntType(32)
        hint = builder.module.declare_intrinsic(
            "llvm.prefetch", [byte], ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        )
        pointer = builder.bitcast(builder.gep(data, [args[1]]), byte)
        builder.call(hint, [pointer, ir.Constant(flag, 0), ir.Constant(flag, 3), ir.Constant(flag, 1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen


def _no_prefetch(array, index):
    """What stands in when kernels run as plain Python (NUMBA_DISABLE_JIT)."""


prefetch: Any = _no_prefetch if getattr(config, "DISABLE_JIT", 0) else intrinsic(_prefetch)
