"""Far parts of the sums of groups. Few groups have them, so they are stored apart from the groups' states.

In dense form, a far part is a row of an int64 matrix. In a stage's arena it is a block (``crown.kernels.numbers.far``).
"""

from __future__ import annotations

from crown.kernels.jit import kernel
from crown.kernels.memory.arena import H_BUDGET, H_LIVE
from crown.kernels.memory.pointers import words
from crown.kernels.numbers.far import load_far, release_far, store_far
from crown.kernels.numbers.fixed import FAR_SHIFT, lift_far, widen
from crown.kernels.numbers.limbs import add, extend, is_zero, multiply, multiply_word, negate


@kernel("words, int, table")
def lift(codes, limbs, out):
    """Writes doubles (``codes`` int64[n], their bits) as integers in units of 2^-1136 (``out`` int64[n, limbs])."""
    n = codes.size
    codes, out = words(codes), words(out)
    for i in range(n):
        lift_far(codes[i], out, i * limbs, limbs)


@kernel("words, words, int, table")
def load(arena, handles, limbs, out):
    """Writes the numbers with these handles to ``out``, int64[n, limbs]."""
    n = handles.size
    arena, handles, out = words(arena), words(handles), words(out)
    for i in range(n):
        load_far(arena, handles[i], out, i * limbs, limbs)


@kernel("words, table, int, words, words")
def store(arena, numbers, limbs, handles, done):
    """Stores numbers (int64[n, limbs]) from position ``done[0]`` on. Writes their handles to ``handles`` (int64[n]).

    Returns False if the budget is used up; call it again to continue.
    """
    n = handles.size
    arena, numbers, handles, done = words(arena), words(numbers), words(handles), words(done)
    for i in range(done[0], n):
        if arena[H_LIVE] > arena[H_BUDGET]:
            return False
        handles[i] = store_far(arena, numbers, i * limbs, limbs)
        done[0] = i + 1
    return True


@kernel("words, words")
def free(arena, handles):
    """Frees the numbers with these handles."""
    n = handles.size
    arena, handles = words(arena), words(handles)
    for i in range(n):
        release_far(arena, handles[i])


@kernel("table, int, int, int, table")
def widen_all(near, limbs, doubles, wide, out):
    """Writes near parts (int64[n, limbs]) of products of ``doubles`` doubles as far parts (``out`` int64[n, wide])."""
    n = out.size // wide
    near, out = words(near), words(out)
    for i in range(n):
        widen(out, i * wide, wide, near, i * limbs, limbs, doubles)


@kernel("table, table, int")
def add_all(out, numbers, limbs):
    """Adds ``numbers`` to ``out``, both int64[n, limbs]."""
    n = out.size
    out, numbers = words(out), words(numbers)
    for i in range(0, n, limbs):
        add(out, i, numbers, i, limbs)


@kernel("table, int, flags")
def zeros(numbers, limbs, out):
    """Writes to ``out`` (bool[n]) which numbers (int64[n, limbs]) are 0."""
    n = out.size
    numbers = words(numbers)
    for i in range(n):
        out[i] = is_zero(numbers, i * limbs, limbs)


@kernel("words, table, int, words, int, words, table")
def carry_slices(where, payload, sign, recipe, limbs, scratch, out):
    """Adds ``sign`` times the slices that events carry (``payload`` int64[words, n]) to numbers (int64[m, limbs]).

    ``where``: the number of each event. ``recipe``: the number of parts; for each its first word and its limbs, the
    number of additional doubles in the sum's product, then the limbs of a coefficient and its value, or its position in
    ``recipe`` if it has several limbs; limbs 0 mean the coefficient 1. ``scratch`` int64[3 * limbs].
    """
    n = where.size
    where, payload, recipe, scratch, out = words(where), words(payload), words(recipe), words(scratch), words(out)
    for i in range(n):
        r = 1
        for _ in range(recipe[0]):
            word, m, more, c, factor = recipe[r], recipe[r + 1], recipe[r + 2], recipe[r + 3], recipe[r + 4]
            r += 5
            below = payload[(word + m) * n + i] - 1
            if below < 0:
                continue
            below += FAR_SHIFT * more
            for x in range(below):
                scratch[x] = 0
            for x in range(below, limbs):
                scratch[x] = payload[(word + min(x - below, m - 1)) * n + i]
                if x - below >= m:
                    scratch[x] >>= 63
            if c == 1:
                multiply_word(scratch, 0, limbs, factor)
            elif c > 1:
                extend(scratch, limbs, limbs, recipe, factor, c)
                multiply(scratch, 2 * limbs, scratch, 0, scratch, limbs, limbs)
                extend(scratch, 0, limbs, scratch, 2 * limbs, limbs)
            if sign < 0:
                negate(scratch, 0, limbs)
            add(out, where[i] * limbs, scratch, 0, limbs)
