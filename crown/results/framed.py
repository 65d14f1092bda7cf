"""Converts the result of a view to the forms that other libraries read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crown.errors import ChangeError, needs
from crown.store.display import rows_shown

if TYPE_CHECKING:
    import pandas as pd


class Framed(ABC):
    """A result as rows, frames and Arrow streams, all made from ``results``, ``to_table`` and ``schema``.

    Each form repeats a row as often as it is in the result, and has no column ``_weight``.
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
        """Yields the rows of the result as dicts, each as often as it occurs. A value that Python cannot represent is a
        text."""
        for batch in self.results():
            yield from rows_shown(batch)

    def __bool__(self) -> bool:
        """Returns True, also if the result is empty. Use ``count() > 0`` to test for rows."""
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the result as an Arrow C stream: Polars, DuckDB, pandas and pyarrow read a view as a table."""
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
