"""Random rows for random queries: the tables, values from so few that rows meet, and batches with deletes."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from decimal import Decimal
from typing import Any

from tests.oracles.database import Batch, Database, Row, canonical

TABLES: dict[str, Any] = {
    "r": {"a": "int64", "b": "int64"},
    "s": {"b": "int64", "c": "string"},
    "t": {"columns": {"k": "int64", "v": "int64", "d": "decimal(10,2)"}, "key": ["k"]},
    "u": {"a": "int32", "x": "float64"},
    "e": {"id": "int64", "at": "timestamp_ntz", "day": "date", "flag": "bool"},
    "n": {"id": "int64", "tags": "array<int64>", "box": "struct<m:int64,s:string>"},
}
_NAMES = {
    "int64": "int", "int32": "int", "string": "str", "float64": "dbl", "timestamp_ntz": "ts", "date": "day",
    "bool": "bool", "decimal(10,2)": "dec", "array<int64>": "list", "struct<m:int64,s:string>": "box",
}  # fmt: skip
_SMALL, _NAN = (0, 1, 2, 3, None), float("nan")
_DAYS = tuple(datetime.date(2024, month, day) for month, day in ((1, 1), (1, 31), (2, 29), (3, 1), (12, 31)))
_MOMENTS = tuple(datetime.datetime(2024, 2, 29, hour, minute) for hour, minute in ((0, 0), (0, 30), (13, 59), (23, 1)))
POOLS: dict[str, tuple[Any, ...]] = {
    "int": _SMALL,
    "str": ("p", "q", "P", "10", "", "ü", None),
    "dbl": (0.5, 1.0, 2.0, -1.25, -0.0, 0.0, _NAN, None),
    "dec": (Decimal("1.50"), Decimal("-0.25"), Decimal("0.00"), None),
    "day": (*_DAYS, None),
    "ts": (*_MOMENTS, None),
    "bool": (True, False, None),
    "list": ((), (1,), (2, 1), (None, 1), None),
    "box": ({"m": 1, "s": "p"}, {"m": None, "s": "q"}, {"m": 2, "s": None}, None),
}


def _columns() -> dict[str, tuple[tuple[str, str], ...]]:
    found = {}
    for name, table in TABLES.items():
        columns = table.get("columns", table)
        found[name] = tuple((column, _NAMES[type_]) for column, type_ in columns.items())
    return found


COLUMNS = _columns()


def row(rng: random.Random, name: str) -> Row:
    """A random row of a table."""
    return canonical([tuple(rng.choice(POOLS[type_]) for _, type_ in COLUMNS[name])])[0]


def batch(rng: random.Random, database: Database) -> Batch:
    """Deletes of rows that are there, all copies or one, and inserts that keep the key of ``t``."""
    made: dict[str, list[tuple[Row, int]]] = {}
    for name in rng.sample(sorted(TABLES), rng.randint(1, len(TABLES))):
        there = database.rows[name]
        gone = rng.sample(sorted(there, key=repr), min(len(there), rng.randint(0, 3)))
        changes = [(one, -rng.choice((1, there[one]))) for one in gone]
        left = +(there + Counter(dict(changes)))
        keys = {one[0] for one in left} if name == "t" else set()
        for _ in range(rng.randint(0, 4)):
            new = (rng.randrange(5), *row(rng, name)[1:]) if name == "t" else row(rng, name)
            if name != "t" or new[0] not in keys:
                changes.append((new, 1))
                keys.add(new[0])
        made[name] = changes
    return made
