"""The tree of a scalar expression: immutable, typed, JSON-able. `plans.expressions.build` builds it.

No method recurses, so that the depth of a tree is not limited: a chain of n additions has n levels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import copysign, isnan, nan
from typing import Any

import pyarrow as pa

from plans.expressions import literals
from plans.expressions.evaluate import Evaluator, scalar_of
from plans.expressions.functions.user import USER, UserFunction, of_json
from plans.expressions.sqltext import sql_of

_JSON_DEPTH = 40


@dataclass(frozen=True, eq=False, repr=False)
class Expr:
    """A scalar expression over named columns.

    `op` is `col`, `literal` or an operator; `type` is a planner type, or `null` for the untyped NULL literal. `value`
    is the name of a column, the value of a literal, the body of a lambda argument, or the ESCAPE of LIKE.
    """

    op: str
    type: str
    args: tuple[Expr, ...] = ()
    value: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and isnan(self.value):
            object.__setattr__(self, "value", nan)  # a single NaN object, which is equal to itself
        object.__setattr__(self, "depth", 1 + max((arg.depth for arg in self.args), default=0))
        object.__setattr__(self, "_hash", hash((self.op, self.type, self.args, self.value)))

    depth: int = field(init=False)
    """The number of levels of the tree."""

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expr):
            return NotImplemented
        pairs = [(self, other)]
        while pairs:
            one, two = pairs.pop()
            if one is two:
                continue
            if hash(one) != hash(two) or (one.op, one.type, one.value) != (two.op, two.type, two.value):
                return False
            if one.value == 0 and isinstance(one.value, float) and copysign(1, one.value) != copysign(1, two.value):
                return False  # 0.0 and -0.0 are equal, but different literals
            if len(one.args) != len(two.args):
                return False
            pairs += zip(one.args, two.args, strict=True)
        return True

    def __repr__(self) -> str:
        return f"<Expr {self}: {self.type}>"

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[list[tuple[Any, ...]]]]:
        return _of_postfix, ([(node.op, node.type, len(node.args), node.value) for node in self.postorder()],)

    def postorder(self) -> Iterator[Expr]:
        """Yields the nodes of the tree, operands before their operators, from left to right."""
        todo = [(self, False)]
        while todo:
            node, seen = todo.pop()
            if seen or not node.args:
                yield node
            else:
                todo.append((node, True))
                todo += [(arg, False) for arg in reversed(node.args)]

    def fold(self, combine: Callable[[Expr, list[Any]], Any]) -> Any:
        """Folds the tree from the leaves up with `combine(node, results of its operands)`."""
        results: list[Any] = []
        for node in self._nodes:
            cut = len(results) - len(node.args)
            results[cut:] = [combine(node, results[cut:])]
        return results[0]

    @cached_property
    def _nodes(self) -> tuple[Expr, ...]:
        return tuple(self.postorder())

    @cached_property
    def columns(self) -> frozenset[str]:
        """Returns the names of the columns that the expression reads."""
        return frozenset(node.value for node in self.postorder() if node.op == "col")

    @property
    def body(self) -> Expr | None:
        """Returns the body of the lambda that the operator takes, or None if it takes none."""
        return self.value if isinstance(self.value, Expr) else None

    @property
    def exact_value(self) -> Any:
        """Returns a JSON-able form of the value. 0.0 and -0.0 are equal, but have different forms."""
        if isinstance(self.value, (Expr, UserFunction)):
            return self.value.to_json()
        return literals.to_json(self.value)

    @cached_property
    def functions(self) -> frozenset[UserFunction]:
        """Returns the user functions that the expression calls."""
        names = frozenset(node.value for node in self.postorder() if node.op == USER)
        return names.union(*(node.body.functions for node in self.postorder() if node.body is not None))

    @cached_property
    def scalar(self) -> pa.Scalar:
        """Returns the Arrow value of a literal."""
        return scalar_of(self)

    def evaluate(self, columns: Mapping[str, Any], length: int | None = None) -> pa.Array:
        """Returns one value per row, as an Arrow array of `arrow_type(self.type)`.

        `columns` maps names to Arrow arrays of equal length. `length` is needed only if there are none. Cost: one
        vectorized pass per operator.
        """
        if length is None:
            if not columns:
                raise ValueError("length must be given when there are no columns")
            length = len(next(iter(columns.values())))
        return self._evaluator.evaluate(columns, length)[0]

    @cached_property
    def _evaluator(self) -> Evaluator:
        return Evaluator([self])

    def conjuncts(self) -> tuple[Expr, ...]:
        """Returns the operands of a conjunction, flattened."""
        found: list[Expr] = []
        todo = [self]
        while todo:
            part = todo.pop()
            if part.op == "and":
                todo += reversed(part.args)
            else:
                found.append(part)
        return tuple(found)

    def to_json(self) -> Any:
        """Returns a JSON-able form. `Expr.from_json` is its inverse.

        It is a tree of objects, or, for a very deep tree, which many JSON readers reject, the list of its nodes in
        postorder.
        """
        if self.depth <= _JSON_DEPTH:
            return self.fold(lambda node, args: node.json_node(args))
        return {"op": "postorder", "type": self.type, "nodes": [n.json_node(len(n.args)) for n in self.postorder()]}

    def json_node(self, args: Any) -> dict[str, Any]:
        """Returns the object of this node alone, with `args` for its operands."""
        data: dict[str, Any] = {"op": self.op, "type": self.type}
        if self.args:
            data["args"] = args
        if self.value is not None:
            data["value"] = self.exact_value
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Expr:
        """Returns the expression of a JSON-able form that `to_json` returned."""
        nodes: list[Mapping[str, Any]] = []
        todo = [data]
        while todo:  # operators before their operands, from right to left: the reverse of postorder
            node = todo.pop()
            if node["op"] == "postorder":
                nodes += reversed(node["nodes"])
                continue
            nodes.append({**node, "args": len(node.get("args", ()))})
            todo += node.get("args", ())
        return _of_postfix((n["op"], n["type"], n.get("args", 0), _value(n)) for n in reversed(nodes))

    def __str__(self) -> str:
        return sql_of(self)


def _of_postfix(nodes: Iterable[tuple[Any, ...]]) -> Expr:
    """Returns the tree of nodes in postorder: (op, type, number of operands, value)."""
    stack: list[Expr] = []
    for op, type_, count, value in nodes:
        cut = len(stack) - count
        stack[cut:] = [Expr(op, type_, tuple(stack[cut:]), value)]
    return stack[0]


def _value(node: Mapping[str, Any]) -> Any:
    value = node.get("value")
    if isinstance(value, Mapping):
        return of_json(value) if node["op"] == USER else Expr.from_json(value)
    return literals.from_json(value, node["type"]) if node["op"] == "literal" else value
