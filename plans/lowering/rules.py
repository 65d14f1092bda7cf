"""The rules by which a relation is rewritten before it is lowered, in the order in which they are applied."""

from __future__ import annotations

from plans.lowering.bests import by_bests
from plans.lowering.clock import timed
from plans.lowering.narrowing import narrowed
from plans.lowering.numbers import numbered
from plans.lowering.ranks import ranked
from plans.lowering.slices import sliced
from plans.queries.algebra import Relation

RULES = (numbered, ranked, sliced, timed, by_bests, narrowed)
"""Functions from relation to relation; each returns an equivalent one."""


def rewritten(relation: Relation) -> Relation:
    """Returns an equivalent relation of the forms that are lowered."""
    for rule in RULES:
        relation = rule(relation)
    return relation
