"""The program of a relation of the query algebra: its stages in topological order, inputs before what reads them."""

from __future__ import annotations

from collections.abc import Mapping

from plans.algebra import Query, Relation
from plans.conjunction import conjunction
from plans.errors import PlanError
from plans.plan import Plan
from plans.program import Program, program_of
from plans.search.planning import plan_conjunction


def lower(relation: Relation, rates: Mapping[str, float] | None = None, tree: str | None = None) -> Program:
    """Returns the program that maintains a relation. PlanError if there is none.

    `rates` and `tree` are those of `plans.planner.plan`; `tree` is for a query that is one join.
    """
    if not isinstance(relation, Query):
        raise PlanError(f"a {type(relation).__name__} has no program")
    return program_of(plan_of(relation, rates, tree))


def plan_of(
    query: Query, rates: Mapping[str, float] | None = None, tree: str | None = None, counted: bool = False
) -> Plan:
    """Returns the plan of a join core over base tables; with `counted`, the one for its bag of rows."""
    return plan_conjunction(conjunction(query, counted), rates, tree)
