"""The plan: the engine executes it, Spark receives it, EXPLAIN shows it.

It is a tree of nodes in preorder (parents first), the output attributes `free` in the order in which the engine
enumerates them, and the expressions that compute a result row from them. Plans are immutable. `to_json` and `from_json`
are inverses. `fingerprint` is a digest of everything that determines results and the layout of state, and of nothing
else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from plans import serial
from plans.errors import PlanError
from plans.expressions.build import col
from plans.expressions.expr import Expr
from plans.payloads.payload import Payload
from plans.schema import Column, Table
from plans.types import shown

_T = TypeVar("_T")
VERSION = 1
_INPUT_FIELDS = ("relation", "columns", "predicate")


@dataclass(frozen=True)
class Attribute:
    """A variable: its type, and whether NULL joins with NULL (`<=>`)."""

    json_row: ClassVar[bool] = True
    name: str
    type: str
    null_safe: bool = False


def table_of(tables: Iterable[Table], name: str) -> Table:
    """Returns the table with that name, ignoring case. Raises PlanError if it does not exist."""
    known = tuple(tables)
    if not isinstance(name, str):
        raise PlanError(f"the name of a relation is a text, not {shown(name)}")
    for table in known:
        if table.name.lower() == name.lower():
            return table
    names = ", ".join(table.name for table in known)
    raise PlanError(f"the query does not use a relation called {name}", hint=f"it uses {names}")


@dataclass(frozen=True)
class BagAtom:
    """An input relation inside a bag: like an input node, but without a place in the tree."""

    name: str
    relation: str
    attributes: tuple[str, ...]
    columns: tuple[str, ...]
    predicate: Expr | None = None


TRIANGLE_COUNT = "triangle count"


@dataclass(frozen=True)
class Bag:
    """A cyclic part of the query, maintained as one relation by a module of its own.

    `method` is `triangle` (three atoms, pairwise sharing one of three disjoint attribute sets), `generic`, or `triangle
    count`, which keeps only the number of results, with multiplicities. `outputs` are the attributes of the bag's
    relation, in order. `width` is its fractional edge cover number.
    """

    method: str
    outputs: tuple[str, ...]
    width: float
    atoms: tuple[BagAtom, ...]


@dataclass(frozen=True)
class Node:
    """A node of the join tree. See the fields of the same name in `Plan` for how nodes refer to each other.

    A `padded` node is a leaf below an input node: if it has no row for a key, a row of NULLs replaces it.
    """

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
    padded: bool = False

    json_may_lack: ClassVar[tuple[str, ...]] = (*_INPUT_FIELDS, "bag", "padded")

    def json_left_out(self) -> tuple[str, ...]:
        """Returns the fields that only nodes of other kinds have."""
        empty = [name for name in ("bag", "padded") if not getattr(self, name)]
        return (*(() if self.kind == "input" else _INPUT_FIELDS), *empty)


@dataclass(frozen=True)
class Output:
    """A column of the result: an expression over attributes."""

    json_row: ClassVar[bool] = True
    name: str
    type: str
    expr: Expr


@dataclass(frozen=True)
class Bound:
    """An upper bound on the time of one update, for a kind of stream, with the theorem that proves it."""

    json_row: ClassVar[bool] = True
    stream: str
    update: str
    source: str


@dataclass(frozen=True)
class Candidate:
    """A tree that the planner considered: `tree` in one line, and `depths`, the depth of each input node in the Σ term.

    `cost` is Σ depth·rate, or, in a plan with a payload, Σ touches (`plans.search.jointree`).
    """

    json_row: ClassVar[bool] = True
    tree: str
    height: int
    cost: float
    depths: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """How a query is maintained.

    `nodes[0]` is the root; `nodes[i].parent < i`. `free` are the attributes that the engine enumerates, in this order.
    `residual` predicates are applied to enumerated rows. `output` computes the result's columns from them. With
    `support`, several enumerated rows can give one result row, so that deltas need a count per result row. With
    `consolidated`, the deltas of one batch never contain a row and its retraction. With a `payload`, rows have
    multiplicities and sums; without, the result is a set.
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
    payload: Payload | None = None

    _repr_html_: ClassVar[Callable[[Plan], str]]  # the drawing for notebooks: plans.show.attached

    @cached_property
    def fingerprint(self) -> str:
        """Returns the SHA-256 of the canonical JSON of the fields that determine results and state layout."""
        data = serial.to_json(self, lambda expr: expr)
        identity = {"version": VERSION, **{name: data[name] for name in _IDENTITY if name in data}}
        return hashlib.sha256(serial.canonical(identity).encode()).hexdigest()

    json_may_lack: ClassVar[tuple[str, ...]] = ("payload",)

    @property
    def count(self) -> Bag | None:
        """Returns the triangle-count bag if the plan consists only of such a bag; else None."""
        bag = self.nodes[0].bag
        return bag if bag is not None and bag.method == TRIANGLE_COUNT else None

    @property
    def listed(self) -> bool:
        """Returns True if the result is the relation of a single bag with all attributes of its atoms.

        The engine does not store it: a bag lists its rows, and their changes, from its atoms.
        """
        bag = self.nodes[0].bag
        if bag is None or len(self.nodes) > 1 or self.count is not None:
            return False
        if self.payload is not None and len(self.payload.terms) > 1:
            return False
        return {a for atom in bag.atoms for a in atom.attributes} == set(bag.outputs) == set(self.free)

    def children(self, index: int) -> list[int]:
        """Returns the indexes of a node's children."""
        if not isinstance(index, int):
            raise PlanError(f"the number of a node is a whole number, not {shown(index)}")
        return [i for i, node in enumerate(self.nodes) if node.parent == index]

    def table(self, name: str) -> Table:
        """Returns the table with that name, ignoring case. Raises PlanError if the plan does not use it."""
        return table_of(self.tables, name)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form. `Plan.from_json` is its inverse."""
        return {"version": VERSION, **serial.to_json(self)}

    @staticmethod
    def from_json(data: Mapping[str, Any] | str) -> Plan:
        """Returns the plan of a JSON-able form or JSON text. Raises PlanError if it is not a plan of this version."""
        return rebuilt(Plan, loaded(data), "plan", "version", VERSION)


def passed(columns: Iterable[Output | Column]) -> tuple[Output, ...]:
    """Returns feed columns that pass columns of the source on unchanged."""
    return tuple(Output(c.name, c.type, col(c.name, c.type)) for c in columns)


@dataclass(frozen=True)
class Result:
    """One of several results of a program: the rows of stage `stage` under a `name`.

    `query` is its text, `reads` are the other results that it reads, and `notes` are the planner's notes on it.
    """

    name: str
    stage: int
    query: str
    reads: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def loaded(data: Any) -> Any:
    """Returns the parsed JSON of a text, or anything else unchanged. Raises PlanError if the text is not JSON."""
    if not isinstance(data, str):
        return data
    try:
        return json.loads(data)
    except json.JSONDecodeError as error:
        raise PlanError(f"the plan is not JSON: {error}") from None
    except RecursionError:
        raise PlanError("the plan is not JSON that can be read: it is nested too deeply") from None


def rebuilt(class_: type[_T], data: Any, what: str, key: str, version: int) -> _T:
    """Returns the plan or program of a JSON-able form, whose version is named `key`. Raises PlanError if it is damaged,
    or of another version."""
    if not isinstance(data, Mapping) or key not in data:
        raise PlanError(f"this JSON is not a {what}", hint=f"a {what} is what plans.{what}(...).to_json() gives")
    if data[key] != version:
        raise PlanError(
            f"the {what} has format version {data[key]}, this release reads version {version}",
            hint="plan the query again with this release",
        )
    try:
        return serial.from_json(class_, data)
    except KeyError as error:
        raise PlanError(f"the {what} is damaged: it does not have {error}", hint="plan the query again") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise PlanError(f"the {what} is damaged: {error}", hint="plan the query again") from None


_IDENTITY = ("nodes", "attributes", "free", "residual", "output", "support", "payload")
