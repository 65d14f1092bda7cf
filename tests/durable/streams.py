"""Streams for durable views: queries of every kind of engine, random batches by number, and what they come to."""

from __future__ import annotations

import os
import random
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

import crown

SCHEMA = {"r": {"a": "int64", "s": "string"}, "t": {"s": "string", "x": "float64", "day": "date"}}
QUERIES = {
    "join": "SELECT DISTINCT a, r.s AS s, x FROM r, t WHERE r.s = t.s AND x > 0.25",
    "projection": "SELECT DISTINCT a, day FROM r, t WHERE r.s = t.s",
    "groups": "SELECT r.s AS s, COUNT(*) AS n, SUM(x) AS total, MAX(day) AS day FROM r, t WHERE r.s = t.s GROUP BY r.s",
    "call": (
        "SELECT r.s AS s, day, SUM(a * (a - 2)) AS total, COUNT(*) AS n FROM r, t WHERE r.s = t.s AND t.s <> 's1' "
        "GROUP BY r.s, day"
    ),
    "bag": "SELECT s FROM r UNION ALL SELECT s FROM t WHERE x > 0.25",
    "outer": "SELECT a, x FROM r LEFT JOIN t ON r.s = t.s AND x > 0.5",
}


def batch(seed: int, number: int) -> dict[str, list[dict[str, Any]]]:
    """Batch ``number`` of a stream; some delete what is there, some what is not, some have no rows."""
    source = random.Random(1000 * seed + number)

    def weight() -> int:
        return source.choice((1, 1, 1, 2, -1))

    rows = source.choice((0, 1, 3, 12))
    r = [{"a": source.randrange(6), "s": f"s{source.randrange(5)}", "_weight": weight()} for _ in range(rows)]
    t = [
        {
            "s": source.choice((None, *(f"s{i}" for i in range(5)))),
            "x": source.randrange(8) / 8,
            "day": f"2024-01-0{1 + source.randrange(9)}",
            "_weight": weight(),
        }
        for _ in range(source.randrange(4))
    ]
    return {"r": r, "t": t} if source.random() < 0.8 else {"t": t}


def tables(seed: int, number: int) -> dict[str, pa.Table]:
    """The same batch in Arrow, with the types that the tables have."""
    kinds = {"a": pa.int64(), "s": pa.string(), "x": pa.float64(), "day": pa.date32()}

    def column(name: str, rows: list[dict[str, Any]]) -> pa.Array:
        return pa.array([row[name] for row in rows], pa.string() if name == "day" else kinds[name]).cast(kinds[name])

    return {
        table: pa.table(
            {name: column(name, rows) for name in SCHEMA[table]}
            | {"_weight": pa.array([row["_weight"] for row in rows], pa.int64())}
        )
        for table, rows in batch(seed, number).items()
    }


def contents(view: crown.View) -> Counter[str]:
    """The result, as a bag of texts."""
    found: Counter[str] = Counter()
    for row in view.to_table().to_pylist():
        copies = row.pop("_weight", 1)
        found[str(row)] += copies
    return found


@cache
def recomputed(query: str, seed: int, batches: int) -> Counter[str]:
    """What a plain view has after that many batches."""
    view = crown.view(query, SCHEMA)
    for number in range(batches):
        view.update(batch(seed, number))
    return contents(view)


def names(folder: Path) -> set[str]:
    """The files in a folder that are not hidden."""
    return {name for name in os.listdir(folder) if not name.startswith(".")}
