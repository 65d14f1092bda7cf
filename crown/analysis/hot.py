"""The hottest keys of a join: those that most rows of a parent have, found by a scan of the groups.

A change of the group of such a key touches all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crown.engine.state.arenas import State
from crown.kernels import arena as A
from crown.kernels import geometry as at
from crown.kernels.tables import LOW32, table_at
from crown.store.codec import decode


@dataclass(frozen=True)
class HotKey:
    """A key of the edge above node ``child``: how many rows of the parent and of the child have it."""

    child: str
    parent: str
    key: dict[str, Any]
    parents: int
    children: int


@dataclass(frozen=True)
class Fan:
    """How the rows of both ends of an edge are spread over its keys: the most that one key has."""

    keys: int
    parents: int
    children: int


def groups(state: State, node: int) -> np.ndarray:
    """Returns the handles of all groups above a node (int64[groups]). O(groups)."""
    table = int(table_at(at.groups_table(len(state.plan.nodes), node)))
    slots = int(state.arena[table + A.T_SLOTS])
    words = state.arena[slots : slots + int(state.arena[table + A.T_MASK]) + 1]
    return words[words != 0] & LOW32


def fan(state: State, node: int) -> Fan:
    """Returns the fan of the edge above a node as it is now. O(groups)."""
    handles, k = groups(state, node), len(state.plan.nodes[node].key)
    if not len(handles):
        return Fan(0, 0, 0)
    parents, children = _sizes(state, handles, k)
    return Fan(len(handles), int(parents.max()), int(children.max()))


def hottest(state: State, node: int, most: int) -> list[HotKey]:
    """Returns the keys of the edge above a node that most rows of the parent have, at most ``most``. O(groups)."""
    plan, child = state.plan, state.plan.nodes[node]
    handles, k = groups(state, node), len(child.key)
    if not len(handles):
        return []
    parents, children = _sizes(state, handles, k)
    chosen = np.argpartition(-parents, min(most, len(parents)) - 1)[:most]
    chosen = chosen[np.lexsort((-children[chosen], -parents[chosen]))]
    columns = {
        name: decode(
            np.ascontiguousarray(state.arena[handles[chosen] + place]),
            plan.attributes[name].type,
            state.dictionary.extern,
        ).to_pylist()
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


def _sizes(state: State, handles: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns rows of the parent and of the child per group, int64[n] each."""
    return at.parents_count(state.halves, handles, k), at.references(state.halves, handles, k)
