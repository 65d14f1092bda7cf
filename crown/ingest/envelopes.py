"""Debezium's envelopes as rows with weights: each has the row before a change, the row after it, or both.

``c`` and ``r`` (a snapshot read) insert the row after, ``d`` deletes the row before, ``u`` does both. Of a table with
upserts an update is the row after it alone. Debezium delivers at least once, so which rows an envelope stands for, and
whether it may be taken at all, is for the table to say. ``spark_jobs.ingest.debezium`` does the same with frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crown.errors import ChangeError
from crown.ingest.columns import WEIGHT
from plans.schema import Table

UNAVAILABLE = "__debezium_unavailable_value"
"""What stands in the place of a text that the database did not write into its log."""

WHOLE_ROWS = "have the source send whole rows (in PostgreSQL, REPLICA IDENTITY FULL), or declare the table with upserts"


class Envelopes:
    """Changes of a table as envelopes: dicts, or None for a tombstone. A batch for ``View.apply``, as it is."""

    def __init__(self, envelopes: Iterable[Mapping[str, Any] | None]) -> None:
        if isinstance(envelopes, (str, bytes, Mapping)) or not isinstance(envelopes, Iterable):
            raise ChangeError(f"envelopes are a list of dicts, not {type(envelopes).__name__}")
        found = [_opened(number, given) for number, given in enumerate(envelopes)]
        self._envelopes = {number: one for number, one in enumerate(found) if one is not None}

    def __len__(self) -> int:
        """Returns the number of envelopes that say something."""
        return len(self._envelopes)

    def rows(self, table: Table) -> list[dict[str, Any]]:
        """Returns the rows of ``table`` that are deleted and inserted, with their weights.

        A value beside the row that is the table's sequence is the row's. Raises ChangeError where a row, or a value of
        it, is missing, and for a table in which an envelope that is delivered twice would count twice.
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
    """Says what is wrong with the envelopes of a table that is declared to have no twins, and is believed.

    Returns None if the table sees a change that comes twice, or if nothing is declared by which it could.
    """
    if table.by_key or not (table.key or table.distinct):
        return None
    what = "has a key" if table.key else "is distinct"
    said = f"relation {table.name!r} {what}, and its envelopes may come more than once, which would count twice"
    if table.key:
        return (
            f"{said}: declare upserts and a sequence, a column that grows with the changes of a key (Debezium's ts_ns, "
            "Kafka's offset); or declare it enforced, and a repeated change is refused"
        )
    return f"{said}: declare it enforced, and a repeated change is refused; or declare its key, upserts and a sequence"


def _opened(number: int, given: Any) -> Mapping[str, Any] | None:
    """Returns an envelope without the payload around it; None if it says nothing."""
    envelope = given.get("payload", given) if isinstance(given, Mapping) else given
    if envelope is None:
        return None
    if not isinstance(envelope, Mapping):
        raise ChangeError(f"envelope {number} is no dict with before, after and op, but {envelope!r:.100}")
    op, images = envelope.get("op"), [envelope.get(name) for name in ("before", "after")]
    if op == "m" or (op is None and images == [None, None]):
        return None
    if not isinstance(op, str) or op not in ("c", "r", "u", "d"):
        raise ChangeError(f"envelope {number} has op {op!r:.100}: use c, r, u or d")
    return envelope


def _image(number: int, envelope: Mapping[str, Any], image: str) -> Mapping[str, Any]:
    """Returns the row before or after a change, with all of its values."""
    row = envelope.get(image)
    if row is None:
        raise ChangeError(f"envelope {number} is of op {envelope['op']!r}, but has no row {image!r}: {WHOLE_ROWS}")
    if not isinstance(row, Mapping):
        raise ChangeError(f"envelope {number} has no row as a dict, but {row!r:.100}")
    for name, value in row.items():
        if isinstance(value, str) and value == UNAVAILABLE:
            raise ChangeError(f"envelope {number}: column {name!r} was left out by the source: {WHOLE_ROWS}")
    return row
