"""Relations with upserts or an enforced key: an operator of their own, cut by the key, turns changes into deletes and
inserts.

    changes by key → cells by key → rows with weights → the cells of the query

The query's cells are cut by join columns, which an update may change. Then the old row is in one cell and the new row
belongs to another, and the change does not contain the old join columns. Cut by the key, all changes of a row meet in
one cell, which stores the row. The output of that cell is the net change of a set, so the query's cells receive exact
deletes in any order. In the same way two rows with one key may belong to two cells of the query, and meet only here.
The cost is one more shuffle of the changes and one more log.

Relations with windows, where the query has several cells, pass through an operator of their own, in one cell.

    changes → the window → inserted, deleted and expired rows → the cells of the query

``plans.search.cells.windows`` explains why it has one cell. The cost is one more shuffle of the changes and one more
log. A query in one cell has its windows in that cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from plans.plan import passed
from plans.program import Program
from plans.programs.reads import occurrences, used
from plans.programs.stages import Feed, LinearStage
from plans.schema import Table
from plans.search.cells.cuts import Role
from plans.search.cells.exchanges import Exchange
from plans.search.cells.shares import Grid
from plans.search.cells.windows import within
from spark_jobs.dispatch.chain import ExchangeStep, strides, words_of
from spark_jobs.errors import SourceError

KEYS = ".keys."
"""Stands in an operator's name between the name of the query's operator and the relation whose rows it stores by
key.
"""


def by_key(table: Table, shown: Iterable[str], cells: int) -> Exchange:
    """Returns the round that stores the rows of a table by key, and delivers their columns ``shown``."""
    key = table.told_apart_by
    hashed = tuple((column.name, column.type) for column in table.columns if column.name in key)
    names = set(shown)
    rows = LinearStage((Feed(table.name, passed(c for c in table.columns if c.name in names)),))
    program = Program(f"the rows of {table.name} by key ({', '.join(key)})", (table,), (rows,))
    grid = Grid() if cells == 1 else Grid((" and ".join(key),), (cells,))
    return Exchange(program, grid, {table.name: Role(table.name, hashed)})


def strides_by_key(maintained: Program, cells: int, operator: str, **common: Any) -> Mapping[str, ExchangeStep]:
    """Returns, by relation in lower case, the operators in front of a program for relations that are looked up by key.

    ``common``: as for ``strides``. Raises :class:`SourceError` for a relation with upserts that has no sequence.
    """
    found, tables = {}, [table for table in maintained.tables if table.by_key]
    words = words_of(table.name for table in tables)
    for table in tables:
        if table.upserts and table.sequence is None:
            raise SourceError(
                f"relation {table.name!r} has upserts, and the rows of a Spark batch have no order: declare sequence=, "
                "a column that grows with the changes of a key (a version, a time, Kafka's offset)"
            )
        named = {name.lower() for name in (*table.named_by, *table.told_apart_by)}
        read = used(table, occurrences(maintained))
        carried = tuple(c for c in table.columns if c in read or c.name.lower() in named)
        told = {name.lower() for name in table.told_apart_by}  # a sequence that no stage reads changes no row
        shown = [c.name for c in carried if c in read or c.name.lower() in told]
        kept = by_key(replace(table, columns=carried), shown, cells)
        name = operator + KEYS + words[table.name.lower()]
        common["fingerprint"] = kept.maintained.fingerprint
        common["query"] = kept.maintained.query
        (found[table.name.lower()],) = strides((kept,), operator=name, **common)
    return found


WITHIN = ".window."
"""Stands in an operator's name between the name of the query's operator and the relation of the window."""


def strides_within(
    maintained: Program, rounds: Sequence[Exchange], operator: str, **common: Any
) -> Mapping[str, ExchangeStep]:
    """Returns, by relation in lower case, the operators in front of a program for its relations with windows.

    ``rounds``: the rounds of the query. They have no windows themselves if these operators exist. ``common``: as for
    ``strides``.
    """
    if rounds[0].maintained.windows:
        return {}
    found, windows = {}, within(maintained, common["on_missing"] == "raise")
    words = words_of(windows)
    for relation, kept in windows.items():
        name = operator + WITHIN + words[relation]
        own = {"fingerprint": kept.maintained.fingerprint, "query": kept.maintained.query}
        (found[relation],) = strides((kept,), operator=name, **{**common, **own})
    return found
