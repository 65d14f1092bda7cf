"""The planner: turns a query in SQL, Datalog or motif form into a plan that the engine maintains without joins.

`plans.plan(query, schema)` returns a `Plan`; `plans.show.explain` shows it. This package imports no other part of the
project.
"""

import plans.show.attached  # noqa: F401  str(plan)
from plans.errors import PlanError, Position, QueryWarning
from plans.expressions.expr import Expr
from plans.plan import Bag, BagAtom, Bound, Candidate, Node, Output, Plan
from plans.planner import parse, plan, program
from plans.program import Program
from plans.schema import Column, Schema, Table
from plans.types import arrow_type, type_of_arrow

__all__ = [
    "Bag", "BagAtom", "Bound", "Candidate", "Column", "Expr", "Node", "Output", "Plan", "PlanError", "Position",
    "Program", "QueryWarning", "Schema", "Table", "arrow_type", "parse", "plan", "program", "type_of_arrow",
]  # fmt: skip
