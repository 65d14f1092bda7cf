"""Finds the hottest keys of a join, those with the most parent rows, by a scan of the groups.

A change of the group of such a key touches all these rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crown.engine.kernels import layout as L
from crown.engine.kernels.groups import node_at
from crown.engine.state import State
from crown.kernels.memory import arena as A
from crown.kernels.memory import geometry as at
from crown.kernels.memory.tables import LOW32, table_at
from crown.store.codec import decode
from crown.store.display import all_shown


@dataclass(frozen=True)
class HotKey:
    """A key of the edge above node ``child``, and the numbers of parent and child rows with the key."""

    child: str
    parent: str
    key: dict[str, Any]
    parents: int
    children: int


@dataclass(frozen=True)
class Fan:
    """The distribution of the rows of both ends of an edge over its keys: the most rows of one key, and whether all
    rows of an end have one copy.
    """

    keys: int
    parents: int
    children: int
    parents_once: bool
    children_once: bool


def groups(state: State, node: int) -> np.ndarray:
    """Returns the handles of all groups above a node that are in use (int64[groups]). O(keys of the index)."""
    compiled = state.compiled
    table = int(table_at(at.groups_table(len(state.plan.nodes), compiled.index[node])))
    handles = _handles(state, table) + compiled.shift[node]
    parents, children = _sizes(state, node, handles)
    return handles[(parents > 0) | (children > 0)]


def _handles(state: State, table: int) -> np.ndarray:
    """Returns the handles in a table, int64[n]. O(capacity)."""
    slots = int(state.arena[table + A.T_SLOTS])
    words = state.arena[slots : slots + int(state.arena[table + A.T_CAPACITY])]
    return words[words != 0] & LOW32


def fan(state: State, node: int) -> Fan:
    """Returns the current fan of the edge above a node. O(groups + rows)."""
    handles = groups(state, node)
    if not len(handles):
        return Fan(0, 0, 0, True, True)
    parents, children = _sizes(state, node, handles)
    once = (_once(state, state.plan.nodes[node].parent), _once(state, node))
    return Fan(len(handles), int(parents.max()), int(children.max()), *once)


def _once(state: State, node: int) -> bool:
    """Returns True if no row of an input node has several copies, as far as its relation is stored. O(rows)."""
    if state.plan.nodes[node].kind != "input":
        return True
    record = state.compiled.record[node]
    handles = _handles(state, int(state.plan_array[record + L.R_TABLE]))
    return not (at.copies(state.halves, handles, int(state.plan_array[record + L.R_WIDTH])) > 1).any()


def hottest(state: State, node: int, most: int) -> list[HotKey]:
    """Returns the keys of the edge above a node with the most parent rows, at most ``most``. O(groups)."""
    plan, child = state.plan, state.plan.nodes[node]
    handles = groups(state, node)
    if not len(handles):
        return []
    parents, children = _sizes(state, node, handles)
    chosen = np.argpartition(-parents, min(most, len(parents)) - 1)[:most]
    chosen = chosen[np.lexsort((-children[chosen], -parents[chosen]))]
    columns = {
        name: all_shown(
            decode(
                np.ascontiguousarray(state.arena[handles[chosen] - state.compiled.shift[node] + place]),
                plan.attributes[name].type,
                state.dictionary.extern,
            )
        )
        for place, name in enumerate(child.key)
    }
    return [
        HotKey(
            child.name,
            plan.nodes[child.parent].name,
            {name: values[i] for name, values in columns.items()},
            int(parents[g]),
            int(children[g]),
        )
        for i, g in enumerate(chosen)
    ]


def _sizes(state: State, node: int, handles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of parent and child rows per group above a node, int64[n] each; for a summed leaf, copies
    count.
    """
    k, where = len(state.plan.nodes[node].key), int(state.plan_array[node_at(node) + L.N_REFERENCES])
    parents = at.parents_count(state.halves, handles, k)
    if node in state.compiled.summed:
        return parents, state.arena[at.published(handles, k)]
    return parents, at.references(state.halves, handles, k, where)
