"""The engine of a cell: created, attached from its file, or restored from a snapshot.

Rows that no stage reads are dropped before the shuffle. A cell of several stages stores every row that reaches it: the
relations of its program may be roles of one base relation, and each role must be able to find the rows. A cell of one
join drops rows that it does not read, because its relations are the base relations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crown.errors import SnapshotError
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans.program import Program


def created(program: Program, path: Path | None, on_missing: str) -> ProgramEngine:
    """Returns a new, empty engine, in the file ``path`` or in memory."""
    return ProgramEngine.create(program, path, on_missing=on_missing, selecting=program.only_join is not None)


def attached(program: Program, path: Path, on_missing: str) -> ProgramEngine:
    """Returns the engine in the file ``path``. O(1).

    Raises ``SnapshotError`` or ``FileNotFoundError`` if there is none.
    """
    return ProgramEngine.attach(program, path, on_missing=on_missing, selecting=program.only_join is not None)


def loaded(source: Path, program: Program, path: Path | None, on_missing: str) -> tuple[ProgramEngine, dict[str, Any]]:
    """Returns the engine of a snapshot, in the file ``path`` or in memory, and the data that was saved with it.

    Raises ``SnapshotError`` if the snapshot is damaged or of another program.
    """
    engine, extra = snapshot.load(source, path)
    assert isinstance(engine, ProgramEngine), "the state of several cells is not kept in a file"
    if engine.fingerprint != program.fingerprint:
        raise SnapshotError(f"{source} holds the state of another query; use a fresh path for the changed query")
    for kept in engine.plan.tables:
        if [column.name for column in program.table(kept.name).columns] != [column.name for column in kept.columns]:
            order = ", ".join(column.name for column in kept.columns)
            raise SnapshotError(
                f"{source} has the columns of relation {kept.name!r} in the order {order}, by which rows are stored; "
                "declare them in that order (schema=)"
            )
    if engine.on_missing != on_missing:
        raise SnapshotError(
            f'{source} was kept with on_missing="{engine.on_missing}", which decides what is stored; go on with that, '
            "or give the stream another checkpoint"
        )
    return engine, extra
