"""What a plan or a program reads of its base relations: every occurrence, with the columns and rows that it uses."""

from __future__ import annotations

from plans.plan import BagAtom, Plan
from plans.program import Feed, GroupStage, JoinStage, LinearStage, Maintainable, PointwiseStage, Stage, TopStage
from plans.schema import Table


def occurrences(maintained: Maintainable) -> tuple[BagAtom, ...]:
    """Returns every occurrence of a base relation: input nodes and the atoms of bags in node order, feeds of stages.

    A feed is an atom without attributes; its columns are those that its expressions read.
    """
    if isinstance(maintained, Plan):
        return occurrences_of_plan(maintained)
    tables = {table.name.lower(): table for table in maintained.tables}
    found: list[BagAtom] = []
    for number, stage in enumerate(maintained.stages):
        if isinstance(stage, JoinStage):
            found += [atom for atom in occurrences_of_plan(stage.plan) if atom.relation.lower() in tables]
            continue
        for feed in feeds(stage):
            if isinstance(feed.source, str):
                table = tables[feed.source.lower()]
                found.append(
                    BagAtom(f"{table.name} in stage {number}", table.name, (), _columns(feed, table), feed.where)
                )
    return tuple(found)


def sources(stage: Stage) -> list[str | int]:
    """Returns the relations (by name) and stages (by number) that a stage reads, each once."""
    if isinstance(stage, JoinStage):
        names = [table.name for table in stage.plan.tables]
        return [int(name[1:]) if name.startswith("#") else name for name in names]
    return list(dict.fromkeys(feed.source for feed in feeds(stage)))


def feeds(stage: Stage) -> tuple[Feed, ...]:
    """Returns the feeds of a stage; a join stage has none, it has relations."""
    if isinstance(stage, (GroupStage, TopStage)):
        return (stage.feed,)
    if isinstance(stage, PointwiseStage):
        return stage.leaves
    return stage.terms if isinstance(stage, LinearStage) else ()


def occurrences_of_plan(plan: Plan) -> tuple[BagAtom, ...]:
    """Returns every occurrence of a relation in a join core, of `#i` for stage i, too."""
    found: list[BagAtom] = []
    for node in plan.nodes:
        if node.kind == "input":
            found.append(BagAtom(node.name, node.relation, node.attributes, node.columns, node.predicate))
        elif node.bag is not None:
            found += node.bag.atoms
    return tuple(found)


def _columns(feed: Feed, table: Table) -> tuple[str, ...]:
    read = {name.lower() for column in feed.columns for name in column.expr.columns}
    if feed.where is not None:
        read |= {name.lower() for name in feed.where.columns}
    return tuple(column.name for column in table.columns if column.name.lower() in read)
