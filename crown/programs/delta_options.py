"""Options of the deltas of a batch: whether they are delivered, and in which form."""

from __future__ import annotations

from dataclasses import dataclass

from crown.results.ranged import RangedRows


@dataclass(frozen=True, slots=True)
class DeltaOptions:
    """Options of the deltas of a batch.

    - ``deltas``: False if none are delivered. A join then need not enumerate them.
    - ``consolidate``: True to leave out rows that a batch both inserts and deletes; None to do so where the query needs
      it.
    - ``factorized``: True for factorized rows.
    - ``ranged``: delivers ranges instead of rows.
    """

    deltas: bool = True
    consolidate: bool | None = None
    factorized: bool = False
    ranged: RangedRows | None = None


ALL_DELTAS, NO_DELTAS = DeltaOptions(), DeltaOptions(deltas=False)
