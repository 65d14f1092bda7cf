"""Sums of doubles are exact over the whole range of doubles: they are those of fractions, after every batch.

The doubles have all exponents, cancel one another, and are infinite or NaN. Each stream ends with nothing.
"""

from __future__ import annotations

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.engine.load.loader import Loader
from crown.kernels.memory import arena as A
from tests.marks import seeds
from tests.models import normalise
from tests.models.aggregates import _moment, rounded

Row = tuple[Any, ...]
EDGES = [
    5e-324, -5e-324, 2.2250738585072014e-308, -2.225073858507201e-308, 1.7976931348623157e308, -1.7976931348623157e308,
    1e308, 1e-30, 3e-36, 1e-40, 2.0**80, -(2.0**80), 2.0**-112, 2.0**-113, 3 * 2.0**-113, 1e30, 0.0, 0.1, -0.1, 1.0,
]  # fmt: skip


def double(random: Random, special: bool) -> float | None:
    """A double of any kind."""
    kind = random.randrange(9)
    if kind == 0:
        return None
    if kind == 1 and special:
        return random.choice((math.inf, -math.inf, math.nan))
    if kind < 5:
        return random.choice(EDGES)
    if kind < 7:
        return round(random.uniform(-100, 100), 3)
    value = float(struct.unpack("<d", random.randbytes(8))[0])
    return value if math.isfinite(value) else 0.25


def total(values: Sequence[float | Fraction]) -> Fraction | float:
    """The exact sum, or what IEEE arithmetic says of values that are not finite."""
    special = [value for value in values if isinstance(value, float) and not math.isfinite(value)]
    return sum(special) if special else sum(map(Fraction, values), Fraction(0))


def as_double(exact: Fraction | float) -> float:
    return float(normalise(rounded(exact) if isinstance(exact, Fraction) else exact))


def summed(values: Iterable[float | Fraction | None]) -> float | None:
    there = [value for value in values if value is not None]
    return as_double(total(there)) if there else None


def averaged(values: Iterable[float | Fraction | None]) -> float | None:
    there = [value for value in values if value is not None]
    return as_double(total(there) / len(there)) if there else None


def moment(function: str, pairs: Iterable[tuple[Any, Any]]) -> float | None:
    """A moment as the reference computes it, of pairs (y, x) without NULL."""
    there = [pair for pair in pairs if None not in pair]
    if len(there) <= function.endswith("_samp"):
        return None
    if not all(math.isfinite(value) for pair in there for value in pair):
        return math.nan
    found = _moment(function, [y for y, _ in there], [x for _, x in there])
    return None if found is None else float(normalise(found))


def times(one: float | None, other: float | None) -> float | Fraction | None:
    """The product of the true numbers."""
    if one is None or other is None:
        return None
    finite = math.isfinite(one) and math.isfinite(other)
    return Fraction(one) * Fraction(other) if finite else one * other


def less(one: float | None, other: float | None) -> float | Fraction | None:
    """The difference of the true numbers."""
    if one is None or other is None:
        return None
    finite = math.isfinite(one) and math.isfinite(other)
    return Fraction(one) - Fraction(other) if finite else one - other


TABLES = {"a": {"k": "int64", "g": "int64", "x": "float64"}, "b": {"k": "int64", "y": "float64", "n": "int64"}}
OF_ROWS = (
    "SELECT g, SUM(x) AS s, AVG(x) AS m, SUM(DISTINCT x) AS d, STDDEV_POP(x) AS p, VAR_SAMP(x) AS v, SUM(x) FILTER "
    "(WHERE k > 1) AS f FROM a GROUP BY g"
)
WHOLE = "SELECT SUM(x) AS s, AVG(x) AS m FROM a"
OF_A_JOIN = (
    "SELECT a.g, SUM(a.x * b.y) AS p, SUM(a.x) AS s, AVG(b.y) AS m, SUM(a.x - b.y) AS d, SUM(a.x * b.n) AS n, "
    "COVAR_POP(a.x, b.y) AS c, VAR_POP(a.x) AS v, SUM(b.y * 1e-300) AS t FROM a, b WHERE a.k = b.k GROUP BY a.g"
)
OF_BOTH = "SELECT a.g, b.n, SUM(a.x) AS s, SUM(a.x * b.y) AS p FROM a, b WHERE a.k = b.k GROUP BY a.g, b.n"


def of_rows(rows: list[Row]) -> Iterator[Row]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[1]].append(row)
    for g, inside in groups.items():
        x = [row[2] for row in inside]
        distinct = {repr(value): value for value in x}.values()
        ones = [(value, value) for value in x]
        filtered = [row[2] for row in inside if row[0] > 1]
        yield (
            *(g, summed(x), averaged(x), summed(distinct)),
            *(moment("stddev_pop", ones), moment("var_samp", ones), summed(filtered)),
        )


def joined(rows: Sequence[list[Row]]) -> Iterator[tuple[Row, Row]]:
    return ((a, b) for a, b in product(*rows) if a[0] == b[0])


def of_a_join(rows: Sequence[list[Row]]) -> Iterator[Row]:
    groups: dict[Any, list[tuple[Row, Row]]] = defaultdict(list)
    for a, b in joined(rows):
        groups[a[1]].append((a, b))
    for g, inside in groups.items():
        pairs = [(a[2], b[1]) for a, b in inside]
        yield (
            *(g, summed(times(x, y) for x, y in pairs), summed(x for x, _ in pairs), averaged(y for _, y in pairs)),
            *(
                summed(less(x, y) for x, y in pairs),
                summed(times(a[2], float(b[2])) for a, b in inside),
                moment("covar_pop", pairs),
            ),
            *(
                moment("var_pop", [(x, x) for x, _ in pairs]),
                summed(None if y is None else y * 1e-300 for _, y in pairs),
            ),
        )


def of_both(rows: Sequence[list[Row]]) -> Iterator[Row]:
    groups: dict[Any, list[tuple[Row, Row]]] = defaultdict(list)
    for a, b in joined(rows):
        groups[a[1], b[2]].append((a, b))
    for key, inside in groups.items():
        yield (*key, summed(a[2] for a, _ in inside), summed(times(a[2], b[1]) for a, b in inside))


def whole(rows: list[Row]) -> Iterator[Row]:
    yield summed(row[2] for row in rows), averaged(row[2] for row in rows)


QUERIES = {
    "rows": (OF_ROWS, lambda rows: of_rows(rows[0])),
    "whole": (WHOLE, lambda rows: whole(rows[0])),
    "join": (OF_A_JOIN, of_a_join),
    "both": (OF_BOTH, of_both),
}


def stream(random: Random, turns: int, special: bool) -> Iterator[list[list[tuple[Row, int]]]]:
    """Batches of both relations as rows with weights, which come, go, and are all gone in the end."""
    there: list[list[Row]] = [[], []]
    for turn in range(turns):
        batch: list[list[tuple[Row, int]]] = []
        for rows, relation in zip(there, "ab", strict=True):
            random.shuffle(rows)
            gone = len(rows) if turn == turns - 1 else random.randrange(len(rows) // 2 + 1)
            changes = [(row, -1) for row in rows[:gone]]
            del rows[:gone]
            for _ in range(random.randrange(7) if turn < turns - 1 else 0):
                k, value, more = random.randrange(3), double(random, special), random.randrange(2)
                row = (k, more, value) if relation == "a" else (k, value, random.choice((-7, 3, 2**40)))
                rows.append(row)
                changes.append((row, 1))
                if value is not None and random.random() < 0.3:  # it cancels
                    other = (k, more, -value) if relation == "a" else (k, -value, row[2])
                    rows.append(other)
                    changes.append((other, 1))
            batch.append(changes)
        yield batch


def batch_of(changes: list[list[tuple[Row, int]]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [{**dict(zip(TABLES[name], row, strict=True)), "_weight": weight} for row, weight in of]
        for name, of in zip(TABLES, changes, strict=True)
    }


def bag(rows: Iterable[Row]) -> Counter[str]:
    """Rows that are equal bit by bit, but for the NaN and the zero that there are."""
    return Counter(repr([normalise(value) for value in row]) for row in rows)


@pytest.mark.parametrize(
    ("query", "threads"), [("rows", 1), ("whole", 1), ("join", 1), ("join", 2), ("both", 1), ("both", 2)]
)
@pytest.mark.parametrize("seed", seeds(2, 60))
def test_sums_of_doubles_are_those_of_fractions_after_every_batch(seed: int, query: str, threads: int) -> None:
    random = Random(f"{seed} {query}")
    text, expected = QUERIES[query]
    view = crown.view(text, TABLES, threads=threads)
    view.update({"a": [], "b": []} if query in ("join", "both") else {"a": []})
    empty = [int(part[A.H_LIVE]) for part in view._engine.memory.parts[1:]]
    told: Counter[str] = Counter(bag(tuple(row.values()) for row in view.to_table().to_pylist()))
    there: list[Counter[Row]] = [Counter(), Counter()]
    for changes in stream(random, 9, special=seed % 2 == 1):
        batch = {name: rows for name, rows in batch_of(changes).items() if query in ("join", "both") or name == "a"}
        for rows, of in zip(there, changes, strict=True):
            for row, weight in of:
                rows[tuple(map(normalise, row))] += weight
        wanted = bag(expected([list((+rows).elements()) for rows in there]))
        delta = view.apply(batch).to_pylist()
        for row in delta:
            weight = row.pop("_weight")
            told[repr([normalise(value) for value in row.values()])] += weight
        found = bag(tuple(row.values()) for row in view.to_table().to_pylist())
        assert found == wanted
        assert Counter({row: n for row, n in told.items() if n}) == wanted
        view.check_invariants()
    assert [int(part[A.H_LIVE]) for part in view._engine.memory.parts[1:]] == empty


@pytest.mark.parametrize("query", ["join", "both"])
@pytest.mark.parametrize("seed", seeds(2, 40))
def test_sums_of_doubles_that_enter_in_bulk_are_the_same(
    seed: int, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loader, "min_tuples", 1)
    monkeypatch.setattr(Loader, "chunk_tuples", 3)
    text, expected = QUERIES[query]
    view, there = crown.view(text, TABLES), [Counter[Row](), Counter[Row]()]
    for changes in stream(Random(f"{seed} {query}"), 6, special=False):
        for rows, of in zip(there, changes, strict=True):
            for row, weight in of:
                rows[tuple(map(normalise, row))] += weight
        view.update(batch_of(changes))
        found = bag(tuple(row.values()) for row in view.to_table().to_pylist())
        assert found == bag(expected([list((+rows).elements()) for rows in there]))
        view.check_invariants()


def test_a_snapshot_has_the_sums_of_far_doubles(tmp_path: Path) -> None:
    view = crown.view(OF_A_JOIN, TABLES)
    rows = {"a": {"k": [1, 1], "g": [0, 0], "x": [1e300, -3e-310]}, "b": {"k": [1], "y": [1e-300], "n": [2**40]}}
    view.update(rows)
    view.save(tmp_path / "saved")
    again = crown.load(tmp_path / "saved")
    assert again.to_table() == view.to_table()
    again.check_invariants()
    gone = {name: {**columns, "_weight": [-1] * len(columns["k"])} for name, columns in rows.items()}
    again.update(gone)
    assert again.to_table().num_rows == 0
    again.check_invariants()
