"""Plans a query and explains the plan, without creating a view."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import plans
from plans.plan import Plan
from plans.program import Program


def plan(
    query: str | Plan | Program,
    schema: Any = None,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    tree: str | None = None,
) -> Plan | Program:
    """Returns the plan that ``crown.view`` would use: the plan of one join, or a program of several stages.

    The arguments are those of ``plans.plan``. Raises PlanError with the reason if the query cannot be maintained.

    >>> plan("SELECT DISTINCT a FROM r WHERE b > 1", {"r": {"a": "int64", "b": "int64"}}).query_class["name"]
    'q-hierarchical'
    """
    made = plans.program(query, schema, rates=rates, dialect=dialect, tree=tree)
    return made if made.plan is None else made.plan


def explain(
    query: str | Plan | Program,
    schema: Any = None,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
    tree: str | None = None,
) -> str:
    """Returns the class, join tree, views and bounds of a query as text, or the stages of a program. See ``plan``.

    >>> print(explain("SELECT DISTINCT a FROM r", {"r": {"a": "int64"}}).splitlines()[0])
    query     SELECT DISTINCT a FROM r
    """
    return str(plan(query, schema, rates=rates, dialect=dialect, tree=tree))
