"""The sum over a join by definition: every combination of tuples, one by one. No relation class, no view tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from random import Random
from typing import Any

from tests.models.rings.algebra import Ring
from tests.models.rings.viewtree.relation import Lifts

Rows = dict[tuple, Any]


def by_definition(
    ring: Ring, schemas: Mapping[str, Sequence[str]], rows: Mapping[str, Rows], lifts: Lifts, free: Sequence[str]
) -> Rows:
    """Per tuple over `free` the sum, over all valuations, of the product of payloads and lifts; zeros left out."""
    out: Rows = {}
    for chosen in product(*(rows[name].items() for name in schemas)):
        values: dict[str, Any] = {}
        fits = all(
            values.setdefault(column, value) == value
            for (row, _), schema in zip(chosen, schemas.values(), strict=True)
            for column, value in zip(schema, row, strict=True)
        )
        if not fits:
            continue
        payload = ring.one
        for _, one in chosen:
            payload = ring.mul(payload, one)
        for column, value in values.items():
            if column in lifts and column not in free:
                payload = ring.mul(payload, lifts[column](value))
        key = tuple(values[column] for column in free)
        out[key] = ring.add(out.get(key, ring.zero), payload)
    return {key: payload for key, payload in out.items() if payload != ring.zero}


def random_schemas(chance: Random) -> dict[str, tuple[str, ...]]:
    """Two to four relations of one to three of the variables A to E, some of them cyclic or unconnected."""
    return {f"R{i}": tuple(chance.sample("ABCDE", chance.randint(1, 3))) for i in range(chance.randint(2, 4))}


def random_row(chance: Random, schema: Sequence[str]) -> tuple[int, ...]:
    return tuple(chance.randint(0, 2) for _ in schema)


def times(ring: Ring, n: int) -> Any:
    """The sum of n ones, or of -n of their inverses: the payload of n copies."""
    payload = ring.zero
    for _ in range(abs(n)):
        payload = ring.add(payload, ring.one if n > 0 else ring.neg(ring.one))
    return payload
