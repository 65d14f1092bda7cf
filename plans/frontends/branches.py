"""The branches of a set operation, for all query languages: gives their rows one schema, and combines their
operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plans.expressions.build import cast
from plans.programs.stages import Function
from plans.queries.algebra import Group, Query, Relation


def shaped(relation: Relation, names: Sequence[str], types: Sequence[str]) -> Relation:
    """Returns a branch, which is not a set operation, with the names and types of the whole set operation."""
    assert isinstance(relation, (Query, Group)), "the others are flattened, or stand in a query"
    if [(name, expr.type) for name, expr in relation.outputs] == list(zip(names, types, strict=True)):
        return relation
    pairs = zip(names, types, relation.outputs, strict=True)
    return replace(relation, outputs=tuple((name, cast(expr, type_)) for name, type_, (_, expr) in pairs))


def balanced(operator: str, parts: Sequence[Function]) -> Function:
    """Returns one operator between all parts, as a balanced tree."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return (operator, balanced(operator, parts[:half]), balanced(operator, parts[half:]))
