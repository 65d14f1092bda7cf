"""Change propagation by joins: nested index loops that a program describes.

First-order, higher-order and standard change propagation differ only in their programs
(``bench.subjects.baselines.programs``). A program belongs to an atom. Each of its steps binds one more relation by an
index look-up on the bound attributes, and may store the tuple bound so far in a materialized relation. At the end the
tuple is emitted, or added to a view.

Program: number of steps, action (``EMIT``, ``ADD``, ``DISTINCT``), relation of the action, offset of the steps. Step:
index, number of attributes that it binds, offset of (position in row, attribute) pairs, relation to store in or -1,
payload position if the relation counts derivations or -1.
"""

from __future__ import annotations

from bench.subjects.baselines.kernels.sink import S_CAPACITY, S_TOUCHED, S_WIDTH, emit, flush
from bench.subjects.baselines.kernels.store import I_KEY, P_OUT, P_OUTS, group_of, list_base, store_add
from crown.kernels.jit import device, kernel
from crown.kernels.memory.arena import at32, hi
from crown.kernels.memory.pointers import constants, words

EMIT, ADD, DISTINCT = 0, 1, 2
G_STEPS, G_ACTION, G_RELATION, G_AT = 0, 1, 2, 3
STEP, S_INDEX, S_BINDS, S_PAIRS, S_STORE, S_PAYLOAD = 5, 0, 1, 2, 3, 4
A_RELATION, A_ATTRS, A_WIDTH, A_PROGRAMS, A_LIST, AD = 0, 1, 2, 3, 4, 5
FRAME = 4  # position, length, base of the list; product of the counts so far


@device
def run_program(arena, halves, plan, values, frames, prog, sign, out, sink, factors):
    """Propagates the tuple in ``values``. O(tuples that it joins with on the way)."""
    steps = plan[prog + G_STEPS]
    first = plan[prog + G_AT]
    depth = 0
    product = 1
    opening = True
    while depth >= 0:
        if depth == steps:
            action = plan[prog + G_ACTION]
            if action == EMIT:
                emit(plan, plan[P_OUT], plan[P_OUTS], values, out, sink, factors, sign)
            else:
                sink[S_TOUCHED] += 1
                turned = store_add(arena, halves, plan, plan[prog + G_RELATION], values, sign * product)
                if turned != 0 and action == DISTINCT:
                    emit(plan, plan[P_OUT], plan[P_OUTS], values, out, sink, factors, sign)
            depth -= 1
            opening = False
            continue
        f = FRAME * depth
        s = first + STEP * depth
        if opening:
            x = plan[s + S_INDEX]
            g = group_of(arena, plan, x, values)
            frames[f] = -1
            frames[f + 1] = 0
            frames[f + 3] = product
            sink[S_TOUCHED] += 1
            if g != 0:
                field = g + plan[x + I_KEY]
                frames[f + 1] = hi(halves, field)
                frames[f + 2] = list_base(halves, field)
        i = frames[f] + 1
        if i == frames[f + 1]:
            depth -= 1
            opening = False
            continue
        frames[f] = i
        row = at32(halves, frames[f + 2] + i)
        sink[S_TOUCHED] += 1
        pairs = plan[s + S_PAIRS]
        for j in range(plan[s + S_BINDS]):
            values[plan[pairs + 2 * j + 1]] = arena[row + plan[pairs + 2 * j]]
        product = frames[f + 3]
        if plan[s + S_PAYLOAD] >= 0:
            product *= arena[row + plan[s + S_PAYLOAD]]
        if plan[s + S_STORE] >= 0:
            store_add(arena, halves, plan, plan[s + S_STORE], values, sign)
        depth += 1
        opening = True


@kernel
def apply_rows(arena, halves, plan, values, frames, atom, rows, weights, sign, out, sink, factors):
    """Inserts (``sign`` 1) or deletes (-1) tuples of an atom (``rows`` int64[n * width]), one after the other.

    Only tuples that appear or disappear are propagated.
    """
    n = weights.size
    sink[S_WIDTH], sink[S_CAPACITY] = out.shape
    arena, halves, plan, values, frames = words(arena), words(halves), constants(plan), words(values), words(frames)
    rows, weights, out, sink, factors = words(rows), words(weights), words(out), words(sink), words(factors)
    width = plan[atom + A_WIDTH]
    attrs = plan[atom + A_ATTRS]
    for i in range(n):
        for j in range(width):
            values[plan[attrs + j]] = rows[i * width + j]
        sink[S_TOUCHED] += 1
        if store_add(arena, halves, plan, plan[atom + A_RELATION], values, sign * weights[i]) != 0:
            for p in range(plan[atom + A_PROGRAMS]):
                # A step of an earlier program may have rebound attributes of this tuple only to equal values.
                run_program(
                    arena, halves, plan, values, frames, plan[plan[atom + A_LIST] + p], sign, out, sink, factors
                )
    flush(out, sink, factors, sign)
