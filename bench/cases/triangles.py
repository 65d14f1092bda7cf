"""Adversarial instances for triangle maintenance, in which first-order maintenance, or a wrong threshold, must show.

Each is a pair (load, updates) of int64 rows (relation, x, y, m). `rotate` renames R -> S -> T -> R, because an instance
that is hard for updates of one relation says nothing about the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

Instance = tuple[np.ndarray, np.ndarray]
FAR, FARTHER = 10**6, 2 * 10**6


def _rows(k: int, x: np.ndarray | int, y: np.ndarray | int) -> np.ndarray:
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.int64), np.asarray(y, dtype=np.int64))
    return np.stack([np.full(x.size, k), x.reshape(-1), y.reshape(-1), np.ones(x.size, dtype=np.int64)], axis=1)


def _grid(k: int, xs: int, ys: int) -> np.ndarray:
    x, y = np.meshgrid(np.arange(xs), np.arange(ys), indexing="ij")
    return _rows(k, x, y)


def _toggle(k: int, times: int) -> np.ndarray:
    rows = np.zeros((times, 4), dtype=np.int64)
    rows[:, 0] = k
    rows[:, 3] = np.where(np.arange(times) % 2 == 0, 1, -1)
    return rows


def rotate(rows: np.ndarray, by: int) -> np.ndarray:
    """Returns the same rows with R renamed to S, S to T, T to R, `by` times."""
    rows = rows.copy()
    rows[:, 0] = (rows[:, 0] + by) % 3
    return rows


def two_lists(n: int) -> Instance:
    """Returns two long lists without a common value that meet at R(0, 0). First-order maintenance walks one of them:
    O(N).
    """
    i = np.arange(n)
    return np.concatenate([_rows(1, 0, 2 * i), _rows(2, 2 * i + 1, 0)]), _toggle(0, 32)


def hub_wall(k: int) -> Instance:
    """Returns k / 16 heavy C-values, and long light lists: O(sqrt N) for IVM^eps, O(N) first-order. 16 divides k."""
    i = np.arange(k * k // 64)
    walls = [_grid(2, k // 16, k), _rows(2, FAR + i, 0), _rows(1, 0, FARTHER + i)]
    return np.concatenate(walls), _toggle(0, 32)


def rated_walls(k: int, rates: tuple[int, int, int], updates: int) -> Instance:
    """Returns three hub walls over separate values, one for updates of each relation, updated in proportion to
    `rates`.
    """
    apart = 10**8
    walls = [rotate(hub_wall(k)[0], r) + np.array([0, r * apart, r * apart, 0]) for r in range(3)]
    relations = np.random.default_rng(1).choice(3, size=updates, p=np.array(rates) / sum(rates))
    rows = np.stack([relations, relations * apart, relations * apart, np.zeros(updates, dtype=np.int64)], axis=1)
    for r in range(3):
        own = np.flatnonzero(relations == r)
        rows[own, 3] = np.where(np.arange(len(own)) % 2 == 0, 1, -1)
    return np.concatenate(walls), rows


def light_wall(k: int) -> Instance:
    """Returns a graph whose light lists are as long as possible: every algorithm needs sqrt N."""
    b, i = np.meshgrid(np.arange(k // 4), np.arange(k // 4), indexing="ij")
    return np.concatenate([_rows(1, b, FAR + b * k + i), _rows(2, np.arange(k * k // 4), 0)]), _toggle(0, 32)


def wall(size: int, epsilon: float) -> Instance:
    """Returns hub wall (eps < 1/2) or light wall with lists of theta(N^eps), the worst case of IVM^eps at that eps."""
    if epsilon < 0.5:
        degree = math.ceil(6 * size**epsilon)
        i = np.arange(size // 4)
        hubs = _grid(2, max(size // (4 * degree), 1), degree)
        return np.concatenate([hubs, _rows(2, FAR + i, 0), _rows(1, 0, FARTHER + i)]), _toggle(0, 32)
    degree = max(int(size**epsilon / 4), 1)
    b, j = np.meshgrid(np.arange(max(size // (4 * degree), 1)), np.arange(degree), indexing="ij")
    return np.concatenate([_rows(1, b, FAR + b * degree + j), _rows(2, np.arange(size // 2), 0)]), _toggle(0, 32)


def sit_wall(k: int) -> Instance:
    """Returns a graph with many heavy neighbours behind a light end, where set intersection tables are written most."""
    i = np.arange(k * k // 64)
    heavy = _grid(2, k, k // 16)
    return np.concatenate([heavy, _rows(1, 0, FAR + i)]), _toggle(1, 32)


def oumv(n: int, rounds: int, seed: int = 0) -> Instance:
    """Returns rounds of a vector, a matrix and a vector of bits, the reduction behind the lower bound: S is a random
    matrix.
    """
    rng = np.random.default_rng(seed)
    b, c = np.nonzero(rng.integers(0, 2, (n, n)))
    u, v = np.zeros(n, dtype=int), np.zeros(n, dtype=int)
    updates = []
    for _ in range(rounds):
        for k, old in ((0, u), (2, v)):
            new = rng.integers(0, 2, n)
            changed = np.flatnonzero(new != old)
            part = _rows(k, 0, changed) if k == 0 else _rows(k, changed, 0)
            part[:, 3] = new[changed] - old[changed]
            updates.append(part)
            old[:] = new
    return _rows(1, b, c), np.concatenate(updates)


def cube(k: int, seed: int = 0) -> Instance:
    """Returns inserts of [k] x [k] into R, S and T in random order, with as many triangles as possible."""
    rows = np.concatenate([_grid(r, k, k) for r in range(3)])
    return rows[:0], np.random.default_rng(seed).permutation(rows)


def thrash(k: int, cycles: int) -> Instance:
    """Returns a hub wall in which an A-value of R alternates between light and heavy."""
    load, _ = hub_wall(k)
    up = _rows(0, 7, np.arange(3 * k))
    down = up.copy()
    down[:, 3] = -1
    return load, np.concatenate([up, down[::-1]] * cycles)


def grow_shrink(n: int, cycles: int, seed: int = 0) -> Instance:
    """Returns updates from empty to n tuples and back, `cycles` times: major rebalancings in both directions."""
    rng = np.random.default_rng(seed)
    side = max(int(math.sqrt(n / 2)), 2)
    rows = np.concatenate([_grid(r, side, side) for r in range(3)])
    updates = []
    for _ in range(cycles):
        up = rng.permutation(rows)[:n]
        down = rng.permutation(up)
        down[:, 3] = -1
        updates += [up, down]
    return rows[:0], np.concatenate(updates)


def zipf(n: int, domain: int, skew: float = 1.0, deletes: float = 0.2, seed: int = 0) -> Instance:
    """Returns tuples with Zipf-distributed ends; a fraction of the updates deletes a live tuple."""
    rng = np.random.default_rng(seed)
    weights = 1.0 / np.arange(1, domain + 1) ** skew
    ends = rng.choice(domain, (n, 2), p=weights / weights.sum())
    relations, chance, picks = rng.integers(0, 3, n), rng.random(n), rng.random(n)
    live: list[tuple[int, int, int]] = []
    where: dict[tuple[int, int, int], int] = {}
    rows = []
    for i in range(n):
        row = (int(relations[i]), int(ends[i, 0]), int(ends[i, 1]))
        if live and (chance[i] < deletes or row in where):
            at = int(picks[i] * len(live))
            row, last = live[at], live.pop()
            if last != row:
                live[at], where[last] = last, at
            del where[row]
            rows.append((*row, -1))
        elif row not in where:
            where[row] = len(live)
            live.append(row)
            rows.append((*row, 1))
    return np.zeros((0, 4), dtype=np.int64), np.array(rows, dtype=np.int64)


def delay_pairs(k: int) -> np.ndarray:
    """Returns complete R 2 x 2k, S 2k x k/4, T k/4 x 2: pairs (a, b) with many candidate buckets."""
    return np.concatenate([_grid(0, 2, 2 * k), _grid(1, 2 * k, k // 4), _grid(2, k // 4, 2)])


def delay_values(k: int) -> np.ndarray:
    """Returns complete R 2k x k/4, S k/4 x k/4, T k/4 x 2k: values a with many candidate pairs."""
    return np.concatenate([_grid(0, 2 * k, k // 4), _grid(1, k // 4, k // 4), _grid(2, k // 4, 2 * k)])


def space_wall(k: int) -> np.ndarray:
    """Returns the instance that maximizes the pair view of single partitioning: N^1.5 / 32 entries. 8 divides k."""
    b, i = np.meshgrid(np.arange(2 * k), np.arange(k // 8), indexing="ij")
    return np.concatenate([_grid(0, k // 8, 2 * k), _rows(1, b, b * (k // 8) + i)])


def star(n: int) -> np.ndarray:
    """Returns S(i, 0), T(0, j), for which factorized maintenance stores n^2 pairs."""
    return np.concatenate([_rows(1, np.arange(n), 0), _rows(2, 0, np.arange(n))])


UPDATES: dict[str, tuple[str, Callable[[int], Instance], tuple[int, ...]]] = {
    "two_lists": ("two lists, toggle R(0,0)", two_lists, (500, 1125, 2000, 4500, 8000, 18000)),
    "hub_wall": ("hub wall, toggle R(0,0)", hub_wall, (64, 96, 128, 192, 256, 384, 512)),
    "light_wall": ("light wall, toggle R(0,0)", light_wall, (64, 96, 128, 192, 256, 384)),
    "sit_wall": ("heavy neighbours, toggle S(0,0)", sit_wall, (64, 96, 128, 192, 256, 384)),
    "oumv": ("vector-matrix-vector rounds", lambda n: oumv(n, 20), (32, 48, 64, 96, 128, 192)),
    "cube": ("cube, random inserts", cube, (12, 18, 24, 36, 48, 72)),
    "thrash": ("swinging degree", lambda k: thrash(k, 3), (64, 96, 128, 192, 256)),
    "grow_shrink": ("grow and shrink", lambda n: grow_shrink(n, 2), (1000, 2250, 4000, 9000, 16000)),
    "zipf": ("Zipf(1) ends, 20% deletes", lambda n: zipf(n, n // 8), (2000, 4500, 8000, 18000, 32000)),
}
"""Instances of streams of updates: name -> title, maker, and the sizes in which it is made."""
