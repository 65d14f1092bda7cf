"""Change conventions of other systems: the columns and codes that say whether a row is inserted or deleted.

Delta's change data feed and Spark's CHANGES have ``_change_type`` with insert, delete, update_preimage and
update_postimage; Iceberg's changelog views the same column with INSERT, DELETE, UPDATE_BEFORE and UPDATE_AFTER; Flink's
RowKind is +I, -U, +U, -D; Debezium says c, r, u, d of a row before and a row after. Here all of them are weights: an
update is a delete of the row before it and an insert of the row after it, so a code that has both rows in one record
(``u``) must be taken apart first (``spark_jobs.ingest.debezium``, ``crown.changes.from_debezium``).
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
"""Change codes in lower case (they are read in any case), and the weights they stand for."""

BEFORE_IMAGES = frozenset({"-u", "update_preimage", "update_before"})
"""Codes of the row before an update. Where rows are replaced by key they change nothing: the row is known."""

CODE_COLUMNS = (CHANGE_TYPE, ROW_KIND)
"""Columns that hold change codes, without being declared."""

_WEIGHTS = ("weight", "weights", "diff", "mzdiff", "multiplicity")
_OTHERS = ("height", "eight")  # words that are a letter away from one of them
_CODED = ("op", "optype", "changetype", "rowkind", "changeop", "operation", "deleted", "isdeleted")


@cache
def weights_of_codes(upserts: bool) -> dict[str, int]:
    """Returns the codes and their weights; where rows are replaced by key, the row before an update has weight 0."""
    return {code: 0 if upserts and code in BEFORE_IMAGES else weight for code, weight in CODES.items()}


def code_column(names: Collection[str], declared: Collection[str]) -> str | None:
    """Returns the column that holds change codes by its name; None if there is none, or if the relation declares it.

    ``declared``: the columns of the relation, in lower case.
    """
    return next((name for name in CODE_COLUMNS if name in names and name not in declared), None)


@lru_cache(1024)
def meant_for_weight(name: str) -> bool:
    """Returns True if a column of that name may be meant to say how many copies of a row are inserted or deleted.

    So it is with the words of others for a weight, and with names that are a slip away from ours.
    """
    letters = name.replace("_", "").lower()
    return letters in _WEIGHTS or (letters not in _OTHERS and _slip(letters, _WEIGHTS[0]))


def _slip(one: str, other: str) -> bool:
    """Returns True if a text is another with one letter left out, put in or changed, or with two letters swapped."""
    if abs(len(one) - len(other)) > 1:
        return False
    start = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    if len(one) == len(other):
        return one[1:] == other[1:] or (one[:2] == other[1::-1] and one[2:] == other[2:])
    return one[1:] == other or one == other[1:]


def meant_for_codes(name: str) -> bool:
    """Returns True if a column of that name may be meant to say whether a row is inserted or deleted."""
    return name.replace("_", "").lower() in _CODED


def known(codes: Iterable[str] = CODES) -> str:
    """Returns the codes as a list for people."""
    return ", ".join(codes)
