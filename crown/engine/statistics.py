"""Returns sizes and counters of a state."""

from __future__ import annotations

from typing import Any, NamedTuple

from crown.engine.state import State
from crown.kernels.memory import arena as A
from crown.kernels.memory.geometry import T_ROWS, T_TOUCHED, groups_table, rows_table
from crown.kernels.memory.tables import table_at


class Tallies(NamedTuple):
    """The arena words of the counters of a node, apart from those of its tables."""

    missing: int  # copies that deletes did not find
    updates: int  # tuples of the changes that the node read
    rows: int  # rows of the node
    filtered: int  # rows that the source's predicate rejected
    touched: int  # parent rows that publications of the edge above the node have read


def tallies_of(nodes: int, node: int) -> Tallies:
    """Returns the words of a node's counters, in a plan of ``nodes`` nodes."""
    own, above = int(table_at(rows_table(node))), int(table_at(groups_table(nodes, node)))
    return Tallies(own + A.T_TALLIES, own + A.T_TALLIES + 1, own + T_ROWS, above + A.T_TALLIES, above + T_TOUCHED)


def statistics(state: State) -> dict[str, Any]:
    """Returns sizes and counters.

    ``groups``: the keys in the index of the edge above each node; edges may share an index. ``live_bytes``: bytes in
    use. ``reserved_bytes``: the high-water mark. Counters are totals since creation. ``touched``: parent rows that
    publications of payloads have read, in total and per edge above a node. O(nodes).
    """
    arena, n = state.arena, len(state.plan.nodes)
    tallies = [tallies_of(n, i) for i in range(n)]
    rows = {node.name: int(arena[tallies[i].rows]) for i, node in enumerate(state.plan.nodes)}
    inputs = [i for i, node in enumerate(state.plan.nodes) if node.kind != "virtual"]
    name = [node.name for node in state.plan.nodes]
    index = state.compiled.index
    return {
        "rows": rows,
        "input_rows": sum(rows[name[i]] for i in inputs),
        "groups": {name[i]: int(arena[table_at(groups_table(n, index[i])) + A.T_COUNT]) for i in range(1, n)},
        "live_bytes": 8 * sum(int(part[A.H_LIVE]) for part in state.parts),
        "reserved_bytes": 8 * sum(int(part[A.H_TOP]) for part in state.parts),
        "updates": {name[i]: int(arena[tallies[i].updates]) for i in inputs},
        "missing_deletes": {name[i]: int(arena[tallies[i].missing]) for i in inputs},
        "filtered": {name[i]: int(arena[tallies[i].filtered]) for i in inputs},
        "r_updates": int(arena[A.H_R_UPDATES]),
        "s_updates": int(arena[A.H_S_UPDATES]),
        "p_updates": int(arena[A.H_P_UPDATES]),
        "live_flips": int(arena[A.H_LIVE_FLIPS]),
        "touched": sum(int(arena[tallies[i].touched]) for i in range(1, n)),
        "touched_above": {name[i]: int(arena[tallies[i].touched]) for i in range(1, n)},
        "steps": int(arena[A.H_STEPS]),
        "blocks": int(arena[A.H_BLOCKS]),
        "emitted": int(arena[A.H_EMITTED]),
        "max_delay": int(arena[A.H_GAP]),
        "bags": {name[i]: bag.stats() for i, bag in state.bags.items()},
    }


def together(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the sum of the ``statistics`` of several cells, and their number ``cells``. ``max_delay`` is the
    maximum."""
    return {**summed(cells), "max_delay": max(cell["max_delay"] for cell in cells), "cells": len(cells)}


def summed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the sums of the numbers in several dicts of one form; of other values the first."""
    out: dict[str, Any] = {}
    for key, value in parts[0].items():
        values = [stats[key] for stats in parts]
        if isinstance(value, dict):
            out[key] = summed(values)
        else:
            out[key] = sum(values) if isinstance(value, int) and not isinstance(value, bool) else value
    return out
