"""`GraphFrame.find` by definition, over small graphs: binding after binding, one term at a time.

Written from what `find` does, without the planner: texts are rewritten as texts, rows are whole rows, a negated edge is
EXCEPT over everything that has been found so far.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

Row = tuple[object, ...]
Binding = dict[str, object]

_W = r"[a-zA-Z0-9_]"
_RANGE = re.compile(rf"\(({_W}*)\)-\[({_W}*)\*(\d+)(?:\.\.(\d+))?\]-(>?)\(({_W}*)\)")
_ARROW = re.compile(rf"(!?)\(({_W}*)\)(<?)-\[({_W}*)(?:\*(\d+))?\]-(>?)\(({_W}*)\)")


@dataclass
class Graph:
    """Vertices and edges with the names of their columns; rows may be there several times."""

    vertex_columns: Sequence[str]
    edge_columns: Sequence[str]
    vertices: list[Row]
    edges: list[Row]


def find(graph: Graph, motif: str) -> Counter[tuple[tuple[str, object], ...]]:
    """The rows that `find` returns, with their copies: pairs of a column and its struct, which is a tuple or None."""
    text = re.sub(r"\s", "", motif)
    found: list[Binding] = []
    columns: dict[str, None] = {}
    whole = _RANGE.fullmatch(text)
    if whole is not None and (whole[4] or not whole[5]):
        src, name, low, high, arrow, dst = whole.groups()
        for inward in (False,) if arrow else (False, True):
            for hop in range(int(high or low), int(low) - 1, -1):
                pattern = f"({src})<-[{name}*{hop}]-({dst})" if inward else f"({src})-[{name}*{hop}]->({dst})"
                rows, names = _found(graph, pattern)
                said = {"_hop": hop, "_pattern": pattern, "_direction": "in" if inward else "out"}
                found += [row | said for row in rows]
                columns |= dict.fromkeys([*names, *said])
    else:
        found, names = _found(graph, text)
        columns = dict.fromkeys(names)
    return Counter(tuple((name, row.get(name)) for name in columns) for row in found)


def _found(graph: Graph, text: str) -> tuple[list[Binding], list[str]]:
    terms = list(chain.from_iterable(_rewritten(piece) for piece in text.split(";")))
    positive = {name for term in terms if not term[0] for name in (term[1], term[3])}
    extra = sorted({name for term in terms if term[0] for name in (term[1], term[3])} - positive - {""})
    rows: list[Binding] = [{}]
    for name in extra:
        rows = _with_vertex(graph, rows, name)
    for negated, src, name, dst, directed in terms:
        if src == name == dst == "":
            continue
        if negated:
            there = {_key(row) for row in _with_edge(graph, rows, src, "", dst)}
            rows = [dict(key) for key in dict.fromkeys(map(_key, rows)) if key not in there]
        elif name is None:
            rows = _with_vertex(graph, rows, src)
        elif directed:
            rows = _with_edge(graph, rows, src, name, dst)
        else:
            inward = {"_pattern": f"({src})<-[{name}]-({dst})", "_direction": "in"}
            outward = {"_pattern": f"({src})-[{name}]->({dst})", "_direction": "out"}
            rows = [row | inward for row in _with_edge(graph, rows, dst, name, src)] + [
                row | outward for row in _with_edge(graph, rows, src, name, dst)
            ]
    names: dict[str, None] = {}
    for _, src, name, dst, directed in terms:
        said = () if directed else ("_pattern", "_direction")
        names |= dict.fromkeys(n for n in (src, name, dst, *said) if n and not n.startswith("__tmpv"))
    return rows, list(names)


def _rewritten(piece: str) -> list[tuple[bool, str, str | None, str, bool]]:
    """(negated, src, name, dst, directed) of all edges that a piece stands for; the name None: a vertex alone."""
    if "[" not in piece:
        return [(False, piece.strip("()"), None, "", True)]
    match = _ARROW.fullmatch(piece)
    assert match is not None, piece
    negated, left, inward, name, length, outward, right = match.groups()
    ways = [(left, right), (right, left)] if inward and outward else [(right, left)] if inward else [(left, right)]
    made: list[tuple[bool, str, str | None, str, bool]] = []
    for number, (src, dst) in enumerate(ways, 1):
        if length is None:
            label = f"{name}{number}" if name and len(ways) == 2 else name
            made.append((bool(negated), src, label, dst, bool(inward or outward)))
            continue
        middle = [f"__tmpv{i}" if not src and not dst else f"_{src}{dst}{i}" for i in range(1, int(length))]
        stops = [src, *middle, dst]
        for i in range(int(length)):
            made.append((bool(negated), stops[i], f"_{name}{i + 1}" if name else "", stops[i + 1], True))
    return made


def _with_vertex(graph: Graph, rows: list[Binding], name: str) -> list[Binding]:
    if not name or (rows and name in rows[0]):
        return rows
    return [row | {name: vertex} for row in rows for vertex in graph.vertices]


def _with_edge(graph: Graph, rows: list[Binding], src: str, name: str, dst: str) -> list[Binding]:
    """Every row with every edge, and with the vertices at its ends, where these have names."""
    own = [graph.edge_columns.index("src"), graph.edge_columns.index("dst")]
    ident = graph.vertex_columns.index("id")
    made = []
    for row in rows:
        for edge in graph.edges:
            ways: list[Binding] = [row | ({name: edge} if name else {})]
            for end, column in zip((src, dst), own, strict=True):
                if end:
                    known = end in ways[0] if ways else True
                    ways = [
                        way | {end: vertex}
                        for way in ways
                        for vertex in ([way[end]] if known else graph.vertices)
                        if vertex[ident] is not None and vertex[ident] == edge[column]  # type: ignore[index]
                    ]
            made += ways
    return made


def _key(row: Binding) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(row.items()))
