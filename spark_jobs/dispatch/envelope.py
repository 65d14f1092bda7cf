"""The table that carries rows of all relations to the cells, and its unpacking there.

Relations differ in their columns, but a shuffle needs one schema. The columns that a query uses are assigned to typed
*slots*: the ``k``-th column of type ``t`` of any relation goes to the ``k``-th slot of that type. So two edge tables
need two slots, not four. The other columns are::

    _cell    int     the cell, which is the partition. In a stream also the time at which the batch began, see ``stamp``
    _tag     int     the relation of the row (left out if there is only one)
    _mask    bigint  bit i: the i-th occurrence of a relation in the plan reads the row there (left out with one cell)
    _weight  bigint  copies added (> 0) or removed (< 0)
    _bad     string  for a quarantined row: relation, row and reason as JSON (only with on_bad_row="quarantine")
    _file    string  the file whose rows the cell reads in place of this row (only if a relation is read so)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from plans.expressions.columns.intervals import restored
from plans.plan import BagAtom
from plans.program import Program
from plans.programs.reads import occurrences, used
from plans.programs.stages import JoinStage
from plans.schema import Column, Table
from plans.search.cells.cuts import Role
from plans.types import arrow_type
from spark_jobs.errors import SparkJobError

MAX_ATOMS = 62  # bits of a bigint, with room for the sign
CELL, TAG, MASK, WEIGHT, BAD, FILE = "_cell", "_tag", "_mask", "_weight", "_bad", "_file"


@dataclass(frozen=True)
class Envelope:
    """``relations[t]`` has tag ``t``; ``placed[t]`` maps its used columns to slot numbers; ``slots`` are planner types.

    ``masked``: rows carry masks, because there are several cells, in which the occurrences of a relation read different
    rows. A row arrives at a cell once, and a relation is stored there once. A program with roles has no masks: it has
    one relation per role (``plans.search.cells.cuts``). ``whole``: all columns are carried, and also rows that no atom
    reads.
    """

    relations: tuple[str, ...]
    placed: tuple[Mapping[str, int], ...]
    slots: tuple[str, ...]
    masked: bool
    quarantine: bool
    whole: bool = False

    @property
    def tagged(self) -> bool:
        """Returns True if rows carry the number of their relation."""
        return len(self.relations) > 1 or self.quarantine

    @property
    def masks(self) -> str | None:
        """Returns the name of the mask column in a cell's relations; None without masks."""
        if not self.masked:
            return None
        name = MASK
        while any(name in map(str.lower, placed) for placed in self.placed):
            name += "_"
        return name

    def split(self, batches: Iterable[pa.RecordBatch]) -> tuple[dict[str, pa.Table], list[str]]:
        """Returns the changes that arrived at a cell by relation, masks included, and the quarantined rows. O(rows)."""
        parts: dict[str, list[pa.RecordBatch]] = {}
        bad: list[str] = []
        for batch in batches:
            if self.quarantine:
                marked = batch.column(BAD)
                if marked.null_count < len(marked):
                    bad += marked.drop_null().to_pylist()
                    batch = batch.filter(marked.is_null())
            for tag, rows in self._of_relations(batch):
                parts.setdefault(self.relations[tag], []).append(self._columns(rows, tag))
        return {name: pa.Table.from_batches(pieces) for name, pieces in parts.items()}, sorted(bad)

    def _of_relations(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yields the rows of each relation in a batch, with its tag. Most batches have rows of one relation, and are
        not copied.
        """
        if not batch.num_rows:
            return
        if len(self.relations) == 1:
            yield 0, batch
            return
        tags = batch.column(TAG).to_numpy()
        present = np.flatnonzero(np.bincount(tags)).tolist()
        for tag in present:
            yield tag, batch if len(present) == 1 else batch.filter(pa.array(tags == tag))

    def _columns(self, rows: pa.RecordBatch, tag: int) -> pa.RecordBatch:
        """Returns the relation's columns. They are cast even if their types agree, because Spark's non-null columns
        arrive as ``nullable=False``.
        """
        names, arrays = [], []
        for name, slot in self.placed[tag].items():
            names.append(name)
            values = restored(rows.column(f"s{slot}"), self.slots[slot])
            arrays.append(values if pa.types.is_interval(values.type) else values.cast(arrow_type(self.slots[slot])))
        fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
        schema = pa.schema([*fields, (WEIGHT, pa.int64())])
        arrays.append(rows.column(WEIGHT))
        if self.masks is not None:
            schema = schema.append(pa.field(self.masks, pa.int64()))
            arrays.append(rows.column(MASK))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def envelope_of(
    program: Program, *, cells: int, quarantine: bool, roles: Mapping[str, Role] | None = None, whole: bool = False
) -> Envelope:
    """Returns the envelope for a program in ``cells`` cells. Raises SparkJobError if the program has more atoms than a
    mask has bits.

    ``roles``: the role of each relation of the program, which names its base relation; relations of one base relation
    carry the same columns. None: with several cells, rows carry masks. ``whole``: all columns of a relation are
    carried, not only columns that are read.
    """
    atoms = occurrences(program)
    masked = cells > 1 and roles is None
    if masked and len(atoms) > MAX_ATOMS:
        raise SparkJobError(
            f"a query with {len(atoms)} relations runs in one cell, because at most {MAX_ATOMS} relations can be cut: "
            "give cells=1"
        )
    slots: list[str] = []
    placed: list[dict[str, int]] = []
    relations = tuple(dict.fromkeys(program.table(atom.relation).name for atom in atoms))
    base = {name.lower(): roles[name].relation for name in relations} if roles is not None else {}
    for relation in relations:
        taken: dict[str, int] = {}
        for column in _carried(program.table(relation), atoms, base, whole):
            free = [i for i, type_ in enumerate(slots) if type_ == column.type and i not in taken.values()]
            if not free:
                slots.append(column.type)
                free = [len(slots) - 1]
            taken[column.name] = free[0]
        placed.append(taken)
    return Envelope(relations, tuple(placed), tuple(slots), masked, quarantine, whole)


def stamp(milliseconds: int, cells: int) -> int:
    """Returns the time stamp that rows of a batch have in ``_cell``, which is ``_cell`` divided by the number of cells;
    ``milliseconds``: when the batch began. A worker compares it with the batch that it executes: a cached frame that is
    read again in a later batch has that batch's number, but the rows and the stamp of its own.
    """
    return milliseconds % stamp_period(cells)


def stamp_period(cells: int) -> int:
    """Returns the number of stamps, chosen so that stamp and cell fit together into an int."""
    return (2**31 - cells) // cells


def _carried(table: Table, atoms: Iterable[BagAtom], base: Mapping[str, str], whole: bool) -> tuple[Column, ...]:
    """Returns the columns of a relation that are carried: those that any relation of the same base relation reads."""
    mine = base.get(table.name.lower(), table.name)
    same = [atom for atom in atoms if base.get(atom.relation.lower(), atom.relation) == mine]
    return table.columns if whole else used(table, [replace(atom, relation=table.name) for atom in same])


def _cut(table: Table, placed: Mapping[str, int]) -> Table:
    """Returns a table of the carried columns. Its rows have been checked, so only keys for look-ups need to be
    declared.
    """
    return table if table.by_key else Table(table.name, tuple(c for c in table.columns if c.name in placed))


def cell_program(program: Program, envelope: Envelope) -> Program:
    """Returns the program of a cell's engine: the query's program, with tables reduced to the carried columns."""
    cut = {
        name.lower(): _cut(program.table(name), placed)
        for name, placed in zip(envelope.relations, envelope.placed, strict=True)
    }
    stages = tuple(
        replace(
            stage,
            plan=replace(stage.plan, tables=tuple(cut.get(t.name.lower(), t) for t in stage.plan.tables)),
            masks=envelope.masks,
        )
        if isinstance(stage, JoinStage)
        else stage
        for stage in program.stages
    )
    tables = tuple(cut.values())
    if envelope.masks is not None:
        masks = Column(envelope.masks, "int64")
        tables = tuple(replace(table, columns=(*table.columns, masks)) for table in tables)
    return replace(program, tables=tables, stages=stages, whole=program.whole or envelope.whole)
