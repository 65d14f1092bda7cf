"""What travels from the sources to the cells: one table for all relations, and how a cell takes it apart again.

Relations differ in their columns, a shuffle wants one schema. The columns a query uses are laid into typed *slots*: the
``k``-th column of type ``t`` of any relation goes to the ``k``-th slot of that type. Two edge tables travel in two
slots, not in four. Beside the slots::

    _cell    int     where the row goes; the partition is the cell
    _tag     int     which relation it is of (left out if there is only one)
    _atoms   bigint  bit i: it is of interest to the i-th atom (left out if every row goes to every atom)
    _weight  bigint  copies added (> 0) or removed (< 0)
    _bad     string  for a quarantined row: relation, row and reason as JSON (only with on_bad_row="quarantine")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from plans.plan import Bag, BagAtom, Node, Plan
from plans.schema import Column, Table, arrow_type
from plans.shares import occurrences
from spark_jobs.errors import SparkJobError

MAX_ATOMS = 62  # bits of a bigint, with room for the sign
CELL, TAG, ATOMS, WEIGHT, BAD = "_cell", "_tag", "_atoms", "_weight", "_bad"


@dataclass(frozen=True)
class Layout:
    """``relations[t]`` has tag ``t``; ``placed[t]`` maps its used columns to slot numbers; ``slots`` are planner types.

    ``atoms``: names of the atoms, by bit, if rows are marked with the atoms they go to, else empty: then the engine's
    relations are the query's, and it copies a row to the atoms itself. ``reads[i]``: the relation atom ``i`` reads.
    """

    relations: tuple[str, ...]
    placed: tuple[Mapping[str, int], ...]
    slots: tuple[str, ...]
    atoms: tuple[str, ...]
    reads: tuple[str, ...]
    quarantine: bool

    @property
    def tagged(self) -> bool:
        """True if rows carry the number of their relation."""
        return len(self.relations) > 1 or self.quarantine

    def split(self, batches: Iterable[pa.RecordBatch]) -> tuple[dict[str, pa.Table], list[str]]:
        """What arrived at a cell: changes by relation of the cell's engine, and the quarantined rows. O(rows)."""
        parts: dict[str, list[pa.RecordBatch]] = {}
        bad: list[str] = []
        for batch in batches:
            if self.quarantine:
                marked = batch.column(BAD)
                if marked.null_count < len(marked):
                    bad += marked.drop_null().to_pylist()
                    batch = batch.filter(marked.is_null())
            for tag, relation in enumerate(self.relations):
                rows = batch.filter(pc.equal(batch.column(TAG), tag)) if len(self.relations) > 1 else batch
                if rows.num_rows:
                    self._deal(rows, tag, relation, parts)
        return {name: pa.Table.from_batches(pieces) for name, pieces in parts.items()}, sorted(bad)

    def _deal(self, rows: pa.RecordBatch, tag: int, relation: str, parts: dict[str, list[pa.RecordBatch]]) -> None:
        if not self.atoms:
            parts.setdefault(relation, []).append(self._columns(rows, tag))
            return
        for bit, (atom, reads) in enumerate(zip(self.atoms, self.reads, strict=True)):
            if reads == relation:
                mine = rows.filter(pc.not_equal(pc.bit_wise_and(rows.column(ATOMS), 1 << bit), 0))
                if mine.num_rows:
                    parts.setdefault(atom, []).append(self._columns(mine, tag))

    def _columns(self, rows: pa.RecordBatch, tag: int) -> pa.RecordBatch:
        """The relation's columns. Cast even where types agree: Spark's non-null columns come as ``nullable=False``."""
        names, arrays = [], []
        for name, slot in self.placed[tag].items():
            names.append(name)
            arrays.append(rows.column(f"s{slot}").cast(arrow_type(self.slots[slot])))
        schema = pa.schema([(name, array.type) for name, array in zip(names, arrays, strict=True)])
        return pa.RecordBatch.from_arrays(
            [*arrays, rows.column(WEIGHT)], schema=schema.append(pa.field(WEIGHT, pa.int64()))
        )


def layout_of(plan: Plan, *, marked: bool, quarantine: bool) -> Layout:
    """The layout for a plan; ``marked``: rows carry the atoms they go to, as they must when there are several cells."""
    atoms = occurrences(plan)
    if marked and len(atoms) > MAX_ATOMS:
        raise SparkJobError(
            f"a query with {len(atoms)} relations runs in one cell (at most {MAX_ATOMS} can be cut): cells=1"
        )
    slots: list[str] = []
    placed: list[dict[str, int]] = []
    relations = tuple(dict.fromkeys(plan.table(atom.relation).name for atom in atoms))
    for relation in relations:
        taken: dict[str, int] = {}
        for column in used(plan.table(relation), atoms):
            free = [i for i, type_ in enumerate(slots) if type_ == column.type and i not in taken.values()]
            if not free:
                slots.append(column.type)
                free = [len(slots) - 1]
            taken[column.name] = free[0]
        placed.append(taken)
    return Layout(
        relations,
        tuple(placed),
        tuple(slots),
        tuple(atom.name for atom in atoms) if marked else (),
        tuple(plan.table(atom.relation).name for atom in atoms),
        quarantine,
    )


def used(table: Table, atoms: Iterable[BagAtom]) -> tuple[Column, ...]:
    """The columns of a table that some atom reads, in table order; the first one if none does, to count rows by."""
    names: set[str] = set()
    for atom in atoms:
        if atom.relation.lower() == table.name.lower():
            names |= {name.lower() for name in (*atom.columns, *(atom.predicate.columns if atom.predicate else ()))}
    return tuple(column for column in table.columns if column.name.lower() in names) or table.columns[:1]


def cell_plan(plan: Plan, layout: Layout) -> Plan:
    """The plan that a cell's engine runs: tables cut down to the columns used, and, if rows are marked, a table per
    atom.
    """
    atoms = occurrences(plan)
    if not layout.atoms:
        tables = (plan.table(name) for name in layout.relations)
        return replace(plan, tables=tuple(Table(table.name, used(table, atoms)) for table in tables))
    own = tuple(Table(atom.name, used(plan.table(atom.relation), atoms)) for atom in atoms)
    return replace(plan, nodes=tuple(_own_table(node) for node in plan.nodes), tables=own)


def _own_table(node: Node) -> Node:
    if node.kind == "input":
        return replace(node, relation=node.name)
    if node.bag is None:
        return node
    bag: Bag = replace(node.bag, atoms=tuple(replace(atom, relation=atom.name) for atom in node.bag.atoms))
    return replace(node, bag=bag)
