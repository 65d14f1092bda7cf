"""Parses motifs: `(a)-[e1]->(b); (b)-[e2]->(c); !(c)-[]->(a)` becomes vertices and edges, in their order.

They are read as `GraphFrame.find` reads them. Abbreviations are expanded: `(a)<-[e]-(b)` is `(b)-[e]->(a)`;
`(a)<-[e]->(b)` is `(a)-[e1]->(b); (b)-[e2]->(a)`; `(a)-[e*2]->(b)` is `(a)-[_e1]->(_ab1); (_ab1)-[_e2]->(b)`. A range
of lengths, `(a)-[e*1..3]->(b)`, and a fixed length without direction, `(a)-[e*2]-(b)`, must be the only term: they are
several motifs, one for each length and direction, which are output as `_hop`, `_pattern` and `_direction`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from plans.errors import PlanError, Position
from plans.expressions.build import Expr, lit
from plans.queries.algebra import Query, SetOperation, Source
from plans.schema import Column, Schema, Table

_NAME = r"[A-Za-z0-9_]+"
_LENGTH = r"(?P<star>\*\s*(?P<low>\d*)\s*(?P<dots>\.\.\s*(?P<high>\d*))?)?"
_EDGE = re.compile(
    rf"(?P<not>!)?\s*\(\s*(?P<src>{_NAME})?\s*\)\s*(?P<in><)?-"
    rf"\s*\[\s*(?P<name>{_NAME})?\s*{_LENGTH}\s*\]\s*-(?P<out>>)?\s*\(\s*(?P<dst>{_NAME})?\s*\)"
)
_VERTEX = re.compile(rf"\(\s*(?P<name>{_NAME})?\s*\)")
HIDDEN = "__tmpv"
"""The prefix of vertices inside a path between two anonymous ends. They are not output."""
LONGEST = 32


@dataclass(frozen=True)
class Vertex:
    """A vertex without edges."""

    name: str
    place: Position


@dataclass(frozen=True)
class Edge:
    """An edge from `src` to `dst`, each None if anonymous. `undirected`: it may also have the reverse direction."""

    name: str | None
    src: str | None
    dst: str | None
    place: Position
    negated: bool = False
    undirected: bool = False


Term = Vertex | Edge


@dataclass(frozen=True)
class Branch:
    """One motif without ranges: its terms, and for a motif of a range its length, pattern and direction."""

    terms: tuple[Term, ...]
    hop: int | None = None
    pattern: str = ""
    direction: str = ""

    @property
    def labels(self) -> dict[str, Expr]:
        """Returns the columns that identify a branch of a range."""
        if self.hop is None:
            return {}
        return {"_hop": lit(self.hop), "_pattern": lit(self.pattern), "_direction": lit(self.direction)}


def looks_like(text: str) -> bool:
    """Returns whether a text is meant as a motif: it begins with a vertex in parentheses or a negated edge."""
    return re.match(rf"\s*!?\s*\(\s*(?:{_NAME})?\s*\)\s*(?:-|<-|;|$)", text) is not None


def read(text: str) -> tuple[Branch, ...]:
    """Returns the motifs whose union a text is: one, unless it has a range. Raises PlanError, with the position, for
    other texts."""
    pieces = list(_pieces(text))
    if len(pieces) == 1:
        several = _several(*pieces[0], text)
        if several:
            return several
    terms = tuple(term for piece, place in pieces for term in _terms(piece, place, text))
    if not terms:
        raise PlanError("motif: the text has no edge", hint="write (a)-[e]->(b)")
    _check(terms, text)
    return (Branch(terms),)


def named(branch: Branch) -> tuple[str, ...]:
    """Returns the names of a branch in the order of the output: vertices and edges by their first occurrence,
    `_pattern` and `_direction` after the first edge without direction."""
    found: dict[str | None, None] = {}
    for term in branch.terms:
        if isinstance(term, Vertex):
            found[term.name] = None
            continue
        for name in (term.src, term.name, term.dst, *(("_pattern", "_direction") if term.undirected else ())):
            found[name] = None
    if branch.hop is not None:
        found |= dict.fromkeys(("_hop", "_pattern", "_direction"))
    return tuple(name for name in found if name and not name.startswith(HIDDEN))


def _pieces(text: str) -> Iterator[tuple[str, Position]]:
    start = 0
    for piece in text.split(";"):
        if piece.strip():
            begin = start + len(piece) - len(piece.lstrip())
            yield piece.strip(), Position.of(text, begin, start + len(piece.rstrip()))
        start += len(piece) + 1


def _several(piece: str, place: Position, text: str) -> tuple[Branch, ...]:
    """Returns the branches of a range of lengths, or of a length without direction, or an empty tuple for any other
    term."""
    match = _EDGE.fullmatch(piece)
    if match is None or not match["star"] or not (match["dots"] or not (match["in"] or match["out"])):
        return ()
    if match["not"]:
        raise PlanError("motif: a path of several lengths or without direction cannot be negated", position=place,
                        text=text, hint="negate edges: !(a)-[]->(b)")  # fmt: skip
    if match["in"]:
        raise PlanError("motif: a path of several lengths must go from left to right, or have no direction",
                        position=place, text=text, hint="write (b)-[e*1..3]->(a) or (a)-[e*1..3]-(b)")  # fmt: skip
    if not match["low"] or (match["dots"] and not match["high"]):
        raise PlanError("motif: a path of several lengths needs a shortest and a longest length", position=place,
                        text=text, hint="write both: (a)-[e*1..3]->(b)")  # fmt: skip
    low, high = int(match["low"]), int(match["high"] or match["low"])
    if not 1 <= low <= high <= LONGEST:
        raise PlanError(f"motif: the lengths {low}..{high} of a path must be between 1 and {LONGEST}, "
                        "the shorter one first", position=place, text=text, hint="write *1..3")  # fmt: skip
    src, dst, name = (match[part] or "" for part in ("src", "dst", "name"))
    branches = []
    for inward in (False,) if match["out"] else (False, True):
        for hop in range(high, low - 1, -1):
            terms = tuple(_path(dst, src, name, hop, place) if inward else _path(src, dst, name, hop, place))
            _check(terms, text)
            arrow = f"({src})<-[{name}*{hop}]-({dst})" if inward else f"({src})-[{name}*{hop}]->({dst})"
            branches.append(Branch(terms, hop, arrow, "in" if inward else "out"))
    return tuple(branches)


def _terms(piece: str, place: Position, text: str) -> Iterator[Term]:
    """Yields the terms of one piece between semicolons."""
    match, alone = _EDGE.fullmatch(piece), _VERTEX.fullmatch(piece)
    if alone is not None:
        if not alone["name"]:
            raise PlanError("motif: a vertex without an edge needs a name", position=place, text=text, hint="write (a)")
        yield Vertex(alone["name"], place)
        return
    if match is None:
        raise PlanError(f"motif: {piece!r} is not an edge like (a)-[e]->(b)", position=place, text=text)
    src, dst, name = (match[part] or "" for part in ("src", "dst", "name"))
    negated, undirected = bool(match["not"]), not (match["in"] or match["out"])
    if match["dots"] or (match["star"] and undirected):
        raise PlanError("motif: a path of several lengths, or without direction, cannot be combined with other edges",
                        position=place, text=text, hint="leave other edges out, or write (a)-[*2]->(b)")  # fmt: skip
    if negated and (undirected or (match["in"] and match["out"])):
        raise PlanError("motif: a negated edge has one direction", position=place, text=text,
                        hint="write both: !(a)-[]->(b); !(b)-[]->(a)")  # fmt: skip
    if negated and name:
        raise PlanError(f"motif: the negated edge {name} has a name, but no row can show this edge",
                        position=place, text=text, hint="leave its name out: !(a)-[]->(b)")  # fmt: skip
    hops = int(match["low"] or 0) if match["star"] else None
    if hops is not None and not 1 <= hops <= LONGEST:
        raise PlanError(f"motif: the length of a path is a number between 1 and {LONGEST}", position=place, text=text,
                        hint="write (a)-[e*2]->(b)")  # fmt: skip
    ways = ((src, dst), (dst, src)) if match["in"] and match["out"] else ((dst, src),) if match["in"] else ((src, dst),)
    for number, (one, other) in enumerate(ways, 1):
        if hops is not None:
            yield from _path(one, other, name, hops, place, negated)
        else:
            label = f"{name}{number}" if name and len(ways) == 2 else name
            yield Edge(label or None, one or None, other or None, place, negated, undirected)


def _path(src: str, dst: str, name: str, hops: int, place: Position, negated: bool = False) -> Iterator[Edge]:
    """Yields the edges of a path, whose inner vertices and edges get generated names."""
    inner = HIDDEN if not src and not dst else f"_{src}{dst}"
    stops = [src or None, *(f"{inner}{i}" for i in range(1, hops)), dst or None]
    for i in range(hops):
        yield Edge(f"_{name}{i + 1}" if name else None, stops[i], stops[i + 1], place, negated)


def _check(terms: tuple[Term, ...], text: str) -> None:
    """Raises PlanError for names that are used twice, or for both a vertex and an edge, and for edges without any
    name."""
    vertices: dict[str, str] = {}
    edges: dict[str, str] = {}
    for term in terms:
        if isinstance(term, Edge) and not (term.name or term.src or term.dst):
            raise PlanError("motif: an edge without any name has no output", position=term.place, text=text,
                            hint="name a vertex or the edge: (a)-[]->()")  # fmt: skip
        if isinstance(term, Edge) and term.name:
            if term.name.lower() in edges:
                raise PlanError(f"motif: the name {term.name} is used twice", position=term.place, text=text)
            edges[term.name.lower()] = term.name
        for name in (term.name,) if isinstance(term, Vertex) else (term.src, term.dst):
            if name and vertices.setdefault(name.lower(), name) != name:
                raise PlanError(f"motif: {name} and {vertices[name.lower()]} differ only in case",
                                position=term.place, text=text,
                                hint="their columns would have the same name")  # fmt: skip
        both = vertices.keys() & edges.keys()
        if both:
            raise PlanError(f"motif: {edges[both.pop()]} names an edge and a vertex", position=term.place, text=text)


ENDS = ("src", "dst")


@dataclass(frozen=True)
class Graph:
    """The edge relation, with columns `src` and `dst`, and the vertex relation, with a column `id`, or None.

    `text` is that of the motif, for the queries that are made.
    """

    text: str
    edges: Table
    vertices: Table | None = None

    @staticmethod
    def of(text: str, schema: Schema) -> Graph:
        """Returns the graph of a schema: `edges`, or the only relation with the columns `src` and `dst`, and `vertices`
        if it exists. Raises PlanError if there are no edges."""
        if "edges" in schema:
            fitting = [schema["edges"]]
        else:
            fitting = [table for table in schema.values() if all(map(table.column, ENDS))]
        if len(fitting) > 1:
            names = ", ".join(table.name for table in fitting)
            raise PlanError(
                f"motif: several relations may be the edge relation: {names}", hint="name the edge relation 'edges'"
            )
        if not fitting or not all(map(fitting[0].column, ENDS)):
            raise PlanError("motif: the schema has no edge relation", hint="add one with columns src and dst")
        vertices = schema.get("vertices")
        if vertices is not None and vertices.column("id") is None:
            raise PlanError("motif: the relation vertices has no column id")
        return Graph(text, fitting[0], vertices)

    def vertex(self, alias: str) -> Source:
        """Returns any vertex as a source. Without a vertex relation, the vertices are the ends of edges."""
        if self.vertices is not None:
            return Source(alias, self.vertices)
        ends = tuple(Query(self.text, (edge,), (), (("id", edge.qualified(end)),), False)
                     for end in ENDS for edge in (Source("edge", self.edges),))  # fmt: skip
        table = Table(alias, (Column("id", ends[0].columns[0].type),))
        return Source(alias, table, input=SetOperation(ends, ("union", 0, 1)))


def fields(source: Source) -> dict[str, Expr]:
    """Returns the columns of a source by name."""
    return {column.name: source.qualified(column.name) for column in source.table.columns}


def field(columns: dict[str, Expr], name: str) -> Expr:
    """Returns the column with that name, ignoring case."""
    return next(expr for known, expr in columns.items() if known.lower() == name)
