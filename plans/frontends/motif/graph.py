"""The relations that a motif reads: edges, and optionally vertices."""

from __future__ import annotations

from dataclasses import dataclass

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.queries.algebra import Query, SetOperation, Source
from plans.schema import Column, Schema, Table

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
