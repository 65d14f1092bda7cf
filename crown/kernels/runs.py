"""Runs of consecutive words, written eight at a time.

Most runs of an enumeration are short: on soc-Epinions1 a block of 3-hop has eleven tuples. Of a loop the compiler makes
vectors, too, but for sixteen turns and more; it goes through the rest one by one, and since their number is new each
time the processor guesses wrong where they end. Here a run of eight words or more is whole vectors, the last of which
ends where the run does and writes some words a second time. A shorter one is two halves, which overlap likewise.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, njit, types
from numba.extending import intrinsic

from crown.kernels.jit import device

_WIDE, _HALF = 8, 4  # words of a vector, and of a half


def _copying(lanes):
    """Returns the intrinsic that copies so many words, from 64 or 32 bits to 64."""

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
    """Returns the intrinsic that writes one word so many times."""

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
    """Returns the pointer to the vector that begins with word ``index``."""
    return builder.bitcast(builder.gep(pointer, [index]), ir.VectorType(ir.IntType(bits), lanes).as_pointer())


def _copied(lanes):
    """Returns what stands in where indices are checked."""

    def copy(out, to, source, start):
        for x in range(lanes):
            out[to + x] = source[start + x]

    return copy


def _filled(lanes):
    """Returns what stands in where indices are checked."""

    def fill(out, to, value):
        for x in range(lanes):
            out[to + x] = value

    return fill


_copy_wide: Any
_copy_half: Any
_fill_wide: Any
_fill_half: Any
if getattr(config, "DISABLE_JIT", 0):
    _copy_wide, _copy_half, _fill_wide, _fill_half = _copied(_WIDE), _copied(_HALF), _filled(_WIDE), _filled(_HALF)
elif getattr(config, "BOUNDSCHECK", None):
    _copy_wide, _copy_half = njit(_copied(_WIDE)), njit(_copied(_HALF))
    _fill_wide, _fill_half = njit(_filled(_WIDE)), njit(_filled(_HALF))
else:
    _copy_wide, _copy_half = intrinsic(_copying(_WIDE)), intrinsic(_copying(_HALF))
    _fill_wide, _fill_half = intrinsic(_filling(_WIDE)), intrinsic(_filling(_HALF))


@device
def copy_run(out, to, source, start, n):
    """Copies words, or half words, ``start .. start+n`` of ``source`` to words ``to .. to+n`` of ``out``.

    The two do not overlap.
    """
    if n >= _WIDE:
        last = n - _WIDE
        for x in range(0, last, _WIDE):
            _copy_wide(out, to + x, source, start + x)
        _copy_wide(out, to + last, source, start + last)
    elif n >= _HALF:
        _copy_half(out, to, source, start)
        _copy_half(out, to + n - _HALF, source, start + n - _HALF)
    else:
        for x in range(n):
            out[to + x] = source[start + x]


@device
def fill_run(out, to, n, value):
    """Writes one value to words ``to .. to+n`` of ``out``."""
    if n >= _WIDE:
        last = n - _WIDE
        for x in range(0, last, _WIDE):
            _fill_wide(out, to + x, value)
        _fill_wide(out, to + last, value)
    elif n >= _HALF:
        _fill_half(out, to, value)
        _fill_half(out, to + n - _HALF, value)
    else:
        for x in range(n):
            out[to + x] = value
