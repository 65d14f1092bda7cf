"""The relations of a program of which only some rows are read: the others are dropped as they come in.

What a delete of such a row finds does not matter, so it is not coded, netted or counted. Whether it is dropped depends
on the columns that are read alone, as does what the base tables take for the same tuple: a tuple is dropped always or
never, and what comes and goes of the others stays exact.

All rows are taken where more than these columns decide:

- of a relation with upserts: the row that comes replaces one, whatever it says itself;
- of a relation whose key is enforced: no two rows have the same, whoever reads them;
- of a relation with a window: every row moves its watermark, or counts;
- with ``on_missing="raise"``, and where whole rows are kept for queries to come: the base tables must know all of them.
"""

from __future__ import annotations

from plans.program import Program
from plans.reads import Parts, readers


def selected(program: Program) -> dict[str, frozenset[Parts]]:
    """Returns the relations (in lower case) of which not all rows are read, with the conditions of those who do."""
    whole = {table.name.lower() for table in program.tables if table.by_key}
    return {
        source: frozenset(asked)
        for source, asked in readers(program).items()
        if isinstance(source, str) and source not in whole and all(asked)
    }
