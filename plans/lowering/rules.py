"""The rules by which a relation is rewritten before it is lowered, in the order in which they are applied."""

from __future__ import annotations

from plans.lowering.clock.conditions import timed
from plans.lowering.comparisons.bests import by_bests
from plans.lowering.comparisons.slices import sliced
from plans.lowering.firsts import first_values
from plans.lowering.groups.narrowing import narrowed
from plans.lowering.groups.numbers import numbered
from plans.lowering.ranks import ranked
from plans.queries.algebra import Relation

RULES = (numbered, ranked, sliced, timed, by_bests, narrowed, first_values)
"""Functions from relation to relation; each returns an equivalent one."""


def rewritten(relation: Relation) -> Relation:
    """Returns an equivalent relation of the forms that are lowered."""
    for rule in RULES:
        relation = rule(relation)
    return relation
