"""Change conventions of other systems: columns and codes that mark a row as inserted or deleted.

Delta's change data feed and Spark's CHANGES have ``_change_type`` with insert, delete, update_preimage and
update_postimage. Iceberg's changelog views have the same column with INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER.
Flink's RowKind is +I, -U, +U, -D. Debezium has c, r, u, d for a row before and a row after. All codes are converted to
weights: an update is a delete of the row before it and an insert of the row after it. So a code with both rows in one
record (``u``) must be split first (``spark_jobs.ingest.debezium``, ``crown.changes.from_debezium``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cache, lru_cache

from plans.schema import CHANGE_TYPE, ROW_KIND

CODES: dict[str, int] = {
    "+": 1, "-": -1, "+1": 1, "-1": -1, "1": 1,
    "insert": 1, "delete": -1, "i": 1, "d": -1,
    "+i": 1, "-u": -1, "+u": 1, "-d": -1,  # Flink RowKind
    "c": 1, "r": 1,  # Debezium create and snapshot read
    "update_preimage": -1, "update_postimage": 1,  # Spark's CHANGES, Delta's change data feed
    "update_before": -1, "update_after": 1,  # Iceberg changelog views
}  # fmt: skip
"""Change codes in lower case (matched without case), and their weights."""

BEFORE_IMAGES = frozenset({"-u", "update_preimage", "update_before"})
"""Codes of the row before an update. They change nothing in a table with upserts, which knows that row."""

CODE_COLUMNS = (CHANGE_TYPE, ROW_KIND)
"""Undeclared columns with these names hold change codes."""

_WEIGHTS = ("weight", "weights", "diff", "mzdiff", "multiplicity")
_OTHERS = ("height", "eight")  # words that are one letter away from a name of a weight
_CODED = ("op", "optype", "changetype", "rowkind", "changeop", "operation", "deleted", "isdeleted")


@cache
def weights_of_codes(upserts: bool) -> dict[str, int]:
    """Returns the codes and their weights. With upserts, the row before an update has weight 0."""
    return {code: 0 if upserts and code in BEFORE_IMAGES else weight for code, weight in CODES.items()}


def code_column(names: Collection[str], declared: Collection[str]) -> str | None:
    """Returns the column that holds change codes, by its name; None if there is none, or if the relation declares it.

    ``declared``: the columns of the relation, in lower case.
    """
    return next((name for name in CODE_COLUMNS if name in names and name not in declared), None)


@lru_cache(1024)
def meant_for_weight(name: str) -> bool:
    """Returns True if a column of that name may be meant to hold weights.

    This holds for names of weights in other systems, and for misspellings of ``_weight``.
    """
    letters = name.replace("_", "").lower()
    return letters in _WEIGHTS or (letters not in _OTHERS and _slip(letters, _WEIGHTS[0]))


def _slip(one: str, other: str) -> bool:
    """Returns True if two texts differ by one missing, added or changed letter, or by two swapped letters."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    if len(one) == len(other):
        return one[1:] == other[1:] or (one[:2] == other[1::-1] and one[2:] == other[2:])
    return one[1:] == other or one == other[1:]


def meant_for_codes(name: str) -> bool:
    """Returns True if a column of that name may be meant to hold change codes."""
    return name.replace("_", "").lower() in _CODED


def known(codes: Iterable[str] = CODES) -> str:
    """Returns the codes as a list for messages."""
    return ", ".join(codes)
