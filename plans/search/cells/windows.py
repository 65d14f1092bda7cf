"""Windows before the cells of a program: each window is an operator in one cell.

    changes -> the rows that are within (one cell) -> rows that enter, leave and expire -> the cells of the query

A watermark is the greatest time of all rows, net of the deletes of the batch; a count is over all rows. A cell with
only some of the rows knows neither, and within a batch cells cannot exchange them. So the rows of a relation with a
window pass through one cell, which treats them as the only cell of a query does. Its outputs are net changes of a bag
with exact deletes, including those of expired rows. The query behind it needs no windows, and is cut as if there were
none. Late rows are counted in this cell, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from plans.plan import passed
from plans.program import Program
from plans.programs.reads import occurrences, used
from plans.programs.stages import Feed, LinearStage
from plans.schema import Table
from plans.search.cells.cuts import Role
from plans.search.cells.exchanges import Exchange
from plans.search.cells.shares import Grid


def within(program: Program, whole: bool = False) -> Mapping[str, Exchange]:
    """Returns, by relation in lower case, the round that keeps the rows within each window of a program.

    The rows of a round have the columns that the program reads, or, if ``whole``, all columns of the relation.
    """
    atoms, found = occurrences(program), {}
    for window in program.windows:
        table = program.table(window.relation)
        columns = table.columns if whole else used(table, atoms)
        # The key is dropped, because its columns may be missing. NOT NULL columns stay NOT NULL.
        kept = Table(table.name, tuple(replace(c, required=table.required(c.name)) for c in columns))
        rows = LinearStage((Feed(kept.name, passed(kept.columns)),))
        made = Program(f"the rows of {kept.name} within {window}", (kept,), (rows,), windows=(window,))
        found[kept.name.lower()] = Exchange(made, Grid(), {kept.name: Role(kept.name)})
    return found
