"""Attaches explicit watermarks to batches, in addition to those that rows imply.

An Arrow table of changes, usually one without rows, may have a watermark in its metadata. So a watermark is processed
like all changes: batches prepare it, and the log of a durable view stores it and replays it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.tables.given import Columns
from crown.ingest.tables.values import converted
from crown.store.codec import UnencodableError, no_texts
from plans.program import Program
from plans.types import arrow_type

_KEY = b"crown.watermark"


def with_watermark(table: pa.Table, watermark: int) -> pa.Table:
    """Returns a table of changes that reaches a watermark, given as a code."""
    return table.replace_schema_metadata({**(table.schema.metadata or {}), _KEY: str(watermark).encode()})


def given_watermark(metadata: Mapping[bytes, bytes]) -> int | None:
    """Returns the watermark in the metadata of a table of changes, or None."""
    return int(metadata[_KEY]) if _KEY in metadata else None


def advance(program: Program, relation: str, to: Any) -> dict[str, pa.Table]:
    """Returns a batch without rows that advances the watermark of a relation to at least ``to``.

    ``to``: a value of the event time column. Raises ChangeError for a relation without a window by event time, and for
    a value of another type.
    """
    windows = program.windows
    window = next((w for w in windows if isinstance(relation, str) and w.relation.lower() == relation.lower()), None)
    if window is None or window.counts:
        timed = ", ".join(w.relation for w in windows if not w.counts)
        known = f"those that have one are: {timed}" if timed else "declare one with windows="
        raise ChangeError(f"relation {relation!r} has no window by event time, so no watermark; {known}")
    column = program.table(window.relation).column(window.by)
    assert column is not None, "a window is over a column of its relation"
    bad: dict[int, str] = {}
    moment = converted([to], window.by, column.type, arrow_type(column.type), bad)
    given = Columns({window.by: moment}, {window.by: column.type})
    if bad or given.null_count(window.by):
        raise ChangeError(f"relation {window.relation!r}: {bad.get(0) or 'the watermark cannot be NULL'}")
    try:
        reached = int(given.codes(window.by, no_texts)[0])
    except UnencodableError as error:
        raise ChangeError(f"relation {window.relation!r}: {error.reason}") from None
    return {window.relation: with_watermark(pa.table({}), reached)}
