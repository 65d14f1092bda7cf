"""Operations of a few processor instructions, written in LLVM IR for Numba.

Each implements an ``instruction`` of ``pointers``, ``limbs`` or ``runs``, which define its meaning. This module is
loaded only when something is compiled.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import carray, njit, types
from numba.core.imputils import impl_ret_borrowed
from numba.extending import intrinsic, lower_builtin, models, register_model

from crown.compiling.modes import CHECKED

_WORD_BITS = 64

# Pointers
# ----------------------------------------------------------------------------------------------------------------------


class Constants(types.CPointer):
    """The type of a pointer to int64 words that are not written while the kernel runs."""

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
    """Returns the typing and code of a conversion of ``array`` to ``pointer``. A pointer is not changed."""
    if isinstance(array, types.CPointer):
        return array(array), lambda context, builder, signature, args: args[0]

    def codegen(context, builder, signature, args):
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return pointer(array), codegen


def _words(typingctx, array):
    """Returns the pointer to the words of a C-contiguous array, of its own dtype."""
    return _pointer_to(array, types.CPointer(array.dtype))


def _constants(typingctx, array):
    """Returns the pointer to the words (int64) of a C-contiguous array that is not written while the kernel runs."""
    return _pointer_to(array, _CONSTANTS)


def _beyond(typingctx, pointer, index):
    """Returns a pointer advanced by ``index`` words."""
    return pointer(pointer, index), lambda context, builder, signature, args: builder.gep(args[0], [args[1]])


def _prefetch(typingctx, array, index):
    """Starts loading ``array[index]`` into the cache without waiting. ``index`` MUST be >= 0, but may be out of
    bounds."""

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


# Addresses
# ----------------------------------------------------------------------------------------------------------------------


def _loading(bits, signed):
    """Returns the intrinsic that reads ``bits`` bits at an address, as a word."""

    def load(typingctx, address):
        def codegen(context, builder, signature, args):
            # a text begins at any address
            found = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()), align=1)
            if bits == _WORD_BITS:
                return found
            return (builder.sext if signed else builder.zext)(found, ir.IntType(_WORD_BITS))

        return types.int64(types.int64), codegen

    return load


def _pointing(pointer):
    """Returns the intrinsic that converts an address to ``pointer``."""

    def at(typingctx, address, size):
        def codegen(context, builder, signature, args):
            return builder.inttoptr(args[0], context.get_value_type(pointer))

        return pointer(types.int64, types.int64), codegen

    return at


def _viewing(pointer, kind):
    """Returns the function that converts an address to an array, whose indices are checked."""
    at = intrinsic(_pointing(pointer))

    @njit
    def view(address, size):
        return carray(at(address, size), size, kind)

    return view


def _call(typingctx, function, argument):
    """Calls a C function, ``void (void *)``, by its address."""

    def codegen(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        target = builder.inttoptr(args[0], ir.FunctionType(ir.VoidType(), [byte]).as_pointer())
        builder.call(target, [builder.inttoptr(args[1], byte)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


# Arithmetic of words
# ----------------------------------------------------------------------------------------------------------------------


def _high_product(typingctx, a, b):
    """Returns the high word of the product of two words read as unsigned numbers."""

    def codegen(context, builder, signature, args):
        wide = ir.IntType(2 * _WORD_BITS)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, _WORD_BITS)), args[0].type)

    return types.int64(types.int64, types.int64), codegen


def _wrapping(name):
    """Returns the operation ``name`` on words, modulo 2^64. Numba's own operations tell LLVM that they never
    overflow."""

    def operation(typingctx, a, b):
        def codegen(context, builder, signature, args):
            return getattr(builder, name)(*args)

        return types.int64(types.int64, types.int64), codegen

    return operation


# Doubles
# ----------------------------------------------------------------------------------------------------------------------


def _bits_of(source, target, kind):
    """Returns the intrinsic that reads the bits of a value as one of another type."""

    def read(typingctx, value):
        def codegen(context, builder, signature, args):
            return builder.bitcast(args[0], kind)

        return target(source), codegen

    return read


# Runs
# ----------------------------------------------------------------------------------------------------------------------


def _copying(lanes):
    """Returns the intrinsic that copies ``lanes`` words, from 64 or 32 bits to 64."""

    def copy(typingctx, out, to, source, start):
        def codegen(context, builder, signature, args):
            target, to, values, start = args
            bits = signature.args[2].dtype.bitwidth
            found = builder.load(_lanes(builder, values, start, lanes, bits), align=bits // 8)
            if bits < 64:
                found = builder.sext(found, ir.VectorType(ir.IntType(64), lanes))
            builder.store(found, _lanes(builder, target, to, lanes, 64), align=8)
            return context.get_dummy_value()

        return types.void(out, to, source, start), codegen

    return copy


def _filling(lanes):
    """Returns the intrinsic that writes one word ``lanes`` times."""

    def fill(typingctx, out, to, value):
        def codegen(context, builder, signature, args):
            target, to, value = args
            vector = ir.VectorType(ir.IntType(64), lanes)
            every = ir.Constant(vector, ir.Undefined)
            for lane in range(lanes):
                every = builder.insert_element(every, value, ir.Constant(ir.IntType(32), lane))
            builder.store(every, _lanes(builder, target, to, lanes, 64), align=8)
            return context.get_dummy_value()

        return types.void(out, to, types.int64), codegen

    return fill


def _lanes(builder, pointer, index, lanes, bits):
    """Returns the pointer to the vector at word ``index``."""
    return builder.bitcast(builder.gep(pointer, [index]), ir.VectorType(ir.IntType(bits), lanes).as_pointer())


load64, load32, load8 = intrinsic(_loading(64, True)), intrinsic(_loading(32, True)), intrinsic(_loading(8, False))
call = intrinsic(_call)
_WORDS, _HALVES = types.CPointer(types.int64), types.CPointer(types.int32)
if CHECKED:
    words_at = constants_at = _viewing(_WORDS, types.int64)
    halves_at = _viewing(_HALVES, types.int32)
else:
    words_at, halves_at, constants_at = map(intrinsic, map(_pointing, (_WORDS, _HALVES, _CONSTANTS)))
words, constants = intrinsic(_words), intrinsic(_constants)
beyond, prefetch = intrinsic(_beyond), intrinsic(_prefetch)
high_product = intrinsic(_high_product)
plus, minus, times = intrinsic(_wrapping("add")), intrinsic(_wrapping("sub")), intrinsic(_wrapping("mul"))
double_of = intrinsic(_bits_of(types.int64, types.float64, ir.DoubleType()))
word_of = intrinsic(_bits_of(types.float64, types.int64, ir.IntType(_WORD_BITS)))
copy_wide, copy_half = intrinsic(_copying(8)), intrinsic(_copying(4))
fill_wide, fill_half = intrinsic(_filling(8)), intrinsic(_filling(4))
