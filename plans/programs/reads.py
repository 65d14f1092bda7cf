"""The reads of a plan or program: each occurrence of a base relation, with the columns and rows that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from plans.errors import PlanError
from plans.expressions.expr import Expr
from plans.expressions.functions.user import UserFunction, of_json
from plans.plan import BagAtom, Node, Output, Plan
from plans.program import Maintainable, Program
from plans.programs.stages import (
    Feed,
    FixpointStage,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    Stage,
    TopStage,
)
from plans.schema import Column, Table, source_of
from plans.types import why_untyped

_Made = TypeVar("_Made", Plan, Program)


def occurrences(maintained: Maintainable) -> tuple[BagAtom, ...]:
    """Returns every occurrence of a base relation: input nodes and atoms of bags in node order, feeds of stages,
    windows.

    A feed is an atom without attributes, whose columns are those that its expressions read. A window is such an atom
    with the column that orders it, and reads all rows. A window by arrival reads all columns, because which copy a
    delete removes depends on the whole row.
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
    for window in maintained.windows:
        by = (window.by,) if window.by else tables[window.relation.lower()].typed
        found.append(BagAtom(f"the window of {window.relation}", window.relation, (), by))
    return tuple(found)


def typed(made: _Made) -> _Made:
    """Returns a plan or program unchanged. Raises PlanError if it reads a column without a type."""
    for problem in _untyped(made):
        raise PlanError(problem)
    return made


def _untyped(maintained: Maintainable) -> Iterator[str]:
    """Yields an error message for each column that is read and has no type."""
    tables = {table.name.lower(): table for table in maintained.tables}
    for atom in occurrences(maintained):
        table = tables.get(atom.relation.lower())
        read = () if atom.predicate is None else sorted(atom.predicate.columns)
        for column in () if table is None else map(table.column, (*atom.columns, *read)):
            why = None if column is None else why_untyped(column.type)
            if column is not None and why is not None:
                yield f"the query reads column {atom.relation}.{column.name}, which has no type: {why}"


def rows_of(atom: Node | BagAtom) -> tuple[str, frozenset[str], str]:
    """Returns a key of the columns and rows that an occurrence reads. Occurrences with equal keys are stored once."""
    return atom.relation.lower(), frozenset(column.lower() for column in atom.columns), str(atom.predicate)


def sources(stage: Stage) -> list[str | int]:
    """Returns the distinct relations (by name) and stages (by number) that a stage reads."""
    if isinstance(stage, JoinStage):
        return [source_of(table.name) for table in stage.plan.tables]
    return list(dict.fromkeys(feed.source for feed in feeds(stage)))


def below(program: Program, numbers: Iterable[int]) -> set[int]:
    """Returns some stages and all stages on which they depend."""
    found = set(numbers)
    todo = list(found)
    while todo:
        new = {source for source in inputs(program.stages[todo.pop()]) if isinstance(source, int)} - found
        found |= new
        todo += new
    return found


def up_to(program: Program, number: int) -> Program:
    """Returns the program whose result is the rows of a stage: this stage and those on which it depends."""
    inner = sorted(below(program, [number]))
    place: dict[str | int, str | int] = {old: new for new, old in enumerate(inner)}
    stages = tuple(reading(s, [place.get(x, x) for x in inputs(s)]) for s in (program.stages[i] for i in inner))
    read = {source.lower() for stage in stages for source in inputs(stage) if isinstance(source, str)}
    return Program(program.query, tuple(table for table in program.tables if table.name.lower() in read), stages)


def without_others(program: Program, numbers: Iterable[int]) -> Program:
    """Returns a program in which every stage on which none of `numbers` depends is replaced by one without terms."""
    kept = below(program, numbers)
    stages = tuple(stage if i in kept else LinearStage(()) for i, stage in enumerate(program.stages))
    return replace(program, stages=stages)


def only_read_by(program: Program, number: int, kinds: tuple[type, ...]) -> bool:
    """Returns True iff a stage has readers, all of them are of some kinds, and the stage is not a result."""
    if number in {result.stage for result in program.results or ()}:
        return False
    readers = [stage for stage in program.stages if number in sources(stage)]
    return bool(readers) and all(isinstance(stage, kinds) for stage in readers)


def feeds(stage: Stage) -> tuple[Feed, ...]:
    """Returns the feeds of a stage. A join stage has relations instead of feeds."""
    parts = (part if isinstance(part, tuple) else (part,) for part in vars(stage).values())
    return tuple(one for part in parts for one in part if isinstance(one, Feed))


def inputs(stage: Stage) -> tuple[str | int, ...]:
    """Returns what each occurrence in a stage reads, in their order: a relation (by name) or a stage (by number)."""
    if isinstance(stage, JoinStage):
        return tuple(source_of(atom.relation) for atom in occurrences_of_plan(stage.plan))
    return tuple(feed.source for feed in feeds(stage))


def reading(stage: Stage, sources: Sequence[str | int]) -> Stage:
    """Returns a stage whose occurrences, in the order of `inputs`, read these relations and stages instead."""
    if not isinstance(stage, JoinStage):
        return fed(stage, [replace(feed, source=of) for feed, of in zip(feeds(stage), sources, strict=True)])
    names = [f"#{source}" if isinstance(source, int) else source for source in sources]
    old = {table.name.lower(): table for table in stage.plan.tables}
    read = zip(names, (atom.relation.lower() for atom in occurrences_of_plan(stage.plan)), strict=True)
    tables = {name: replace(old[relation], name=name) for name, relation in read}
    rest = iter(names)
    nodes = tuple(_reading(node, rest) for node in stage.plan.nodes)
    return replace(stage, plan=replace(stage.plan, nodes=nodes, tables=tuple(tables.values())))


def fed(stage: Stage, found: Sequence[Feed]) -> Stage:
    """Returns a stage other than a join with other feeds, in the order of `feeds`."""
    assert not isinstance(stage, JoinStage), "a join has no feeds"
    rest, made = iter(found), dict[str, Any]()
    for name, part in vars(stage).items():
        if isinstance(part, Feed):
            made[name] = next(rest)
        elif isinstance(part, tuple) and part and isinstance(part[0], Feed):
            made[name] = tuple(islice(rest, len(part)))
    return replace(stage, **made)


def _reading(node: Node, names: Iterator[str]) -> Node:
    if node.kind == "input":
        return replace(node, relation=next(names))
    if node.bag is None:
        return node
    return replace(node, bag=replace(node.bag, atoms=tuple(replace(a, relation=next(names)) for a in node.bag.atoms)))


def used(table: Table, atoms: Iterable[BagAtom]) -> tuple[Column, ...]:
    """Returns the columns of a table that some atom reads, in table order. If there are none, returns the first column,
    so that rows can be counted."""
    names: set[str] = set()
    for atom in atoms:
        if atom.relation.lower() == table.name.lower():
            names |= {name.lower() for name in (*atom.columns, *(atom.predicate.columns if atom.predicate else ()))}
    return tuple(column for column in table.columns if column.name.lower() in names) or table.columns[:1]


def occurrences_of_plan(plan: Plan) -> tuple[BagAtom, ...]:
    """Returns every occurrence of a relation in a join core, including stages `#i`."""
    found: list[BagAtom] = []
    for node in plan.nodes:
        if node.kind == "input":
            found.append(BagAtom(node.name, node.relation, node.attributes, node.columns, node.predicate))
        elif node.bag is not None:
            found += node.bag.atoms
    return tuple(found)


def each_once(stage: Stage) -> bool:
    """Returns True if the rows of a stage are always distinct."""
    if isinstance(stage, GroupStage):
        plain = {output.expr.value for output in stage.outputs if output.expr.op == "col"}
        return stage.whole or set(stage.keys) <= plain
    if isinstance(stage, PointwiseStage):
        return not isinstance(stage.function, int) and stage.function[0] in _ONCE
    if isinstance(stage, (TopStage, OverStage)):
        return stage.distinct
    if isinstance(stage, JoinStage):
        return stage.mode == "set" and not stage.plan.support
    return isinstance(stage, SingleStage) or (isinstance(stage, FixpointStage) and stage.distinct)


_ONCE = ("distinct", "union", "except", "intersect")


Parts = frozenset[Expr]
"""Conditions that all hold. The empty set holds for every row."""


def readers(program: Program) -> dict[str | int, list[Parts]]:
    """Returns, for each base relation (in lower case) and stage, the conditions that each of its readers requires of a
    row.

    A linear stage that is not a result passes on the conditions of its readers, as far as they are over columns that it
    passes on unchanged. So a reader requires at least these conditions of a row, and may require others.
    """
    last = [len(program.stages) - 1] if program.results is None else [result.stage for result in program.results]
    found: dict[str | int, list[Parts]] = {}
    for window in program.windows:
        found.setdefault(window.relation.lower(), []).append(frozenset())
    for number in reversed(range(len(program.stages))):
        stage = program.stages[number]
        if isinstance(stage, JoinStage):
            for atom in occurrences_of_plan(stage.plan):
                found.setdefault(key_of(source_of(atom.relation)), []).append(_parts(atom.predicate))
            continue
        through = isinstance(stage, LinearStage) and number not in last
        for feed in feeds(stage):
            for asked in found.get(number, []) if through else [frozenset[Expr]()]:
                moved = {_moved(part, feed.columns) for part in asked} - {None}
                found.setdefault(key_of(feed.source), []).append(_parts(feed.where) | frozenset(filter(None, moved)))
    return found


def holding(program: Program, relations: Mapping[str, Iterable[Parts]]) -> dict[str | int, Parts]:
    """Returns the required conditions that are known to hold for all rows of a relation or a linear stage.

    ``relations`` (in lower case): those whose rows are read only if they satisfy all conditions of one of the given
    sets.
    """
    asked = readers(program)
    held: dict[str | int, Parts] = {name: frozenset.intersection(*parts) for name, parts in relations.items()}
    for number, stage in enumerate(program.stages):
        if isinstance(stage, LinearStage) and stage.terms:
            known = [(held.get(key_of(f.source), frozenset()) | _parts(f.where), f.columns) for f in stage.terms]
            every = frozenset[Expr]().union(*asked.get(number, []))
            held[number] = frozenset(p for p in every if all(_moved(p, columns) in parts for parts, columns in known))
    return held


def key_of(source: str | int) -> str | int:
    """Returns the key of a source in nets and wires: relations are in lower case."""
    return source if isinstance(source, int) else source.lower()


def _parts(predicate: Expr | None) -> Parts:
    return frozenset() if predicate is None else frozenset(predicate.conjuncts())


def _moved(part: Expr, outputs: Sequence[Output]) -> Expr | None:
    """Rewrites a condition on outputs as one on the input. Returns None if it reads a column that is not passed on
    unchanged."""
    plain = {o.name.lower(): o.expr for o in outputs if o.expr.op == "col" and o.expr.type == o.type}
    for node in part.postorder():
        if node.op == "col" and (node.value.lower() not in plain or plain[node.value.lower()].type != node.type):
            return None

    def moved(node: Expr, args: list[Expr]) -> Expr:
        if node.op == "col":
            return plain[node.value.lower()]
        return Expr(node.op, node.type, tuple(args), node.value)

    found: Expr = part.fold(moved)
    return found


def _columns(feed: Feed, table: Table) -> tuple[str, ...]:
    read = {name.lower() for column in feed.columns for name in column.expr.columns}
    if feed.where is not None:
        read |= {name.lower() for name in feed.where.columns}
    return tuple(column.name for column in table.columns if column.name.lower() in read)


def asks_users(plan: Plan) -> bool:
    """Returns whether a join calls user functions for its outputs. These may reject a batch."""
    exprs = (*plan.residual, *(output.expr for output in plan.output))
    return any(expr.functions for expr in exprs)


def functions_of(program: Program) -> tuple[UserFunction, ...]:
    """Returns the user functions that a program calls. Its JSON only names them, so they are sent along with it."""
    found: dict[str, UserFunction] = {}
    todo: list[Any] = [program.to_json()]
    while todo:
        item = todo.pop()
        if isinstance(item, dict) and item.keys() == {"function", "fingerprint"}:
            found[item["fingerprint"]] = of_json(item)
        elif isinstance(item, (dict, list, tuple)):
            todo += item.values() if isinstance(item, dict) else item
    return tuple(found[key] for key in sorted(found))
