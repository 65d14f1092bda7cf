"""A table with an enforced key, as it is defined: changes of a key that would leave it two rows are refused together.

DuckDB keeps the rows under a PRIMARY KEY of its own, so it would refuse what the definition lets through by mistake.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from random import Random
from typing import Any

from tests.oracles import duck

Row = tuple[Any, ...]
COLUMNS = ("id", "v", "n")
ORDERS = {"columns": {"id": "int64", "v": "string", "n": "int64"}, "key": ["id"], "enforced": True}
PARTS = {"v": "string", "w": "int64"}
SCHEMA: dict[str, Any] = {"o": ORDERS, "p": PARTS}


class Twin:
    """Table ``o``, of which ``used`` columns are read: what they do not tell apart is one tuple. ``p`` is filled.

    ``honest``: batches delete nothing that is not there, but rows of keys that were never there.
    """

    def __init__(self, seed: int, used: Collection[str] = COLUMNS, keys: int = 8, honest: bool = False) -> None:
        self.random, self.keys, self.honest = Random(seed), keys, honest
        self.used = [name for name in COLUMNS if name in used]
        self.rows: dict[int, Row] = {}
        self.duck = duck.connected()
        self.duck.execute("CREATE TEMP TABLE o (id BIGINT PRIMARY KEY, v VARCHAR, n BIGINT)")
        self.duck.execute("CREATE TEMP TABLE p (v VARCHAR, w BIGINT)")
        for row in self.parts():
            self.duck.execute("INSERT INTO p VALUES (?, ?)", list(row.values()))

    @staticmethod
    def parts() -> list[dict[str, Any]]:
        return [{"v": v, "w": i} for i, v in enumerate("abc")]

    def batch(self, rows: int) -> list[dict[str, Any]]:
        """Returns changes: many replace or delete rows that are there, some bring a key a second row, or delete what is
        not there."""
        made: list[dict[str, Any]] = []
        keys = range(self.keys)
        for key in self.random.sample(keys, rows) if self.honest else self.random.choices(keys, k=rows):
            there = [{**self._whole(self.rows[key]), "_weight": -1}] if key in self.rows else []
            row = {"id": key, "v": self.random.choice(["a", "b", "c", None]), "n": self.random.randrange(3)}
            if self.honest:
                weight = self.random.choice((1, 1, 1, 0, 2) if there else (1, 1, 1, 2, -1))
            else:
                weight = self.random.choice((1, 1, 1, 1, 1, -1, 0, 2))
            kept = self.random.random()
            made += there if kept < 0.7 else []
            made += [{**row, "_weight": weight}] if kept > 0.2 or not there else []
        self.random.shuffle(made)
        return made

    def _whole(self, row: Row) -> dict[str, Any]:
        """Returns a tuple as a row; what is not read of it is anything."""
        told = dict(zip(self.used, row, strict=True))
        return {"id": told["id"], "v": told.get("v", "?"), "n": told.get("n", 9)}

    def apply(self, batch: Sequence[dict[str, Any]]) -> list[int]:
        """Returns the places of the rows that are refused; the others are applied."""
        changes: dict[int, Counter[Row]] = defaultdict(Counter)
        for row in batch:
            changes[row["id"]][tuple(row[name] for name in self.used)] += row["_weight"]
        refused = set()
        for key, weights in changes.items():
            after = Counter([self.rows[key]] if key in self.rows else [])
            for row, weight in weights.items():
                after[row] = after[row] + weight if self.honest else max(0, after[row] + weight)
            if after.total() not in (0, 1):
                refused.add(key)
                continue
            self.rows.pop(key, None)
            self.duck.execute("DELETE FROM o WHERE id = ?", [key])
            for row in after.elements():
                self.rows[key] = row
                told = dict(zip(self.used, row, strict=True))
                self.duck.execute("INSERT INTO o VALUES (?, ?, ?)", [told.get(name) for name in COLUMNS])
        return [place for place, row in enumerate(batch) if row["id"] in refused]

    def result(self, query: str) -> Counter[Row]:
        return Counter(self.duck.execute(query).fetchall())
