"""The rewrite rules that are applied to a relation before it is lowered, in their order."""

from __future__ import annotations

from plans.lowering.clock.conditions import timed
from plans.lowering.comparisons.bests import by_bests
from plans.lowering.comparisons.slices import sliced
from plans.lowering.firsts import first_values
from plans.lowering.groups.copies import grouped_once
from plans.lowering.groups.narrowing import narrowed
from plans.lowering.groups.numbers import numbered
from plans.lowering.ranks import ranked
from plans.queries.algebra import Relation

RULES = (numbered, ranked, sliced, timed, by_bests, narrowed, grouped_once, first_values)
"""Functions from relation to relation. Each returns an equivalent relation."""


def rewritten(relation: Relation) -> Relation:
    """Returns an equivalent relation in the forms that `lower` accepts."""
    for rule in RULES:
        relation = rule(relation)
    return relation
