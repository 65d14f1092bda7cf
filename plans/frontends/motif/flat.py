"""Motifs as queries of their own: a set of rows with plain columns.

The schema has an edge relation (`edges`, or the only relation with columns `src` and `dst`) and optionally a vertex
relation (`vertices`, with a column `id`). A named vertex `a` gives the output column `a`, its id, and `a_<column>` for
every other column of the vertex relation; a named edge `e` gives `e_<column>` for every column except `src` and `dst`.
Anonymous vertices and edges are not output. The result is a set.

A negated edge, `!(a)-[]->(b)`, requires that no such edge exists: an anonymous end matches any vertex, and a named end
must also occur in the motif without negation. A negated edge has no name and no output.
"""

from __future__ import annotations

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, cast
from plans.frontends.motif.patterns import ENDS, Branch, Edge, Graph, Vertex, named, read
from plans.frontends.motif.search import Found, Search, union
from plans.queries.algebra import Relation
from plans.schema import Schema


def parse(text: str, schema: Schema) -> Relation:
    """Returns the relation of a motif: a query, or a union. Raises PlanError, with the position, for other texts."""
    branches = read(text)
    graph = Graph.of(text, schema)
    names = dict.fromkeys(name for branch in branches for name in named(branch))
    parts: list[tuple[Branch, Search, Found]] = []
    for branch in branches:
        _check(branch, graph, text)
        search = Search(graph, names, loose=True)
        terms = sorted(branch.terms, key=lambda term: isinstance(term, Edge) and term.negated)
        parts += [(branch, search, found) for found in search.of(terms)]
    rows = [{name: column for element in names for name, column in _columns(element, branch, found)}
            for branch, _, found in parts]  # fmt: skip
    types = {name: expr.type for row in rows for name, expr in row.items()}
    queries = [
        search.query(found, [(name, row.get(name, cast(NULL, type_))) for name, type_ in types.items()], True)
        for row, (_, search, found) in zip(rows, parts, strict=True)
    ]
    return union(queries, True)


def _columns(name: str, branch: Branch, found: Found) -> list[tuple[str, Expr]]:
    """Returns the output columns of an element that a search has."""
    if name in (labels := {**found.labels, **branch.labels}):
        return [(name, labels[name])]
    columns = found.elements.get(name, {})
    if any(isinstance(term, Edge) and term.name == name for term in branch.terms):
        return [(f"{name}_{column}", expr) for column, expr in columns.items() if column.lower() not in ENDS]
    first = [(name, expr) for column, expr in columns.items() if column.lower() == "id"]
    return first + [(f"{name}_{column}", expr) for column, expr in columns.items() if column.lower() != "id"]


def _check(branch: Branch, graph: Graph, text: str) -> None:
    """Raises PlanError for motifs that have no result as a set of plain rows."""
    known: set[str | None] = set()
    for term in branch.terms:
        if isinstance(term, Vertex):
            known.add(term.name)
            if graph.vertices is None:
                raise PlanError(
                    "motif: a vertex without an edge needs a vertex relation", position=term.place, text=text
                )
        elif not term.negated:
            known |= {term.src, term.dst}
    negated = [term for term in branch.terms if isinstance(term, Edge) and term.negated]
    if len(negated) == len(branch.terms):
        raise PlanError(
            "motif: every edge is negated", position=negated[0].place, text=text,
            hint="name the vertices in an edge that is not negated: (a)-[]->(b); !(b)-[]->(a)",
        )  # fmt: skip
    for term in negated:
        for end in (term.src, term.dst):
            if end and end not in known:
                raise PlanError(
                    f"motif: vertex {end} is only in negated edges", position=term.place, text=text,
                    hint="leave its name out, or use it in an edge that is not negated",
                )  # fmt: skip
