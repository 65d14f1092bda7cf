"""Recognizes the query of a checkpoint in another spelling; the stream then continues with the checkpoint's plan.

A plan's fingerprint contains variables and aliases, because the layout of state depends on them. A query that only
renames them, or reorders its atoms, has another fingerprint and the same result. So the stored query is planned again.
If its plan has the stored fingerprint, and the two plans are isomorphic, the stored plan is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from plans.errors import PlanError, QueryWarning
from plans.program import Program
from plans.theory.isomorphism import difference, isomorphic
from spark_jobs.errors import PlanChangedError, SparkJobError
from spark_jobs.log.meta import read_meta
from spark_jobs.storage.folder import Folder


def kept(
    plan: Program,
    state: Folder | None,
    certain: bool,
    planned: Callable[[str, str], Program],
) -> Program:
    """Returns the plan by which ``state`` is laid out, if ``plan`` is the same query; else ``plan``.

    ``state``: the operator's folder, or None; ``certain``: the state belongs to this stream. ``planned(query,
    dialect)`` plans a text. Raises :class:`PlanChangedError` with the difference, if the state is this stream's and of
    another query that can still be planned.
    """
    meta = _meta(state)
    if meta is None or meta["fingerprint"] == plan.fingerprint:
        return plan
    for dialect in ("spark", "ansi"):
        stored = _again(meta["query"], dialect, planned)
        if stored is None or stored.fingerprint != meta["fingerprint"]:
            continue  # its tables are no longer given, or are declared differently
        if isomorphic(stored, plan):
            return stored
        if certain:
            before = f"plan {meta['fingerprint']} ({_line(meta['query'])})"
            now = f"plan {plan.fingerprint} ({_line(plan.query)})"
            raise PlanChangedError(
                f"the state in {state} was written by {before}, but this is {now}: {difference(stored, plan)}. A "
                "changed query needs its own state: give it a new checkpoint, or go back to this one's query. Two "
                "queries in one stream need different operator= names"
            )
        return plan
    return plan


def _meta(state: Folder | None) -> dict[str, Any] | None:
    """Returns the ``meta.json`` of the state; before the first batch, that of the backfill from which it starts."""
    if state is None:
        return None
    return read_meta(state) or read_meta(state.parent.parent / "backfill" / state.name)


def _again(query: str, dialect: str, planned: Callable[[str, str], Program]) -> Program | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QueryWarning)
        try:
            return planned(query, dialect)
        except (PlanError, SparkJobError):
            return None


def _line(query: str) -> str:
    return " ".join(query.split())
