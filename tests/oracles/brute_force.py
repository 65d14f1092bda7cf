"""The result of a plan by definition: join all relations, filter, project, forget duplicates. No tree, no views."""

from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa

from plans.plan import BagAtom, Node, Plan
from plans.types import arrow_type
from tests.oracles.database import Database, Row, canonical


def results(plan: Plan, database: Database) -> set[Row]:
    """The distinct output tuples of ``plan`` over ``database``."""
    atoms: list[Node | BagAtom] = [node for node in plan.nodes if node.kind == "input"]
    atoms += [atom for node in plan.nodes if node.bag is not None for atom in node.bag.atoms]
    uses = Counter(name for node in atoms for name in node.attributes)
    bindings: list[dict[str, object]] = [{}]
    bound: set[str] = set()
    while atoms:
        node = max(atoms, key=lambda node: len(bound & set(node.attributes)))
        atoms.remove(node)
        keys = [name for name in node.attributes if name in bound]
        matches = defaultdict(list)
        for row in _selected(node, database):
            values = dict(zip(node.attributes, row, strict=True))
            if all(values[n] is not None or uses[n] == 1 or plan.attributes[n].null_safe for n in values):
                matches[tuple(values[name] for name in keys)].append(values)
        bindings = [old | new for old in bindings for new in matches[tuple(old[name] for name in keys)]]
        bound |= set(node.attributes)
    if not bindings:
        return set()
    columns = {
        name: pa.array([binding[name] for binding in bindings], arrow_type(plan.attributes[name].type))
        for name in sorted(bound)
    }
    length = len(bindings)
    kept = [predicate.evaluate(columns, length).to_pylist() for predicate in plan.residual]
    outputs = [output.expr.evaluate(columns, length).to_pylist() for output in plan.output]
    rows = [tuple(column[i] for column in outputs) for i in range(length) if all(mask[i] is True for mask in kept)]
    return set(canonical(rows))


def _selected(node: Node | BagAtom, database: Database) -> list[Row]:
    """The distinct rows of an input node: selected by its predicate, projected on its columns."""
    rows = list(database.rows[node.relation])
    table = database.schema[node.relation]
    columns = {
        column.name: pa.array([row[i] for row in rows], arrow_type(column.type))
        for i, column in enumerate(table.columns)
    }
    kept = [True] * len(rows)
    if node.predicate is not None:
        kept = node.predicate.evaluate(columns, len(rows)).to_pylist()
    where = [database.columns(table.name).index(column) for column in node.columns]
    return canonical({tuple(row[i] for i in where): None for row, keep in zip(rows, kept, strict=True) if keep is True})
