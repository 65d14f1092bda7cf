"""Bands: the comparison that joins the rows of two feeds, and the outputs of the stage for each pair."""

from __future__ import annotations

from dataclasses import dataclass

from plans.plan import Output

SUMS, GROUPS, ROWS = "sums", "groups", "rows"
"""How a row of one side finds rows of the other side: as sums over all that match, as such sums for each of the groups
that the outputs show, or one by one."""
PairTerm = tuple[tuple[str, str], ...]
"""A product of factors: (feed column, kind of factor), see `plans.payloads.payload`."""


@dataclass(frozen=True)
class Band:
    """Pairs of a row of `bands` and a row of `points` with equal keys (NULL equals NULL), whose point is in the band.

    `keys` are pairs of feed columns. A point is in the band if it is above `low`, a column of `bands`, and below
    `high`. Either bound may be missing or NULL: the band is open there. `outside` says whether the bound itself is
    excluded. The feeds leave out points that are NULL, and empty bands. `outputs` are columns of both feeds, whose
    names differ. `kept`: how each side finds the rows of the other. With `terms`, of which the first is empty, the rows
    also carry the sums of these products, and only group stages read them.
    """

    keys: tuple[tuple[str, str], ...]
    low: str | None
    high: str | None
    outside: tuple[bool, bool]
    point: str
    outputs: tuple[Output, ...]
    kept: tuple[str, str]
    terms: tuple[PairTerm, ...] = ()

    def within(self, point: str, low: str, high: str) -> str:
        """Returns the condition with these names in the syntax of SQL."""
        parts = []
        if self.low is not None:
            parts.append(f"{point} {'>' if self.outside[0] else '>='} {low}")
        if self.high is not None:
            parts.append(f"{point} {'<' if self.outside[1] else '<='} {high}")
        return " AND ".join(parts)
