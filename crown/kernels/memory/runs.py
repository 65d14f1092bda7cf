"""Copies and fills runs of consecutive words, eight at a time.

Most runs of an enumeration are short: on soc-Epinions1 a block of 3-hop has eleven tuples. The compiler also vectorizes
a loop, but only from sixteen iterations. It runs the rest one by one, and since their number varies, the processor
mispredicts the end of the loop. Here a run of eight words or more consists of whole vectors, and the last vector
overlaps the one before so that it ends with the run. A shorter run consists of two halves, which overlap in the same
way.
"""

from __future__ import annotations

from typing import Any

from crown.kernels.jit import device, instruction

_WIDE, _HALF = 8, 4  # words of a vector, and of a half


def _copied(lanes):
    """Returns the function that replaces the intrinsic when indices are checked."""

    def copy(out, to, source, start):
        for x in range(lanes):
            out[to + x] = source[start + x]

    return copy


def _filled(lanes):
    """Returns the function that replaces the intrinsic when indices are checked."""

    def fill(out, to, value):
        for x in range(lanes):
            out[to + x] = value

    return fill


_copy_wide: Any = instruction(_copied(_WIDE), "copy_wide", indexing=True)
_copy_half: Any = instruction(_copied(_HALF), "copy_half", indexing=True)
_fill_wide: Any = instruction(_filled(_WIDE), "fill_wide", indexing=True)
_fill_half: Any = instruction(_filled(_HALF), "fill_half", indexing=True)


@device
def copy_run(out, to, source, start, n):
    """Copies words, or half words, ``start .. start+n`` of ``source`` to words ``to .. to+n`` of ``out``.

    The ranges must not overlap.
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
