"""``crown state --recell``: cuts the state of a stopped job into another number of cells.

    old cells → base rows, each once → new cells → their snapshots in a folder of their own → the current state

The old state is read and never written. The new state is written beside it, read back, and compared: its results must
equal the old ones in number and checksum. Then one write (``log.state_location.make_current``) makes it the current
state. An error before that write leaves the old state as it was, and a folder that is ignored.

The new cells begin with a snapshot of the last batch that Spark committed, so they continue with the next batch. Their
live engines are made from the snapshot: live engines of the old cells are disowned.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from crown.durable.files import sync
from crown.ingest.tables.columns import WEIGHT
from crown.programs.program import ProgramEngine
from plans.program import Program
from plans.programs.wiring import used_columns
from plans.search.cells.exchanges import Exchange
from spark_jobs.cell.engines import created, rebuilt
from spark_jobs.cell.kept_plan import keep_plan, kept_plan
from spark_jobs.cell.step import Step
from spark_jobs.dispatch.chain import ExchangeStep
from spark_jobs.dispatch.hashing import xxhash64
from spark_jobs.dispatch.placed import lacking, of_plan, of_role
from spark_jobs.errors import ANEW, BrokenChainError, CheckpointError
from spark_jobs.locking import exclusive
from spark_jobs.log.history import stream_of
from spark_jobs.log.meta import check_meta
from spark_jobs.log.state_location import CURRENT, fresh, located, make_current
from spark_jobs.log.state_log import EMPTY, CellLog, cell_folders
from spark_jobs.recell.contents import Rows, contents
from spark_jobs.recell.operators import Job, Old, job_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder


def filled(given: Exchange, step: Step, base: Rows) -> Iterator[ProgramEngine]:
    """Yields the engines of the cells of a round, in their order, each with its part of ``base``. O(state) each.

    Raises :class:`CheckpointError` if the stored rows lack a column that determines their cell, or a column that is
    read.
    """
    program = Program.from_json(step.program)
    _demand_columns(given, program, step, base)
    for cell in range(given.grid.cells):
        engine = created(program, None, step.on_missing)
        engine.begin()
        engine.fill(changes_of(given, program, base, cell))
        yield engine


def _demand_columns(given: Exchange, program: Program, step: Step, base: Rows) -> None:
    """Raises :class:`CheckpointError` if the rows lack a column that the cells read."""
    has = {relation.lower(): {name.lower() for name in table.column_names} for relation, table in base.items()}
    roles = {own.lower(): role.relation.lower() for own, role in (given.roles or {}).items()}
    for name, columns in used_columns(program, program.whole or step.on_missing == "raise").items():
        relation = roles.get(name, name)
        known = {*has[relation], step.envelope.masks}
        if absent := [column.name for column in columns if column.name.lower() not in known]:
            raise CheckpointError(
                f"the cells do not store the column {absent[0]!r} of {relation}, which {given.grid.cells} "
                f"{'cell reads' if given.grid.cells == 1 else 'cells read'}: keep this number of cells, or give "
                f"cells= to the new job, and {ANEW}"
            )


def changes_of(given: Exchange, program: Program, base: Rows, cell: int) -> dict[str, pa.Table]:
    """Returns the changes of base relations for a cell of a round, by the names of the cell's relations.

    ``program``: the cell's program. Raises :class:`CheckpointError` if columns by which rows are cut are missing.
    """
    if given.roles is None:
        return {table.name: _masked(given, program, table.name, base, cell) for table in program.tables}
    found = {}
    for name, role in given.roles.items():
        rows = base[role.relation]
        if given.grid.cells > 1 and (absent := lacking(role, rows.column_names)):
            raise CheckpointError(
                f"the cells do not store the column {absent[0]!r} of {role.relation}, because the query does not read "
                "it, but its rows would be cut by it: keep this number of cells, or give cells= to the "
                f"new job, and {ANEW}"
            )
        belongs = of_role(role, given.grid.cells, rows)
        found[name] = rows if belongs is None else rows.filter(pa.array(belongs == cell))
    return found


def _masked(given: Exchange, program: Program, name: str, base: Rows, cell: int) -> pa.Table:
    rows = next(table for relation, table in base.items() if relation.lower() == name.lower())
    join = program.only_join
    assert join is not None, "what has no roles is one join"
    assert given.maintained.plan is not None, "of distinct rows"
    if join.masks is None:
        return rows
    masks = of_plan(given.maintained.plan, given.grid, name, rows, program.whole).masks(cell)
    return rows.append_column(join.masks, pa.array(masks)).filter(pa.array(masks != 0))


def results(engine: ProgramEngine) -> pa.Table:
    """Returns the result of an engine as changes of the next round's relation."""
    batches = list(engine.results())
    table = pa.Table.from_batches(batches, engine.result_schema) if batches else engine.result_schema.empty_table()
    if table.num_columns == len(engine.plan.output):
        table = table.append_column(WEIGHT, pa.array(np.ones(table.num_rows, np.int64)))
    return table


@dataclass(frozen=True)
class Sum:
    """The number of rows of results, and the sum of the hashes of all rows, modulo 2^64."""

    rows: int = 0
    checksum: int = 0

    def __add__(self, other: Sum) -> Sum:
        return Sum(self.rows + other.rows, (self.checksum + other.checksum) % 2**64)


def sum_of(engine: ProgramEngine) -> Sum:
    """Returns the sum of an engine's result. O(result)."""
    total, width = Sum(), len(engine.plan.output)
    for batch in engine.results():
        weights = np.ones(batch.num_rows, np.int64)
        if batch.num_columns > width and batch.schema.names[-1] == WEIGHT:
            weights = batch.column(batch.num_columns - 1).to_numpy()
        hashes = xxhash64(batch.columns[:width], batch.num_rows).view(np.uint64)
        total += Sum(int(weights.sum()), int((hashes * weights.view(np.uint64)).sum(dtype=np.uint64)))
    return total


MOST = 1024


@dataclass(frozen=True)
class Recelled:
    """The result of a recut: the old and the new number of cells, the last batch, the result's sum, the current folder,
    the folders that are put aside, and the file that names the current one.
    """

    before: int
    after: int
    batch: int
    result: Sum
    state: Folder
    aside: tuple[Folder, ...]
    pointer: str


def recell(checkpoint: Folder, cells: int, options: Mapping[str, str] | None = None) -> Recelled:
    """Cuts the state of a stopped job into ``cells`` cells. If no batch was committed yet, the job begins with an empty
    state in that many cells. O(state + result), in memory: all base rows once, and one engine at a time, twice.
    ``options``: of the state's object store, by default the environment's.

    Raises :class:`CheckpointError` and its subclasses if the job runs, if it has only a backfill, or if its state is
    damaged; ``PlanError`` if its query cannot be cut into that many cells. Then nothing has changed.
    """
    if not 1 <= cells <= MOST:
        raise CheckpointError(f"--recell {cells}: give a number of cells from 1 to {MOST:,}")
    try:
        where = located(str(checkpoint), None, options)
        nothing = stream_of(checkpoint) is None
        with nullcontext() if nothing else exclusive(checkpoint):
            where.demand_settled()
            job = job_of(where, cells)
            state = fresh(where.home, cells, max(job.batch, 0))
            new = state / job.stream
            result = _begun(job, where.root / job.stream, new) if job.batch == EMPTY else _written(job, new)
            _synced(state)
            make_current(where.home, state)
    except OSError as error:
        raise CheckpointError(
            f"the state of {checkpoint} cannot be cut into another number of cells: {error.strerror}"
        ) from None
    aside = [where.root / job.stream, where.root / "backfill"] if where.root == where.home else [where.root]
    kept_aside = tuple(folder for folder in aside if folder.folders())
    return Recelled(job.old[0].meta["cells"], cells, job.batch, result, state, kept_aside, where.home.at(CURRENT))


def _synced(state: Folder) -> None:
    """Syncs the folders of a state to disk, before a file on disk makes them current."""
    if isinstance(state, LocalFolder):
        for folder, _, _ in os.walk(state.path):
            sync(Path(folder))


def _written(job: Job, state: Folder) -> Sum:
    """Writes the new cells of all operators; returns the sum of the query's result. Raises if it differs from the old
    sum.
    """
    for old, new in job.keys:
        digests: set[str] = set()
        base = contents(old.round, old.load(digests.add), old.folder)
        _compared(_result(old, digests), _made(new, base, state, digests, job.batch)[0], old.folder)
    digests = set()
    base = contents(job.old[0].round, job.old[0].load(digests.add), job.old[0].folder)
    base = _within(job, base, state, digests)
    found = Sum()
    for number, stride in enumerate(job.new):
        mine = set(digests)
        if number < len(job.old) and number:
            _result(job.old[number], mine)
        found, tables = _made(stride, base, state, mine, job.batch)
        if stride.round.carries is not None:
            base = {stride.round.carries: pa.concat_tables(tables)}
    _compared(_result(job.old[-1], digests), found, job.old[-1].folder)
    return found


def _begun(job: Job, old: Folder, state: Folder) -> Sum:
    """Writes cells without rows; returns the sum of their result. Live engines that have applied the batch that was not
    committed are disowned."""
    logs = [CellLog(cell, "") for operator in old.folders() for cell in cell_folders(old / operator)]
    digests = {log.digest(number) for log in logs for number in log.batches()}
    for stride in (*job.new, *(new for _, new in job.keys), *job.within.values()):
        step = stride.step
        check_meta(state / step.operator, step.meta)
        for cell in range(step.meta["cells"]):
            CellLog.of(state / step.operator / str(cell), step.meta).disown(digests)
    return Sum()


def _within(job: Job, base: Rows, state: Folder, digests: set[str]) -> Rows:
    """Writes the cells that are windows, if the new state has such cells; returns the rows of the query's own cells.

    Windows are in the query's one cell, or in front of its several cells. So the rows of ``base`` become those of
    windows, or the other way round, or windows stay windows.
    """
    rows = dict(base)
    for relation, old in job.was_within.items():
        mine: set[str] = set()
        found = contents(old.round, old.load(mine.add), old.folder)
        rows |= found
        if relation in job.within:
            _compared(_result(old, mine), _made(job.within[relation], found, state, mine, job.batch)[0], old.folder)
    for relation, stride in job.within.items():
        if relation not in job.was_within:
            _made(stride, rows, state, digests, job.batch)
    return rows


def _result(old: Old, digests: set[str]) -> Sum:
    """Returns the sum of an operator's old result; adds the digests with which its cells' histories end to
    ``digests``.
    """
    load = old.load(digests.add)
    return sum((sum_of(load(cell)) for cell in range(old.meta["cells"])), Sum())


def _made(stride: ExchangeStep, base: Rows, state: Folder, digests: set[str], batch: int) -> tuple[Sum, list[pa.Table]]:
    """Writes the cells of an operator, and reads them back; returns the sum of their results, and the results if the
    next round is made of them.
    """
    step, folder = stride.step, state / stride.step.operator
    check_meta(folder, step.meta)
    keep_plan(folder, fingerprint=step.fingerprint, program=step.program, on_missing=step.on_missing, whole=step.whole)
    kept, total, tables = kept_plan(folder, step.fingerprint), Sum(), []
    for cell, engine in enumerate(filled(stride.round, step, base)):
        log = CellLog.of(folder / str(cell), step.meta)
        log.disown(digests)
        mark = log.mark(batch, uuid.uuid4().hex)
        log.write_snapshot(batch, lambda path, engine=engine, mark=mark: engine.save(path, mark))  # type: ignore[misc]
        log.write_note(batch, {"state": engine.stats(), "batch": engine.segments})  # for who looks before the next one
        own = sum_of(engine)
        _compared(own, sum_of(rebuilt(log, kept, batch, None)[0]), log.folder)
        total += own
        if stride.round.carries is not None:
            tables.append(results(engine))
    return total, tables


def _compared(wanted: Sum, found: Sum, where: Folder) -> None:
    if wanted != found:
        raise BrokenChainError(
            f"with the new number of cells, the state of {where} gives {found.rows:,} rows with checksum "
            f"{found.checksum:016x}, and not the {wanted.rows:,} rows with {wanted.checksum:016x} of before: "
            "nothing was changed. This is a bug in crown, please report it; until it is fixed, keep this number of "
            f"cells, or {ANEW}"
        )
