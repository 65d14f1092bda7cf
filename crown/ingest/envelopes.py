"""Converts Debezium envelopes to rows with weights. An envelope has the row before a change, the row after it, or both.

``c`` and ``r`` (a snapshot read) insert the row after, ``d`` deletes the row before, ``u`` does both. In a table with
upserts, an update is only the row after it. Debezium delivers at least once, so the table's declaration decides which
rows an envelope represents, and whether envelopes are accepted at all. ``spark_jobs.ingest.debezium`` does the same for
frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crown.errors import ChangeError
from crown.ingest.tables.columns import WEIGHT
from plans.schema import Table

UNAVAILABLE = "__debezium_unavailable_value"
"""Debezium's placeholder for a text that the database did not write to its log."""

WHOLE_ROWS = "have the source send whole rows (in PostgreSQL, REPLICA IDENTITY FULL), or declare the table with upserts"


class Envelopes:
    """Changes of a table as envelopes: dicts, or None for a tombstone. ``View.apply`` accepts it as a batch."""

    def __init__(self, envelopes: Iterable[Mapping[str, Any] | None]) -> None:
        if isinstance(envelopes, (str, bytes, Mapping)) or not isinstance(envelopes, Iterable):
            raise ChangeError(f"envelopes are a list of dicts, not {type(envelopes).__name__}")
        found = [_opened(number, given) for number, given in enumerate(envelopes)]
        self._envelopes = {number: one for number, one in enumerate(found) if one is not None}

    def __len__(self) -> int:
        """Returns the number of envelopes that change something."""
        return len(self._envelopes)

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Returns the rows of ``table`` that are deleted and inserted, with their weights.

        If the envelope has a value for the table's sequence column, the value is added to the row. Raises ChangeError
        if a row, or a value of it, is missing, and for a table in which an envelope that is delivered twice would count
        twice.
        """
        if wrong := counted_twice(table):
            raise ChangeError(wrong)
        made = []
        for number, envelope in self._envelopes.items():
            op = envelope["op"]
            for image, weight in (("before", -1), ("after", 1)):
                if op in (("d" if table.upserts else "ud") if weight < 0 else "cru"):
                    row = _image(number, envelope, image)
                    if table.sequence is not None and table.sequence in envelope:
                        row = {**row, table.sequence: envelope[table.sequence]}
                    made.append({**row, WEIGHT: weight})
        return made


def counted_twice(table: Table) -> str | None:
    """Returns what is wrong with envelopes for a table whose declared key or distinctness is trusted and not enforced.

    Returns None if the table detects a repeated change, or if it declares nothing that could detect one.
    """
    if table.by_key or not (table.key or table.distinct):
        return None
    what = "has a key" if table.key else "is distinct"
    reason = f"relation {table.name!r} {what}, and an envelope that is delivered twice would count twice"
    if table.key:
        return (
            f"{reason}: declare upserts and a sequence, a column that grows with the changes of a key (Debezium's "
            "ts_ns, Kafka's offset); or declare the key enforced, and a repeated change is rejected"
        )
    return f"{reason}: declare it enforced, so that a repeat is rejected; or declare its key, upserts and a sequence"


def _opened(number: int, given: Any) -> Mapping[str, Any] | None:
    """Returns an envelope without its payload wrapper, or None if it changes nothing."""
    envelope = given.get("payload", given) if isinstance(given, Mapping) else given
    if envelope is None:
        return None
    if not isinstance(envelope, Mapping):
        raise ChangeError(f"envelope {number} must be a dict with before, after and op, not {envelope!r:.100}")
    op, images = envelope.get("op"), [envelope.get(name) for name in ("before", "after")]
    if op == "m" or (op is None and images == [None, None]):
        return None
    if not isinstance(op, str) or op not in ("c", "r", "u", "d"):
        raise ChangeError(f"envelope {number} has op {op!r:.100}: use c, r, u or d")
    return envelope


def _image(number: int, envelope: Mapping[str, Any], image: str) -> Mapping[str, Any]:
    """Returns the row before or after a change. Raises ChangeError if the row or one of its values is missing."""
    row = envelope.get(image)
    if row is None:
        raise ChangeError(f"envelope {number} is of op {envelope['op']!r}, but has no row {image!r}: {WHOLE_ROWS}")
    if not isinstance(row, Mapping):
        raise ChangeError(f"envelope {number} has no row as a dict, but {row!r:.100}")
    for name, value in row.items():
        if isinstance(value, str) and value == UNAVAILABLE:
            raise ChangeError(f"envelope {number}: column {name!r} was left out by the source: {WHOLE_ROWS}")
    return row
