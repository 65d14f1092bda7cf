"""Fans and quiet edges: how far a change of a payload propagates up a tree (`plans.payloads`), for search and EXPLAIN.

A payload can change where no counter changes, so the enclosureness does not bound its changes. Instead, *touches* are
counted: rows of a parent that a publication reads. The *fan* of an edge c -> p is the number of rows of p with one key
of the edge: 1 if p is virtual, or if the key determines the row of p by declared keys; otherwise it is unknown, and
assumed to be `FANOUT`. An edge is *quiet* if its payload changes only when its key appears or disappears: the key
determines the row of c, which occurs once, and all edges below c are quiet. Declared keys are trusted: data that
violate one cost touches, but results stay correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plans.expressions.expr import Expr
from plans.plan import Bag, BagAtom, Node, table_of
from plans.queries.conjunction import Atom
from plans.schema import Table
from plans.theory.hypergraph import Hypergraph

FANOUT = 8.0
"""The assumed fan of an edge whose fan is unknown."""

Dependency = tuple[int, int]
"""Attributes that determine other attributes, as bit masks."""


@dataclass(frozen=True)
class Fans:
    """What declared keys imply for the relations of a tree. `fixes[i]`: the dependencies that hold in relation i;
    `once[i]`: no row of it counts more than once."""

    fixes: tuple[tuple[Dependency, ...], ...]
    once: tuple[bool, ...]

    def one_row(self, relation: int, attributes: int, key: int) -> bool:
        """Returns whether at most one row with these attributes has a key. `relation` is negative for a virtual
        node, whose rows have their key."""
        known = key if relation < 0 else closure(key, self.fixes[relation])
        return attributes & ~known == 0

    def quiet(self, relation: int, attributes: int, key: int) -> bool:
        """Returns whether a group above the relation is one row that counts once. The edges below the relation are not
        considered."""
        return (relation < 0 or self.once[relation]) and self.one_row(relation, attributes, key)

    def fan(self, relation: int, attributes: int, key: int) -> float:
        """Returns the number of rows of a parent that have one key of an edge."""
        return 1.0 if relation < 0 or self.one_row(relation, attributes, key) else FANOUT


def fans(relations: Iterable[Atom | Node | Bag | None], tables: Iterable[Table], graph: Hypergraph) -> Fans:
    """Returns the known dependencies of relations, in their order. None represents a virtual node. Projections, named
    `name[...]`, hold each row once."""
    known = tuple(tables)
    made = [_of(relation, known, graph) for relation in relations]
    return Fans(tuple(fixes for fixes, _ in made), tuple(once for _, once in made))


def _of(
    relation: Atom | Node | Bag | None, tables: Sequence[Table], graph: Hypergraph
) -> tuple[tuple[Dependency, ...], bool]:
    if isinstance(relation, Node) and relation.kind != "input":
        relation = relation.bag
    if relation is None:
        return (), True
    if isinstance(relation, Bag):
        return tuple(one for atom in relation.atoms for one in dependencies(atom, tables, graph)), True
    found = dependencies(relation, tables, graph)
    return found, "[" in relation.name or _once(relation, table_of(tables, relation.relation))


def dependencies(atom: Atom | Node | BagAtom, tables: Sequence[Table], graph: Hypergraph) -> tuple[Dependency, ...]:
    """Returns the dependency of an atom by the declared key of its table, or none if the atom lacks a column of the
    key."""
    key = declared_key(atom, table_of(tables, atom.relation))
    return () if key is None else ((graph.mask(key), graph.mask(atom.attributes)),)


def declared_key(atom: Atom | Node | BagAtom, table: Table) -> tuple[str, ...] | None:
    """Returns the attributes of an atom that are the declared key of its table, without columns that its predicate sets
    to a constant. Returns None if there is no such key."""
    if not table.key:
        return None
    held = {column.lower(): name for column, name in zip(atom.columns, atom.attributes, strict=True)}
    pinned = _pinned(atom.predicate)
    wanted = [column.lower() for column in table.key if column.lower() not in pinned]
    return tuple(held[c] for c in wanted) if all(c in held for c in wanted) else None


def _once(atom: Atom | Node, table: Table) -> bool:
    """Returns whether no row of a counted atom has a weight above 1."""
    whole = {c.name.lower() for c in table.columns} <= {c.lower() for c in atom.columns}
    return declared_key(atom, table) is not None or (table.distinct and whole)


def _pinned(predicate: Expr | None) -> set[str]:
    """Returns the columns that a predicate sets equal to a constant."""
    parts = () if predicate is None else predicate.conjuncts()
    equal = [part.args for part in parts if part.op == "eq" and {a.op for a in part.args} == {"col", "literal"}]
    return {arg.value.lower() for args in equal for arg in args if arg.op == "col"}


def closure(known: int, fixes: Sequence[Dependency]) -> int:
    """Returns all attributes that `known` attributes determine."""
    while True:
        more = known
        for left, right in fixes:
            if left & ~known == 0:
                more |= right
        if more == known:
            return known
        known = more
