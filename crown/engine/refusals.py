"""Batches that are refused before anything has changed, because a delete would find too little."""

from __future__ import annotations

import numpy as np

from crown.engine.kernels.state import missing_copies
from crown.engine.state.arenas import State
from crown.errors import MissingDeleteError
from crown.ingest.batch import Prepared
from crown.store.codec import decode
from crown.store.relations import StoredRelation
from crown.store.shown import shown
from plans.plan import Plan


def refuse_missing(state: State, prepared: Prepared) -> None:
    """Raises MissingDeleteError if a delete of the batch would find fewer copies than it removes. O(deletes)."""
    for change in prepared.changes:
        deletes, relation = change.tuples(-1), change.relation
        alias = relation.aliases[0]
        if not len(deletes):
            continue
        if alias.node in state.bags:
            at = state.bags[alias.node].missing_copies(alias.atom, deletes)
        else:
            record = state.compiled.record[alias.node]
            at = int(
                missing_copies(state.arena, state.halves, state.plan_array, record, deletes.flat(), -deletes.weights)
            )
        if at >= 0:
            values = _values(state, relation, deletes.rows[at])
            raise MissingDeleteError(
                f"relation {relation.name!r}: the batch deletes {-int(deletes.weights[at])} copies of {values}, "
                "more than there are; "
                'nothing was applied. Use on_missing="ignore" to clamp such deletes'
            )


def _values(state: State, relation: StoredRelation, codes: np.ndarray) -> dict[str, object]:
    """Returns a tuple's values by column."""
    plan: Plan = state.plan
    alias = relation.aliases[0]
    return {
        relation.columns[word]: shown(
            decode(codes[word : word + 1].copy(), plan.attributes[a].type, state.dictionary.extern)[0]
        )
        for a, word in zip(alias.attributes, alias.words, strict=True)
    }
