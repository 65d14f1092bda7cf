"""Variables: the classes of columns that a query equates, with their types and constants."""

from __future__ import annotations

from plans.errors import PlanError
from plans.expressions.build import Expr
from plans.types import ONE_WORD_DIGITS, decimal_parts


class Classes:
    """Union-find over qualified columns, with the known facts of each class."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}
        self.type: dict[str, str] = {}
        self.plain: set[str] = set()  # roots with at least one `=` (not `<=>`)

    def add(self, column: Expr) -> None:
        """Adds a column as a class of its own."""
        self.parent.setdefault(column.value, column.value)
        self.type.setdefault(column.value, column.type)

    def find(self, name: str) -> str:
        """Returns the root of a column's class."""
        while self.parent[name] != name:
            self.parent[name] = self.parent[self.parent[name]]
            name = self.parent[name]
        return name

    def join(self, left: Expr, right: Expr, null_safe: bool) -> None:
        """Unites the classes of two columns. Raises PlanError if their types cannot be joined."""
        self.add(left)
        self.add(right)
        a, b = self.find(left.value), self.find(right.value)
        type_ = join_type(left, right, self.type[a], self.type[b])
        plain = {a, b} & self.plain or not null_safe
        self.parent[b] = a
        self.type[a] = type_
        if plain:
            self.plain.add(a)


def join_type(left: Expr, right: Expr, one: str, two: str) -> str:
    """Returns the type of a variable that joins columns of types `one` and `two`.

    Raises PlanError if they cannot be joined, because equal values of the two types have different codes.
    """
    if one == two:
        return one
    if {one, two} == {"int32", "int64"}:
        return "int64"
    p, q = decimal_parts(one), decimal_parts(two)
    if p and q and p[1] == q[1] and (p[0] > ONE_WORD_DIGITS) is (q[0] > ONE_WORD_DIGITS):
        return f"decimal({max(p[0], q[0])},{p[1]})"
    raise PlanError(
        f"{left.value} = {right.value} joins {one} with {two}",
        hint="the two columns of a join must have the same type; convert one of them before it enters the stream",
    )


def injective(expr: Expr) -> str | None:
    """Returns the variable that a value of the expression determines: a column, perhaps inside a one-to-one cast."""
    if expr.op == "col":
        return str(expr.value)
    if expr.op != "cast" or expr.args[0].type not in ("int32", "int64", "date", "bool"):
        return None
    source, parts = expr.args[0].type, decimal_parts(expr.type)
    if parts is not None:
        holds = parts[0] - parts[1] >= {"int32": 10, "int64": 19}.get(source, 1)
    else:  # a value that does not fit becomes NULL
        holds = expr.type == "string" or (source, expr.type) == ("int32", "int64") or source == "bool"
    return injective(expr.args[0]) if holds else None
