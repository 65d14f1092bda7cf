"""The wiring of a program: the form of the rows of each base relation and stage, and its readers.

An engine decides nothing of this itself. Which columns and rows of a relation are read, what is known of all rows of a
source, and whether equal rows of it may stand apart follows from the program and from what deletes may be trusted to
find.

Where only some rows of a relation are read, the others are dropped as they come in. What a delete of such a row finds
does not matter, so it is not coded, netted or counted. Whether it is dropped depends on the columns that are read
alone, as does what the base tables take for the same tuple: a tuple is dropped always or never, and what is inserted
and deleted of the others stays exact. All rows are taken where more than these columns decide:

- of a relation with upserts: an upsert replaces a row, whatever it says itself;
- of a relation whose key is enforced: no two rows have the same, for every reader;
- of a relation with a window: every row moves its watermark, or counts;
- with ``on_missing="raise"``, and where whole rows are kept for queries to come: the base tables must know all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from plans.program import BandStage, Feed, GroupStage, JoinStage, LinearStage, Program, Stage, outputs_of
from plans.reads import Parts, holding, key_of, occurrences, only_read_by, readers, sources
from plans.schema import Column
from plans.stored_relations import stored_relations


@dataclass(frozen=True)
class Wire:
    """What goes from a base relation, or from a stage, to those who read it.

    ``columns``: those of its rows; of a base relation, those that some stage reads. ``conditions``: of a base relation,
    a row is taken that meets all parts of one of these; every row if there are none. ``known``: conditions that all
    rows meet. ``may_repeat``: its changes need not be net, because those who read them net them or add them up.
    ``read_again``: the result is read from its rows, so a base relation is kept whatever deletes are trusted to find.
    """

    columns: tuple[Column, ...]
    conditions: frozenset[Parts] = frozenset()
    known: Parts = frozenset()
    may_repeat: bool = False
    read_again: bool = False


Wires = Mapping[str | int, Wire]
"""By source: a base relation (in lower case), or the number of a stage."""


def wiring(
    program: Program, on_missing: str = "ignore", *, selecting: bool = True, whole: bool = False, cells: bool = False
) -> dict[str | int, Wire]:
    """Returns what goes between the parts of a program.

    ``on_missing``: what a delete does that finds no row; with ``"trust"`` it is not looked for. ``selecting``: rows
    that no stage reads are dropped, where that may be. ``whole``: all columns of the relations are taken, whatever
    reads them. ``cells``: joins run in several cells, each of which takes its part of a net.
    """
    every = whole or program.whole or on_missing == "raise"
    used = used_columns(program, every)
    chosen = _selected(program) if selecting and not every else {}
    known, again = holding(program, chosen), _read_again(program)
    repeating = frozenset[str]()
    if on_missing == "trust":
        repeating = added_relations(program) | (frozenset() if cells else netted_by_joins(program))
    wires: dict[str | int, Wire] = {
        name: Wire(
            columns, chosen.get(name, frozenset()), known.get(name, frozenset()), name in repeating, name in again
        )
        for name, columns in used.items()
    }
    for number, stage in enumerate(program.stages):
        columns = tuple(Column(output.name, output.type) for output in outputs_of(stage))
        adding = SUMMING if isinstance(stage, LinearStage) else (GroupStage,)
        wires[number] = Wire(
            columns,
            known=known.get(number, frozenset()),
            may_repeat=isinstance(stage, (LinearStage, JoinStage, BandStage)) and only_read_by(program, number, adding),
        )
    return wires


def without_known(stage: Stage, wires: Wires) -> Stage:
    """Returns a stage whose feeds have no condition that all rows of their sources are known to meet."""
    if isinstance(stage, LinearStage):
        return replace(stage, terms=tuple(_without_known(term, wires) for term in stage.terms))
    if isinstance(stage, GroupStage):
        values = tuple(_without_known(feed, wires) for feed in stage.values)
        return replace(stage, feed=_without_known(stage.feed, wires), values=values)
    return stage


def _without_known(feed: Feed, wires: Wires) -> Feed:
    met = feed.where is not None and wires[key_of(feed.source)].known.issuperset(feed.where.conjuncts())
    return replace(feed, where=None) if met else feed


def used_columns(program: Program, whole: bool) -> dict[str, tuple[Column, ...]]:
    """Returns per base relation (in lower case) the columns that some stage reads, in the order of the table.

    If ``whole``, all of them that have a type. Of a table with upserts, or an enforced key, those of the key are read
    in any case.
    """
    tables = {table.name.lower(): table for table in program.tables}
    used: dict[str, set[str]] = {name: set() for name in tables}
    for atom in occurrences(program):
        read = () if atom.predicate is None else atom.predicate.columns
        used[atom.relation.lower()] |= {name.lower() for name in (*atom.columns, *read)}
    for stage in program.stages:
        if isinstance(stage, JoinStage) and stage.masks is not None:
            for table in stage.plan.tables:
                used[table.name.lower()].add(stage.masks.lower())
    for name, table in tables.items():
        if table.by_key:
            used[name] |= {column.lower() for column in table.told_apart_by}
        if whole:
            used[name] |= {column.lower() for column in table.typed}
    return {name: tuple(c for c in table.columns if c.name.lower() in used[name]) for name, table in tables.items()}


def _selected(program: Program) -> dict[str, frozenset[Parts]]:
    """Returns the relations (in lower case) of which not all rows are read, with the conditions of those who do."""
    whole = {table.name.lower() for table in program.tables if table.by_key}
    return {
        source: frozenset(asked)
        for source, asked in readers(program).items()
        if isinstance(source, str) and source not in whole and all(asked)
    }


SUMMING = (GroupStage, JoinStage)
"""Stages that take rows of other stages as they come: groups add them up, and joins net them."""


def added_relations(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) whose rows need not be net: groups alone read them, which add them up, or
    linear stages whose own rows need not be net either."""
    readers: dict[str, set[bool]] = {}
    for number, stage in enumerate(program.stages):
        passing = isinstance(stage, LinearStage) and only_read_by(program, number, SUMMING)
        for source in sources(stage):
            if isinstance(source, str):
                readers.setdefault(source.lower(), set()).add(passing or isinstance(stage, GroupStage))
    return frozenset(name for name, found in readers.items() if found == {True})


def netted_by_joins(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) that one join stage alone reads, as one stored relation: it nets what it
    takes of them, so no stage before it has to. None with an enforced key, whose nets are looked at."""
    found: set[str] = set()
    for stage in program.stages:
        if isinstance(stage, JoinStage) and stage.plan.count is None:
            stored = Counter(relation.name.lower() for relation in stored_relations(stage.plan))
            found |= {name for name, times in stored.items() if times == 1}
    reads = Counter(s.lower() for stage in program.stages for s in sources(stage) if isinstance(s, str))
    return frozenset(t.name.lower() for t in program.tables if not t.by_key and reads[t.name.lower()] == 1) & found


def _read_again(program: Program) -> frozenset[str]:
    """Returns the relations that are read again when a result is: those of a last stage without memory."""
    last = [len(program.stages) - 1] if program.results is None else [result.stage for result in program.results]
    found, todo = set(), [program.stages[number] for number in last]
    while todo:
        stage = todo.pop()
        if isinstance(stage, LinearStage):
            found |= {term.source.lower() for term in stage.terms if isinstance(term.source, str)}
            todo += [program.stages[term.source] for term in stage.terms if isinstance(term.source, int)]
    return frozenset(found)
