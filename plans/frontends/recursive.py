"""Recursions, for all query languages: first rows, and steps that derive rows from those that are there.

A step is a join core that reads rows of the recursion as a table. Relations that read each other are one recursion. Its
rows say in the column `relation` of which of them they are, and relations share the other columns as far as the types
are the same. A step reads the rows of one relation, and so does everything outside of the recursion.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.frontends.branches import balanced
from plans.programs.frames import Order
from plans.queries.algebra import Fixpoint, Group, Query, Relation, SetOperation, Source, bases, unused
from plans.schema import Column, Table

_NUMBER = "relation"


@dataclass(frozen=True)
class Member:
    """A relation of a recursion: its rows, as steps read them; the relation of its first rows, if it has any; and its
    steps, each with its sources that are rows of the recursion (`readings`).

    `best`: the column of which only the least (`min`) or the greatest (`max`) value is there, and the columns that have
    the values of its row, the least ones of several rows (`plans.programs.stages.FixpointStage`). All members that have
    some have the same `function`, and values of the same types.
    """

    rows: Table
    first: Relation | None
    steps: Sequence[tuple[Query, Sequence[Source]]]
    best: tuple[int, ...] = ()
    function: str = ""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Returns the columns that have names in the query: without the stamp."""
        return self.rows.columns[: len(self.rows.columns) - self.rows.distinct]

    def order(self, columns: Sequence[Column]) -> tuple[Order, ...]:
        """Returns the order in which the best row is first, where its values are in these `columns`."""
        return tuple(
            Order(columns[place].name, falling=i == 0 and self.function == "max", nulls_last=True)
            for i, place in enumerate(self.best)
        )


def rows_of(name: str, columns: Sequence[Column], distinct: bool, taken: Iterable[str] = ()) -> Table:
    """Returns the table of the rows of a relation, for the steps that read it. ``taken``: names of other tables."""
    stamp = [Column(unused("stamp", [column.name for column in columns]), "int64")] if distinct else []
    return Table(unused(name, taken), (*columns, *stamp), distinct=distinct)


def components(reads: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the names of relations, those that read each other together, after those that they read. `reads`: of
    each relation, the relations that it reads."""
    reached = {name: _reached(name, reads) for name in reads}
    order = sorted(reads, key=lambda name: len(reached[name]))  # who reads others reaches all that they reach, and more
    found: dict[str, list[str]] = {}
    for name in order:
        first = next((one for one in found if name in reached[one] and one in reached[name]), name)
        found.setdefault(first, []).append(name)
    return list(found.values())


def _reached(name: str, reads: Mapping[str, Iterable[str]]) -> set[str]:
    found, todo = {name}, [name]
    while todo:
        new = set(reads[todo.pop()]) - found
        found |= new
        todo += new
    return found


def circle(start: str, end: str, reads: Mapping[str, Iterable[str]]) -> list[str]:
    """Returns a shortest list of relations, each of which reads the next one, from `start` to `end`, which reads
    `start` in turn."""
    ways = [[start]]
    for way in ways:
        if way[-1] == end:
            return way
        ways += [[*way, one] for one in reads[way[-1]] if all(one not in other for other in ways)]
    raise AssertionError("the relations are in a circle")


def readings(step: Relation, rows: Sequence[Table], name: str) -> list[Source] | tuple[str, str]:
    """Returns the sources of a step that are rows of its recursion, or why the relation cannot be a step, and what to
    do about it. ``rows``: of the relations of the recursion, first of the step's own, whose name is ``name``."""
    mine = [source for source in step.sources if source.table in rows] if isinstance(step, Query) else []
    read = [source.table for source in bases(step) if source.table in rows]
    other = next((table.name for table in read if table != rows[0]), "")
    what = f"{other}, which reads {name} in turn," if other else "itself"
    if not isinstance(step, Query) or len(mine) < len(read):
        hint = "a step joins rows and selects from them; aggregate, order or number rows outside of the recursion"
        if isinstance(step, Group) and step.keys and all(call.function in ("min", "max") for call in step.aggregates):
            grouped = "SELECT key, MIN(value) FROM (first rows UNION ALL steps) GROUP BY key"
            hint = f"group the whole recursion: {name} AS ({grouped})"
        return f"{name} reads {what} in a query that is more than a join", hint
    tested = next((source.table for source in mine if source.group or source.join != "inner"), None)
    if tested is not None:
        which = name if tested == rows[0] else tested.name
        hint = f"join {which}, so that each row of it gives rows; in an outer join, on the side whose rows all stay"
        has = "it has a row itself" if which == name else f"{which}, which reads {name} in turn, has a row"
        return f"{name} tests whether {has}", hint
    if not rows[0].distinct and (len(mine) > 1 or step.distinct):
        twice = "it" if len(rows) == 1 else "the recursion"
        what = f"a step that reads {twice} more than once" if len(mine) > 1 else "a step with DISTINCT"
        return f"{name} has UNION ALL and {what}", "write UNION instead of UNION ALL"
    return mine


def recursion(members: Sequence[Member]) -> list[Relation]:
    """Returns the relation of each member of a recursion: of one that reads itself, or of several that read each
    other."""
    if len(members) > 1:
        return _together(members)
    (one,) = members
    return [Fixpoint(one.rows, _sum(list(_derivations(one))), one.rows.distinct, one.order(one.columns))]


def _derivations(member: Member) -> Iterator[Query]:
    """Yields queries that derive the rows of a member, with the columns of the rows."""
    if member.first is not None:
        source = Source("first_rows", Table("first_rows", member.first.columns), input=member.first)
        pairs = zip(member.columns, member.first.columns, strict=True)
        outputs = [(one.name, cast(source.qualified(old.name), one.type)) for one, old in pairs]
        yield Query(member.first.text, (source,), (), _with_stamp(outputs, [], member.rows), False)
    for step, mine in member.steps:
        pairs_of_step = zip(member.columns, step.outputs, strict=True)
        given = [(one.name, cast(expr, one.type)) for one, (_, expr) in pairs_of_step]
        stamps = [source.qualified(source.table.columns[-1].name) for source in mine]
        # What is derived twice is counted twice: with the stamp among its outputs, a set would count it a second time.
        yield replace(step, outputs=_with_stamp(given, stamps, member.rows), distinct=False)


def _with_stamp(
    outputs: Sequence[tuple[str, Expr]], stamps: Sequence[Expr], rows: Table
) -> tuple[tuple[str, Expr], ...]:
    """Returns outputs with the greatest of some stamps, or 0, as the last one, if the rows have stamps."""
    if not rows.distinct:
        return tuple(outputs)
    greatest = call("greatest", *stamps) if len(stamps) > 1 else stamps[0] if stamps else cast(lit(0), "int64")
    return (*outputs, (rows.columns[-1].name, greatest))


def _sum(queries: Sequence[Query]) -> Relation:
    return SetOperation(tuple(queries), balanced("union_all", range(len(queries))))


def _together(members: Sequence[Member]) -> list[Relation]:
    """Returns the relation of each member of a recursion of several: those of its rows that have the number of the
    member."""
    columns, places = _shared(members)
    distinct, text = members[0].rows.distinct, members[0].steps[0][0].text
    rows = rows_of(", ".join(one.rows.name for one in members), (Column(_NUMBER, "int32"), *columns), distinct)
    stamp = rows.columns[1 + len(columns) :]

    def of_member(number: int, source: Source, shown: Iterable[Column], places: Sequence[Column]) -> Query:
        outputs = tuple((one.name, source.qualified(place.name)) for one, place in zip(shown, places, strict=True))
        return Query(text, (source,), (call("eq", source.qualified(_NUMBER), lit(number)),), outputs, False)

    numbered = list(enumerate(zip(members, places, strict=True), 1))
    read = Source("rows", rows)
    inputs = {
        one.rows: of_member(number, read, one.rows.columns, [*place, *stamp]) for number, (one, place) in numbered
    }
    body: list[Query] = []
    for number, (one, place) in numbered:
        for query in _derivations(one):
            given = dict(zip((*place, *stamp), (expr for _, expr in query.outputs), strict=True))
            values = [given.get(column, cast(NULL, column.type)) for column in (*columns, *stamp)]
            values = [cast(lit(number), "int32"), *values]
            outputs = tuple((column.name, value) for column, value in zip(rows.columns, values, strict=True))
            sources = tuple(replace(each, input=inputs.get(each.table, each.input)) for each in query.sources)
            body.append(replace(query, sources=sources, outputs=outputs))
    best = next((one.order(place) for one, place in zip(members, places, strict=True) if one.best), ())
    whole = Fixpoint(rows, _sum(body), distinct, best)
    source = Source("recursion", Table("recursion", whole.columns, distinct=distinct), input=whole)
    return [of_member(number, source, one.columns, place) for number, (one, place) in numbered]


def _shared(members: Sequence[Member]) -> tuple[list[Column], list[list[Column]]]:
    """Returns columns that members share, and those that each member has of them. Values of which only the best is
    there share a column."""
    columns: dict[tuple[str, int, int], Column] = {}
    places: list[list[Column]] = []
    for one in members:
        uses = Counter[tuple[str, int]]()
        places.append([])
        for i, column in enumerate(one.columns):
            kind = column.type, one.best.index(i) if i in one.best else -1
            places[-1].append(columns.setdefault((*kind, uses[kind]), Column(f"c{len(columns)}", column.type)))
            uses[kind] += 1
    return list(columns.values()), places
