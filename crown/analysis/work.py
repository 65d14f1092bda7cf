"""Counters of the work of a stage, in total or in one batch; a join also has them by node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crown.engine.state import State
from crown.engine.statistics import tallies_of
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import groups_table
from crown.kernels.memory.tables import table_at
from crown.programs.tallies import PASSED, READ


@dataclass(frozen=True)
class NodeWork:
    """A node: its rows and the groups above it (or their change), the changes that it read, the rows that publications
    on the edge above it touched. A ``summed`` leaf stores no rows.
    """

    name: str
    rows: int
    groups: int
    updates: int
    touched: int
    summed: bool = False


@dataclass(frozen=True)
class Work:
    """A stage: the changes that it read, the rows and tree entries that it touched, the rows that it passed on; for a
    join the same by node.
    """

    updates: int
    touched: int
    emitted: int
    nodes: tuple[NodeWork, ...]


def work(state: State, headers: list[np.ndarray], since: list[np.ndarray] | None = None) -> Work:
    """Returns the work in the headers of a join's cells, or its difference from earlier headers. O(nodes).

    ``state``: the state of one cell; all cells have the same plan.
    """
    now = np.sum(headers, axis=0)
    if since is not None:
        now = now - np.sum(since, axis=0)
    plan, compiled = state.plan, state.compiled
    n = len(plan.nodes)
    nodes = []
    for i, node in enumerate(plan.nodes):
        tally = tallies_of(n, i)
        groups = int(now[int(table_at(groups_table(n, compiled.index[i]))) + A.T_COUNT]) if i else 0
        updates = int(now[tally.updates]) if node.kind != "virtual" else 0
        touched = int(now[tally.touched]) if i else 0
        nodes.append(NodeWork(node.name, int(now[tally.rows]), groups, updates, touched, i in compiled.summed))
    published = sum(node.touched for node in nodes)
    flips = int(now[A.H_R_UPDATES] + now[A.H_S_UPDATES] + now[A.H_P_UPDATES] + now[A.H_LIVE_FLIPS])
    return Work(sum(node.updates for node in nodes), flips + published, int(now[A.H_EMITTED]), tuple(nodes))


def work_of(headers: list[np.ndarray], since: list[np.ndarray] | None = None) -> Work:
    """Returns the work in the headers of a stage that is not a join, one per cell, or its difference from earlier
    ones. O(cells)."""
    now, before = np.sum(headers, axis=0), np.sum(since or [np.zeros_like(headers[0])], axis=0)
    read, touched, emitted = (int(now[word] - before[word]) for word in (READ, A.H_STEPS, PASSED))
    return Work(read, touched, emitted, ())
