"""Lowers join cores over base tables and stages, without outer joins, to a feed, a plan, or a join stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plans.expressions.build import cast
from plans.lowering.comparisons.bands import listed
from plans.lowering.joins.computed import with_columns_for_joins
from plans.lowering.joins.existence import without_groups
from plans.lowering.joins.folding import divided, folded
from plans.lowering.stages import Stages, condition, local, origin
from plans.plan import TRIANGLE_COUNT, Bag, BagAtom, Candidate, Node, Output, Plan, passed
from plans.programs.stages import Feed, JoinStage, once_each
from plans.queries.algebra import Query
from plans.queries.conjunction import conjunction, is_set
from plans.search.bounds import bound_of_count
from plans.search.planning import plan_conjunction


def plan_of(
    query: Query,
    rates: Mapping[str, float] | None = None,
    tree: str | None = None,
    counted: bool = False,
    passed_on: bool = False,
) -> Plan:
    """Returns the plan of a join core. With `counted`, the plan maintains a bag of rows. `passed_on`: only the changes
    of the result are read."""
    return plan_conjunction(conjunction(query, counted), rates, tree, passed_on)


def selection(query: Query) -> Feed | None:
    """Returns the query as a feed if it selects and projects one relation and keeps duplicates; else None."""
    if query.distinct or len(query.sources) != 1 or query.sources[0].group:
        return None
    columns = tuple(Output(name, expr.type, local(expr)) for name, expr in query.outputs)
    parts = [local(part) for given in query.conditions for part in given.conjuncts()]
    return Feed(origin(query.sources[0].table), columns, condition(parts))


def feed(query: Query, stages: Stages) -> Feed:
    """Returns the rows of a join core as a feed. Adds a stage unless the core reads only one relation."""
    found = selection(query)
    if found is None:
        number = joined(query, stages, passed_on=True)
        return Feed(number, passed(stages.columns(number)))
    return found


def joined(query: Query, stages: Stages, passed_on: bool = False) -> int:
    """Returns the number of the stage of a join core. `passed_on`: only the changes of its result are read."""
    found = selection(query)
    if found is not None and isinstance(found.source, int):
        return stages.linear(found)
    query = with_columns_for_joins(query, stages)
    counted = not is_set(query)
    band = listed(query, stages, feed)
    if band is not None:
        return band
    if counted:
        query = counting(query, stages)
    made = plan_of(query, rates_of(query, stages.rates), None, counted, passed_on)
    if counted:
        made = counting_only(made)
    plan = typed(made, query)
    number = stages.add(JoinStage(plan, "bag" if counted else "set"))
    return stages.add(once_each(number, plan.output)) if plan.support else number


def counting_only(plan: Plan) -> Plan:
    """Returns the plan that counts triangles if the plan is a bag of rows, each one triangle, with no column of it in
    the output. Otherwise returns the plan unchanged.

    Each of the three atoms counts its rows, and joins with the others by its two columns.
    """
    root, *rest = plan.nodes
    atoms = [node for node in rest if node.kind == "input" and len(node.attributes) == 2]
    bags = [node.bag for node in rest if node.bag is not None and node.bag.method == "triangle"]
    sound = root.kind == "virtual" and not plan.free and not plan.residual and not any(node.padded for node in atoms)
    if not sound or len(bags) != 1 or len(atoms) != 3 or len(rest) != 4 or len(bags[0].outputs) != 3:
        return plan
    if any(node.name.endswith("]") for node in atoms):
        return plan
    read = tuple(BagAtom(node.name, node.relation, node.attributes, node.columns, node.predicate) for node in atoms)
    bag = Bag(TRIANGLE_COUNT, (), bags[0].width, read)
    node = Node(f"count[{','.join(bags[0].outputs)}]", "bag", (), -1, (), False, bag=bag)
    only = Candidate(node.name, 0, plan.cost, {atom.name: 0.0 for atom in atoms})
    return replace(
        plan,
        nodes=(node,),
        payload=None,
        height=0,
        bounds=(bound_of_count(),),
        candidates=(only,),
        candidate_count=1,
    )


def counting(query: Query, stages: Stages) -> Query:
    """Returns an equivalent query whose sources all count their rows and join by columns. Cycles that declared keys
    resolve are folded, and conditions that would be tested on a product are moved into a stage."""

    def stage(inner: Query) -> int:
        return joined(inner, stages)

    query = with_columns_for_joins(without_groups(query, stages, stage), stages)
    return folded(divided(query, stages, stage), stages, stage)


def typed(plan: Plan, query: Query) -> Plan:
    """Returns the plan with outputs of the query's types: a variable that joins columns of different widths has the
    wider type."""
    types = dict(zip((name for name, _ in query.outputs), (expr.type for _, expr in query.outputs), strict=True))
    output = tuple(Output(out.name, types[out.name], cast(out.expr, types[out.name])) for out in plan.output)
    return plan if output == plan.output else replace(plan, output=output)


def rates_of(query: Query, rates: Mapping[str, float]) -> dict[str, float]:
    """Returns the rates of the relations that this query reads."""
    names = {name.lower() for source in query.sources for name in (source.alias, source.table.name)}
    return {name: rate for name, rate in rates.items() if name in names}
