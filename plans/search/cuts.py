"""Cutting a program into cells that never talk to one another, by the values of one column.

A program can be cut if a column of its result comes, through every stage, from one column of each base relation that
it depends on: then rows of the result, of every group and of every stage between are made in one cell alone. A relation
that does not have the column is copied to all cells; what is computed from copies only is the same in all of them.

Only lineage decides: a key of a group that is a column, a column that has the same place in all branches of a UNION, a
hashable attribute of a join core (`plans.search.shares.hashable`). All occurrences of a relation must agree on the
column, so that a row goes to one cell or to all, and a cell knows all copies of the rows that it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from plans.program import Feed, GroupStage, JoinStage, Program, Stage, TopStage
from plans.reads import feeds, occurrences_of_plan, sources
from plans.search.shares import HASHABLE, hashable

Lineage = Mapping[str, str | None]
"""By base relation (lower case): the column that the value comes from, or None if all its rows are in every cell."""


@dataclass(frozen=True)
class Axis:
    """The column by which a program is cut: its `name` and `type` in the result, and where its values come from."""

    name: str
    type: str
    columns: Lineage


def axis(program: Program) -> Axis | None:
    """Returns the axis that copies the fewest relations, the first of those; None if the program cannot be cut."""
    lineages = _stages(program)[-1]
    found = [
        Axis(output.name, output.type, lineage)
        for output in program.output
        if output.type in HASHABLE and (lineage := lineages.get(output.name)) is not None and any(lineage.values())
    ]
    return min(found, key=lambda one: list(one.columns.values()).count(None), default=None)


def _stages(program: Program) -> list[dict[str, Lineage]]:
    """Returns the lineage of each output column of each stage that has one."""
    done: list[dict[str, Lineage]] = []
    everywhere: list[Lineage] = []
    for stage in program.stages:
        if isinstance(stage, JoinStage):
            done.append(_of_join(stage, done, everywhere))
        elif isinstance(stage, GroupStage):
            done.append(_of_group(stage, done))
        elif isinstance(stage, TopStage):
            below = _of_feed(stage.feed, done)
            done.append({name: below[name] for name in stage.keys if name in below})
        else:
            done.append(_of_terms(stage, done))
        everywhere.append(_copied(stage, everywhere))
    return done


def _of_feed(feed: Feed, done: list[dict[str, Lineage]]) -> dict[str, Lineage]:
    found: dict[str, Lineage] = {}
    for column in feed.columns:
        if column.expr.op != "col":
            continue
        if isinstance(feed.source, str):
            found[column.name] = {feed.source.lower(): column.expr.value.lower()}
        elif column.expr.value in done[feed.source]:
            found[column.name] = done[feed.source][column.expr.value]
    return found


def _of_group(stage: GroupStage, done: list[dict[str, Lineage]]) -> dict[str, Lineage]:
    below = _of_feed(stage.feed, done)
    return {
        output.name: below[output.expr.value]
        for output in stage.outputs
        if output.expr.op == "col" and output.expr.value in stage.keys and output.expr.value in below
    }


def _of_terms(stage: Stage, done: list[dict[str, Lineage]]) -> dict[str, Lineage]:
    """Returns the columns that have a lineage in all terms, if the terms agree on the relations that they share."""
    terms = feeds(stage)
    below = [_of_feed(feed, done) for feed in terms]
    found: dict[str, Lineage] = {}
    for place, column in enumerate(terms[0].columns):
        parts = [lineages.get(feed.columns[place].name) for feed, lineages in zip(terms, below, strict=True)]
        merged = _agreed(parts)
        if merged is not None:
            found[column.name] = merged
    return found


def _of_join(stage: JoinStage, done: list[dict[str, Lineage]], everywhere: list[Lineage]) -> dict[str, Lineage]:
    plan = stage.plan
    found: dict[str, Lineage] = {}
    for output in plan.output:
        if output.expr.op != "col" or output.expr.value not in hashable(plan):
            continue
        attribute = output.expr.value
        parts: list[Lineage | None] = []
        for atom in occurrences_of_plan(plan):
            column = atom.columns[atom.attributes.index(attribute)] if attribute in atom.attributes else None
            if not atom.relation.startswith("#"):
                parts.append({atom.relation.lower(): None if column is None else column.lower()})
            elif column is None:
                parts.append(everywhere[int(atom.relation[1:])])
            else:
                parts.append(done[int(atom.relation[1:])].get(column))
        merged = _agreed(parts)
        if merged is not None:
            found[output.name] = merged
    return found


def _copied(stage: Stage, everywhere: list[Lineage]) -> Lineage:
    """Returns the lineage of a stage that is computed in full in every cell: all its base relations are copied."""
    relations: dict[str, str | None] = {}
    for source in sources(stage):
        relations.update({source.lower(): None} if isinstance(source, str) else everywhere[source])
    return relations


def _agreed(parts: Iterable[Lineage | None]) -> Lineage | None:
    """Returns the union of lineages; None if one is missing, or two differ on a relation."""
    merged: dict[str, str | None] = {}
    for part in parts:
        if part is None:
            return None
        for relation, column in part.items():
            if merged.setdefault(relation, column) != column:
                return None
    return merged
