"""Suggests rewrites that would make a view cheaper, based on its current data."""

from __future__ import annotations

from crown.analysis.hot import Fan
from plans.expressions.sqltext import identifier
from plans.plan import Node, Plan
from plans.program import Program
from plans.programs.stages import JoinStage
from plans.schema import STAGE
from plans.search.counted.classes import FIRST_ORDER, edges, join_class


def advice(program: Program, number: int, fans: dict[int, Fan]) -> list[str]:
    """Returns suggested declarations and rewrites for a join stage; ``fans``: of the edges, by child."""
    stage = program.stages[number]
    if not isinstance(stage, JoinStage):
        return []
    plan, found = stage.plan, []
    for i, edge in edges(plan).items():
        seen = fans.get(i)
        if not edge.open or seen is None or not seen.keys:
            continue
        child, parent = plan.nodes[i], plan.nodes[edge.parent]
        arrow = f"the edge {child.name} -> {parent.name}"
        if seen.children == 1 and seen.children_once and (said := _declaration(plan, child, child.key)):
            found.append(f"{said}: so far no value of it occurs twice; {arrow} becomes quiet")
        if seen.parents == 1 and seen.parents_once and (said := _declaration(plan, parent, child.key)):
            found.append(f"{said}: so far no value of it occurs twice; {arrow} gets fan 1")
    last = number == len(program.stages) - 1
    if stage.mode == "bag" and last and join_class(plan).growth >= FIRST_ORDER:
        found.append("add DISTINCT if it does not matter how often a row occurs: rows are not counted then")
    return found


def _declaration(plan: Plan, node: Node, key: tuple[str, ...]) -> str:
    """Returns the declaration of attributes of a node as its table's key; an empty text if the table has a key, or if
    the node reads a stage's output.
    """
    if node.kind != "input" or node.relation.startswith(STAGE) or plan.table(node.relation).key or not key:
        return ""
    column = dict(zip(node.attributes, node.columns, strict=True))
    return f"declare the key ({', '.join(identifier(column[name]) for name in key)}) of {node.relation}"
