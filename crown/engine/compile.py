"""Compiles a plan to the plan array, which the kernels interpret instead of code generated per query.

``crown.engine.kernels.layout`` describes the words of the array, ``geometry`` those of the state. Everything that
depends only on the query is decided here, once: positions of keys, which lists carry values, and for every free node
the loops (steps, leaves) that lead from a witness of that node to all its results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from crown.engine.kernels import layout as L
from crown.engine.payload import PayloadLayout
from crown.kernels.memory.arena import COUNTED, PLAIN
from crown.kernels.memory.geometry import (
    IN_FIELD,
    IN_LENGTH,
    IN_WORD,
    group_words,
    groups_table,
    link_of,
    row_words,
    rows_table,
    table_total,
)
from crown.kernels.memory.tables import table_at
from crown.store.zset import Zset
from plans.payloads.counting import summed_leaves
from plans.plan import Node, Plan
from plans.programs.stored_relations import stored_relations
from plans.search.indexes import index_of


@dataclass(frozen=True)
class CompiledPlan:
    """A compiled plan: ``array`` (int64, 1-D), the number of hash tables, and the layout of each node.

    Per node: ``children``. ``record``: the offset of its record descriptor. ``words``: attribute -> word of the record.
    ``offset``: of its row in the record. ``index``: the node whose table has the groups of the edge above it.
    ``shift``: the offset of these groups in a bundle. ``payload``: the layout of a payload plan, else None. ``summed``:
    the leaves whose rows are not stored (``kernels.payloads.summed_leaves``).
    """

    array: np.ndarray
    tables: int
    children: tuple[tuple[int, ...], ...]
    record: tuple[int, ...]
    words: tuple[Mapping[str, int], ...]
    offset: tuple[int, ...]
    index: tuple[int, ...]
    shift: tuple[int, ...]
    payload: PayloadLayout | None = None
    summed: frozenset[int] = frozenset()

    @property
    def ring(self) -> int | None:
        """Returns the argument ``ring`` of kernels, whose type selects the compiled variant."""
        return None if self.payload is None else 1

    def columns(self, free: int) -> int:
        """Returns the number of columns of an enumeration of ``free`` attributes."""
        return free if self.payload is None else self.payload.columns

    @property
    def branches(self) -> int:
        """Returns the number of branches of factorized rows; 0 if there are none, or if every result is one row."""
        return int(self.array[L.P_BRANCHES])

    def branch_of(self, column: int) -> int:
        """Returns the branch of a free attribute, by its position; -1 if it is constant in a factorized row."""
        return int(self.array[self.array[L.P_BRANCH0] + column])

    def new_scratch(self) -> np.ndarray:
        """Returns a scratch array for kernels."""
        return L.new_scratch(len(self.words), *(self.payload.scratch_words if self.payload is not None else ()))

    def block(self, out: np.ndarray, n: int, free: int, weights: np.ndarray) -> Zset:
        """Returns the first ``n`` rows of an enumeration's buffer as tuples of the ``free`` attributes.

        In a plan with a payload the count is the weight, and the tuples carry all payload words if there are sums.
        Otherwise the first ``n`` of ``weights`` are the weights.
        """
        if self.payload is None:
            return Zset.of_columns(out[:, :n], weights[:n])
        words = out[free : self.payload.first_handle, :n]
        return Zset.of_columns(out[:free, :n], words[0].copy(), words if len(words) > 1 else None)

    def weighs(self, i: int) -> bool:
        """Returns True iff the row of free node ``i`` in a result contributes a factor to the result's payload."""
        return self.payload is not None and i in self.payload.weighing

    def self_word(self, i: int) -> int:
        """Returns the offset, from the row of a node that ``weighs``, of the word with its own handle."""
        return int(link_of(len(self.children[i])))


@dataclass(frozen=True)
class _Loop:
    """A loop of a program, over the list between ``source`` and ``target``."""

    kind: int
    source: int
    target: int
    index: int  # position of the child in its parent's row


class _Words:
    """An append-only array of words. Lists are identified by their offset."""

    def __init__(self, nodes: int) -> None:
        self.words: list[int] = [0] * (L.P_NODES + L.ND * nodes)

    def place(self, values: Sequence[int]) -> int:
        offset = len(self.words)
        self.words.extend(values)
        return offset


def children_of(nodes: Sequence[Node]) -> tuple[tuple[int, ...], ...]:
    """Returns the child indices of every node, in plan order."""
    return tuple(tuple(c for c, child in enumerate(nodes) if child.parent == i) for i in range(len(nodes)))


def compile_plan(plan: Plan) -> CompiledPlan:
    """Returns the compiled form of ``plan``. Table numbers: see ``crown.kernels.memory.geometry``.

    In a payload plan every delete finds its row, so leaves that are only summed do not store theirs.

    Raises PlanError if the plan has a payload that cannot be maintained on its tree.
    """
    nodes = plan.nodes
    n = len(nodes)
    children = children_of(nodes)
    records = _records(plan)
    words: list[Mapping[str, int]] = [{}] * n
    offset, record, look_ups = [0] * n, [0] * n, [0] * n
    short_rows: set[int] = set()
    out = _Words(n)
    payloads = None if plan.payload is None else PayloadLayout(plan, plan.payload)
    index, shift = index_of(plan), [0] * n
    indexes = {i: _place_index(plan, payloads, index, i, shift, out) for i in sorted({*index} - {0})}
    weighing = payloads.weighing if payloads is not None else ()
    for members, width in records:
        end = width
        for place, i in enumerate(sorted(members, key=lambda i: (i != 0, not children[i]))):
            short = payloads is None and (place > 0 or (i == 0 and width > 0))
            short_rows |= {i} if short else set()
            words[i], offset[i] = members[i], end - short
            below = len(children[i])
            end += row_words(below) + (i in weighing) - short
        lookups, numbers = _lookups(plan, members, children, index)
        look = out.place([w for i, key in lookups for w in (indexes[i], out.place(key))])
        aliases = out.place(list(members))
        descriptor = out.place(
            [width, end, table_at(rows_table(min(members))), len(members), aliases, len(lookups), look]
        )
        for i in members:
            record[i] = descriptor
            look_ups[i] = out.place(numbers[i])
    compiled = CompiledPlan(
        np.empty(0, np.int64),
        table_total(n),
        children,
        tuple(record),
        tuple(words),
        tuple(offset),
        index,
        tuple(shift),
        payloads,
        summed_leaves(plan) if plan.payload is not None else frozenset(),
    )
    branches = _branches(plan, compiled)
    branch_of = {a: b for b, attributes in enumerate(branches) for a in attributes}
    for i in range(n):
        start = L.P_NODES + L.ND * i
        d = _descriptor(plan, compiled, i, branch_of, out)
        d[L.N_SHORT] = int(i in short_rows)
        d[L.N_LOOKUPS] = look_ups[i]
        d[L.N_INDEX] = indexes.get(index[i], 0)
        out.words[start : start + L.ND] = d
    out.words[L.P_COUNT] = n
    out.words[L.P_IDENTITY] = out.place(range(max([1, *(width for _, width in records)])))
    out.words[L.P_FULL] = _program(plan, compiled, None, branch_of, out)
    out.words[L.P_BRANCHES] = len(branches)
    out.words[L.P_BRANCH0] = out.place([branch_of.get(a, -1) for a in plan.free])
    out.words[L.P_ENDS] = len(plan.free)
    out.words[L.P_CACHED] = L.CACHED
    for at, value in payloads.header(out.place).items() if payloads is not None else ():
        out.words[at] = value
    return replace(compiled, array=np.array(out.words, np.int64))


def _records(plan: Plan) -> list[tuple[dict[int, dict[str, int]], int]]:
    """Returns the records: per node with a block in the record, the word of each attribute; and the words of the
    tuple."""
    found = []
    for source in stored_relations(plan):
        members = {
            alias.node: dict(zip(alias.attributes, alias.words, strict=True))
            for alias in source.aliases
            if plan.nodes[alias.node].bag is None
        }
        if members:
            found.append((members, source.width))
    for i, node in enumerate(plan.nodes):
        if node.kind != "input":
            found.append(({i: {a: j for j, a in enumerate(node.attributes)}}, len(node.attributes)))
    return found


def _place_index(
    plan: Plan, payloads: PayloadLayout | None, index: Sequence[int], first: int, shift: list[int], out: _Words
) -> int:
    """Places the descriptor of the index of the edge above node ``first``, and of all edges that share it; see
    ``layout``.

    Writes the offsets of the groups of each edge to ``shift``. Returns the descriptor's offset.
    """
    edges = [i for i, source in enumerate(index) if source == first]
    k = len(plan.nodes[first].key)
    end = 0
    for i in edges:
        shift[i] = end
        end += int(group_words(payloads.extra_words(i) if payloads is not None else 0, _references(plan, i)))
    table = table_at(groups_table(len(plan.nodes), first))
    groups = out.place([word for i in edges for word in (shift[i], _references(plan, i))])
    return out.place([table, k, k + end, len(edges), groups])


def _references(plan: Plan, i: int) -> int:
    """Returns where the groups above node ``i`` store their references; see ``geometry.references``.

    The padding is a child without references.
    """
    node = plan.nodes[i]
    if node.parent >= 0 and not node.padded and not any(other.parent == i for other in plan.nodes):
        return IN_LENGTH
    return IN_WORD if node.parent < 0 or node.free else IN_FIELD


def _lookups(
    plan: Plan, members: Mapping[int, Mapping[str, int]], children: Sequence[Sequence[int]], index: Sequence[int]
) -> tuple[list[tuple[int, tuple[int, ...]]], dict[int, list[int]]]:
    """Returns the bundles in which a record has groups, each once: the index, and the words of the record that are the
    key.

    Also returns, per alias, the numbers of its look-ups: of its own group, then of the group of each child.
    """
    found: dict[tuple[int, tuple[int, ...]], int] = {}
    numbers = {}
    for i, word in members.items():
        edges = [i, *children[i]] if i else children[i]
        keys = [(index[e], tuple(word[a] for a in plan.nodes[e].key)) for e in edges]
        numbers[i] = [*([] if i else [0]), *(found.setdefault(key, len(found)) for key in keys)]
    return list(found), numbers


def _descriptor(plan: Plan, compiled: CompiledPlan, i: int, branch_of: Mapping[str, int], out: _Words) -> list[int]:
    nodes, children, words = plan.nodes, compiled.children, compiled.words
    node = nodes[i]
    d = [0] * L.ND
    d[L.N_RECORD] = compiled.record[i]
    d[L.N_OFFSET] = compiled.offset[i]
    d[L.N_CHILDREN] = len(children[i])
    d[L.N_CHILD] = out.place(children[i])
    d[L.N_FREE] = int(node.free)
    d[L.N_VIRTUAL] = int(node.kind == "virtual")
    d[L.N_PARENT] = node.parent
    d[L.N_KEY] = len(node.key)
    d[L.N_CARRIED] = _carried(nodes, compiled, i)
    d[L.N_ROWS] = table_at(rows_table(i))
    d[L.N_EDGE] = table_at(groups_table(len(nodes), i))
    d[L.N_SHIFT] = compiled.shift[i]
    d[L.N_PADDED] = int(node.padded)
    d[L.N_REFERENCES] = _references(plan, i)
    d[L.N_INNER] = int(any(nodes[c].free for c in children[i]))
    if node.parent >= 0:
        d[L.N_PPOS] = out.place([words[node.parent][a] for a in node.key])
        if nodes[node.parent].kind == "virtual":
            d[L.N_VPOS] = out.place([words[i][a] for a in nodes[node.parent].attributes])
    if node.free:
        d[L.N_PROGRAM] = _program(plan, compiled, i, branch_of, out)
    if compiled.payload is not None:
        d[L.N_EXTRA] = compiled.payload.extra_words(i)
        d[L.N_PAYLOAD] = compiled.payload.descriptor(i, partial(_from_row, compiled, i), out.place)
        d[L.N_SELF] = compiled.self_word(i) if compiled.weighs(i) else 0
    return d


def _from_row(compiled: CompiledPlan, i: int, attribute: str) -> int:
    """Returns the offset of an attribute of node ``i`` from the row."""
    return compiled.words[i][attribute] - compiled.offset[i]


def _carried(nodes: Sequence[Node], compiled: CompiledPlan, i: int) -> int:
    """Returns the attribute, as an offset from the row, that the children list above node ``i`` carries, or PLAIN.

    COUNTED above a bound node: only results read rows.
    """
    node = nodes[i]
    if node.parent >= 0 and not node.free:
        return int(COUNTED)
    new = [a for a in node.attributes if a not in node.key]
    below = compiled.children[i]
    if node.parent < 0 or len(new) != 1 or any(_adds_attributes(nodes, compiled, c) for c in below):
        return int(PLAIN)
    if compiled.weighs(i):
        return int(PLAIN)  # the enumeration needs its rows, not only their new attributes
    return _from_row(compiled, i, new[0])


def _adds_attributes(nodes: Sequence[Node], compiled: CompiledPlan, i: int) -> bool:
    """Returns True if an enumeration must visit node ``i`` below its parent's row. It need not if the node is bound, or
    if it and its subtree have no payload and only repeat attributes: then the key has exactly one known row."""
    node = nodes[i]
    adds = any(a not in node.key for a in node.attributes) or compiled.weighs(i)
    return node.free and (adds or any(_adds_attributes(nodes, compiled, c) for c in compiled.children[i]))


def _loops(plan: Plan, compiled: CompiledPlan, witness: int | None) -> tuple[list[_Loop], list[_Loop]]:
    """Returns the steps and the leaves of the program that starts at ``witness`` (None: at the root's group).

    The loops first lead up to the root, then down into every free side subtree that adds an attribute. A loop on which
    no other loop depends is a leaf.
    """
    nodes, children = plan.nodes, compiled.children
    visited = [[c for c in children[i] if _adds_attributes(nodes, compiled, c)] for i in range(len(nodes))]
    loops: list[_Loop] = []
    starts: list[tuple[int, int]] = []  # (node whose free children are unvisited, child that is already bound)
    if witness is None:
        loops.append(_Loop(L.ROOT, 0, 0, 0))
        starts.append((0, -1))
    else:
        starts.append((witness, -1))
        node = witness
        while nodes[node].parent >= 0:
            parent = nodes[node].parent
            loops.append(_Loop(L.UP, node, parent, 0))
            starts.append((parent, node))
            node = parent
    while starts:
        node, done = starts.pop(0)
        for c in visited[node]:
            if c != done:
                loops.append(_Loop(L.DOWN, node, c, children[node].index(c)))
                starts.append((c, -1))
    sources = {loop.source for loop in loops if loop.kind != L.ROOT}
    return [loop for loop in loops if loop.target in sources], [loop for loop in loops if loop.target not in sources]


def _branches(plan: Plan, compiled: CompiledPlan) -> list[list[str]]:
    """Returns the free attributes of every branch of factorized rows: those that a leaf below the root adds.

    A plan with a payload has no branches, since its rows have different weights.
    """
    if compiled.payload is not None:
        return []
    steps, leaves = _loops(plan, compiled, None)
    known = {a for loop in steps for a in plan.nodes[loop.target].attributes}
    below = [plan.nodes[leaf.target].attributes for leaf in leaves if leaf.kind == L.DOWN]
    added = [[a for a in attributes if a in plan.free and a not in known] for attributes in below]
    return [attributes for attributes in added if attributes]


def _program(plan: Plan, compiled: CompiledPlan, witness: int | None, branch_of: Mapping[str, int], out: _Words) -> int:
    """Places the program of ``witness`` (see ``_loops``). Returns its offset."""
    nodes = plan.nodes
    steps, leaves = _loops(plan, compiled, witness)
    bound = ([] if witness is None else [witness]) + [loop.target for loop in steps]
    provider: dict[str, int] = {}
    for node in bound:
        for a in nodes[node].attributes:
            provider.setdefault(a, node)
    column = {a: c for c, a in enumerate(plan.free)}
    last = steps[-1].target if steps else -1
    fixed_columns = [(column[a], node, _from_row(compiled, node, a)) for a, node in provider.items() if a in column]
    if compiled.payload is not None:
        weighing = [node for node in bound if compiled.weighs(node)]
        fixed_columns += [(compiled.payload.handle_column(node), node, compiled.self_word(node)) for node in weighing]
    fixed_columns.sort(key=lambda fix: fix[1] != last)
    varying = sum(node == last for _, node, _ in fixed_columns)
    leaf_words: list[int] = []
    leaf_count = 0
    for loop in leaves:
        attributes = nodes[loop.target].attributes
        pairs: list[int] = []
        branches: set[int] = set()
        for a in attributes:
            if a in column and a not in provider:
                provider[a] = loop.target
                pairs += [column[a], _from_row(compiled, loop.target, a)]
                branches.add(branch_of.get(a, -1))
        if compiled.payload is not None and compiled.weighs(loop.target):
            pairs += [compiled.payload.handle_column(loop.target), compiled.self_word(loop.target)]
        carried = _carried(nodes, compiled, loop.target) if loop.kind == L.DOWN else int(PLAIN)
        branch = branches.pop() if len(branches) == 1 else -1
        leaf_words += [loop.kind, loop.source, loop.target, loop.index, carried, len(pairs) // 2, out.place(pairs)]
        leaf_words.append(branch)
        leaf_count += 1
    step_words = [w for loop in steps for w in (loop.kind, loop.source, loop.target, loop.index)]
    lists = [out.place(step_words), out.place(leaf_words), out.place([w for fix in fixed_columns for w in fix])]
    ahead = 0
    for leaf in range(leaf_count):
        at = leaf * L.LEAF
        if leaf_words[at + L.STEP_KIND] == L.DOWN and leaf_words[at + L.STEP_SOURCE] == last:
            ahead = lists[1] + at
            break
    return out.place([len(steps), leaf_count, len(fixed_columns), *lists, ahead, varying])
