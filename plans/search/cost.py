"""The cost of a join tree: its height, then Σ depth(e) · rate(e).

The height of a tree bounds its update time (O(1) at height 1; O(1) amortized on FIFO streams at height 2), so it comes
first. The sum is the heuristic of the paper (Section 6.3, "Query plan optimization"): an update of e climbs depth(e)
nodes. A virtual node has one row per key, so a step to it is O(1) in the worst case. It counts as half a step, whereas
the paper does not count it. Otherwise, a virtual root would be preferred wherever one is possible, although it costs a
row and a step. A step to a relation that has one row per key by declared
keys costs the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from plans.errors import PlanError
from plans.queries.conjunction import Atom

ONE_ROW_STEP = 0.5


def step_cost(one_row: bool) -> float:
    """Returns the cost of one step up to a parent node. ``one_row``: the parent has at most one row per key."""
    return ONE_ROW_STEP if one_row else 1.0


def atom_rates(atoms: tuple[Atom, ...], rates: Mapping[str, float] | None) -> tuple[float, ...]:
    """Returns the rate of each atom: that of its name if given, else that of its table if given, else 1. Only ratios
    matter."""
    aliases = [atom.name.partition("[")[0] for atom in atoms]
    given = checked_rates(rates, {*aliases, *(atom.relation for atom in atoms)})
    return tuple(
        given.get(alias.lower(), given.get(atom.relation.lower(), 1.0))
        for alias, atom in zip(aliases, atoms, strict=True)
    )


def checked_rates(rates: Mapping[str, float] | None, names: set[str]) -> dict[str, float]:
    """Returns the rates by name in lower case. Raises PlanError for a value that is not a rate, or a name not in
    `names`."""
    given = {str(name).lower(): _number(name, rate) for name, rate in (rates or {}).items()}
    known = {name.lower() for name in names}
    for name, rate in given.items():
        if name not in known:
            raise PlanError(f"a rate is given for {name!r}, which the query does not use")
        if not 0 <= rate < float("inf"):
            raise PlanError(f"the rate of {name!r} is {rate}", hint="a rate is a number of updates, 0 or more")
    return given


def _number(name: str, rate: float) -> float:
    try:
        return float(rate)
    except (TypeError, ValueError):
        raise PlanError(f"the rate of {name!r} is {rate!r}", hint="a rate is a number of updates, 0 or more") from None
