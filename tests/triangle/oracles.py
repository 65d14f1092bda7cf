"""Oracles for the triangle tests: nested loops over dictionaries, einsum over dense arrays, random update streams."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import numpy as np
import pytest

EPSILONS = (0.0, 0.25, 1 / 3, 0.4, 0.5, 0.6, 0.75, 1.0)
GOLDEN = Path(__file__).parents[3] / "shared" / "golden" / "triangle.json"

Rows = list[dict[tuple[int, int], int]]
Update = tuple[int, int, int, int]


def brute_force(rows: Rows) -> dict[tuple[int, int, int], int]:
    """Delta3 with multiplicities, by nested loops."""
    r, s, t = rows
    return {
        (a, b, c): m * n * t[c, a] for (a, b), m in r.items() for (b2, c), n in s.items() if b2 == b and (c, a) in t
    }


def project(triples: dict[tuple[int, int, int], int], outputs: str) -> dict[tuple, int]:
    """Sum the triples over the variables that are not free."""
    result: dict[tuple, int] = {}
    for key, weight in triples.items():
        result[key[: len(outputs)]] = result.get(key[: len(outputs)], 0) + weight
    return result


def by_einsum(rows: Rows, outputs: str) -> dict[tuple, int]:
    """The same query as one einsum over the active domains."""
    domains = [sorted({xy[0] for xy in rows[d]} | {xy[1] for xy in rows[(d + 2) % 3]}) for d in range(3)]
    index = [{v: i for i, v in enumerate(domain)} for domain in domains]
    dense = [np.zeros((len(domains[k]), len(domains[(k + 1) % 3])), dtype=np.int64) for k in range(3)]
    for k in range(3):
        for (x, y), m in rows[k].items():
            dense[k][index[k][x], index[(k + 1) % 3][y]] = m
    result = np.einsum(f"ab,bc,ca->{outputs}", *dense)
    if outputs == "":
        return {(): int(result)} if result else {}
    return {
        tuple(domains[d][i] for d, i in enumerate(at)): int(result[at]) for at in zip(*np.nonzero(result), strict=True)
    }


def random_stream(seed: int, length: int, domain: int, deletes: float = 0.4, skew: bool = True) -> list[Update]:
    """Accepted updates: inserts of multiplicity 1 to 3, deletes of part or all of a tuple."""
    rng = random.Random(seed)
    rows: Rows = [{}, {}, {}]
    updates: list[Update] = []
    for _ in range(length):
        k = rng.randrange(3)
        x, y = (min(rng.randrange(domain), rng.randrange(domain)) if skew else rng.randrange(domain) for _ in range(2))
        if rows[k] and rng.random() < deletes:
            x, y = rng.choice(sorted(rows[k]))
            m = -rng.randint(1, rows[k][x, y])
        else:
            m = rng.randint(1, 3)
        store(rows, k, x, y, m)
        updates.append((k, x, y, m))
    return updates


def swinging_hub(k: int, cycles: int) -> list[Update]:
    """Values that cross the heavy threshold in both directions, in every relation and column, again and again."""
    updates: list[Update] = []
    for i in range(k):
        updates += [(rel, i % 5, (i * 3) % 7, 1) for rel in range(3)]
    for cycle in range(cycles):
        rel, column = cycle % 3, (cycle // 3) % 2
        swing = [(rel, 1, 50 + i, 1) if column == 0 else (rel, 50 + i, 1, 1) for i in range(k)]
        partner = [
            ((rel + 1 + column) % 3, 50 + i, 2, 1) if column == 0 else ((rel + 2) % 3, 2, 50 + i, 1) for i in range(4)
        ]
        updates += swing + partner
        updates += [(r, x, y, -m) for r, x, y, m in reversed(swing + partner)]
    return updates


def hubs(degree: int, toggles: int, seed: int = 4) -> tuple[list[Update], list[Update]]:
    """(load, updates): two hubs in every column of every relation, so that every combination of parts has triangles.

    The updates switch single tuples on and off, with other multiplicities, and let hubs sink and rise.
    """
    rng = random.Random(seed)
    pairs = sorted(
        {(x, y) for x in range(2) for y in range(degree)} | {(y, x) for x in range(2) for y in range(degree)}
    )
    load = [(k, x, y, 1) for k in range(3) for x, y in pairs]
    present = {(k, x, y): 1 for k, x, y, _ in load}
    updates: list[Update] = []

    def change(k: int, x: int, y: int) -> None:
        m = -present[k, x, y] if present.get((k, x, y)) else rng.randint(1, 3)
        present[k, x, y] = present.get((k, x, y), 0) + m
        updates.append((k, x, y, m))

    def corners() -> None:
        for k in range(3):
            for x in range(2):
                for y in range(2):
                    change(k, x, y)
                    change(k, x, y)

    corners()
    for i in range(toggles):
        change(rng.randrange(3), *(rng.randrange(2) if rng.random() < 0.5 else rng.randrange(degree) for _ in range(2)))
        if i % (toggles // 6) == 0:
            turn = i // (toggles // 6)
            k, column, hub = turn % 3, turn // 3 % 2, turn // 3 % 2
            for _ in range(2):
                for other in range(2, degree):
                    change(*((k, hub, other) if column == 0 else (k, other, hub)))
                corners()
    return load, updates


def store(rows: Rows, k: int, x: int, y: int, m: int) -> None:
    """Apply one update to plain dictionaries."""
    total = rows[k].get((x, y), 0) + m
    assert total >= 0
    if total:
        rows[k][x, y] = total
    else:
        rows[k].pop((x, y), None)


def golden_cases() -> list[dict]:
    """The golden cases, or none (tests that use them skip) where the shared folder is absent."""
    if not GOLDEN.exists():
        return []
    return json.loads(GOLDEN.read_text())["cases"]


def golden_parameters() -> list:
    """Parametrize material: one case each, or one skipped placeholder."""
    cases = golden_cases()
    if not cases:
        return [pytest.param(None, marks=pytest.mark.skip(reason="golden cases are not installed"))]
    return [pytest.param(case, id=case["name"]) for case in cases]


def digest(result: dict[tuple, int]) -> str:
    """The golden file's digest of a result."""
    rows = ";".join(",".join(map(str, (*key, weight))) for key, weight in sorted(result.items()))
    return hashlib.sha256(rows.encode()).hexdigest()[:16]
