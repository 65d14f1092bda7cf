"""Says which deltas of a batch are delivered, and in which form."""

from __future__ import annotations

from dataclasses import dataclass

from crown.results.ranged import RangedRows


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which deltas of a batch are delivered, and in which form.

    ``deltas`` False: none, which a join makes use of. ``consolidate``: without what a batch both adds and removes; None
    where the query needs it. ``factorized``: as factorized rows. ``ranged``: as ranges.
    """

    deltas: bool = True
    consolidate: bool | None = None
    factorized: bool = False
    ranged: RangedRows | None = None


HELD = object()
"""What a transaction that is held yields when everything is applied and nothing stands yet. The batch stands when the
generator goes on, which must not be closed then."""
ALL, NOTHING = Wanted(), Wanted(deltas=False)
