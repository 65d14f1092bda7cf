"""Programs with several named results over tables and other results. Results are added and dropped one at a time.

A new result is lowered onto the existing stages: the parts that it shares with other results, and the results that it
reads, are stages already. A result reads only older results, so there are no cycles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from plans.errors import PlanError
from plans.lowering.lower import check_names, notes_of, rewritten, stage_of
from plans.lowering.stages import Stages
from plans.plan import Result
from plans.planner import check_options, parse
from plans.program import Program
from plans.programs.reads import each_once, sources, typed, without_others
from plans.programs.stages import GroupStage, outputs_of
from plans.queries.algebra import Relation, bases
from plans.schema import Column, Schema, Table
from plans.search.cost import checked_rates
from plans.stack import with_room
from plans.time.windows import CLOCK, Window, bound, not_null, reads_clock


def empty(schema: Any, windows: Mapping[str, Window] | None = None) -> Program:
    """Returns the program without results over the tables of a schema (see `Schema.of`). `windows`: those of tables, by
    name."""
    tables = Schema.of(schema)
    check_names(tables)
    if not len(tables):
        raise PlanError("a database needs tables", hint="write {'g': {'src': 'int64', 'dst': 'int64'}}")
    found = bound(windows, tables)
    return Program("", not_null(tuple(tables[name] for name in tables), found), (), results=(), windows=found)


def added(
    program: Program,
    name: str,
    query: str | Relation,
    *,
    rates: Mapping[str, float] | None = None,
    dialect: str = "spark",
) -> Program:
    """Returns the program with one more result, of a query over the tables and the existing results.

    The existing stages keep their numbers; the new stages follow them. `query` is text, or a relation over
    `schema_of(program)`. `rates` and `dialect` are those of `plans.planner.plan`. Raises PlanError if the name is
    taken, and for every query that cannot be maintained.
    """
    check_options(rates, None, dialect)
    results = _results(program)
    if not isinstance(name, str) or not name:
        raise PlanError(f"the name of a view is a text, not {name!r}")
    check_names([name])
    taken = {table.name.lower() for table in program.tables}
    if name.lower() in taken:
        raise PlanError(f"there is a table called {name} already", hint="give the view another name")
    if any(result.name.lower() == name.lower() for result in results):
        raise PlanError(f"there is a view called {name} already", hint="drop it first, or give this one another name")
    schema = schema_of(program)
    try:
        relation = query if isinstance(query, Relation) else parse(query, schema, dialect=dialect)
    except PlanError as error:
        if error.message.lower() == f"unknown table {name}".lower():
            raise PlanError(
                f"the view {name} reads itself",
                hint="a view reads tables, and views that were registered before it",
                position=error.position,
                text=error.text,
            ) from None
        raise
    made: Program = with_room(_lowered, program, name, relation, rates)
    table_of_result(made, _results(made)[-1])  # a PlanError if others could not read it
    return made


def schema_of(program: Program) -> Schema:
    """Returns the tables and the results of a program, which queries may read."""
    views = tuple(table_of_result(program, result) for result in _results(program))
    return Schema((*program.tables, *views), (view.name for view in views))


def _lowered(program: Program, name: str, relation: Relation, rates: Mapping[str, float] | None) -> Program:
    results = _results(program)
    relation = rewritten(relation)
    used = list(bases(relation))
    known = checked_rates(rates, {n for source in used for n in (source.alias, source.table.name)})
    stages = Stages(known, program.stages, {result.name.lower(): result.stage for result in results})
    number = stage_of(relation, stages)
    reads = tuple(dict.fromkeys(s.table.name for s in used if s.table.name.lower() in stages.views))
    made = Result(name, number, relation.text, reads, tuple(notes_of(relation)))
    clock = () if reads_clock(program.tables) or not reads_clock(source.table for source in used) else (CLOCK,)
    tables = (*program.tables, *clock)
    return typed(replace(program, tables=tables, stages=tuple(stages.made), results=(*results, made)))


def dropped(program: Program, name: str) -> Program:
    """Returns the program without a result, and without the stages that only the result needs.

    A removed stage is replaced by a linear stage without terms, so that the others keep their numbers. Raises PlanError
    if the result does not exist, or another result reads it.
    """
    target = result_of(program, name)
    left = tuple(result for result in _results(program) if result is not target)
    readers = [result.name for result in left if target.name in result.reads]
    if readers:
        raise PlanError(f"the view {target.name} is read by {', '.join(readers)}", hint=f"drop {readers[0]} first")
    return replace(without_others(program, [result.stage for result in left]), results=left)


def with_table(program: Program, table: Table) -> Program:
    """Returns the program with one more base table. Raises PlanError if the name is taken."""
    check_names([table.name])
    if table.name in schema_of(program):
        what = "view" if any(result.name.lower() == table.name.lower() for result in _results(program)) else "table"
        raise PlanError(f"there is a {what} called {table.name} already", hint="drop it first, or take another name")
    return replace(program, tables=(*program.tables, table))


def without_table(program: Program, name: str) -> Program:
    """Returns the program without a base table. Raises PlanError if the table does not exist, if a view reads it, or if
    it is the last one."""
    left = tuple(table for table in program.tables if table.name.lower() != name.lower())
    if len(left) == len(program.tables):
        raise PlanError(
            f"there is no table called {name}", hint=f"there are: {', '.join(table.name for table in left)}"
        )
    readers = [result.name for result in _results(program) if name.lower() in _tables_below(program, result.stage)]
    if readers:
        raise PlanError(f"the table {name} is read by {', '.join(readers)}", hint=f"drop {readers[-1]} first")
    if not left:
        raise PlanError(f"{name} is the last table, and a database has at least one", hint="create another one first")
    windows = tuple(window for window in program.windows if window.relation.lower() != name.lower())
    return replace(program, tables=left, windows=windows)


def over(program: Program, schema: Schema) -> Program:
    """Returns the program over other base tables. Raises PlanError if there are none, or if a result reads a table that
    is missing or has changed."""
    tables = tuple(schema.values())
    check_names(schema)
    if not tables:
        raise PlanError("a database needs tables", hint="give it one or more tables")
    changed = {table.name.lower() for table in program.tables if table != CLOCK and table not in tables}
    for result in _results(program):
        for name in changed & _tables_below(program, result.stage):
            raise PlanError(f"the table {name} is read by {result.name}", hint=f"drop {result.name} first")
    clock = tuple(table for table in program.tables if table == CLOCK)
    windows = tuple(window for window in program.windows if window.relation in schema)
    return replace(program, tables=(*tables, *clock), windows=windows)


def _tables_below(program: Program, number: int) -> set[str]:
    """Returns the base tables (in lower case) below a stage."""
    found: set[str] = set()
    for source in sources(program.stages[number]):
        found |= {source.lower()} if isinstance(source, str) else _tables_below(program, source)
    return found


def result_of(program: Program, name: str) -> Result:
    """Returns the result with that name, ignoring case. Raises PlanError if it does not exist."""
    results = _results(program)
    for result in results:
        if isinstance(name, str) and result.name.lower() == name.lower():
            return result
    known = ", ".join(result.name for result in results)
    raise PlanError(f"there is no view called {name}", hint=f"there are: {known}" if known else "there is none yet")


def table_of_result(program: Program, result: Result) -> Table:
    """Returns a result as a table that queries may read, with its key, and whether its rows are distinct."""
    stage = program.stages[result.stage]
    outputs = outputs_of(stage)
    key: tuple[str, ...] = ()
    if isinstance(stage, GroupStage):
        shown = {output.expr.value: output.name for output in outputs if output.expr.op == "col"}
        if all(name in shown for name in stage.keys):
            key = tuple(shown[name] for name in stage.keys)
    return Table(result.name, tuple(Column(out.name, out.type) for out in outputs), key, each_once(stage))


def _results(program: Program) -> tuple[Result, ...]:
    assert program.results is not None, "this program has one result, without a name"
    return program.results
