"""UNION, EXCEPT and INTERSECT: a nest of them becomes one function of its branches. Part of `plans.frontends.sql`."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from sqlglot import exp

from plans.expressions.build import NULL
from plans.expressions.coercion import common
from plans.frontends.branches import balanced, shaped
from plans.frontends.sql.relations.sources import with_clause
from plans.frontends.sql.scope import Frame, Names, Scope
from plans.frontends.sql.shape import limited
from plans.programs.stages import Function
from plans.queries.algebra import Group, Query, Relation, SetOperation
from plans.stack import with_room

_OPERATORS = {exp.Union: "union", exp.Except: "except", exp.Intersect: "intersect"}
_DEEPEST = 100
_Branches = list[tuple[Query | Group, exp.Expression]]


def nest(node: exp.SetOperation, scope: Scope, unique: bool) -> Relation:
    """Returns the relation of a nest of set operations, without ORDER BY and LIMIT of the outermost one. `unique`: the
    columns of its first branch must have different names."""
    branches: _Branches = []
    function = _operation(node, scope, branches, unique)
    if node.args.get("by_name"):
        branches = _by_name(branches, scope)
    first = branches[0][0].outputs
    types = [expr.type for _, expr in first]
    for relation, place in branches[1:]:
        if len(relation.outputs) != len(first):
            raise scope.text.error(
                f"this SELECT has {len(relation.outputs)} columns, but the first one has {len(first)}",
                place,
                "select the same number of columns in all branches of a set operation",
            )
        for i, (_, expr) in enumerate(relation.outputs):
            both = scope.text.guarded(place, partial(common, types[i], expr.type))
            if both is None:
                raise scope.text.error(
                    f"column {i + 1} has the type {expr.type} here and {types[i]} before", place, "cast one of them"
                )
            types[i] = both
    names = [name for name, _ in first]
    if "null" in types:
        message = f"output column {names[types.index('null')]} is NULL without a type"
        raise scope.text.error(message, branches[0][1], "write CAST(NULL AS ...)")
    inputs = tuple(shaped(relation, names, types) for relation, _ in branches)
    return SetOperation(inputs, function)


def _by_name(branches: _Branches, scope: Scope) -> _Branches:
    """Returns the branches with the columns of all branches, in the order of their first occurrence. A missing column
    is NULL."""
    names: dict[str, str] = {}
    for relation, _ in branches:
        for name, _ in relation.outputs:
            names.setdefault(name.lower(), name)
    found: _Branches = []
    for relation, place in branches:
        query = _over(relation, scope)
        has = {name.lower(): expr for name, expr in query.outputs}
        outputs = tuple((name, has.get(key, NULL)) for key, name in names.items())
        found.append((replace(query, outputs=outputs), place))
    return found


def _branch(node: exp.Expression, scope: Scope, branches: _Branches, by_name: bool, unique: bool) -> Function:
    """Adds the branches of a branch, which stays one if columns are matched by name, and returns their function of
    multiplicities."""
    while isinstance(node, (exp.Subquery, exp.Paren)) and not isinstance(node.this, exp.Table):
        scope = replace(scope, ctes=with_clause(node, scope))
        node = node.this
    if isinstance(node, exp.SetOperation) and not (limited(node) or by_name or node.args.get("by_name")):
        return _operation(node, scope, branches, unique)
    outer_scope = replace(scope.outer or scope, ctes=scope.ctes, depth=scope.depth - 1)
    unique = by_name or (unique and not branches)
    made = scope.reading.read(node, outer_scope, correlated=scope.outer is not None, unique=unique, typed=False)
    if isinstance(made, SetOperation) and _is_union(made.function):  # the groupings of a SELECT
        first = len(branches)
        branches += [(part if isinstance(part, (Query, Group)) else _over(part, scope), node) for part in made.inputs]
        return _moved(made.function, first)
    branches.append((made if isinstance(made, (Query, Group)) else _over(made, scope), node))
    return len(branches) - 1


def _operation(node: exp.SetOperation, scope: Scope, branches: _Branches, unique: bool) -> Function:
    """Adds the branches of a nest, and returns their function of multiplicities."""
    chain: list[tuple[exp.SetOperation, Scope]] = []
    outermost, inner, by_name = node, scope, bool(node.args.get("by_name"))
    left: exp.Expression = node
    while isinstance(left, exp.SetOperation) and (left is node or not limited(left)):  # A - B - C is left-associative
        if bool(left.args.get("by_name")) != by_name:
            break
        inner = replace(inner, ctes=with_clause(left, inner))
        scope.text.check_set_operation(left)
        chain.append((left, inner))
        left = left.this
    found = with_room(_branch, left, inner, branches, by_name, unique)
    runs: list[tuple[str, list[Function]]] = []
    for operation, visible in reversed(chain):
        operator = _OPERATORS[type(operation)] + ("" if operation.args.get("distinct") else "_all")
        right = with_room(_branch, operation.expression, visible, branches, by_name, unique)
        if not runs or runs[-1][0] != operator:
            runs.append((operator, []))
        runs[-1][1].append(right)
    for operator, rights in runs:
        found = _run(operator, found, rights)
    if _depth(found) > _DEEPEST:
        raise scope.text.error(f"set operations are nested more than {_DEEPEST} deep", outermost, "use views")
    return found


def _over(relation: Relation, scope: Scope) -> Query:
    """Returns a query for all columns of a relation."""
    source = Frame(Names()).derived(relation, "rows")
    outputs = tuple((column.name, source.qualified(column.name)) for column in relation.columns)
    return Query(scope.text.text, (source,), (), outputs, False, warnings=relation.warnings)


def _run(operator: str, first: Function, rights: list[Function]) -> Function:
    """Returns `first` and others with one operator between all, as a balanced tree: A - B - C is A - (B + C)."""
    if operator.startswith("except"):
        return (operator, first, balanced(operator.replace("except", "union"), rights))
    return balanced(operator, [first, *rights])


def _is_union(function: Function) -> bool:
    """Returns whether a function of branches consists only of UNION ALL."""
    return isinstance(function, int) or (
        function[0] == "union_all" and all(_is_union(part) for part in function[1:] if not isinstance(part, str))
    )


def _moved(function: Function, by: int) -> Function:
    """Returns a function of branches with the numbers of the branches increased by `by`."""
    if isinstance(function, int):
        return function + by
    return (function[0], *(part if isinstance(part, str) else _moved(part, by) for part in function[1:]))


def _depth(function: Function) -> int:
    return 0 if isinstance(function, int) else 1 + max(_depth(p) for p in function[1:] if not isinstance(p, str))
