"""The result of a view in the forms that other libraries read, and those who want to be told of its changes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from crown.errors import CrownError, needs

if TYPE_CHECKING:
    import pandas as pd

Subscriber = Callable[[pa.Table], object]


class Readable:
    """What ``View`` offers beside Arrow tables. Everything here is made of ``results``, ``to_table`` and ``schema``."""

    schema: pa.Schema

    def __init__(self) -> None:
        self._subscribers: list[Subscriber] = []

    @abstractmethod
    def results(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Returns the full result, or its first ``limit`` rows."""

    @abstractmethod
    def to_table(self, limit: int | None = None) -> pa.Table:
        """Returns the full result, or its first ``limit`` rows, as one table."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields the rows of the result as dicts; a bag's with ``_weight``."""
        for batch in self.results():
            yield from batch.to_pylist()

    def __bool__(self) -> bool:
        """Returns True: a view is there, also while its result is empty. ``count() > 0`` asks for rows."""
        return True

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns the result as an Arrow C stream: Polars, DuckDB, pandas and pyarrow read a view as a table."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self.results())
        return reader.__arrow_c_stream__(requested_schema)

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Returns the result, or its first ``limit`` rows, as a pandas frame. MissingPackageError without pandas."""
        with needs("to_pandas()"):
            import pandas  # noqa: F401
        return self.to_table(limit).to_pandas()

    def to_polars(self, limit: int | None = None) -> Any:
        """Returns the result, or its first ``limit`` rows, as a Polars frame. MissingPackageError without Polars."""
        with needs("to_polars()"):
            import polars
        return polars.from_arrow(self.to_table(limit))

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Has ``callback`` called with the deltas of every batch from now on, when the batch stands.

        Returns a function that ends it. Batches that change nothing are not told. All subscribers are called; if one
        raises, its error comes out of ``apply`` when all have been, and the batch stands. ``apply_batches`` is refused
        while there are subscribers.
        """
        if not callable(callback):
            raise CrownError(f"subscribe takes a function of the deltas (a pyarrow Table), not {callback!r:.100}")
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            self._subscribers[:] = [other for other in self._subscribers if other is not callback]

        return unsubscribe

    def _tell(self, deltas: pa.Table) -> pa.Table:
        """Returns the deltas, when all subscribers have had them."""
        failed: Exception | None = None
        for callback in tuple(self._subscribers) if deltas.num_rows else ():
            try:
                callback(deltas)
            except Exception as error:
                failed = failed or error
        if failed is not None:
            failed.add_note("a subscriber of the view raised this; the batch was applied")
            raise failed
        return deltas
