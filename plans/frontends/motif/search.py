"""Searches for a motif with join cores, term by term, as `GraphFrame.find` does.

A vertex is a row of the vertices, an edge a row of the edges that joins with its ends. Different names may match the
same row. An edge without direction doubles the number of searches. A negated edge is an anti join, after which all rows
are distinct: later terms join with the remaining rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from dataclasses import field as default

from plans.errors import PlanError
from plans.expressions.build import Expr, call, lit
from plans.frontends.branches import balanced
from plans.frontends.motif.patterns import ENDS, Edge, Graph, Term, Vertex, field, fields
from plans.queries.algebra import Query, Relation, SetOperation, Source, unused
from plans.schema import Column, Table

Elements = Mapping[str, Mapping[str, Expr]]
"""The columns of every named vertex and edge found so far."""


@dataclass(frozen=True)
class Found:
    """A search so far: a join core without outputs, the elements that it has found, and the texts of `_pattern` and
    `_direction`.

    `distinct`: its rows are distinct.
    """

    sources: tuple[Source, ...] = ()
    conditions: tuple[Expr, ...] = ()
    elements: Elements = default(default_factory=dict)
    labels: Mapping[str, Expr] = default(default_factory=dict)
    distinct: bool = False

    def joined(self, *sources: Source, where: Iterable[Expr] = ()) -> Found:
        """Returns the search with more sources."""
        return replace(self, sources=(*self.sources, *sources), conditions=(*self.conditions, *where))

    def knows(self, name: str, columns: Mapping[str, Expr]) -> Found:
        """Returns the search with one more element."""
        return replace(self, elements={**self.elements, name: columns})


class Search:
    """Searches for the terms of one motif. `loose`: vertices that occur only in edges need not exist in the vertex
    relation."""

    def __init__(self, graph: Graph, names: Iterable[str], loose: bool) -> None:
        self.graph = graph
        self.names = list(names)
        self.loose = loose

    def of(self, terms: Iterable[Term]) -> tuple[Found, ...]:
        """Returns the searches whose union finds the terms. Those of one motif are all distinct, or none is."""
        found: tuple[Found, ...] = (Found(),)
        for term in terms:
            if isinstance(term, Edge) and term.negated:
                found = tuple(self.without(each, term) for each in found)
                continue
            if found[0].distinct:
                found = (self.settled(found),)
            found = tuple(more for each in found for more in self.more(each, term))
        return found

    def more(self, found: Found, term: Term) -> tuple[Found, ...]:
        """Returns the searches with one more term: two for an edge without direction."""
        if isinstance(term, Vertex):
            return (self.vertex(found, term.name, None),)
        if not term.undirected:
            return (self.edge(found, term),)
        src, dst, name = term.src or "", term.dst or "", term.name or ""
        both = (
            (replace(term, src=term.dst, dst=term.src), f"({src})<-[{name}]-({dst})", "in"),
            (term, f"({src})-[{name}]->({dst})", "out"),
        )
        return tuple(
            replace(self.edge(found, way), labels={"_pattern": lit(pattern), "_direction": lit(direction)})
            for way, pattern, direction in both
        )

    def edge(self, found: Found, term: Edge) -> Found:
        """Returns the search with an edge and its ends."""
        edge = Source(term.name or self.alias(found), self.graph.edges)
        found = found.joined(edge)
        for end, column in zip((term.src, term.dst), ENDS, strict=True):
            if end:
                found = self.vertex(found, end, edge.qualified(column))
        return found.knows(term.name, fields(edge)) if term.name else found

    def vertex(self, found: Found, name: str, end: Expr | None) -> Found:
        """Returns the search with a vertex, which must equal the end of an edge if it is given."""
        known = found.elements.get(name)
        if known is not None:
            return found if end is None else found.joined(where=[call("eq", field(dict(known), "id"), end)])
        if end is not None and self.graph.vertices is None:
            there = [] if self.loose else [call("not", call("isnull", end))]
            return found.joined(where=there).knows(name, {"id": end})
        vertex = self.graph.vertex(name)
        columns = fields(vertex)
        tie = [] if end is None else [call("eq", field(columns, "id"), end)]
        return found.joined(vertex, where=tie).knows(name, columns)

    def without(self, found: Found, term: Edge) -> Found:
        """Returns the search without the rows that have an edge. The named ends of the edge must be known."""
        edge = Source(self.alias(found), self.graph.edges, join="anti")
        on = []
        for end, column in zip((term.src, term.dst), ENDS, strict=True):
            if end and end not in found.elements:
                raise PlanError(
                    f"motif: vertex {end} is used first in a negated edge", position=term.place,
                    text=self.graph.text, hint="write negated edges after all others",
                )  # fmt: skip
            if end:
                on.append(call("eq", field(dict(found.elements[end]), "id"), edge.qualified(column)))
        return replace(found.joined(replace(edge, on=tuple(on))), distinct=True)

    def settled(self, found: tuple[Found, ...]) -> Found:
        """Returns the union of all searches as a search with a single source."""
        outputs: dict[tuple[str, str], str] = {}
        for element, columns in found[0].elements.items():
            outputs |= {(element, name): "" for name in columns}
        outputs |= {("", name): "" for name in found[0].labels}
        for key in outputs:
            outputs[key] = unused("_".join(filter(None, key)), outputs.values())
        parts = [
            self.query(each, [(column, _value(each, key)) for key, column in outputs.items()], True) for each in found
        ]
        alias = self.alias(found[0], "found")
        relation = union(parts, True)
        source = Source(alias, Table(alias, tuple(Column(c.name, c.type) for c in relation.columns)), input=relation)
        elements: dict[str, dict[str, Expr]] = {}
        for (element, name), column in outputs.items():
            elements.setdefault(element, {})[name] = source.qualified(column)
        labels = elements.pop("", {})
        return Found((source,), elements=elements, labels=labels)

    def query(self, found: Found, outputs: Iterable[tuple[str, Expr]], distinct: bool) -> Query:
        """Returns the join core of a search."""
        ids = [(name, field(dict(columns), "id")) for name, columns in found.elements.items() if "id" in columns]
        names = tuple((column.value, name) for name, column in ids if column.op == "col")
        return Query(self.graph.text, found.sources, found.conditions, tuple(outputs), distinct, names=names)

    def alias(self, found: Found, preferred: str = "") -> str:
        """Returns a name for a source that no element has."""
        taken = [*self.names, *(source.alias for source in found.sources)]
        return unused(preferred or f"edge{len(found.sources) + 1}", taken)


def union(parts: list[Query], distinct: bool) -> Relation:
    """Returns the union of searches with the same columns, with or without duplicates."""
    if len(parts) == 1:
        return parts[0]
    return SetOperation(tuple(parts), balanced("union" if distinct else "union_all", range(len(parts))))


def _value(found: Found, key: tuple[str, str]) -> Expr:
    element, name = key
    return found.elements[element][name] if element else found.labels[name]
