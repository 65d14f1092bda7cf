"""The wiring of a program: the form of the rows of each base relation and stage, and its readers.

An engine decides none of this. The columns and rows that are read of a relation, the conditions that all rows of a
source satisfy, and whether a batch may contain equal rows of it several times follow from the program, and from whether
deletes are trusted to find their rows.

If only some rows of a relation are read, the others are dropped on arrival. Whether a delete of such a row finds it is
irrelevant, so the row is not coded, netted or counted. Whether a row is dropped depends only on the columns that are
read, as does its identity in the base tables. So a tuple is dropped always or never, and the inserts and deletes of the
others stay exact. All rows are read if more than these columns decide:

- of a relation with upserts: an upsert replaces a row, whatever its own values are;
- of a relation whose key is enforced: the key is unique among all rows;
- of a relation with a window: every row moves its watermark, or counts;
- with ``on_missing="raise"``, and if whole rows are kept for later queries: the base tables must store all rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from plans.program import Program
from plans.programs.reads import Parts, holding, key_of, occurrences, only_read_by, readers, sources
from plans.programs.stages import BandStage, Feed, GroupStage, JoinStage, LinearStage, Stage, outputs_of
from plans.programs.stored_relations import stored_relations
from plans.schema import Column


@dataclass(frozen=True)
class Wire:
    """The rows that are passed from a base relation or a stage to its readers.

    ``columns``: those of the rows; of a base relation, those that some stage reads. ``conditions``: of a base relation,
    only rows that satisfy one of these sets of conditions are read; every row if there are none. ``known``: conditions
    that all rows satisfy. ``may_repeat``: the changes need not be net, because the readers net them or add them up.
    ``read_again``: the result is read from these rows, so a base relation is stored even if deletes are trusted to find
    their rows.
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
    """Returns the wires between the parts of a program.

    ``on_missing``: the effect of a delete of an absent row; with ``"trust"`` the row is not looked up. ``selecting``:
    rows that no stage reads are dropped where possible. ``whole``: all columns of the relations are read. ``cells``:
    joins run in several cells, each of which reads its part of a net.
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
    """Returns a stage whose feeds have no condition that is known to hold for all rows of their sources."""
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
    """Returns, for each base relation (in lower case), the columns that some stage reads, in the order of the table.

    If ``whole``, returns all columns that have a type. The key columns of a table with upserts, or with an enforced
    key, are always included.
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
    """Returns the relations (in lower case) of which some rows are not read, with the conditions of their readers."""
    whole = {table.name.lower() for table in program.tables if table.by_key}
    return {
        source: frozenset(asked)
        for source, asked in readers(program).items()
        if isinstance(source, str) and source not in whole and all(asked)
    }


SUMMING = (GroupStage, JoinStage)
"""Stages that accept rows of other stages that are not net: groups add them up, and joins net them."""


def added_relations(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) whose rows need not be net: their readers are groups, which add them up, or
    linear stages whose own rows need not be net either."""
    readers: dict[str, set[bool]] = {}
    for number, stage in enumerate(program.stages):
        passing = isinstance(stage, LinearStage) and only_read_by(program, number, SUMMING)
        for source in sources(stage):
            if isinstance(source, str):
                readers.setdefault(source.lower(), set()).add(passing or isinstance(stage, GroupStage))
    return frozenset(name for name, found in readers.items() if found == {True})


def netted_by_joins(program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) that a single join stage reads, as one stored relation. The join nets their
    changes, so no stage before it must. Relations with an enforced key are excluded, because their net changes are
    checked."""
    found: set[str] = set()
    for stage in program.stages:
        if isinstance(stage, JoinStage) and stage.plan.count is None:
            stored = Counter(relation.name.lower() for relation in stored_relations(stage.plan))
            found |= {name for name, times in stored.items() if times == 1}
    reads = Counter(s.lower() for stage in program.stages for s in sources(stage) if isinstance(s, str))
    return frozenset(t.name.lower() for t in program.tables if not t.by_key and reads[t.name.lower()] == 1) & found


def _read_again(program: Program) -> frozenset[str]:
    """Returns the relations that are read again when a result is read: those below a last stage without state."""
    last = [len(program.stages) - 1] if program.results is None else [result.stage for result in program.results]
    found, todo = set(), [program.stages[number] for number in last]
    while todo:
        stage = todo.pop()
        if isinstance(stage, LinearStage):
            found |= {term.source.lower() for term in stage.terms if isinstance(term.source, str)}
            todo += [program.stages[term.source] for term in stage.terms if isinstance(term.source, int)]
    return frozenset(found)
