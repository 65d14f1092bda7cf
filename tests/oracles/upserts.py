"""Tables that are updated by key, in DuckDB by INSERT OR REPLACE and DELETE, one change after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from tests.oracles import duck

Row = tuple[Any, ...]
ORDERS = {"columns": {"id": "int64", "v": "string", "n": "int64", "seq": "int64"}, "key": ["id"], "upserts": True}
PARTS = {"v": "string", "w": "int64"}


def schema(sequence: str | None = None) -> dict[str, Any]:
    return {"o": {**ORDERS, "sequence": sequence}, "p": PARTS}


class Twin:
    """DuckDB's table ``o``, to which changes are applied one by one; with a sequence, as its definition says.

    ``behind``: how far behind the greatest sequence deleted keys are remembered; None: for ever. ``keys``: how many
    keys there are.
    """

    def __init__(self, seed: int, ordered: bool, behind: int | None = None, keys: int = 8) -> None:
        self.random, self.ordered, self.clock = Random(seed), ordered, 0
        self.behind, self.keys, self.greatest = behind, keys, -1000
        self.last: dict[int, int] = {}
        self.duck = duck.connected()
        self.duck.execute("CREATE TEMP TABLE o (id BIGINT PRIMARY KEY, v VARCHAR, n BIGINT, seq BIGINT)")
        self.duck.execute("CREATE TEMP TABLE p (v VARCHAR, w BIGINT)")
        for i, v in enumerate("abc"):
            self.duck.execute("INSERT INTO p VALUES (?, ?)", [v, i])

    def batch(self, rows: int) -> list[dict[str, Any]]:
        made = []
        for _ in range(rows):
            self.clock += 1
            at = self.clock - self.random.choice((0, 0, 0, self.random.randrange(30)))
            row = {"id": self.random.randrange(self.keys), "seq": at, "_weight": self.random.choice((1, 1, 1, -1))}
            if row["_weight"] > 0 or self.random.random() < 0.3:
                row |= {"v": self.random.choice(["a", "b", "c", None]), "n": self.random.randrange(5)}
            if self.ordered and any(one["id"] == row["id"] and one["seq"] == at for one in made):
                continue  # which of two changes with one sequence is the last one is tested by itself
            made.append(row)
        return made

    def apply(self, batch: Sequence[dict[str, Any]]) -> int:
        """Returns how many keys had nothing but changes that were too old."""
        late, newest = 0, {}
        forgotten = -1000 if self.behind is None else self.greatest - self.behind
        for row in sorted(batch, key=lambda row: row["seq"]) if self.ordered else batch:
            newest[row["id"]] = row
        for row in newest.values():
            last = self.last.get(row["id"])
            if self.ordered and (row["seq"] <= forgotten if last is None else row["seq"] < last):
                late += 1
                continue
            self.last[row["id"]] = row["seq"]
            if row["_weight"] > 0:
                values = [row["id"], row["v"], row["n"], row["seq"]]
                self.duck.execute("INSERT OR REPLACE INTO o VALUES (?, ?, ?, ?)", values)
            else:
                self.duck.execute("DELETE FROM o WHERE id = ?", [row["id"]])
        self.greatest = max([self.greatest, *(row["seq"] for row in batch)])
        if self.behind is not None:
            there = {key for (key,) in self.duck.execute("SELECT id FROM o").fetchall()}
            end = self.greatest - self.behind
            self.last = {key: last for key, last in self.last.items() if key in there or last > end}
        return late

    def tombstones(self) -> int:
        """Returns how many deleted keys are remembered."""
        (there,) = self.duck.execute("SELECT COUNT(*) FROM o").fetchall()[0]
        return len(self.last) - int(there)

    def result(self, query: str) -> Counter[Row]:
        return Counter(self.duck.execute(query).fetchall())
