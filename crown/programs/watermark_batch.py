"""Makes the batch without rows that advances the watermark of a relation."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crown.errors import ChangeError
from crown.ingest.tables.given import Columns
from crown.ingest.tables.values import converted
from crown.ingest.watermarks import with_watermark
from crown.store.codec import UnencodableError, no_texts
from plans.program import Program
from plans.types import arrow_type


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
