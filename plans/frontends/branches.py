"""The branches of a set operation, whatever language wrote them: one shape of rows, and operators between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plans.expressions.build import cast
from plans.program import Function
from plans.queries.algebra import Group, Query, Relation


def shaped(relation: Relation, names: Sequence[str], types: Sequence[str]) -> Relation:
    """Returns a branch, which is no set operation itself, with the names and types that all branches have."""
    assert isinstance(relation, (Query, Group)), "the others are flattened, or stand in a query"
    if [(name, expr.type) for name, expr in relation.outputs] == list(zip(names, types, strict=True)):
        return relation
    pairs = zip(names, types, relation.outputs, strict=True)
    return replace(relation, outputs=tuple((name, cast(expr, type_)) for name, type_, (_, expr) in pairs))


def balanced(operator: str, parts: Sequence[Function]) -> Function:
    """Returns one operator between all parts, as a tree of little depth."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return (operator, balanced(operator, parts[:half]), balanced(operator, parts[half:]))
