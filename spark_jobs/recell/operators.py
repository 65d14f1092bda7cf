"""The operators of a job's query that are recut, with their cells before and after.

The query's own operator is the first round; ``.merge`` is the second, if there is one. ``.keys.*`` store the rows of
relations that are looked up by key, for an update or because the key is enforced. ``.window.*`` are the windows of a
query with several cells; a query with one cell has its windows in that cell. All operators are at the same batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crown.programs.program import ProgramEngine
from plans.search.cells.exchanges import Exchange, rounds, rounds_along
from plans.search.cells.shares import Grid
from spark_jobs.cell.engines import rebuilt
from spark_jobs.cell.kept_plan import NAME as PLAN
from spark_jobs.cell.kept_plan import KeptPlan, kept_plan
from spark_jobs.dispatch.chain import MERGE, ExchangeStep, strides
from spark_jobs.dispatch.keys import KEYS, WITHIN, by_key, strides_within
from spark_jobs.errors import ANEW, CheckpointError
from spark_jobs.log.history import SparkHistory, reconcile, stream_of
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_location import Whereabouts
from spark_jobs.log.state_log import EMPTY, CellLog, cell_folders
from spark_jobs.storage.folder import Folder


@dataclass(frozen=True)
class Old:
    """An existing operator: its folder, its ``meta.json``, the program of its cells, and its round."""

    folder: Folder
    meta: dict[str, Any]
    kept: KeptPlan
    round: Exchange
    batch: int

    def load(self, note: Callable[[str], None]) -> Callable[[int], ProgramEngine]:
        """Returns a function that loads the engine of a cell. It passes to ``note`` the digest with which the cell's
        history ends, and the digests of later batches.
        """
        backfill = self.folder.parent.parent / "backfill" / self.folder.name

        def loaded(cell: int) -> ProgramEngine:
            log = CellLog.of(self.folder / str(cell), self.meta)
            engine, digest = rebuilt(log, self.kept, self.batch, backfill if cell_folders(backfill) else None)
            note(digest)
            for later in log.batches():
                if later > self.batch:
                    note(log.digest(later))
            return engine

        return loaded


@dataclass(frozen=True)
class Job:
    """A stopped job: the old and the new rounds of its query, and the old and the new operators that store rows by key.

    ``batch``: the newest one that Spark has committed, or ``EMPTY``; then there is nothing to cut, and ``old`` has only
    the first round. ``was_within``, ``within``: the old and the new operators that are windows, by relation in lower
    case.
    """

    stream: str
    batch: int
    old: tuple[Old, ...]
    new: tuple[ExchangeStep, ...]
    keys: tuple[tuple[Old, ExchangeStep], ...]
    was_within: Mapping[str, Old] = field(default_factory=dict)
    within: Mapping[str, ExchangeStep] = field(default_factory=dict)


def job_of(where: Whereabouts, cells: int) -> Job:
    """Returns the job on a checkpoint, to be cut into ``cells`` cells.

    Raises :class:`CheckpointError` if the job cannot be recut, ``PlanError`` if the query cannot be.
    """
    stream = stream_of(where.checkpoint)
    if stream is None:
        raise CheckpointError(
            f"{where.checkpoint} has no checkpoint of Spark, so it is not known whether its last batch was committed: "
            "give the checkpoint of the job, which contains Spark's"
        )
    found = {name: read_meta(where.root / stream / name) for name in sorted((where.root / stream).folders())}
    metas = {name: meta for name, meta in found.items() if meta is not None}
    first = [name for name in metas if not name.endswith(MERGE) and KEYS not in name and WITHIN not in name]
    if len(first) != 1:
        problem = f"has {len(first)} queries ({', '.join(first)})" if first else "has no state of a query"
        raise CheckpointError(
            f"{where.checkpoint} {problem}: only the state of one query can be cut into another number of cells"
        )
    batch = _settled(where, stream, metas)
    name, meta = first[0], metas[first[0]]
    folder = where.root / stream / name
    if meta["cells"] == cells:
        raise CheckpointError(f"the state in {folder} is cut into {cells} {_cells(cells)} already")
    kept = kept_plan(folder, meta["fingerprint"])
    whole = kept.whole
    if whole is None:
        raise CheckpointError(f"{folder} does not show which query was cut into its cells: restore {PLAN} from a copy")
    old, new = rounds_along(whole, Grid.from_json(meta["grid"])), rounds(whole, cells)
    common = {"root": str(where.root), "scratch": None, "keep": 0, "run": "", "query": meta["query"]}
    common |= {"fingerprint": meta["fingerprint"], "on_missing": kept.on_missing}

    def cut(made: Any, operator: str, text: str | None, **own: Any) -> tuple[ExchangeStep, ...]:
        return strides(made, operator=operator, whole=text, **{**common, **own})

    def as_it_is(stride: ExchangeStep) -> Old:
        operator = stride.step.operator
        return _old(where.root / stream / operator, stride, metas.get(operator), batch)

    text, begun = json.dumps(whole.to_json()), batch != EMPTY
    strides_before = cut(old, name, text)
    return Job(
        stream,
        batch,
        tuple(as_it_is(stride) for stride in (strides_before if begun else strides_before[:1])),
        cut(new, name, text),
        tuple(_keyed(where.root / stream / other, metas[other], cells, batch, cut) for other in metas if KEYS in other),
        {
            relation: as_it_is(stride)
            for relation, stride in strides_within(whole, old, name, **common).items()
            if begun
        },
        strides_within(whole, new, name, **common),
    )


def _settled(where: Whereabouts, stream: str, metas: dict[str, dict[str, Any]]) -> int:
    """Returns the newest batch that Spark has committed; ``EMPTY`` if there is none. Raises unless all cells have it.

    A batch that was begun and not committed (it was refused, or the job was killed) is executed again by the new cells,
    even if the old cells have parts of it.
    """
    spark = SparkHistory(where.checkpoint)
    committed, begun = spark.committed(), spark.begun()
    newest = {}
    for name, meta in metas.items():
        reconcile(where.checkpoint, stream, name, where.root)
        for cell in range(meta["cells"]):
            batches, snapshots = CellLog.of(where.root / stream / name / str(cell), meta).listed()
            whole = [version for version in (*batches, *snapshots) if version <= committed or begun <= committed]
            newest[f"{name}/{cell}"] = max(whole, default=EMPTY)
    batch = max(newest.values())
    if batch < 0 and (where.root / "backfill").folders():
        cells = max(meta["cells"] for meta in metas.values())
        raise CheckpointError(
            f"{where.checkpoint} has the rows of bulk_load(), and no batch yet: start the job with cells={cells}, let "
            "it finish a batch, stop it, then change the number of cells"
        )
    if batch < 0:
        return EMPTY
    lagging = [cell for cell, version in newest.items() if version != batch]
    if lagging:
        raise CheckpointError(
            f"cell {lagging[0]} is at batch {newest[lagging[0]]}, and others are at {batch}: start the job again, let "
            "it finish a batch, stop it, then change the number of cells"
        )
    return batch


def _old(folder: Folder, stride: ExchangeStep, meta: dict[str, Any] | None, batch: int) -> Old:
    """Returns an existing operator. Raises if this version would cut it differently."""
    if meta is None:
        raise CheckpointError(f"{folder} is missing, and holds a part of the query's state: restore it from a copy")
    if meta["fingerprint"] != stride.step.fingerprint or meta["grid"] != stride.step.meta["grid"]:
        raise CheckpointError(
            f"the state in {folder} is partitioned by {meta['grid']}, and this version of crown partitions it "
            f"differently: use the version that wrote it, or {ANEW}"
        )
    return Old(folder, meta, kept_plan(folder, meta["fingerprint"]), stride.round, batch)


def _keyed(folder: Folder, meta: dict[str, Any], cells: int, batch: int, cut: Any) -> tuple[Old, ExchangeStep]:
    kept = kept_plan(folder, meta["fingerprint"])
    (table,) = kept.program.tables
    shown = [column.name for column in kept.program.output]
    own = {"fingerprint": meta["fingerprint"], "query": meta["query"]}
    (before,) = cut((by_key(table, shown, meta["cells"]),), folder.name, None, **own)
    (after,) = cut((by_key(table, shown, cells),), folder.name, None, **own)
    return _old(folder, before, meta, batch), after


def _cells(cells: int) -> str:
    return "cell" if cells == 1 else "cells"
