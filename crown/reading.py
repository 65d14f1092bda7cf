"""Reads a maintained result: all rows, their number, one row, one group, and frames of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crown.errors import ChangeError, CrownError, needs
from crown.guards.arguments import flag_of, number_of
from crown.ingest.changes import WEIGHT
from crown.programs.cells.result import CellsResultReader
from crown.programs.result import ResultReader
from crown.results.copies import repeated
from crown.results.factorized import FactorizedHead
from crown.store.display import rows_shown

if TYPE_CHECKING:
    import pandas as pd


class Framed(ABC):
    """A result as rows, frames and Arrow streams, all derived from ``results``, ``to_table`` and ``schema``.

    They contain each row as often as the result does, and have no column ``_weight``.
    """

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result."""

    @abstractmethod
    def results(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Returns the full result, or its first ``limit`` rows."""

    @abstractmethod
    def to_table(self, limit: int | None = None, *, weighted: bool = False) -> pa.Table:
        """Returns the full result, or its first ``limit`` rows, as one table; ``weighted`` as in ``results``."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows of the result as dicts, each as often as it occurs. Values that Python cannot represent are
        texts."""
        for batch in self.results():
            yield from rows_shown(batch)

    def __bool__(self) -> bool:
        """Returns True, also if the result is empty. Use ``count() > 0`` to test for rows."""
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the result as an Arrow C stream. So Polars, DuckDB, pandas and pyarrow can read a view as a table."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.results())
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self, limit: int | None = None, *, weighted: bool = False) -> pd.DataFrame:
        """Returns the result of ``to_table`` as a pandas frame. Raises MissingPackageError without pandas."""
        with needs("to_pandas()"):
            import pandas  # noqa: F401
        return self.to_table(limit, weighted=weighted).to_pandas()

    def to_polars(self, limit: int | None = None, *, weighted: bool = False) -> Any:
        """Returns the result of ``to_table`` as a Polars frame. Raises MissingPackageError without Polars."""
        with needs("to_polars()"):
            import polars
        for field in self.schema:
            if pa.types.is_interval(field.type):
                raise ChangeError(
                    f"column {field.name!r} is an INTERVAL of months, which Polars does not have; select "
                    f"12 * EXTRACT(YEAR FROM {field.name}) + EXTRACT(MONTH FROM {field.name}) instead"
                )
        return polars.from_arrow(self.to_table(limit, weighted=weighted))


class Readable(Framed):
    """A maintained result that can be read."""

    @abstractmethod
    def _reader(self) -> ResultReader | CellsResultReader:
        """Returns the result of the engine."""

    @property
    def schema(self) -> pa.Schema:
        """Returns the Arrow schema of the result, which has no column ``_weight``."""
        return pa.schema([field for field in self.delta_schema if field.name != WEIGHT])

    @property
    def columns(self) -> tuple[str, ...]:
        """Returns the names of the columns of the result, in order."""
        return tuple(self.schema.names)

    @property
    def delta_schema(self) -> pa.Schema:
        """Returns the Arrow schema of the deltas: the result's columns and ``_weight``."""
        return self._reader().delta_schema

    @property
    def factorized_schema(self) -> pa.Schema:
        """Returns the Arrow schema of ``results(factorized=True)``: the columns of the result, some of them as lists.

        The metadata ``crown.branch`` of a list column names its branch. Raises CrownError if the rows of the query are
        not products.
        """
        return self._factorized().schema

    def _factorized(self) -> FactorizedHead:
        return self._reader().factorized

    def results(
        self, limit: int | None = None, *, factorized: bool = False, weighted: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Returns the full result. It is enumerated with constant delay, or found by a worst-case optimal join if the
        query is one cycle (EXPLAIN shows ``not stored``), and not materialized.

        Each row occurs as often as in the result. With ``weighted=True`` each row occurs once, and the column
        ``_weight`` (``delta_schema``) has its number of copies. If equal rows must be found for this, it takes
        O(result) memory. ``limit``: the maximum number of rows.

        ``factorized=True`` returns products without multiplying them out, with a list per branch of the join
        (``factorized_schema``). Their size is linear in the number of upper rows of the join tree, and not in that of
        the result. ``crown.unfold`` returns the plain rows of a batch.
        """
        factorized, weighted = flag_of(factorized, "factorized"), flag_of(weighted, "weighted")
        if factorized:
            self._factorized()
            if weighted:
                raise CrownError("a product of factorized=True has no weight; leave weighted out")
        reader = self._reader()
        batches = reader.results(True) if factorized else _rows(reader, weighted)
        return batches if limit is None else _first(batches, number_of(limit, "limit", 0))

    def to_table(self, limit: int | None = None, *, weighted: bool = False) -> pa.Table:
        """Returns the full result, or its first ``limit`` rows, as one table; ``weighted`` as in ``results``."""
        schema = self.delta_schema if flag_of(weighted, "weighted") else self.schema
        return pa.Table.from_batches(self.results(limit, weighted=weighted), schema)

    def count(self) -> int:
        """Returns the number of rows of the result, including copies.

        O(1) for a query of several stages. For one join O(state), and O(result) only if predicates span relations or
        the query is one cycle.
        """
        return self._reader().count()

    def contains(self, row: Mapping[str, Any] | Sequence[Any]) -> bool:
        """Returns True iff the row (a dict by output name, or values in output order) is in the result.

        Raises ChangeError for a value that does not fit its column. Expected O(1).
        """
        return self._reader().contains(self._named(row))

    def multiplicity(self, row: Mapping[str, Any] | Sequence[Any]) -> int:
        """Returns how often the row is in the result: 0 or 1, or more if the result is a ``bag``.

        Raises ChangeError as ``contains`` does.
        """
        return self._reader().multiplicity(self._named(row))

    def get(self, key: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the row of the group with a key (a dict by output name), or None. Expected O(1).

        For window functions the key identifies one row: the columns of PARTITION BY and ORDER BY, and the columns that
        break ties. O(log n). Raises ChangeError if the query has no groups or window functions, if not all keys are
        selected, or if a value does not fit.

        >>> import crown
        >>> sums = crown.view("SELECT k, SUM(x) AS s FROM r GROUP BY k", {"r": {"k": "string", "x": "int64"}})
        >>> sums.update({"r": {"k": ["a", "a", "b"], "x": [1, 2, 3]}})
        >>> sums.get({"k": "a"}), sums.get({"k": "c"})
        ({'k': 'a', 's': 3}, None)
        """
        if not isinstance(key, Mapping):
            raise ChangeError(f"get(key) takes a dict with a value for every key, not {key!r:.100}")
        return self._reader().get(key)

    def page(self, offset: int, limit: int, of: Mapping[str, Any] | None = None) -> pa.Table:
        """Returns ``limit`` rows of window functions from position ``offset`` on, in their order. O(log n) per row.

        ``of``: the partition, a dict with a value for each column of PARTITION BY. Raises CrownError unless the rows of
        the query are those of one window.

        >>> import crown
        >>> ranks = crown.view("SELECT x, ROW_NUMBER() OVER (ORDER BY x DESC) AS n FROM r", {"r": {"x": "int64"}})
        >>> ranks.update({"r": {"x": [1, 5, 3]}})
        >>> ranks.page(1, 5).to_pylist()
        [{'x': 3, 'n': 2}, {'x': 1, 'n': 3}]
        """
        if of is not None and not isinstance(of, Mapping):
            raise ChangeError(f"page(of=...) takes a dict with a value for every key, not {of!r:.100}")
        most = (1 << 62) - 1
        offset, limit = number_of(offset, "offset", 0, most), number_of(limit, "limit", 0, most)
        return pa.Table.from_batches(self._reader().page(offset, limit, of or {}), self.schema)

    @property
    def bag(self) -> bool:
        """Returns True if a row can be in the result more than once."""
        return self._reader().bag

    def _named(self, row: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
        """Returns the row as a dict by output name."""
        names = self.columns
        if isinstance(row, np.ndarray):
            row = row.tolist()
        if not isinstance(row, (Mapping, Sequence)) or isinstance(row, (str, bytes)):
            raise ChangeError(
                f"a row of the result is a dict by output name, or the values of {', '.join(names) or 'no column'} "
                f"in this order, not {row!r:.100}"
            )
        if not isinstance(row, Mapping):
            if len(row) != len(names):
                raise ChangeError(
                    f"the result has {len(names)} columns ({', '.join(names)}), the row {len(row)} values"
                )
            row = dict(zip(names, row, strict=True))
        return row

    def __contains__(self, row: Mapping[str, Any] | Sequence[Any]) -> bool:
        return self.contains(row)

    def __len__(self) -> int:
        return self.count()


def _rows(reader: ResultReader | CellsResultReader, weighted: bool) -> Iterator[pa.RecordBatch]:
    """Returns the rows of a result: each as often as it occurs, or once with its weight."""
    if weighted:
        return reader.deltas_from_nothing()
    batches = reader.results()
    return (part for batch in batches for part in repeated(batch)) if reader.bag else batches


def _first(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the first ``rows`` rows of the batches."""
    while rows > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, min(rows, batch.num_rows))
        rows -= batch.num_rows
