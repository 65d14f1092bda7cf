"""GraphFrames motifs: `(a)-[e]->(b); (b)-[e2]->(c)`.

The schema has an edge relation (`edges`, or the only relation with columns `src` and `dst`) and may have a vertex
relation (`vertices`, with a column `id`). A named vertex `a` gives the output column `a`, its id, and
`a_<column>` for every other column of the vertex relation; a named edge `e` gives `e_<column>` for every column but
`src` and `dst`. Nameless vertices and edges are not output. The result is a set.

A negated edge, `!(a)-[]->(b)`, says that there is none: a nameless end stands for any vertex, a named one has to stand
in the motif without negation too. It has no name and no output.
"""

from __future__ import annotations

import re
from dataclasses import replace

from plans.algebra import Query, Source, unused
from plans.errors import PlanError, Position
from plans.expressions.build import Expr, call
from plans.schema import Schema, Table

_NAME = r"[A-Za-z_]\w*"
_PATTERN = re.compile(
    rf"\s*(?P<not>!)?\s*\(\s*(?P<from>{_NAME})?\s*\)\s*-\s*\[\s*(?P<edge>{_NAME})?\s*\]\s*->\s*\(\s*(?P<to>{_NAME})?\s*\)\s*"
)
_VERTEX = re.compile(rf"\s*\(\s*(?P<vertex>{_NAME})?\s*\)\s*")


def looks_like(text: str) -> bool:
    """Returns whether a text is meant as a motif: it begins with a vertex in parentheses or a negated edge."""
    return re.match(rf"\s*!?\s*\(\s*(?:{_NAME})?\s*\)\s*(?:-|;|$)", text) is not None


def _edge_relation(schema: Schema) -> Table:
    if "edges" in schema:
        fitting = [schema["edges"]]
    else:
        fitting = [table for table in schema.values() if table.column("src") and table.column("dst")]
    if len(fitting) > 1:
        names = ", ".join(table.name for table in fitting)
        raise PlanError(f"motif: several relations could be the edges: {names}", hint="call the one meant 'edges'")
    if not fitting or not (fitting[0].column("src") and fitting[0].column("dst")):
        raise PlanError("motif: the schema has no edge relation", hint="add one with columns src and dst")
    return fitting[0]


def _vertex_relation(schema: Schema) -> Table | None:
    if "vertices" not in schema:
        return None
    if schema["vertices"].column("id") is None:
        raise PlanError("motif: the relation vertices has no column id")
    return schema["vertices"]


def parse(text: str, schema: Schema) -> Query:
    """Returns the query of a motif. PlanError, with the place, where it is not one."""
    edges, vertices = _edge_relation(schema), _vertex_relation(schema)
    sources: list[Source] = []
    conditions: list[Expr] = []
    ids: dict[str, Expr] = {}
    named_edges: dict[str, Source] = {}
    order: list[tuple[str, str]] = []
    negated: list[tuple[re.Match[str], Position]] = []
    names_used = re.findall(_NAME, text)
    start = 0
    for piece in text.split(";"):
        place = Position.of(text, start + len(piece) - len(piece.lstrip()), start + max(1, len(piece.rstrip())))
        start += len(piece) + 1
        if not piece.strip():
            continue
        match = _PATTERN.fullmatch(piece)
        if match is None:
            alone = _VERTEX.fullmatch(piece)
            if alone is None:
                raise PlanError(f"motif: {piece.strip()!r} is not an edge like (a)-[e]->(b)", position=place, text=text)
            if vertices is None:
                raise PlanError("motif: a vertex alone needs a vertex relation", position=place, text=text)
            _vertex(alone["vertex"], vertices, sources, ids, order, conditions, None)
            continue
        if match["not"]:
            negated.append((match, place))
            continue
        name = match["edge"]
        if name and (name in named_edges or name in ids):
            raise PlanError(f"motif: the name {name} is used twice", position=place, text=text)
        edge = Source(name or unused(f"edge{len(sources) + 1}", names_used), edges)
        sources.append(edge)
        for end, column in ((match["from"], "src"), (match["to"], "dst")):
            if end and (end in named_edges or end == name):
                raise PlanError(f"motif: {end} names an edge and a vertex", position=place, text=text)
            _vertex(end, vertices, sources, ids, order, conditions, edge.qualified(column))
            if end == match["from"] and column == "src" and name:
                named_edges[name] = edge
                order.append(("edge", name))
    if negated and not sources:
        raise PlanError(
            "motif: every edge is negated", position=negated[0][1], text=text,
            hint="say which vertices are meant: (a)-[]->(b); !(b)-[]->(a)",
        )  # fmt: skip
    for match, place in negated:
        alias = unused(f"edge{len(sources) + 1}", names_used)
        sources.append(_absent(match, Source(alias, edges, join="anti"), ids, place, text))
    outputs: list[tuple[str, Expr]] = []
    by_alias = {source.alias: source for source in sources}
    for kind, name in order:
        if kind == "vertex":
            outputs.append((name, ids[name]))
            if name in by_alias:
                rest = [c.name for c in by_alias[name].table.columns if c.name.lower() != "id"]
                outputs += [(f"{name}_{column}", by_alias[name].qualified(column)) for column in rest]
        else:
            rest = [c.name for c in edges.columns if c.name.lower() not in ("src", "dst")]
            outputs += [(f"{name}_{column}", named_edges[name].qualified(column)) for column in rest]
    names = tuple((column.value, name) for name, column in ids.items())
    return Query(text, tuple(sources), tuple(conditions), tuple(outputs), True, names=names)


def _vertex(
    name: str | None,
    vertices: Table | None,
    sources: list[Source],
    ids: dict[str, Expr],
    order: list[tuple[str, str]],
    conditions: list[Expr],
    end: Expr | None,
) -> None:
    """Ties the end of an edge to the vertex of that name, which is made at its first occurrence."""
    if name is None:
        return
    if name not in ids:
        order.append(("vertex", name))
        if vertices is not None:
            vertex = Source(name, vertices)
            sources.append(vertex)
            ids[name] = vertex.qualified("id")
        elif end is not None:
            ids[name] = end
            return
    if end is not None:
        conditions.append(call("eq", ids[name], end))


def _absent(match: re.Match[str], edge: Source, ids: dict[str, Expr], place: Position, text: str) -> Source:
    """Returns the anti join of a negated edge: no edge has both its ends."""
    if match["edge"]:
        raise PlanError(
            f"motif: the negated edge {match['edge']} has a name, but there is no such edge to show", position=place,
            text=text, hint="leave its name out: !(a)-[]->(b)",
        )  # fmt: skip
    on = []
    for end, column in ((match["from"], "src"), (match["to"], "dst")):
        if end and end not in ids:
            raise PlanError(
                f"motif: vertex {end} is in negated edges alone", position=place, text=text,
                hint="leave its name out, or name it where the motif is not negated",
            )  # fmt: skip
        if end:
            on.append(call("eq", ids[end], edge.qualified(column)))
    return replace(edge, on=tuple(on))
