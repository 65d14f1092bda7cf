"""Payloads by definition: join all rows, multiply weights and factors, sum per tuple of the free attributes."""

from __future__ import annotations

from collections import Counter, defaultdict
from math import prod

from plans.payloads.payload import COUNTED, EXISTS
from plans.plan import Plan
from tests.models.payload import factor
from tests.oracles.database import Database, Row

Valued = dict[Row, tuple[int, ...]]
"""Tuple of the free attributes → value of every term; tuples that do not occur are absent."""


def results(plan: Plan, database: Database) -> Valued:
    """The values of all terms over ``database``, per tuple of ``plan.free``."""
    payload = plan.payload
    assert payload is not None
    uses = Counter(name for node in plan.nodes if node.kind == "input" for name in node.attributes)
    copies: list[Counter[Row]] = []
    for node in plan.nodes:
        rows: Counter[Row] = Counter()
        if node.kind == "input":
            columns = database.columns(node.relation)
            where = [columns.index(c) for c in node.columns]
            for row, n in database.rows[node.relation].items():
                values = tuple(row[i] for i in where)
                joined = zip(node.attributes, values, strict=True)
                if all(v is not None or uses[a] == 1 or plan.attributes[a].null_safe for a, v in joined):
                    rows[values] += n
        copies.append(rows)
    names: list[str] = []  # of what a valuation says
    valuations: list[tuple[Row, dict[str, object]]] = [((), {})]
    for i, node in enumerate(plan.nodes):
        if node.kind == "input":
            matches = defaultdict(list)
            keys = [a for a in node.attributes if a in names]
            for row in copies[i]:
                values_of = dict(zip(node.attributes, row, strict=True))
                matches[tuple(values_of[a] for a in keys)].append(values_of)
            valuations = [((), old | new) for _, old in valuations for new in matches[tuple(old[a] for a in keys)]]
            names = list(dict.fromkeys([*names, *node.attributes]))
    kept = [n for n in names if any(n in v.attributes and payload.kinds[i] != EXISTS for i, v in enumerate(plan.nodes))]
    distinct = {tuple(values[n] for n in kept) for _, values in valuations}
    found: dict[Row, list[int]] = {}
    for row in distinct:
        values = dict(zip(kept, row, strict=True))
        weight = prod(
            copies[i][tuple(values[a] for a in node.attributes)]
            for i, node in enumerate(plan.nodes)
            if payload.kinds[i] == COUNTED
        )
        totals = found.setdefault(tuple(values[a] for a in plan.free), [0] * len(payload.terms))
        for j, term in enumerate(payload.terms):
            totals[j] += weight * prod(factor(values[name], plan.attributes[name].type, what) for _, name, what in term)
    return {row: tuple(totals) for row, totals in found.items()}
