"""When a folder is opened, many small batches of its log are applied as one, where that is the same as one by one."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.durable.kinds import DatabaseKind, ViewKind
from crown.durable.opening import reopened_database
from tests.marks import slow

SCHEMA = {"r": {"a": "int64", "b": "string", "x": "float64"}, "s": {"b": "string", "c": "int64"}}
VIEWS = {
    "joined": "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "padded": "SELECT r.a, s.c FROM r LEFT JOIN s ON r.b = s.b",
    "counted": "SELECT b, COUNT(*) AS n, SUM(x) AS x, MIN(a) AS least, COUNT(DISTINCT a) AS some FROM r GROUP BY b",
    "ranked": "SELECT a, b FROM (SELECT a, b, RANK() OVER (PARTITION BY b ORDER BY a) AS k FROM r) t WHERE k < 3",
    "all_of_them": "SELECT SUM(n) AS n FROM counted",
}


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Returns a list that gets the number of every batch that is replayed."""
    found: list[int] = []
    for kind in (DatabaseKind, ViewKind):

        def noted(self: Any, engine: Any, batch: int, *more: Any, of: Any = kind.replay) -> Any:
            found.append(batch)
            return of(self, engine, batch, *more)

        monkeypatch.setattr(kind, "replay", noted)
    return found


class Rows:
    """The rows of ``SCHEMA``, and random batches over them."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.held: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in SCHEMA}

    def _value(self, of: str) -> Any:
        return self.rng.choice("xyz") if of == "string" else self.rng.randrange(5) * (0.125 if of == "float64" else 1)

    def batch(self, missing: bool = False) -> dict[str, Any]:
        rng = self.rng
        found: dict[str, Any] = {}
        for name, columns in SCHEMA.items():
            held = self.held[name]
            gone = [row for row in held.elements() if rng.random() < 0.2]
            made = [tuple(map(self._value, columns.values())) for _ in range(rng.randrange(1, 5))]
            held.subtract(gone)
            held.update(made)
            if missing:
                gone.append((99, *made[0][1:]) if name == "r" else (made[0][0], 99))
            weighted = [(row, 1) for row in made] + [(row, -1) for row in gone]
            rng.shuffle(weighted)
            found[name] = [dict(zip(columns, row, strict=True)) | {"_weight": weight} for row, weight in weighted]
        return found


def _content(db: crown.Database) -> dict[str, Counter[str]]:
    return {name: Counter(str(sorted(row.items())) for row in db[name]) for name in db.views}


def _same(db: crown.Database, memory: crown.Database) -> None:
    db.check_invariants()
    assert _content(db) == _content(memory)
    for name in SCHEMA:
        assert Counter(map(str, db.table(name).to_pylist())) == Counter(map(str, memory.table(name).to_pylist()))


@pytest.mark.parametrize("seed", [seed if seed < 3 else slow(seed) for seed in range(6)])
def test_a_database_is_as_after_one_batch_after_the_other(seed: int, tmp_path: Path, replayed: list[int]) -> None:
    rows, memory = Rows(seed), crown.database(SCHEMA)
    rejected = {5} if seed % 2 else set()  # of that batch, deletes find no row
    with crown.open_database(tmp_path / "db", SCHEMA, on_missing="ignore") as db:
        for name, query in VIEWS.items():
            db.view(name, query)
            memory.view(name, query)
            memory.apply({})  # in a folder, to register a view is a batch
        for number in range(9):
            batch = rows.batch(missing=number in rejected)
            assert _deltas(db.apply(batch, note=number)) == _deltas(memory.apply(batch))
        last = db.batches
    views = list(range(1, len(VIEWS) + 1))
    with crown.open_database(tmp_path / "db") as db:
        assert replayed == [*views, *([len(VIEWS) + 5, len(VIEWS) + 6] if rejected else []), last]
        assert db.note == 8
        _same(db, memory)
        batch = rows.batch()
        assert _deltas(db.apply(batch)) == _deltas(memory.apply(batch))
    replayed.clear()
    with reopened_database(tmp_path / "db", after=last)[0] as db:
        assert replayed[-2:] == [last, last + 1], "whose deltas are wanted comes alone"
        _same(db, memory)
        early = db.as_of(len(VIEWS) + 3)
        assert early.stats()["batches"] == len(VIEWS) + 3
        early.check_invariants()


def _deltas(given: dict[str, Any]) -> dict[str, Counter[str]]:
    return {name: Counter(str(sorted(row.items())) for row in delta.to_pylist()) for name, delta in given.items()}


@pytest.mark.parametrize(
    ("table", "options", "together"),
    [
        ({"k": "int64", "v": "int64"}, {}, True),
        ({"columns": {"k": "int64", "v": "int64"}, "key": ["k"]}, {}, True),
        ({"columns": {"k": "int64", "v": "int64"}, "key": ["k"], "upserts": True}, {}, False),
        ({"columns": {"k": "int64", "v": "int64"}, "key": ["k"], "enforced": True}, {}, False),
        ({"k": "int64", "v": "int64"}, {"windows": {"r": crown.last_rows(3)}}, False),
    ],
)
def test_batches_whose_order_means_something_are_applied_one_by_one(
    table: Any, options: dict[str, Any], together: bool, tmp_path: Path, replayed: list[int]
) -> None:
    query = "SELECT k, COUNT(*) AS n FROM r GROUP BY k"
    with crown.open(query, tmp_path / "view", {"r": table}, **options) as view:
        for k in range(4):
            view.update({"r": [{"k": k, "v": k}]})
        wanted = Counter(str(row) for row in view)
    with crown.open(None, tmp_path / "view") as view:
        assert Counter(str(row) for row in view) == wanted
        view.check_invariants()
    assert replayed == ([4] if together else [1, 2, 3, 4])


def test_columns_in_another_form_are_no_part_of_a_sum(tmp_path: Path, replayed: list[int]) -> None:
    with crown.open("SELECT b, COUNT(*) AS n FROM r GROUP BY b", tmp_path / "view", {"r": {"b": "string"}}) as view:
        for type_ in (pa.string(), pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
            view.update({"r": pa.table({"b": pa.array(["x", "y"], type_)})})
    with crown.open(None, tmp_path / "view") as view:
        assert sorted((row["b"], row["n"]) for row in view) == [("x", 4), ("y", 4)]
    assert replayed[-1] == 4
