"""Windows before the cells of a program: each is an operator in one cell.

    changes -> the rows that are in (one cell) -> rows that come, go and leave -> the cells of the query

A watermark is the greatest time of all rows, net of what the batch takes back; a count is one of all rows. No cell that
has only some of the rows knows either, and a batch has no moment at which cells could tell one another. So the rows of
a relation with a window go through one cell, which is to them what the one cell of a query without cells would be. What
comes out are net changes of a bag with exact deletes, those of rows whose time is over among them: the query behind
needs no windows, and is cut as if there were none. Late rows are counted there, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plans.plan import passed
from plans.program import Feed, LinearStage, Program
from plans.reads import occurrences, used
from plans.schema import Table
from plans.search.cuts import Role
from plans.search.exchanges import Exchange
from plans.search.shares import Grid


def within(program: Program, whole: bool = False) -> Mapping[str, Exchange]:
    """Returns, by relation in lower case, the round that keeps the rows within each window of a program.

    Its rows are those of the relation, with the columns that the program reads, or, if ``whole``, with all of them.
    """
    atoms, found = occurrences(program), {}
    for window in program.windows:
        table = program.table(window.relation)
        columns = table.columns if whole else used(table, atoms)
        # Without its key, whose columns need not be among them; what is NOT NULL stays so.
        kept = Table(table.name, tuple(replace(c, required=table.required(c.name)) for c in columns))
        rows = LinearStage((Feed(kept.name, passed(kept.columns)),))
        made = Program(f"the rows of {kept.name} within {window}", (kept,), (rows,), windows=(window,))
        found[kept.name.lower()] = Exchange(made, Grid(), {kept.name: Role(kept.name)})
    return found
