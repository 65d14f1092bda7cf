"""Recursions: what is reachable in a graph, the transitive closure of a small one, and folders that are moved.

Every stream begins with rows that are loaded before time counts: the nodes where paths start and the first window of
edges, or all folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cases import datasets
from bench.cases.streams import Stream, windowed
from bench.cases.workload import GRAPH, Workload

SCHEMA = GRAPH | {"S": {"v": "int64"}, "T": {"parent": "int64", "id": "int64"}}
_REACH = ("S", "G")
_SHORT = {"nodes": 300, "window": 1_000}


def _workload(name: str, title: str, sql: str, tables: tuple[str, ...], short: Mapping[str, Any] = _SHORT) -> Workload:
    return Workload(
        name, title, f"WITH RECURSIVE {sql}", SCHEMA, "recursion", checked=4_000, check_options=short, tables=tables
    )


RECURSIONS: dict[str, Workload] = {
    w.name: w
    for w in (
        _workload(
            "rec-reach", "Nodes reachable from one",
            "reach (x) AS (SELECT v FROM S UNION SELECT G.dst FROM reach, G WHERE G.src = reach.x) SELECT x FROM reach",
            _REACH,
        ),
        _workload(
            "rec-reach-100", "Nodes reachable from each of 100",
            "reach (s, x) AS (SELECT v AS s, v AS x FROM S UNION SELECT reach.s, G.dst FROM reach, G "
            "WHERE G.src = reach.x) SELECT s, x FROM reach",
            _REACH,
        ),
        _workload(
            "rec-closure", "Transitive closure",
            "paths (a, b) AS (SELECT src, dst FROM G UNION SELECT paths.a, G.dst FROM paths, G "
            "WHERE G.src = paths.b) SELECT a, b FROM paths",
            ("G",),
        ),
        _workload(
            "rec-folders", "Folders and what is in them",
            "inside (folder, id) AS (SELECT parent, id FROM T UNION SELECT inside.folder, T.id FROM inside, T "
            "WHERE T.parent = inside.id) SELECT folder, id FROM inside",
            ("T",), {"rows": 400},
        ),
    )
}  # fmt: skip
_STARTS = {"rec-reach": 1, "rec-reach-100": 100}
_PARTS = {"rec-reach": (0, 0.2), "rec-reach-100": (10_000, 30_000), "rec-closure": (1_000, 2_500)}
"""The nodes of the graph that take part (0: all), and the window over the edges between them."""
_FOLDERS = 20_000


def stream(name: str, data: str | None, options: Mapping[str, Any]) -> tuple[Stream, int]:
    """Returns the stream of a workload, and the number of updates at its beginning that are loaded first.

    ``options``: those of ``bench.cases.workloads.load``.
    """
    if name == "rec-folders":
        return _moved(int(options.get("rows", _FOLDERS)), options.get("seed", 7))
    sizes = {k: options[k] for k in ("vertices", "edges", "seed") if k in options}
    nodes, window = _PARTS[name]
    graph = datasets.shuffled(datasets.graph(data if datasets.has_graph(data) else None, **sizes))
    edges, of = _between(graph.edges, int(options.get("nodes", nodes))), graph.title
    if edges.num_rows < graph.edges.num_rows:
        of = f"{edges.num_rows:,} edges of {of}"
    made = windowed(of, "G", edges, options.get("window", window))
    first = int(np.argmax(made.weight < 0)) if (made.weight < 0).any() else len(made)
    starts = _starts(edges.column("src").to_numpy(), _STARTS.get(name, 0), options.get("seed", 7))
    if not len(starts):
        return made, first
    relation = np.concatenate([np.zeros(len(starts), np.int16), np.ones(len(made), np.int16)])
    row = np.concatenate([np.arange(len(starts)), made.row])
    weight = np.concatenate([np.ones(len(starts), np.int64), made.weight])
    return Stream(of, {"S": pa.table({"v": starts}), "G": edges}, relation, row, weight), len(starts) + first


def _between(edges: pa.Table, nodes: int) -> pa.Table:
    """Returns the edges between the ``nodes`` nodes that have the most edges; all edges if that is 0."""
    src, dst = edges.column("src").to_numpy(), edges.column("dst").to_numpy()
    degrees = np.bincount(src, minlength=int(dst.max(initial=0)) + 1)
    degrees += np.bincount(dst, minlength=len(degrees))
    if not 0 < nodes < len(degrees):
        return edges
    kept = np.zeros(len(degrees), bool)
    kept[np.argsort(-degrees, kind="stable")[:nodes]] = True
    return edges.filter(pa.array(kept[src] & kept[dst])).combine_chunks()


def _starts(sources: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Returns nodes with edges: that with the most, and others at random, which are more likely the more they have."""
    if not number:
        return np.empty(0, np.int64)
    drawn = np.random.default_rng(seed).permutation(sources)
    first = np.argmax(np.bincount(sources))
    found, places = np.unique(np.concatenate([[first], drawn]), return_index=True)
    return found[np.argsort(places)][:number]


def _moved(nodes: int, seed: int) -> tuple[Stream, int]:
    """Returns a tree of folders. Each update moves a folder with its content to another folder. The new parent is as
    deep as the old one, so the depth of the tree stays the same. Each folder is moved once, on average.
    """
    rng = np.random.default_rng(seed)
    parent = (rng.random(nodes) * np.arange(nodes)).astype(np.int64)  # any earlier node
    depth = np.zeros(nodes, np.int64)
    for node in range(1, nodes):
        depth[node] = depth[parent[node]] + 1
    order = np.argsort(depth, kind="stable")
    begins = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    moved = rng.integers(1, nodes, nodes)
    level = depth[moved] - 1
    target = order[begins[level] + (rng.random(nodes) * (begins[level + 1] - begins[level])).astype(np.int64)]
    rows = np.concatenate([np.column_stack([parent[1:], np.arange(1, nodes)]), np.column_stack([target, moved])])
    row, weight = list(range(nodes - 1)), [1] * (nodes - 1)
    there = np.arange(-1, nodes - 1)  # of each node, its row
    for number, node in enumerate(moved.tolist(), nodes - 1):
        row += [there[node], number]
        weight += [-1, 1]
        there[node] = number
    table = pa.table({"parent": rows[:, 0], "id": rows[:, 1]})
    title = f"generated tree of {nodes:,} folders, {depth.max()} deep"
    zeros = np.zeros(len(row), np.int16)
    return Stream(title, {"T": table}, zeros, np.array(row, np.int64), np.array(weight, np.int64)), nodes - 1
