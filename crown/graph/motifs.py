"""Motifs over graphs that change: the result of ``GraphFrame.find``, maintained by the embedded engine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import plans
from crown.durable.opening import open_view
from crown.durable.view import DurableView
from crown.engine.delivery import Delivery
from crown.errors import ChangeError, CrownError, SnapshotError
from crown.graph.tables import of_graph
from crown.guards.arguments import Size, file_of, size_of
from crown.programs.snapshot import load as load_engine
from crown.results.factorized import FactorizedHead
from crown.views import View, extra_of, view
from plans.frontends.motif.find import Element, Shape, find
from plans.program import Program


def nested_schema(shape: Shape, plain: pa.Schema) -> pa.Schema:
    """Returns the schema of rows with structs. Columns that belong to no element, like ``_weight``, come last."""
    fields = [pa.field(element.name, _type(element, plain)) for element in shape.elements]
    return pa.schema([*fields, *(plain.field(name) for name in _others(shape, plain))])


def nested(shape: Shape, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows with structs. Copies values only of elements that some rows do not have."""
    schema = nested_schema(shape, rows.schema)
    columns = [_column(shape, element, rows) for element in shape.elements]
    columns += [rows.column(name) for name in _others(shape, rows.schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain_row(shape: Shape, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the plain columns of a row with structs. An element that is None adds none."""
    found: dict[str, Any] = {}
    for element in shape.elements:
        value = row.get(element.name)
        if not element.fields:
            found[element.column] = value
        elif value is not None and not isinstance(value, Mapping):
            raise ChangeError(f"{element.name} is an element of the motif, a dict or None, not {value!r:.100}")
        elif value is None:
            found |= dict.fromkeys((column for _, column in element.fields), None)
        else:
            found |= {column: value.get(field) for field, column in element.fields}
    return found


def _type(element: Element, plain: pa.Schema) -> pa.DataType:
    if not element.fields:
        return plain.field(element.column).type
    return pa.struct([pa.field(field, plain.field(column).type) for field, column in element.fields])


def _others(shape: Shape, plain: pa.Schema) -> list[str]:
    known = {column for element in shape.elements for _, column in element.fields or (("", element.column),)}
    return [name for name in plain.names if name not in known]


def _column(shape: Shape, element: Element, rows: pa.RecordBatch) -> pa.Array:
    if not element.fields:
        return rows.column(element.column)
    arrays = [rows.column(column) for _, column in element.fields]
    absent = None if element.present is None else pa.array(~_present(shape, element.present, rows))
    fields = list(_type(element, rows.schema))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _present(shape: Shape, present: tuple[tuple[int, str], ...], rows: pa.RecordBatch) -> np.ndarray:
    """Returns bool per row, True if the row has the element."""
    hops, directions = (rows.column(shape.plain(name)) for name in ("_hop", "_direction"))
    found = np.zeros(rows.num_rows, dtype=bool)
    for direction in {way for _, way in present}:
        lengths = pa.array([hop for hop, way in present if way == direction], hops.type)
        both = pc.and_(pc.equal(directions, direction), pc.is_in(hops, lengths))
        found |= both.to_numpy(zero_copy_only=False)
    return found


class _Structured(View):
    """A view of the rows that a motif finds, with the structs of its ``_shape`` as columns."""

    _shape: Shape

    def _shaped(self, shape: Shape) -> None:
        self._shape = shape

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the deltas: the result's columns and ``_weight``."""
        return nested_schema(self._shape, super().delta_schema)

    def results(
        self, limit: int | None = None, *, factorized: bool = False, weighted: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yields the full result. It is enumerated with constant delay, or found by a join if the motif is a ring, and
        not materialized.

        A row is repeated as often as the motif is found, or yielded once with ``_weight`` if ``weighted``. ``limit``:
        at most that many rows. Raises CrownError for ``factorized``: products have no structs.
        """
        plain = super().results(limit, factorized=factorized, weighted=weighted)
        return (nested(self._shape, batch) for batch in plain)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes plan and state to one file for ``crown.graph.load``. The file is replaced atomically. O(state)."""
        self._engine.save(path, {**self._kept(), "motif": self._shape.to_json()})

    def apply_batches(self, changes: Mapping[str, Any], *, consolidate: bool | None = None) -> Delivery:
        """Applies a batch as ``View.apply_batches`` does; the elements are structs."""
        return _Nested(super().apply_batches(changes, consolidate=consolidate), self._shape)

    def _table(self, deltas: list[pa.RecordBatch], factorized: bool = False) -> pa.Table:
        return pa.Table.from_batches([nested(self._shape, part) for part in deltas], self.delta_schema)

    def _factorized(self) -> FactorizedHead:
        raise CrownError("the rows of a motif have a struct for each element: leave factorized=True out")

    def _named(self, row: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
        return plain_row(self._shape, super()._named(row))


class MotifView(_Structured):
    """The maintained result of a motif: a ``View`` whose columns are structs, one for each named element.

    Created by ``crown.graph.motif`` and ``crown.graph.load``. Not thread-safe.
    """

    def __init__(self, view: View, shape: Shape) -> None:
        super().__init__(view._engine, view._quarantine_dir, view._engine.batches, view._unread, view._quiet)
        self._shaped(shape)


class DurableMotifView(_Structured, DurableView):
    """A ``MotifView`` in a folder, where every applied batch survives crashes. Created by ``crown.graph.open``."""

    def __init__(self, view: DurableView, shape: Shape) -> None:
        super().__init__(view._engine, view._journal, view._quarantine_dir, view._floor, view._unread, view._quiet)
        view._let_go.detach()  # this object releases the folder
        self._shaped(shape)


class _Nested(Delivery):
    """Deltas with structs."""

    def __init__(self, plain: Delivery, shape: Shape) -> None:
        self._plain = plain  # kept alive, because its finalizer would end the batch
        self._uninterrupted = plain._uninterrupted
        self._batches = plain._batches
        self._shape = shape

    def __next__(self) -> pa.RecordBatch:
        return nested(self._shape, super().__next__())


def motif_view(
    vertices: Any,
    edges: Any,
    pattern: str,
    *,
    where: str | None = None,
    schema: Any = None,
    dialect: str = "spark",
    **options: Any,
) -> MotifView:
    """Returns the view of a motif over frames; see ``crown.graph.motif``."""
    program, shape, declared, first = _found(vertices, edges, pattern, where, schema, dialect)
    return MotifView(view(program, declared, tables=first or None, **options), shape)


def open_motif(
    vertices: Any,
    edges: Any,
    pattern: str,
    path: str | os.PathLike[str],
    *,
    where: str | None = None,
    schema: Any = None,
    dialect: str = "spark",
    **options: Any,
) -> DurableMotifView:
    """Returns the durable motif in the folder ``path``, created or restored as ``crown.open`` does.

    Frames among ``vertices`` and ``edges`` are the first batch of a new folder. If the folder has batches, only their
    columns and types are used. ``options`` and errors are those of ``crown.open``; a folder with another motif raises
    QueryChangedError.

    >>> import tempfile
    >>> folder, edge = tempfile.mkdtemp(), {"src": "int64", "dst": "int64"}
    >>> with open_motif(None, edge, "(a)-[]->(b); (b)-[]->(a)", folder) as pairs:
    ...     pairs.update({"edges": [(1, 2), (2, 1)]})
    >>> with open_motif(None, edge, "(a)-[]->(b); (b)-[]->(a)", folder) as pairs:
    ...     pairs.count()
    2
    """
    program, shape, declared, first = _found(vertices, edges, pattern, where, schema, dialect)
    made = DurableMotifView(open_view(program, path, declared, **options), shape)
    if first and not made.batches:
        made.update(first)
    return made


def _found(
    vertices: Any, edges: Any, pattern: str, where: str | None, schema: Any, dialect: str
) -> tuple[Program, Shape, Any, dict[str, Any]]:
    """Returns the program of a motif, the shape of its rows, the schema, and the frames that are its first batch."""
    given = {"edges": edges} if vertices is None else {"vertices": vertices, "edges": edges}
    declared, first = of_graph(given, schema)
    relation, shape = find(pattern, declared, where, dialect)
    return plans.program(relation), shape, declared, first


def load(
    path: str | os.PathLike[str],
    *,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: Size | None = None,
) -> MotifView:
    """Returns the view that ``MotifView.save`` wrote. The arguments are those of ``crown.load``.

    Raises SnapshotError for a file that is damaged or not a snapshot, and for a view that is not a motif. O(state).
    """
    budget = None if memory_budget is None else size_of(memory_budget, "memory_budget")
    state = None if state_path is None else file_of(state_path, "state_path")
    engine, extra = load_engine(path, state, budget)
    if not isinstance(extra.get("motif"), list):
        raise SnapshotError(f"{path} contains a view that is not a motif; load it with crown.load")
    return MotifView(View(engine, *extra_of(extra, path)), Shape.from_json(extra["motif"]))
