"""Bounds the memory of a bulk load, which cannot stop half-way, so that it is reserved before the load.

The bound uses counts only: the maximum of new records, groups and list entries, each in its own block, and every list
moved to a larger block as often as possible.
"""

from __future__ import annotations

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels.groups import lookup_at, node_at
from crown.engine.kernels.layout import (
    I_TABLE,
    I_WORDS,
    LOOKUP_INDEX,
    N_CARRIED,
    N_CHILD,
    N_CHILDREN,
    N_EXTRA,
    N_FREE,
    N_INDEX,
    N_PARENT,
    N_PAYLOAD,
    N_RECORD,
    N_ROWS,
    N_VIRTUAL,
    P_COUNT,
    R_ALIASES,
    R_LOOKUPS,
    R_NODES,
    R_TABLE,
    R_WORDS,
)
from crown.kernels.memory.arena import COUNTED, LINE, PLAIN, T_CAPACITY, T_COUNT, class_words, size_class
from crown.kernels.memory.geometry import T_ROWS
from crown.kernels.memory.tables import is_full


def words_for(arena: np.ndarray, compiled: CompiledPlan, record: int, n: int, total: int, far: bool = False) -> int:
    """Returns an upper bound of the words that inserting ``n`` tuples into the source with descriptor ``record`` takes.

    ``total``: tuples for which its tables are sized. ``far``: sums may have far parts. O(nodes).
    """
    plan = compiled.array
    nodes = range(int(plan[P_COUNT]))
    first = int(plan[record + R_NODES])
    aliases = {int(plan[q]) for q in range(first, first + int(plan[record + R_ALIASES]))}
    rows = {i: int(arena[plan[node_at(i) + N_ROWS] + T_ROWS]) for i in nodes}
    new_rows = dict.fromkeys(nodes, 0)
    touched = dict.fromkeys(nodes, False)
    keys: dict[int, int] = {}
    sized: dict[int, int] = {}
    _look_up(plan, record, n, keys)
    _look_up(plan, record, total, sized)
    words = LINE + n * _block(int(plan[record + R_WORDS])) + _slots(arena, int(plan[record + R_TABLE]), total)
    for i in reversed(nodes):  # children first
        d = node_at(i)
        below = plan[plan[d + N_CHILD] : plan[d + N_CHILD] + plan[d + N_CHILDREN]].tolist()
        touched[i] = i in aliases or any(touched[c] for c in below)
        if i in aliases:
            new_rows[i] = n
        elif touched[i] and plan[d + N_VIRTUAL] == 1:
            new_rows[i] = max(sum(rows[c] + new_rows[c] for c in below) - rows[i], 0)
            words += new_rows[i] * _block(int(plan[plan[d + N_RECORD] + R_WORDS]))
            _look_up(plan, int(plan[d + N_RECORD]), new_rows[i], keys)
    for index, number in keys.items():
        words += number * _block(int(plan[index + I_WORDS]))
        words += _slots(arena, int(plan[index + I_TABLE]), max(number, sized.get(index, 0)))
    for i in nodes:
        d, after = node_at(i), rows[i] + new_rows[i]
        carried = plan[d + N_CARRIED]
        if touched[i] and carried != COUNTED:  # a block has less than twice the words used, after doubling
            words += (2 if carried == PLAIN else 7) * after  # at most, including the change to wide entries
        parent = int(plan[d + N_PARENT])
        if parent < 0:
            continue
        if new_rows[parent]:
            words += 2 * (rows[parent] + new_rows[parent])
        if touched[i] and plan[d + N_PAYLOAD] and not plan[d + N_FREE]:  # an entry has a word less than a group's part
            index = int(plan[d + N_INDEX])
            groups = int(arena[plan[index + I_TABLE] + T_COUNT]) + keys.get(index, 0)
            words += groups * _block(int(plan[d + N_EXTRA]))
            if far and compiled.payload is not None:  # one for a group, one for its entry
                parts = compiled.payload.parts[i]
                limbs = [parts.far_limbs(term) for term in parts.terms if parts.doubles[term]]
                words += 2 * groups * sum(_block(1 + m) for m in limbs)
    return words


def _look_up(plan: np.ndarray, record: int, n: int, keys: dict[int, int]) -> None:
    """Adds to ``keys``, per index, the bundles that ``n`` records of that descriptor can need."""
    for q in range(int(plan[record + R_LOOKUPS])):
        index = int(plan[lookup_at(plan, record, q) + LOOKUP_INDEX])
        keys[index] = keys.get(index, 0) + n


def _block(words: int) -> int:
    """Returns the words of the block that ``alloc`` returns for ``words`` words."""
    return int(class_words(size_class(words)))


def _slots(arena: np.ndarray, table: int, more: int) -> int:
    """Returns the words of the new slots of a table with ``more`` more records, including intermediate sizes."""
    capacity = present = int(arena[table + T_CAPACITY])
    while is_full(int(arena[table + T_COUNT]) + more, capacity):
        capacity *= 2
    return 2 * capacity if capacity > present else 0
