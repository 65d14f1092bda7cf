"""Lowers a relation of the query algebra to a program: its stages in topological order, inputs first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from plans.errors import PlanError
from plans.expressions.coercion import check_ordered
from plans.lowering.clock import timed
from plans.lowering.comparisons.bands import is_listed
from plans.lowering.comparisons.bests import by_bests
from plans.lowering.comparisons.slices import sliced
from plans.lowering.groups.copies import grouped_once
from plans.lowering.groups.expansion import grouping
from plans.lowering.groups.narrowing import is_sum, narrowed
from plans.lowering.groups.numbers import numbered
from plans.lowering.groups.payloads import summed
from plans.lowering.groups.values import distinct_already, with_values
from plans.lowering.joins.computed import has_computed_joins, with_columns_for_joins
from plans.lowering.joins.cores import counting, feed, joined, plan_of, selection
from plans.lowering.joins.existence import without_distinct
from plans.lowering.joins.outer import inner_joined
from plans.lowering.ranks import first_values, ranked
from plans.lowering.stages import Stages
from plans.lowering.ties import with_one_order
from plans.payloads.sums import ONCE
from plans.plan import passed
from plans.program import Program, program_of
from plans.programs.reads import typed
from plans.programs.stages import (
    Feed,
    FixpointStage,
    Function,
    GroupStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SliceStage,
    TimedStage,
    TopStage,
    exploded,
)
from plans.programs.wiring import used_columns
from plans.queries.algebra import (
    Fixpoint,
    Group,
    Over,
    Query,
    Relation,
    SetOperation,
    Sliced,
    Source,
    Timed,
    Top,
    Unnest,
    bases,
    rebuilt,
    unused,
    walk,
)
from plans.queries.conjunction import is_set
from plans.schema import STAGE, Table
from plans.search.cost import checked_rates
from plans.search.padding import NoPlaceError
from plans.stack import with_room

RULES = (numbered, ranked, sliced, timed, by_bests, narrowed, grouped_once, with_one_order, first_values)
"""Functions from relation to relation. Each returns an equivalent relation."""


def rewritten(relation: Relation) -> Relation:
    """Returns an equivalent relation in the forms that `lower` accepts."""
    for rule in RULES:
        relation = rule(relation)
    return relation


def lower(
    relation: Relation, rates: Mapping[str, float] | None = None, tree: str | None = None, together: bool = False
) -> Program:
    """Returns the program that maintains a relation. Raises PlanError if there is none.

    `rates` and `tree` are those of `plans.planner.plan`. `tree` is only for a query that is one join.
    """
    relation = rewritten(relation)
    if is_plan(relation) and isinstance(relation, Query) and (tree is not None or not is_listed(relation)):
        return typed(program_of(plan_of(relation, rates, tree)))
    if tree is not None:
        raise PlanError("tree= is for a query that is one join; this one is a program of several stages")
    used = list(bases(relation))
    check_names(source.table.name for source in used)
    names = {name for s in used for name in (s.alias, s.table.name)}
    stages = Stages(checked_rates(rates, names), together=together)
    stage_of(relation, stages)
    tables = tuple(dict.fromkeys(source.table for source in used))
    made = Program(relation.text, tables, tuple(stages.made), tuple(notes_of(relation)))
    return typed(made if made.plan is None else program_of(made.plan))


def check_names(names: Iterable[str]) -> None:
    """Raises PlanError if a table has a name that is reserved for stages."""
    for name in names:
        if name.startswith(STAGE):
            raise PlanError(f"a table must not be called {name}: stages are", hint="give it another name")


def is_plan(relation: Relation) -> bool:
    """Returns whether a relation is a plan: one join of base tables whose result has no duplicates."""
    if not isinstance(relation, Query) or any(source.input or source.join != "inner" for source in relation.sources):
        return False
    return not has_computed_joins(relation) and is_set(relation)


def stage_of(relation: Relation, stages: Stages) -> int:
    """Returns the number of the stage whose output is the relation."""
    relation = stages.one(relation)
    number = stages.known.get(id(relation))
    if number is None:
        number = stages.known[id(relation)] = with_room(_made, relation, stages)
    return number


def _made(relation: Relation, stages: Stages) -> int:
    if isinstance(relation, Query):
        return _core(_with_sources(relation, stages), stages)
    if isinstance(relation, Group):
        return stages.add(distinct_already(_group(relation, stages), stages))
    if isinstance(relation, Top):
        return stages.add(_top(relation, stages))
    if isinstance(relation, Over):
        return stages.add(_over(relation, stages))
    if isinstance(relation, Sliced):
        return stages.add(_sliced(relation, stages))
    if isinstance(relation, Timed):
        return stages.add(_timed(relation, stages))
    if isinstance(relation, Unnest):
        return stages.linear(exploded(_feed(relation.input, stages)))
    if isinstance(relation, Fixpoint):
        return stages.add(_fixpoint(relation, stages))
    leaves, function = _leaves(relation, stages)
    if is_sum(function):
        return stages.add(LinearStage(leaves))
    return stages.add(PointwiseStage(leaves, function))


def _core(query: Query, stages: Stages) -> int:
    """Returns the number of the stage of a join core, whose sources are resolved. The join tree pads the left joins if
    it has a place for them; otherwise they are reduced to inner joins."""
    made = len(stages.made)
    try:
        return joined(inner_joined(query, stages, pads=True), stages)
    except NoPlaceError:
        stages.forget(made)
        return joined(inner_joined(query, stages), stages)


def _feed(relation: Relation, stages: Stages) -> Feed:
    """Returns the rows of a relation as a feed. A selection from one relation needs no stage of its own."""
    if isinstance(relation, Query):
        return feed(_plain(relation, stages), stages)
    number = stage_of(relation, stages)
    return Feed(number, passed(stages.columns(number)))


def _group(group: Group, stages: Stages) -> GroupStage:
    """Returns the stage of a group: over the sums that the join below it forms, or over rows.

    The group's input is lowered only once: twice would double the time with each level of nested groups.
    """
    rows = _plain(group.input, stages) if isinstance(group.input, Query) else None
    if rows is None:
        return grouping(group, _feed(group.input, stages))
    if rows.distinct or selection(rows) is not None:
        return _grouped(group, rows, stages)
    return with_values(group, rows, stages, lambda part, read: _grouped(part, read, stages))


def _grouped(group: Group, rows: Query, stages: Stages) -> GroupStage:
    """Returns the stage of a group over a join core, with one feed."""
    found = _summed(group, rows, stages)
    return grouping(group, _rows(group, rows, stages)) if found is None else found


def _rows(group: Group, rows: Query, stages: Stages) -> Feed:
    """Returns the group's input. If every aggregate ignores duplicates, each row of a join is read once."""
    once = all(a.distinct or a.function in ONCE for a in group.aggregates)
    return feed(replace(rows, distinct=True) if once and selection(rows) is None else rows, stages)


def _summed(group: Group, rows: Query, stages: Stages) -> GroupStage | None:
    """Returns the stage of a group whose sums the join below it forms, or None if there are no such sums or no join."""
    if rows.distinct or selection(rows) is not None:
        return None
    made = len(stages.made)
    found = summed(group, counting(rows, stages), stages)
    if found is None:
        stages.forget(made)
    return found


def _top(top: Top, stages: Stages) -> TopStage:
    """Returns the stage of the first rows. The stage is marked as distinct if its rows are distinct without the hidden
    columns."""
    _check_orders(top)
    key, distinct = _declared(top.input)
    if isinstance(top.input, Query):
        shown = replace(top.input, outputs=top.input.outputs[: len(top.columns)])
        distinct = (distinct and not top.hidden) or is_plan(shown)
    elif top.hidden:
        distinct = bool(key) and set(key) <= {column.name for column in top.columns}
    rows = _feed(top.input, stages)
    return TopStage(rows, top.keys, top.order, top.limit, top.offset, top.hidden, distinct)


def _over(over: Over, stages: Stages) -> OverStage:
    """Returns the stage of window functions."""
    _check_orders(over)
    distinct = _declared(over)[1]
    return OverStage(_feed(over.input, stages), over.keys, over.order, over.functions, over.hidden, distinct)


def _check_orders(relation: Top | Over | Sliced) -> None:
    """Raises PlanError if rows are ordered by values that have no order."""
    types = {column.name: column.type for column in relation.input.columns}
    for one in relation.order:
        check_ordered(types[one.column], "ORDER BY")


def _sliced(sliced: Sliced, stages: Stages) -> SliceStage:
    _check_orders(sliced)
    return SliceStage(_feed(sliced.input, stages), sliced.keys, sliced.order, sliced.slice)


def _timed(timed: Timed, stages: Stages) -> TimedStage:
    return TimedStage(_feed(timed.input, stages), _feed(timed.clock, stages), timed.since, timed.until)


def _fixpoint(relation: Fixpoint, stages: Stages) -> FixpointStage:
    """Returns the stage of a recursion. Its feeds have the columns that its body reads."""
    inner = Stages(stages.rates, together=stages.together)
    made, outside = _without_derived(rewritten(relation.body), relation.rows)
    stage_of(made, inner)
    tables = dict.fromkeys(source.table for source in bases(made) if source.table != relation.rows)
    body = typed(Program(relation.text, (*tables, relation.rows), tuple(inner.made))).plain()
    read = used_columns(body, False)
    narrowed = tuple(replace(t, columns=read[t.name.lower()], key=(), distinct=False) for t in body.tables[:-1])
    feeds = (
        _columns_of(_feed(outside[t.name], stages), t)
        if t.name in outside
        else Feed(stages.views.get(t.name.lower(), t.name), passed(t.columns))
        for t in narrowed
    )
    return FixpointStage(tuple(feeds), (*narrowed, relation.rows), body.stages, relation.distinct, relation.best)


def _without_derived(body: Relation, rows: Table) -> tuple[Relation, dict[str, Relation]]:
    """Returns the body of a recursion in which relations that do not read its `rows` are tables, and these relations by
    the name of the table.

    They become stages before the recursion, whose rounds need not run them, and which other stages can read, too. Joins
    and set operations stay in the body.
    """
    tables: dict[int, Table] = {}
    outside: dict[str, Relation] = {}
    taken = {source.table.name for source in bases(body)}

    def moved(source: Source) -> Source:
        given = source.input
        if given is None or all(isinstance(part, Query | SetOperation) for part in walk(given)):
            return source
        if any(base.table == rows for base in bases(given)):
            return source
        if id(given) not in tables:
            name = unused(source.table.name, [*taken, *outside])
            tables[id(given)], outside[name] = Table(name, given.columns, distinct=_declared(given)[1]), given
        return replace(source, table=tables[id(given)], input=None)

    def without(part: Relation) -> Relation:
        return replace(part, sources=tuple(map(moved, part.sources))) if isinstance(part, Query) else part

    return rebuilt(body, lambda part: part, without), outside


def _columns_of(given: Feed, table: Table) -> Feed:
    """Returns a feed with the columns of a table only."""
    outputs = {output.name: output for output in given.columns}
    return replace(given, columns=tuple(outputs[column.name] for column in table.columns))


def _leaves(nest: SetOperation, stages: Stages) -> tuple[tuple[Feed, ...], Function]:
    """Returns the inputs of a nest of set operations, and their function. DISTINCT of one relation becomes part of the
    function."""
    feeds, once = [], set()
    for i, given in enumerate(nest.inputs):
        made = _plain(given, stages) if isinstance(given, Query) else given
        if isinstance(made, Query) and made.distinct and selection(replace(made, distinct=False)) is not None:
            once.add(i)
            made = replace(made, distinct=False)
        feeds.append(_feed(made, stages))

    def rebuilt(part: Function) -> Function:
        if isinstance(part, int):
            return ("distinct", part) if part in once else part
        return (part[0], *(rebuilt(inner) for inner in part[1:] if not isinstance(inner, str)))

    return tuple(feeds), rebuilt(nest.function)


def _plain(query: Query, stages: Stages) -> Query:
    """Returns the query with stages for its derived sources and with inner joins only."""
    return inner_joined(_with_sources(query, stages), stages)


def _with_sources(query: Query, stages: Stages) -> Query:
    """Returns the query with stages for its derived sources. Each is lowered once: twice would double the time per
    level."""
    query = replace(query, sources=tuple(_resolved(source, stages) for source in query.sources))
    query = with_columns_for_joins(query, stages)
    if not query.distinct and any(source.join != "inner" for source in query.sources):
        query = without_distinct(query, stages, lambda inner: joined(inner_joined(inner, stages), stages))
    return query


def _resolved(source: Source, stages: Stages) -> Source:
    if source.input is None:
        view = stages.views.get(source.table.name.lower())
        return source if view is None else replace(source, table=replace(source.table, name=f"{STAGE}{view}"))
    number = _derived(source.input, stages)
    key, distinct = _declared(source.input)
    table = source.table.plain()
    table = replace(table, name=f"{STAGE}{number}", key=key, distinct=distinct or table.distinct)
    return replace(source, table=table, input=None)


def _derived(relation: Relation, stages: Stages) -> int:
    """Returns the number of the stage of a derived source. A selection from one relation is a stage without state."""
    relation = stages.one(relation)
    if not isinstance(relation, Query):
        return stage_of(relation, stages)
    number = stages.known.get(id(relation))
    if number is None:
        query = with_room(_with_sources, relation, stages)
        found = selection(query)
        number = stages.linear(found) if found is not None else _core(query, stages)
        stages.known[id(relation)] = number
    return number


def _declared(relation: Relation) -> tuple[tuple[str, ...], bool]:
    """Returns the key of a derived relation, and whether its rows are distinct."""
    if isinstance(relation, Query):
        return (), relation.distinct
    if isinstance(relation, Group):
        shown = {expr.value: name for name, expr in relation.outputs if expr.op == "col"}
        known = bool(relation.keys) and all(key in shown for key in relation.keys)
        return tuple(shown[key] for key in relation.keys) if known else (), known or relation.whole
    if isinstance(relation, Top):
        key, distinct = _declared(relation.input)
        kept = set(key) <= {column.name for column in relation.columns}
        return (key if kept else ()), distinct and (not relation.hidden or (bool(key) and kept))
    if isinstance(relation, Over):
        key, distinct = _declared(relation.input)
        there = {column.name for column in relation.shown}
        number = next((one.name for one in relation.functions if one.function == "row_number"), None)
        if number is not None and set(relation.keys) <= there:
            return (*relation.keys, number), True
        kept = bool(key) and set(key) <= there
        return (key if kept else ()), distinct and (kept or not relation.hidden)
    if isinstance(relation, Timed):
        return _declared_of_rows(relation)
    if isinstance(relation, Sliced):
        return tuple(column.name for column in relation.columns), True
    if isinstance(relation, Unnest):
        return (), False
    if isinstance(relation, Fixpoint):
        best = [one.column for one in relation.best]
        key = tuple(column.name for column in relation.columns if column.name not in best) if best else ()
        return key, relation.distinct
    return (), not isinstance(relation.function, int) and relation.function[0] in _SETS


def _declared_of_rows(timed: Timed) -> tuple[tuple[str, ...], bool]:
    """Returns the declared key and distinctness of rows that are valid for a period, if they come from one table."""
    sources = timed.input.sources if isinstance(timed.input, Query) else ()
    if len(sources) != 1 or sources[0].input is not None:
        return (), False
    (source,) = sources
    shown = {column.name.lower() for column in timed.columns}
    key = source.table.key if {name.lower() for name in source.table.key} <= shown else ()
    return key, source.table.distinct and len(timed.columns) == len(source.table.columns)


_SETS = ("distinct", "union", "except", "intersect")


def notes_of(relation: Relation) -> list[str]:
    """Returns the notes of the front-end on a relation and on all relations in it."""
    return list(dict.fromkeys(note for part in walk(relation) if isinstance(part, Query) for note in part.notes))
