"""Plans how a program runs in cells in two rounds, between which only the rows of one stage are exchanged.

A program that no output column cuts can be *split* at a stage if the stages after it read only its rows: the stages up
to it are one program, and the stages after it are a program over a relation, the rows of the stage. The first program
can be cut by any columns, because the second adds up its rows. Example: COUNT and SUM over a join without a key, or
with a key that few relations have. The second program is cut by an output column, or runs in one cell.

The exchanged rows are net changes of a bag. So the second round is as exact as the first, and deletes no absent row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from plans.errors import PlanError
from plans.plan import passed
from plans.program import Program
from plans.programs.reads import below, fed, feeds, inputs, reading, up_to
from plans.programs.stages import BandStage, Feed, GroupStage, JoinStage, LinearStage, Stage, TopStage, outputs_of
from plans.queries.algebra import unused
from plans.schema import STAGE_OF_CELL, WEIGHT, Column, Table
from plans.search.cells.cuts import Cut, Role, by_anything, by_output, uncut
from plans.search.cells.partials import merged, partial
from plans.search.cells.shares import Grid, hashable, solve


@dataclass(frozen=True)
class Exchange:
    """The program that the cells of one operator run, `grid.cells` times.

    `roles`: the role of each relation of the program; None for a join of distinct rows, whose atoms the grid cuts.
    `carries`: the relation of the next round that consists of the rows of this round, or None in the last round.
    `grouped`: these rows are groups, each of one cell, of the rows of that relation.
    """

    maintained: Program
    grid: Grid
    roles: Mapping[str, Role] | None = None
    carries: str | None = None
    grouped: bool = False


@dataclass(frozen=True)
class Split:
    """A program split in two: `after` reads `relation`, the rows of `before`, which has the stages up to number
    `stage`.

    `partial`: the group stage that every cell applies to the rows before they are sent; `relation` then holds its
    groups.
    """

    before: Program
    after: Program
    stage: int
    relation: str
    partial: GroupStage | None = None


def rounds(maintained: Program, cells: int) -> tuple[Exchange, ...]:
    """Returns the one or two rounds in which a program runs in `cells` cells. Raises PlanError if it cannot be cut.

    A single cell contains the windows of a program. Several cells would have several watermarks and counts, so they
    read the changes that leave the windows (`plans.search.cells.windows`).
    """
    if maintained.plan is not None:
        return (Exchange(maintained, solve(maintained.plan, cells)),)
    if cells == 1:
        return (_round(uncut(maintained), 1),)
    if cells < 1:
        raise PlanError(f"cells={cells} is not a number of cells", hint="give 1 or more")
    if maintained.windows:
        return rounds(maintained.unbounded(), cells)
    whole = by_output(maintained)
    if whole is not None:
        return (_round(whole, cells),)
    for split in splits(maintained):
        first = _first(split, cells)
        if first is not None:
            first = replace(first, carries=split.relation, grouped=split.partial is not None)
            return (first, _last(split.after, cells))
    raise PlanError(f"the query cannot be cut into {cells} cells", witness=WHY_ONE, hint=_ONE)


def rounds_along(maintained: Program, grid: Grid) -> tuple[Exchange, ...]:
    """Returns the rounds of a program whose first round was cut along `grid`, because a join might now be cut
    differently."""
    if maintained.windows and grid.cells > 1:
        maintained = maintained.unbounded()
    return (Exchange(maintained, grid),) if maintained.plan is not None else rounds(maintained, grid.cells)


_ONE = "run it in one cell: cells=1"
WHY_ONE = (
    "no column of the result is a plain column of the relations through every stage, and no stage with rows that a "
    "second operator could merge is the only input of the later stages"
)


def _first(split: Split, cells: int) -> Exchange | None:
    plan = split.before.plan
    if plan is not None and split.partial is None:
        return Exchange(split.before, solve(plan, cells)) if hashable(plan) else None
    found = by_anything(split.before)
    if found is None:
        return None
    return _round(found if split.partial is None else replace(found, program=_grouped(found, split.partial)), cells)


def _grouped(cut: Cut, partial: GroupStage) -> Program:
    """Returns the program of a cell with its groups as the last stage."""
    stages = cut.program.stages
    source = stages[-1]
    if isinstance(source, LinearStage) and len(source.terms) == 1:  # the group's own feed
        stages, feed = stages[:-1], source.terms[0]
        columns = zip(feed.columns, partial.feed.columns, strict=True)
        feed = replace(feed, columns=tuple(replace(theirs, name=mine.name) for theirs, mine in columns))
    else:
        feed = replace(partial.feed, source=len(stages) - 1)
    return replace(cut.program, stages=(*stages, replace(partial, feed=feed)))


def _last(after: Program, cells: int) -> Exchange:
    """Returns the second round, in one cell if it cannot be cut."""
    plan = after.plan
    if plan is not None:
        return Exchange(after, solve(plan, cells if hashable(plan) else 1))
    found = by_output(after)
    return _round(uncut(after), 1) if found is None else _round(found, cells)


def _round(cut: Cut, cells: int) -> Exchange:
    return Exchange(cut.program, Grid() if cells == 1 else Grid((cut.name,), (cells,)), cut.roles)


def splits(program: Program) -> Iterator[Split]:
    """Yields the ways to split a program, the latest stage first. A program that ends with the first rows of groups can
    be split after its last stage, because each group can be in one cell."""
    last = program.stages[-1]
    if isinstance(last, TopStage) and last.keys:
        rows = passed(Column(out.name, out.type) for out in outputs_of(last))
        program = replace(program, stages=(*program.stages, LinearStage((Feed(len(program.stages) - 1, rows),))))
    for number in reversed(range(len(program.stages) - 1)):
        found = _split_at(program, number) if _alone(program, number) else None
        if found is not None:
            yield found
    readers = [number for number, stage in enumerate(program.stages) for s in inputs(stage) if isinstance(s, str)]
    if readers == [0] and not isinstance(program.stages[0], JoinStage | LinearStage):
        found = _split_below(program)
        if found is not None:
            yield found


def _alone(program: Program, number: int) -> bool:
    """Returns whether the stages that do not depend on a stage read only it and one another."""
    inner = below(program, [number])
    return all(
        source == number or (isinstance(source, int) and source not in inner)
        for other, stage in enumerate(program.stages)
        if other not in inner
        for source in inputs(stage)
    )


def _split_at(program: Program, number: int) -> Split | None:
    inner, stages = below(program, [number]), list(up_to(program, number).stages)
    outer = [other for other in range(len(program.stages)) if other not in inner]
    readers = [feed for other in outer for feed in feeds(program.stages[other]) if feed.source == number]
    joined = any(number in inputs(s) for s in (program.stages[i] for i in outer) if isinstance(s, JoinStage))
    columns = tuple(Column(out.name, out.type) for out in outputs_of(program.stages[number]))
    taken = readers[0] if len(readers) == 1 and not joined else None
    if taken is not None and taken.columns == passed(columns) and _plain(taken) and _fit(columns):
        taken = None
    if taken is None:
        return _split(program, number, stages, outer, columns, None) if _fit(columns) else None
    stages.append(LinearStage((replace(taken, source=len(stages) - 1),)))  # rows that the feed filters out are not sent
    return _split(program, number, stages, outer, (), taken)


def _split_below(program: Program) -> Split | None:
    """Returns the split after the single feed that reads a relation."""
    (taken,) = feeds(program.stages[0])
    return _split(program, -1, [LinearStage((taken,))], list(range(len(program.stages))), (), taken)


def _split(
    program: Program,
    number: int,
    stages: list[Stage],
    outer: list[int],
    columns: tuple[Column, ...],
    taken: Feed | None,
) -> Split | None:
    """Returns the split between `stages` and the stages with the numbers `outer`. `taken`: the feed that is the last of
    `stages`; its columns get unique names."""
    relation = f"{STAGE_OF_CELL}{number}" if number >= 0 else "rows"
    arrived = None
    if taken is not None:
        names: list[str] = []
        for out in taken.columns:
            names.append(unused(out.name, [*names, WEIGHT]))
        columns = tuple(Column(name, out.type) for name, out in zip(names, taken.columns, strict=True))
        assert isinstance(stages[-1], LinearStage)
        renamed = tuple(replace(out, name=name) for out, name in zip(taken.columns, names, strict=True))
        stages[-1] = LinearStage((replace(stages[-1].terms[0], columns=renamed),))
        mine = zip(taken.columns, passed(columns), strict=True)
        arrived = Feed(relation, tuple(replace(out, expr=column.expr) for out, column in mine))
    place: dict[str | int, str | int] = {old: new for new, old in enumerate(outer)}
    place[number] = relation
    after = []
    for other in outer:
        stage = program.stages[other]
        if taken is not None and arrived is not None and taken in feeds(stage):
            there = (arrived if f == taken else replace(f, source=place[f.source]) for f in feeds(stage))
            after.append(fed(stage, tuple(there)))
        else:
            after.append(reading(stage, [place[source] for source in inputs(stage)]))
    read = {source.lower() for stage in stages for source in inputs(stage) if isinstance(source, str)}
    tables = tuple(table for table in program.tables if table.name.lower() in read)
    before = Program(program.query, tables, tuple(stages))
    parts = _parts(after, relation)
    if parts is None and number >= 0 and _carries_sums(program.stages[number]):
        return None
    if parts is not None:
        columns = tuple(Column(out.name, out.type) for out in parts.outputs)
        groups = [other for other in after if isinstance(other, GroupStage) and relation in inputs(other)]
        after[after.index(groups[0])] = merged(groups[0], parts, relation, columns)
    made = Program(program.query, (Table(relation, columns),), tuple(after))
    return Split(before, made, number, relation, parts)


def _parts(after: list[Stage], relation: str) -> GroupStage | None:
    """Returns the group stage that every cell may apply to its rows, if a group stage is the only reader of them."""
    readers = [stage for stage in after for source in inputs(stage) if source == relation]
    return partial(readers[0]) if len(readers) == 1 and isinstance(readers[0], GroupStage) else None


def _carries_sums(stage: Stage) -> bool:
    """Returns whether the rows of a stage have sums beside their weights. Such sums are not sent."""
    if isinstance(stage, BandStage):
        return bool(stage.band.terms)
    return isinstance(stage, JoinStage) and stage.plan.payload is not None and len(stage.plan.payload.terms) > 1


def _plain(feed: Feed) -> bool:
    return feed.where is None and feed.weight == 1


def _fit(columns: tuple[Column, ...]) -> bool:
    """Returns whether a table may have columns with these names."""
    names = [column.name.lower() for column in columns]
    return len({*names, WEIGHT}) == len(names) + 1
