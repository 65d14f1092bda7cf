"""Motifs with the results of `GraphFrame.find`: a struct for every named element, with duplicates.

The maintained relation has plain columns. A `Shape` says which of them form which struct.

>>> schema = {"vertices": {"id": "int64"}, "edges": {"src": "int64", "dst": "int64"}}
>>> relation, shape = find("(a)-[e]->(b)", schema, "a.id <> b.id")
>>> [(element.name, element.fields) for element in shape.elements[:2]]
[('a', (('id', 'a_id'),)), ('e', (('src', 'e_src'), ('dst', 'e_dst')))]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from plans.errors import PlanError, Position
from plans.expressions.build import NULL, Expr, cast, substitute
from plans.frontends.motif.patterns import Branch, Edge, Graph, Vertex, named, read
from plans.frontends.motif.search import Found, Search, union
from plans.queries.algebra import Query, Relation, unused
from plans.queries.conjunction import verdict
from plans.schema import Column, Schema, Table
from plans.types import shown

_SAID = "_"
"""The table of the columns that are not structs: `_hop`, `_pattern` and `_direction`."""


def conditions(text: str, elements: Mapping[str, Mapping[str, str]], dialect: str = "spark") -> tuple[Expr, ...]:
    """Returns the conjuncts of a condition, over columns named `element.field`.

    `elements`: the types of the fields of each element. A column that is not a struct has the single field ``""``.
    Raises PlanError, with the position in `text`, for a text that is not a condition over them.
    """
    from plans.frontends.sql import query as sql

    plain = {name: fields[""] for name, fields in elements.items() if "" in fields}
    tables = [Table(name, tuple(Column(*field) for field in fields.items()))
              for name, fields in elements.items() if "" not in fields]  # fmt: skip
    if plain:
        tables.append(Table(_SAID, tuple(Column(*field) for field in plain.items())))
    head = f"SELECT 1 AS one FROM {', '.join(f'`{table.name}`' for table in tables)} WHERE\n"
    if dialect == "ansi":
        head = head.replace("`", '"')
    try:
        read = sql.parse(head + text, Schema(tuple(tables)), dialect=dialect)
    except PlanError as error:
        raise _without_head(error, text) from None
    if not isinstance(read, Query) or len(read.sources) != len(tables):
        raise PlanError("motif: where= is a condition over the elements of the motif, without subqueries",
                        hint="write a.id <> c.id; for the rest use a query over the view")  # fmt: skip
    return tuple(_local(part, plain) for part in read.conditions)


def _local(part: Expr, plain: Mapping[str, str]) -> Expr:
    """Renames the columns of a condition that are not structs to `name.`."""
    from plans.expressions.build import col, substitute

    types = {node.value: node.type for node in part.postorder() if node.op == "col"}

    def renamed(name: str) -> Expr:
        table, _, column = name.partition(".")
        return col(f"{column}." if table == _SAID and column in plain else name, types[name])

    return substitute(part, renamed)


def _without_head(error: PlanError, text: str) -> PlanError:
    """Returns the error with its position in the condition alone."""
    place = error.position
    if place is None or place.line < 2:
        return PlanError(f"motif: where= is not a condition: {error.message}", hint=error.hint)
    place = Position(place.line - 1, place.column, place.length)
    return PlanError(error.message, hint=error.hint, witness=error.witness, position=place, text=text)


Types = dict[str, dict[str, str]]
"""The type of every field, by element. A column that is not a struct has the single field ``\"\"``."""


@dataclass(frozen=True)
class Element:
    """A column of the result: a struct of `fields`, pairs (field name, plain column), or, without fields, one plain
    column.

    `present`: the pairs (`_hop`, `_direction`) whose rows have the element, if some rows do not. It is NULL in the
    others.
    """

    name: str
    fields: tuple[tuple[str, str], ...] = ()
    column: str = ""
    present: tuple[tuple[int, str], ...] | None = None


@dataclass(frozen=True)
class Shape:
    """The columns of a result, in order, over the plain columns of the maintained relation."""

    elements: tuple[Element, ...]

    def plain(self, name: str) -> str:
        """Returns the plain column of an element without fields."""
        return next(element.column for element in self.elements if element.name == name)

    def to_json(self) -> list[Any]:
        """Returns the shape as JSON."""
        return [[element.name, element.fields, element.column, element.present] for element in self.elements]

    @staticmethod
    def from_json(given: list[Any]) -> Shape:
        """Returns the shape that ``to_json`` wrote."""
        return Shape(
            tuple(
                Element(
                    name, tuple(map(tuple, fields)), column, None if present is None else tuple(map(tuple, present))
                )
                for name, fields, column, present in given
            )
        )


def find(text: str, schema: Any, where: str | None = None, dialect: str = "spark") -> tuple[Relation, Shape]:
    """Returns the relation of a motif's result, with plain columns, and its shape.

    `schema`: `edges` with the columns `src` and `dst`, and `vertices` with the column `id`; without `vertices`, the
    vertices are the ends of edges. `where`: a condition over the elements, like `a.age > b.age AND e.kind = 'friend'`.
    Raises PlanError, with the position, for motifs that `find` rejects, too, and for invalid conditions.
    """
    for what, given in (("pattern", text), ("where=", where)):
        if not isinstance(given, str) and not (given is None and what != "pattern"):
            raise PlanError(f"motif: {what} is a text, not {shown(given)}")
    branches = read(text)
    graph = Graph.of(text, Schema.of(schema))
    names = list(dict.fromkeys(name for branch in branches for name in named(branch)))
    parts: list[tuple[Branch, Search, Found]] = []
    for branch in branches:
        search = Search(graph, names, loose=False)
        parts += [(branch, search, found) for found in search.of(_augmented(branch))]
    types: Types = {}
    for branch, _, found in parts:
        for element, columns in _elements(branch, found).items():
            types.setdefault(element, {name: expr.type for name, expr in columns.items()})
    shape = _shape(names, types, parts)
    if where is not None:
        wanted = conditions(where, {name: types[name] for name in names}, dialect)
        selected = [(branch, search, _selected(branch, found, wanted, types)) for branch, search, found in parts]
        parts = [(branch, search, found) for branch, search, found in selected if found is not None]
        if not parts:
            raise PlanError("motif: where= is never true", hint="leave it out, or write another condition")
    rows = [
        search.query(found, _outputs(_elements(branch, found), shape, types), found.distinct)
        for branch, search, found in parts
    ]
    return union(rows, parts[0][2].distinct), shape


def _augmented(branch: Branch) -> list[Edge | Vertex]:
    """Returns the terms of a branch, preceded by the vertices that occur only in negated edges."""
    ends: dict[bool, dict[str, Edge]] = {True: {}, False: {}}
    alone = {term.name for term in branch.terms if isinstance(term, Vertex)}
    for term in branch.terms:
        if isinstance(term, Edge):
            ends[term.negated] |= {end: term for end in (term.src, term.dst) if end}
    missing = sorted(ends[True].keys() - ends[False].keys() - alone)
    return [*(Vertex(name, ends[True][name].place) for name in missing), *branch.terms]


def _elements(branch: Branch, found: Found) -> dict[str, Mapping[str, Expr]]:
    """Returns the columns of all elements that a branch has found, and of the columns that describe the branch, by
    element."""
    return {**found.elements, **{name: {"": value} for name, value in {**found.labels, **branch.labels}.items()}}


def _value(known: Mapping[str, Mapping[str, Expr]], element: str, field: str, types: Types) -> Expr:
    """Returns a field of an element, or NULL if the search does not have the element."""
    return known[element][field] if element in known else cast(NULL, types[element][field])


def _selected(branch: Branch, found: Found, wanted: Sequence[Expr], types: Types) -> Found | None:
    """Returns the search with a condition over its elements, or None if the condition never holds."""
    known = _elements(branch, found)

    def value(name: str) -> Expr:
        element, _, field = name.partition(".")
        return _value(known, element, field, types)

    left = [substitute(part, value) for part in wanted]
    return None if any(verdict(part) is False for part in left) else found.joined(where=left)


def _shape(names: list[str], types: Types, parts: list[tuple[Branch, Search, Found]]) -> Shape:
    elements: list[Element] = []
    taken: list[str] = []
    for name in names:
        plain: dict[str, str] = {}
        for field in types[name]:
            plain[field] = unused(f"{name}_{field}" if field else name, taken)
            taken.append(plain[field])
        having = [branch for branch, _, found in parts if name in _elements(branch, found)]
        present = tuple((branch.hop or 0, branch.direction) for branch in having) if len(having) < len(parts) else None
        if "" in plain:
            elements.append(Element(name, column=plain[""]))
        else:
            elements.append(Element(name, tuple(plain.items()), present=present))
    return Shape(tuple(elements))


def _outputs(known: Mapping[str, Mapping[str, Expr]], shape: Shape, types: Types) -> list[tuple[str, Expr]]:
    found = []
    for element in shape.elements:
        for field, column in element.fields or (("", element.column),):
            found.append((column, _value(known, element.name, field, types)))
    return found
