"""The tables of a package of marts, and random changes of their rows."""

from __future__ import annotations

import datetime
import random
import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.oracles.database import Batch, Database, Row, canonical

FOLDER = Path(__file__).parent
PACKAGES = sorted(folder.name for folder in FOLDER.iterdir() if (folder / "tables.txt").exists())
_TYPES = {
    "key": "int64", "id": "int64", "small": "int64", "minutes": "int64", "word": "string", "money": "decimal(10,2)",
    "ratio": "float64", "moment": "timestamp_ntz", "day": "date", "flag": "bool", "words": "array<string>",
    "params": "array<struct<key:string,value:string>>",
}  # fmt: skip
_COLUMN = re.compile(r"(\w+):(\w+)(?:\(([^)]*)\))?(\?)?")
_START = datetime.datetime(2024, 1, 1)


@dataclass(frozen=True)
class Column:
    """A column of a table: what its values are, and whether it may be NULL."""

    name: str
    kind: str
    words: tuple[str, ...]
    optional: bool

    def value(self, rng: random.Random) -> Any:
        """Returns a value, from so few that rows meet."""
        if self.optional and rng.random() < 0.25:
            return None
        hours = rng.choice((rng.randrange(72), rng.randrange(24 * 90)))
        moment = _START + datetime.timedelta(hours=hours, minutes=rng.choice((0, 10, 40)))
        made: dict[str, Any] = {
            "key": rng.randint(1, 12),
            "id": rng.randint(1, 5),
            "small": rng.randint(0, 3),
            "minutes": rng.choice((0, 5, 30, 60, 600)),
            "money": Decimal(rng.choice((0, 500, 999, 2050, 10000))) / 100,
            "ratio": rng.choice((0.5, 1.0, 1.25)),
            "moment": moment,
            "day": moment.date(),
            "flag": rng.random() < 0.7,
            "words": [rng.choice(("vip", "New", "new")) for _ in range(rng.randrange(3))],
            "params": [
                {"key": rng.choice("pq"), "value": rng.choice(("1", "2", None))} for _ in range(rng.randrange(3))
            ],
        }
        return rng.choice(self.words) if self.kind == "word" else made[self.kind]


def columns(package: str) -> dict[str, tuple[Column, ...]]:
    """Returns the columns of each table of a package."""
    found = {}
    for line in (FOLDER / package / "tables.txt").read_text().splitlines():
        name, _, said = line.partition(" ")
        parts = _COLUMN.findall(said)
        found[name] = tuple(Column(c, kind, tuple(words.split(",")), bool(mark)) for c, kind, words, mark in parts)
    return found


def schema(package: str) -> dict[str, Any]:
    """Returns the tables of a package as a schema; a column `id:key` is the key."""
    made = {}
    for name, of in columns(package).items():
        keys = [column.name for column in of if column.kind == "key"]
        made[name] = {"columns": {column.name: _TYPES[column.kind] for column in of}, **({"key": keys} if keys else {})}
    return made


def marts(package: str) -> dict[str, str]:
    """Returns the models of a package: name to text."""
    return {path.stem: path.read_text() for path in sorted((FOLDER / package).glob("*.sql"))}


def changes(rng: random.Random, package: str, database: Database, most: int) -> Batch:
    """Returns a batch: rows that are deleted, changed in one column, and new, at most so many of each in a table."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    for name, of in columns(package).items():
        there = sorted(database.rows[name].elements(), key=repr)
        gone = rng.sample(there, min(len(there), rng.randint(0, most)))
        keyed = of[0].kind == "key"
        taken = {row[0] for row in database.rows[name]} - {row[0] for row in gone} if keyed else set()
        fresh = [canonical([tuple(column.value(rng) for column in of)])[0] for _ in range(rng.randint(1, 2 * most))]
        for row in gone[: len(gone) // 2]:  # an update is a delete and an insert
            place = rng.randrange(len(of))
            fresh.append(canonical([(*row[:place], of[place].value(rng), *row[place + 1 :])])[0])
        changed = [(row, -1) for row in gone]
        for row in fresh:
            if not keyed or row[0] not in taken:
                changed.append((row, 1))
                taken.add(row[0])
        batch[name] = changed
    return batch
