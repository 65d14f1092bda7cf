"""Cuts a program into cells that do not communicate, by the values of a column.

A stage is *cut by* a column if each of its rows is produced in exactly one cell, which the value of the column
determines. The inputs of the stage are then cut by the column from which the value is computed, or they are
*everywhere*: every cell holds and computes all of their rows. At the base relations, every occurrence has columns to
hash, or none.

- A group or top stage is cut by a key, a pointwise or linear stage by a column at the same position in all terms.
- A join stage is cut by an attribute: atoms with the attribute are cut, the others are everywhere. If the results are a
  set, the attribute must be an output without further computation. In a bag weights add up, so any attribute of an atom
  that counts is correct: every valuation has one value of it. (An attribute of an atom that only filters could have
  several values.)
- If the rows of a sum are added up again, the cell that produces a row does not matter: each term is cut by any column,
  a base relation by all columns that are read.

Two occurrences of a relation may be hashed by different columns. The program of a cell then has a relation for each of
these *roles*. All roles have the columns that any of them reads, so that they agree on whether a deleted row exists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from plans.expressions.expr import Expr
from plans.program import Program
from plans.programs.reads import feeds, inputs, occurrences, occurrences_of_plan, reading, used, without_others
from plans.programs.stages import (
    BandStage,
    Feed,
    FixpointStage,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    SingleStage,
    SliceStage,
    TimedStage,
    TopStage,
)
from plans.queries.algebra import unused
from plans.search.cells.shares import HASHABLE, separating

Hashed = tuple[tuple[str, str], ...]
"""Columns, each with the type as which its values are hashed. An empty tuple: every row is in every cell."""
Ways = Mapping[str, frozenset[tuple[str, ...]]]
"""For each relation, the sets of columns by which its rows are sent. The empty set sends them to every cell."""
FREE: Hashed = (("*", ""),)
"""Any columns that send each row to one cell."""
_MOST = 500  # limit of cuts that are examined; few programs have ten


@dataclass(frozen=True)
class Role:
    """The part of a base `relation` that a relation of a cell's program holds: the rows whose `hashed` columns map to
    the cell."""

    relation: str
    hashed: Hashed = ()


@dataclass(frozen=True)
class Cut:
    """A way to cut a program: its `name` for messages and the state, the `program` of a cell, and the role of each
    relation that the program reads."""

    name: str
    program: Program
    roles: Mapping[str, Role]

    @property
    def copied(self) -> tuple[str, ...]:
        """Returns the base relations of which every cell has all rows."""
        return tuple(dict.fromkeys(role.relation for role in self.roles.values() if not role.hashed))


def uncut(program: Program) -> Cut:
    """Returns the program in one cell."""
    return Cut("", program, {table.name: Role(table.name) for table in program.tables})


def by_output(program: Program) -> Cut | None:
    """Returns the cut by an output column that copies the fewest rows, the first one on ties; None if there is no cut.

    Cells deliver disjoint rows. A program with windows has no cut, because all rows of a relation advance its
    watermark.
    """
    if program.windows:
        return None
    search = _Search(program)
    found = [
        (output.name, hashed)
        for output in program.output
        if output.type in HASHABLE
        for hashed in search.ways(_Requirement(output.name, output.type))
    ]
    best = min(found, key=lambda one: _copies(one[1]), default=None)
    return None if best is None else _cut(program, best[0], best[1])


def by_anything(program: Program) -> Cut | None:
    """Returns the cut that copies the fewest rows, the first one on ties, for a program whose rows are added up
    elsewhere.

    Returns None if there is no cut. Several cells may deliver the same row.
    """
    best = min(_Search(program).ways(ANYHOW), key=_copies, default=None)
    if best is None:
        return None
    cut = _cut(program, "", best)
    return replace(cut, name="; ".join(phrases(cut)))


def ways_by_output(program: Program) -> Iterator[Ways]:
    """Yields the ways to send rows to cells that deliver disjoint rows."""
    outputs = [] if program.windows else [out for out in program.output if out.type in HASHABLE]
    search = _Search(program)
    return (_by_relation(program, way) for out in outputs for way in search.ways(_Requirement(out.name, out.type)))


def ways_by_anything(program: Program) -> Iterator[Ways]:
    """Yields the ways to send rows to cells whose results are added up elsewhere."""
    return (_by_relation(program, hashed) for hashed in _Search(program, free=True).ways(ANYHOW))


def phrases(cut: Cut) -> list[str]:
    """Returns a phrase per relation that tells how it is cut."""
    return [
        f"{role.relation} by {', '.join(name for name, _ in role.hashed)}" if role.hashed else f"all of {role.relation}"
        for role in cut.roles.values()
    ]


@dataclass(frozen=True)
class _Requirement:
    """A requirement on a stage or relation: to be cut by a column, hashed as a type; to be everywhere; or to be cut in
    any way."""

    column: str = ""
    type: str = ""
    everywhere: bool = False


ANYHOW, EVERYWHERE = _Requirement(), _Requirement(everywhere=True)
_Reader = tuple[int, int]  # a stage, and the number of one of its inputs
_Ways = Mapping[_Reader, Hashed]


class _Search:
    """Finds the columns by which every occurrence of a base relation is hashed.

    `free`: occurrences that may be hashed by any columns get `FREE`; otherwise they are hashed by all columns that are
    read.
    """

    def __init__(self, program: Program, free: bool = False) -> None:
        self._program = program
        self._tables = {table.name.lower(): table for table in program.tables}
        atoms = occurrences(program)
        self._read = {name: tuple((c.name, c.type) for c in used(table, atoms)) for name, table in self._tables.items()}
        self._free, self._steps = free, 0

    def ways(self, requirement: _Requirement) -> Iterator[_Ways]:
        """Yields the ways to cut the result that satisfy a requirement."""
        self._steps = 0
        return self._found([((-1, 0), len(self._program.stages) - 1, requirement)], {}, {})

    def _found(
        self,
        todo: list[tuple[_Reader, str | int, _Requirement]],
        known: dict[int, object],
        hashed: dict[_Reader, Hashed],
    ) -> Iterator[_Ways]:
        todo = list(todo)
        while todo:
            reader, source, requirement = todo.pop()
            if isinstance(source, str):
                columns = self._hashed(source, requirement)
                if columns is None:
                    return
                hashed = {**hashed, reader: columns}
                continue
            options = self._options(source, requirement)
            if source in known:
                if all(label != known[source] for label, _ in options):
                    return  # two readers require different cuts
                continue
            self._steps += len(options)
            if not options or self._steps > _MOST:
                return
            if len(options) == 1:
                known = {**known, source: options[0][0]}
                todo += options[0][1]
                continue
            for label, requirements in options:
                yield from self._found([*todo, *requirements], {**known, source: label}, hashed)
            return
        yield hashed

    def _hashed(self, relation: str, requirement: _Requirement) -> Hashed | None:
        if requirement.everywhere:
            return ()
        if not requirement.column:
            return FREE if self._free else self._read[relation.lower()] or None
        column = self._tables[relation.lower()].column(requirement.column)
        return None if column is None else ((column.name, requirement.type),)

    def _options(
        self, number: int, requirement: _Requirement
    ) -> list[tuple[object, list[tuple[_Reader, str | int, _Requirement]]]]:
        """Returns the ways to cut a stage that satisfy a requirement: for each a name, and the requirements on its
        inputs."""
        stage = self._program.stages[number]
        read = inputs(stage)
        options: list[tuple[object, list[_Requirement]]] = []
        if requirement.everywhere:
            options.append(("everywhere", [EVERYWHERE] * len(read)))
        elif isinstance(stage, JoinStage):
            options += _of_join(stage, requirement)
        elif isinstance(stage, BandStage):
            options += _of_band(stage, requirement)
        elif not isinstance(stage, FixpointStage):  # whose rows derive rows of other cells
            options += _of_feeds(stage, requirement)
            if isinstance(stage, TimedStage) and requirement == ANYHOW:
                options.append(("anyhow", [ANYHOW, EVERYWHERE]))
            if isinstance(stage, LinearStage) and requirement == ANYHOW:
                options.append(("anyhow", [ANYHOW] * len(read)))
        readers = [(number, i) for i in range(len(read))]
        return [(label, list(zip(readers, read, needed, strict=True))) for label, needed in options]


def _of_join(stage: JoinStage, requirement: _Requirement) -> Iterator[tuple[object, list[_Requirement]]]:
    plan = stage.plan
    names = separating(stage)
    if requirement.column:
        plain = {_column(out.expr) for out in plan.output if out.name == requirement.column}
        names = tuple(name for name in names if name in plain)
    for attribute in names:
        type_ = requirement.type or plan.attributes[attribute].type
        requirements = [
            _Requirement(atom.columns[atom.attributes.index(attribute)], type_)
            if attribute in atom.attributes
            else EVERYWHERE
            for atom in occurrences_of_plan(plan)
        ]
        yield (attribute, type_), requirements


def _of_band(stage: BandStage, requirement: _Requirement) -> Iterator[tuple[object, list[_Requirement]]]:
    """Yields the equal columns of both sides, and the columns of one side. In the latter case every cell has all rows
    of the other side."""
    sides = [{column.name: column for column in feed.columns} for feed in feeds(stage)]
    for pair in stage.band.keys:
        columns = [side[name] for side, name in zip(sides, pair, strict=True)]
        type_ = requirement.type or columns[0].type
        names = [_column(column.expr) for column in columns]
        if type_ in HASHABLE and all(names) and requirement.column in ("", *pair):
            yield (pair, type_), [_Requirement(str(name), type_) for name in names]
    for number, side in enumerate(sides):
        requirements: list[_Requirement] = [EVERYWHERE, EVERYWHERE]
        if requirement == ANYHOW:
            requirements[number] = ANYHOW
            yield number, requirements
        elif requirement.column in side and (name := _column(side[requirement.column].expr)):
            requirements[number] = _Requirement(name, requirement.type)
            yield (requirement.column, requirement.type), requirements


def _of_feeds(stage: object, requirement: _Requirement) -> Iterator[tuple[object, list[_Requirement]]]:
    """Yields the columns by which a stage with feeds may be cut, and the column of each feed's input that they come
    from."""
    assert not isinstance(stage, JoinStage)
    terms: tuple[Feed, ...] = feeds(stage)  # type: ignore[arg-type]
    others = []
    if isinstance(stage, TimedStage):
        terms, others = (stage.feed,), [EVERYWHERE]  # every cell reads the clock
    positions: Iterable[int] = range(len(terms[0].columns))
    if isinstance(stage, GroupStage):
        keys = [i for i, column in enumerate(terms[0].columns) if column.name in stage.keys]
        shown = {out.expr.value for out in stage.outputs if out.name == requirement.column and out.expr.op == "col"}
        positions = [i for i in keys if not requirement.column or terms[0].columns[i].name in shown]
    elif isinstance(stage, (TopStage, OverStage, SliceStage, SingleStage)):
        keys = [i for i, column in enumerate(terms[0].columns) if column.name in stage.keys]
        positions = [i for i in keys if not requirement.column or terms[0].columns[i].name == requirement.column]
    elif requirement.column:
        positions = [i for i, column in enumerate(terms[0].columns) if column.name == requirement.column][:1]
    for position in positions:
        columns = [feed.columns[position] for feed in terms]
        if isinstance(stage, GroupStage):
            name = terms[0].columns[position].name
            columns = [next(column for column in feed.columns if column.name == name) for feed in terms]
        type_ = requirement.type or columns[0].type
        names = [_column(column.expr) for column in columns]
        if type_ in HASHABLE and all(names):
            yield (position, type_), [*(_Requirement(str(name), type_) for name in names), *others]


def _column(expr: Expr) -> str | None:
    """Returns the column to which an expression is equal, if it is a column, or an int32 column cast to int64; else
    None."""
    if expr.op == "cast" and expr.type == "int64" and expr.args[0].type == "int32":
        expr = expr.args[0]
    return str(expr.value) if expr.op == "col" else None


def _by_relation(program: Program, hashed: _Ways) -> Ways:
    found: dict[str, frozenset[tuple[str, ...]]] = {}
    tables = {table.name.lower(): table.name for table in program.tables}
    for (number, i), columns in hashed.items():
        name = tables[str(inputs(program.stages[number])[i]).lower()]
        found[name] = found.get(name, frozenset()) | {tuple(column for column, _ in columns)}
    anyhow = tuple(column for column, _ in FREE)
    return {name: ways - {anyhow} if any(map(any, ways - {anyhow})) else ways for name, ways in found.items()}


def _copies(hashed: _Ways) -> int:
    return sum(not columns for columns in hashed.values())


def _cut(program: Program, name: str, hashed: _Ways) -> Cut:
    """Returns the cut that hashes the occurrences by these columns. A base relation with several roles has a relation
    for each.

    A relation that is read only by stages that the result does not need has no role.
    """
    program = without_others(program, [len(program.stages) - 1])
    tables = {table.name.lower(): table for table in program.tables}
    needed: dict[str, list[Hashed]] = {key: [] for key in tables}
    for number, stage in enumerate(program.stages):
        for i, source in enumerate(inputs(stage)):
            if isinstance(source, str) and hashed[number, i] not in needed[source.lower()]:
                needed[source.lower()].append(hashed[number, i])
    names: dict[tuple[str, Hashed], str] = {}
    for key, table in tables.items():
        for columns in needed[key]:
            by = f" by {', '.join(column for column, _ in columns)}" if columns else " everywhere"
            preferred = table.name + (by if len(needed[key]) > 1 else "")
            names[key, columns] = preferred if len(needed[key]) == 1 else unused(preferred, [*tables, *names.values()])
    roles = {role: Role(tables[key].name, columns) for (key, columns), role in names.items()}
    if all(len(found) < 2 for found in needed.values()):
        read = tuple(table for key, table in tables.items() if needed[key])
        return Cut(name, replace(program, tables=read), roles)
    stages = tuple(
        reading(
            stage,
            [
                names[source.lower(), hashed[number, i]] if isinstance(source, str) else source
                for i, source in enumerate(inputs(stage))
            ],
        )
        for number, stage in enumerate(program.stages)
    )
    made = tuple(replace(tables[key], name=role) for (key, _), role in names.items())
    return Cut(name, replace(program, tables=made, stages=stages, whole=True), roles)
