"""The plan: what the engine executes, what is submitted to Spark, what EXPLAIN shows.

A tree of nodes in preorder (parents first), the output attributes `free` in the order in which the engine enumerates
them, and how a result row is computed from them. Immutable; `to_json` and `from_json` are inverses; `fingerprint` is
a digest of everything that determines results and the layout of state, and of nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from plans.conjunction import Attribute
from plans.errors import PlanError
from plans.expressions.expr import Expr
from plans.schema import Table

VERSION = 1


@dataclass(frozen=True)
class BagAtom:
    """An input relation inside a bag: like an input node, without a place in the tree."""

    name: str
    relation: str
    attributes: tuple[str, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None


@dataclass(frozen=True)
class Bag:
    """A cyclic part of the query, maintained as one relation by a module of its own.

    `method` is `triangle` (three atoms, pairwise sharing one of three disjoint attribute sets) or `generic`.
    `outputs` are the attributes of the bag's relation, in order; `width` its fractional edge cover number.
    """

    atoms: tuple[BagAtom, ...]
    method: str
    outputs: tuple[str, ...]
    width: float


@dataclass(frozen=True)
class Node:
    """A node of the join tree; see the fields of the same name in `Plan` for how nodes refer to each other."""

    name: str
    kind: str
    attributes: tuple[str, ...]
    parent: int
    key: tuple[str, ...]
    free: bool
    relation: str = ""
    columns: tuple[str, ...] = ()
    predicate: Expr | None = None
    bag: Bag | None = None


@dataclass(frozen=True)
class Output:
    """A column of the result: an expression over attributes."""

    name: str
    type: str
    expr: Expr


@dataclass(frozen=True)
class Bound:
    """An upper bound on the time of one update, for streams of a kind, with the theorem it comes from."""

    stream: str
    update: str
    source: str


@dataclass(frozen=True)
class Candidate:
    """A tree the planner considered: `tree` in one line, `depths` from each input node's name to Σ-term depth."""

    tree: str
    height: int
    cost: float
    depths: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """How a query is maintained.

    `nodes[0]` is the root; `nodes[i].parent < i`. `free` are the attributes that the engine enumerates, in this
    order; `residual` predicates are applied to enumerated rows; `output` computes the result's columns from them.
    With `support`, several enumerated rows can give one result row, so that deltas need a count per result row. With
    `consolidated`, the deltas of one batch never contain a row and its retraction.
    """

    query: str
    nodes: tuple[Node, ...]
    attributes: Mapping[str, Attribute]
    free: tuple[str, ...]
    residual: tuple[Expr, ...]
    output: tuple[Output, ...]
    support: bool
    consolidated: bool
    tables: tuple[Table, ...]
    query_class: Mapping[str, Any] = field(default_factory=dict)
    bounds: tuple[Bound, ...] = ()
    height: int = 0
    cost: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    candidate_count: int = 0
    added: tuple[str, ...] = ()
    width: float = 1.0
    notes: tuple[str, ...] = ()

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the canonical JSON of what determines results and state layout."""
        data = self._json(lambda expr: expr)
        text = canonical({name: data[name] for name in _IDENTITY})
        return hashlib.sha256(text.encode()).hexdigest()

    def children(self, index: int) -> list[int]:
        """The indexes of a node's children."""
        return [i for i, node in enumerate(self.nodes) if node.parent == index]

    def table(self, name: str) -> Table:
        """The table of that name in any case; PlanError if the plan uses none such."""
        for table in self.tables:
            if table.name.lower() == name.lower():
                return table
        names = ", ".join(table.name for table in self.tables)
        raise PlanError(f"the query does not use a relation called {name}", hint=f"it uses {names}")

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form; `Plan.from_json` is its inverse."""
        return self._json(Expr.to_json)

    def _json(self, written: Callable[[Expr], Any]) -> dict[str, Any]:
        """The form of `to_json`, with what `written` makes of expressions."""
        return {
            "version": VERSION,
            "query": self.query,
            "nodes": [_node_to_json(node, written) for node in self.nodes],
            "attributes": [[a.name, a.type, a.null_safe] for a in self.attributes.values()],
            "free": list(self.free),
            "residual": [written(expr) for expr in self.residual],
            "output": [[out.name, out.type, written(out.expr)] for out in self.output],
            "support": self.support,
            "consolidated": self.consolidated,
            "tables": [table.to_json() for table in self.tables],
            "query_class": dict(self.query_class),
            "bounds": [[b.stream, b.update, b.source] for b in self.bounds],
            "height": self.height,
            "cost": self.cost,
            "rates": dict(self.rates),
            "candidates": [[c.tree, c.height, c.cost, dict(c.depths)] for c in self.candidates],
            "candidate_count": self.candidate_count,
            "added": list(self.added),
            "width": self.width,
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(data: Mapping[str, Any] | str) -> Plan:
        """The inverse of `to_json`; also takes the JSON text. PlanError if it is not a plan of this version."""
        if isinstance(data, str):
            try:
                data = json.loads(data)
            except json.JSONDecodeError as error:
                raise PlanError(f"the plan is not JSON: {error}") from None
            except RecursionError:
                raise PlanError("the plan is not JSON that can be read: it is nested too deeply") from None
        if not isinstance(data, Mapping) or "version" not in data:
            raise PlanError("this JSON is not a plan", hint="a plan is what plans.plan(...).to_json() gives")
        if data["version"] != VERSION:
            raise PlanError(
                f"the plan has format version {data['version']}, this release reads version {VERSION}",
                hint="plan the query again with this release",
            )
        try:
            return _plan_from_json(data)
        except KeyError as error:
            raise PlanError(f"the plan is damaged: it lacks {error}", hint="plan the query again") from None
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise PlanError(f"the plan is damaged: {error}", hint="plan the query again") from None

    def __str__(self) -> str:
        from plans.show.explain import text

        return text(self)

    def _repr_html_(self) -> str:
        from plans.show.picture import html

        return html(self, page=False)


_IDENTITY = ("version", "nodes", "attributes", "free", "residual", "output", "support")


def canonical(data: Any) -> str:
    """The JSON text of data with sorted names and without spaces; expressions in it as trees of objects, however
    deep.
    """
    out: list[str] = []
    todo: list[tuple[bool, Any]] = [(False, data)]
    while todo:
        done, item = todo.pop()
        if done:
            out.append(item)
        elif isinstance(item, Expr):
            todo.append((False, item.json_node(item.args)))
        elif isinstance(item, dict):
            parts: list[tuple[bool, Any]] = []
            for name in sorted(item):
                parts += [(True, f"{',' if parts else ''}{json.dumps(name)}:"), (False, item[name])]
            todo += reversed([(True, "{"), *parts, (True, "}")])
        elif isinstance(item, (list, tuple)):
            parts = []
            for value in item:
                parts += [(True, ","), (False, value)] if parts else [(False, value)]
            todo += reversed([(True, "["), *parts, (True, "]")])
        else:
            out.append(json.dumps(item))
    return "".join(out)


def _expr_of(data: Any) -> Expr | None:
    return None if data is None else Expr.from_json(data)


def _node_to_json(node: Node, written: Callable[[Expr], Any]) -> dict[str, Any]:

    def predicate(expr: Expr | None) -> Any:
        return None if expr is None else written(expr)

    data: dict[str, Any] = {
        "name": node.name,
        "kind": node.kind,
        "attributes": list(node.attributes),
        "parent": node.parent,
        "key": list(node.key),
        "free": node.free,
    }
    if node.kind == "input":
        data |= {"relation": node.relation, "columns": list(node.columns), "predicate": predicate(node.predicate)}
    if node.bag is not None:
        data["bag"] = {
            "method": node.bag.method,
            "outputs": list(node.bag.outputs),
            "width": node.bag.width,
            "atoms": [
                {
                    "name": atom.name,
                    "relation": atom.relation,
                    "attributes": list(atom.attributes),
                    "columns": list(atom.columns),
                    "predicate": predicate(atom.predicate),
                }
                for atom in node.bag.atoms
            ],
        }
    return data


def _node_of(data: Mapping[str, Any]) -> Node:
    bag = None
    if data.get("bag") is not None:
        given = data["bag"]
        atoms = tuple(
            BagAtom(a["name"], a["relation"], tuple(a["attributes"]), tuple(a["columns"]), _expr_of(a["predicate"]))
            for a in given["atoms"]
        )
        bag = Bag(atoms, given["method"], tuple(given["outputs"]), given["width"])
    return Node(
        data["name"],
        data["kind"],
        tuple(data["attributes"]),
        data["parent"],
        tuple(data["key"]),
        data["free"],
        data.get("relation", ""),
        tuple(data.get("columns", ())),
        _expr_of(data.get("predicate")),
        bag,
    )


def _plan_from_json(data: Mapping[str, Any]) -> Plan:
    return Plan(
        query=data["query"],
        nodes=tuple(_node_of(node) for node in data["nodes"]),
        attributes={name: Attribute(name, type_, safe) for name, type_, safe in data["attributes"]},
        free=tuple(data["free"]),
        residual=tuple(Expr.from_json(expr) for expr in data["residual"]),
        output=tuple(Output(name, type_, Expr.from_json(expr)) for name, type_, expr in data["output"]),
        support=data["support"],
        consolidated=data["consolidated"],
        tables=tuple(Table.from_json(table) for table in data["tables"]),
        query_class=dict(data["query_class"]),
        bounds=tuple(Bound(*bound) for bound in data["bounds"]),
        height=data["height"],
        cost=data["cost"],
        rates=dict(data["rates"]),
        candidates=tuple(Candidate(tree, height, cost, depths) for tree, height, cost, depths in data["candidates"]),
        candidate_count=data["candidate_count"],
        added=tuple(data["added"]),
        width=data["width"],
        notes=tuple(data["notes"]),
    )
