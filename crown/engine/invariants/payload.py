"""Checks payloads: recomputes each group's payload from the rows of its children and compares.

Between batches no change is pending, the value of a group is the sum of its children's values, and an empty group has
the value 0. The rows of a summed leaf are not stored, so its groups are not recomputed: a group has a positive count,
or the value 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from crown.engine.compile import CompiledPlan
from crown.engine.kernels.groups import node_at
from crown.engine.kernels.layout import N_PAYLOAD, R_TABLE, Y_WEIGHED
from crown.engine.kernels.payloads.payload import first_entry
from crown.engine.payload import Parts, PayloadLayout
from crown.kernels.memory import arena as A
from crown.kernels.memory import geometry as at
from crown.kernels.memory.tables import LOW32, table_at
from crown.kernels.numbers.far import load_far
from crown.kernels.numbers.fixed import FAR_SHIFT, FLOAT_BITS
from crown.kernels.strings import NULL
from plans.payloads.payload import DOWN, MINUS, PLUS, UP, VALID, VALUE, Term
from plans.plan import Plan

_COUNT: Term = ()


def number(words: Sequence[int]) -> int:
    """Returns the integer with the limbs ``words``."""
    low = sum((w % 2**64) << 64 * x for x, w in enumerate(words))
    return low - (1 << 64 * len(words)) if words[-1] < 0 else low


def numbers(words: Sequence[int], parts: Parts, arena: memoryview) -> dict[Term, int]:
    """Returns the value of every term of a payload. ``arena`` holds its far parts. Values of doubles are in their
    unit."""
    found = {}
    for term in parts.terms:
        first, limbs, doubles = parts.at[term], parts.limbs[term], parts.doubles[term]
        found[term] = number(words[first : first + limbs]) << 64 * FAR_SHIFT * doubles
        if doubles:
            far = np.empty(parts.far_limbs(term), np.int64)
            load_far(arena, words[first + limbs], far, 0, len(far))
            found[term] += number(far.tolist())
    return found


def far_words(arena: memoryview, plan: Plan, compiled: CompiledPlan) -> list[int]:
    """Returns the length in words of every far part in the payloads of groups."""
    payload, found = compiled.payload, []
    for i in range(len(plan.nodes)) if payload is not None else ():
        assert payload is not None
        for word in [first + limbs for first, limbs in payload.parts[i].far] if payload.has_groups(i) else ():
            for g in _groups(arena, compiled, i):
                far = arena[at.published(g, len(plan.nodes[i].key)) + word]
                found += [1 + (arena[far] >> 32)] if far else []
    return found


def check(words: np.ndarray, plan: Plan, compiled: CompiledPlan) -> None:
    """Raises AssertionError if a payload in an arena is wrong. O(state), in Python: for tests."""
    payload, arena, halves = compiled.payload, words.data, words.view(np.int32).data
    assert payload is not None
    assert arena[A.H_WRAPPED] == 0, "a count has left 63 bits"
    for i in reversed(range(len(plan.nodes))):
        if not payload.has_groups(i):
            continue
        name, d = plan.nodes[i].name, node_at(i)
        assert arena[first_entry(compiled.array, d)] == 0, f"{name}: changes wait between batches"
        k, parts, children = len(plan.nodes[i].key), payload.parts[i], _children(arena, halves, plan, compiled, i)
        for g in _groups(arena, compiled, i):
            first = int(at.published(g, k))
            found = numbers(arena[first : first + parts.words].tolist(), parts, arena)
            n = int(at.children_count(halves, g, k))
            worth = [_own(arena, halves, plan, compiled, payload, i, h) for h in children.get(g, [])]
            expected = {term: sum(own[term] for own in worth) for term in parts.terms}
            unknown = i in compiled.summed and n == 1
            assert unknown or found == expected, f"{name}: a group is worth {found}, its rows {expected}"
            assert (found[_COUNT] > 0) == (n > 0), f"{name}: {n} rows count as {found[_COUNT]}"
            assert at.lo(halves, at.entry_field(g, k, parts.words)) == 0, f"{name}: a group has an entry"


def _handles(arena: memoryview, table: int) -> list[int]:
    """Returns the handles of all records of a table."""
    slots = arena[table + A.T_SLOTS]
    return [word & LOW32 for word in arena[slots : slots + arena[table + A.T_CAPACITY]] if word]


def _groups(arena: memoryview, compiled: CompiledPlan, i: int) -> list[int]:
    """Returns the groups above a node in all bundles of its index, including unused ones."""
    table = int(table_at(at.groups_table(len(compiled.words), compiled.index[i])))
    return [bundle + compiled.shift[i] for bundle in _handles(arena, table)]


def _children(
    arena: memoryview, halves: memoryview, plan: Plan, compiled: CompiledPlan, i: int
) -> dict[int, list[int]]:
    """Returns the rows of V_s of node ``i`` by their group. The rows of a virtual node are found through its
    children."""
    if plan.nodes[i].kind == "virtual":
        c = compiled.children[i][0]
        rows = []
        for g in _groups(arena, compiled, c):
            field = at.parents_field(g, len(plan.nodes[c].key))
            base = int(at.list_base(halves, field, at.PARENTS, int(A.PLAIN)))
            rows += halves[base : base + int(at.list_length(halves, field))].tolist()
    else:
        rows = [h + compiled.offset[i] for h in _handles(arena, int(compiled.array[compiled.record[i] + R_TABLE]))]
    found: dict[int, list[int]] = {}
    for row in rows:
        if at.row_place(halves, row) >= 0:
            g = int(at.row_group(halves, row)) if i else arena[A.H_ROOT]
            found.setdefault(g, []).append(row)
    return found


def _factor(code: int, kind: str, what: str) -> int:
    """Returns the factor that a code contributes."""
    if code == NULL:
        return 0
    if what == VALID:
        return 1
    value = float(np.int64(code).view(np.float64)) if kind == "float64" else code
    if what == VALUE:
        if kind != "float64":
            return code
        return int(Fraction(value) * (1 << FLOAT_BITS + 64 * FAR_SHIFT)) if math.isfinite(value) else 0
    holds = {PLUS: value == math.inf, MINUS: value == -math.inf, UP: value >= 0, DOWN: value <= 0}
    return int(value != value or holds[what])


def _own(
    arena: memoryview, halves: memoryview, plan: Plan, compiled: CompiledPlan, payload: PayloadLayout, i: int, row: int
) -> dict[Term, int]:
    """Returns the value of a row of bound node ``i``, from the payloads of the groups below it."""
    weighed = compiled.array[int(compiled.array[node_at(i) + N_PAYLOAD]) + Y_WEIGHED]
    own = dict.fromkeys(payload.parts[i].terms, int(at.row_weight(halves, row)) if weighed else 1)
    for term in own:
        for e, a, what in term:
            if e == i:
                code = arena[row + compiled.words[i][a] - compiled.offset[i]]
                own[term] *= _factor(code, plan.attributes[a].type, what)
    for c in payload.links(i):
        g = int(at.linked_group(halves, row, at.link_of(compiled.children[i].index(c))))
        first = int(at.published(g, len(plan.nodes[c].key)))
        below = numbers(arena[first : first + payload.parts[c].words].tolist(), payload.parts[c], arena)
        for term in own:
            own[term] *= below[payload.below(term, c)]
    return own
