"""Databases in folders: after every reopening tables, views and notes are those of a database that never stopped."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import crown
from crown.durable.opening import reopened_database
from crown.errors import CrownError, QueryChangedError, RecoveryWarning
from crown.programs.database_engine import DatabaseEngine
from tests.durable.writers import deaths

SCHEMA = {"r": {"k": "int64", "y": "int64"}, "s": {"k": "int64", "t": "string"}}
SHAPES = (
    "SELECT k, COUNT(*) AS n, SUM(y) AS total FROM r GROUP BY k",
    "SELECT r.y, s.t FROM r JOIN s ON r.k = s.k",
    "SELECT DISTINCT t FROM s WHERE NOT EXISTS (SELECT 1 FROM r WHERE r.k = s.k)",
    "SELECT k, y FROM r ORDER BY y DESC NULLS LAST, k LIMIT 3",
)


def changes(source: random.Random, db: crown.Database) -> dict[str, list[dict[str, object]]]:
    """Inserts, and deletes of rows that are there."""
    new_r = [{"k": source.randrange(4), "y": source.randrange(9), "_weight": 1} for _ in range(3)]
    new_s = [{"k": source.randrange(4), "t": source.choice("abc"), "_weight": 1}]
    old = [{**row, "_weight": -1} for row in sorted(db.table("r").to_pylist(), key=str) if source.random() < 0.2]
    return {"r": new_r + old, "s": new_s}


def step(source: random.Random, db: crown.Database, number: int) -> None:
    """One change of the database: a batch, or a view that is registered or dropped."""
    what = source.random()
    if what < 0.2:
        db.view(f"v{number}", source.choice(SHAPES))
    elif what < 0.3 and db.views:
        db.drop(source.choice(db.views))
    elif isinstance(db, crown.DurableDatabase):
        db.apply(changes(source, db), note=number)
    else:
        db.apply(changes(source, db))


def contents(db: crown.Database) -> dict[str, Counter[str]]:
    """Every table and view, as the copies of each row."""
    tables = {name: Counter(map(str, db.table(name).to_pylist())) for name in SCHEMA}
    return tables | {name: Counter(map(str, db[name].to_table().to_pylist())) for name in db.views}


@pytest.mark.parametrize("seed", range(3))
def test_a_reopened_database_is_one_that_never_stopped(seed: int, tmp_path: Path) -> None:
    source, other = random.Random(seed), random.Random(seed)
    twin, number = crown.database(SCHEMA), 0
    for part in range(4):
        with crown.open_database(tmp_path / "db", SCHEMA, snapshot_bytes=3000, verify=part % 2 == 0) as db:
            assert db.batches == number
            for _ in range(8):
                step(source, db, number)
                step(other, twin, number)
                number += 1
            assert contents(db) == contents(twin)
    with crown.open_database(tmp_path / "db") as db:
        assert contents(db) == contents(twin)
        db.check_invariants()


@pytest.mark.parametrize("seed", range(3))
def test_a_view_that_a_fork_has_filled_is_one_that_was_registered(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In another thread, while the database goes on; the twin registers the view at the end."""
    source, twin = random.Random(seed), crown.database(SCHEMA)
    with crown.open_database(tmp_path / "db", SCHEMA) as db:
        given: list[dict[str, list[dict[str, object]]]] = []

        def both() -> None:
            given.append(changes(source, db))
            db.apply(given[-1], note=len(given))
            twin.apply(given[-1])

        for each in (db, twin):
            each.view("before", SHAPES[seed])
        both()
        fork, begun = db.fork(), len(given)
        filled = ThreadPoolExecutor(1).submit(fork.define, {"added": SHAPES[seed + 1], "on_it": "SELECT * FROM added"})
        both()
        both()
        filled.result()
        fork.snapshot()
        with crown.open_database(_copied(tmp_path / "db")) as dead:  # a process that ended here
            assert {name: rows for name, rows in contents(dead).items() if name in contents(db)} == contents(db)
            dead.check_invariants()
        for batch in given[begun:-1]:
            fork.apply(batch)
        with pytest.raises(CrownError, match="has had 1 batches, and its snapshot would be that of another state"):
            fork.snapshot()
        with pytest.raises(CrownError, match=r"\d batches were applied to the fork, and \d to the database"):
            db.adopt(fork)
        fork.apply(given[-1])
        twin.define({"added": SHAPES[seed + 1], "on_it": "SELECT * FROM added"})
        db.adopt(fork)
        assert contents(db) == contents(twin)
        both()
        assert contents(db) == contents(twin)
        db.check_invariants()
        assert db.note == len(given)
        with pytest.raises(CrownError, match="is closed and rejects changes"):
            fork.apply(given[-1])
        with pytest.raises(CrownError, match="not a fork of the database"):
            db.adopt(crown.database(SCHEMA))
        assert db.stats()["log_bytes"] > 0
    monkeypatch.setattr(DatabaseEngine, "_insert_net", None)  # nothing is filled in again
    with crown.open_database(tmp_path / "db") as db:
        assert contents(db) == contents(twin)
        db.check_invariants()


def _copied(folder: Path) -> Path:
    """Returns a copy of a folder that is open."""
    found = folder.with_name(f"{folder.name}-copied")
    shutil.copytree(folder, found)
    return found


def test_notes_stand_with_their_batches(tmp_path: Path) -> None:
    with crown.open_database(tmp_path / "db", SCHEMA) as db:
        assert db.note is None
        db.apply({"r": [(1, 2)]}, note={"offset": 5})
        with pytest.raises(CrownError):
            db.apply({"r": [("x", 2)]}, note={"offset": 6})
        assert db.note == {"offset": 5}
        db.apply({"r": [(2, 2)]})
        db.snapshot()
    with crown.open_database(tmp_path / "db") as db:
        assert db.note == {"offset": 5}


def test_deltas_behind_a_batch_can_be_had_again(tmp_path: Path) -> None:
    with crown.open_database(tmp_path / "db", SCHEMA) as db:
        db.view("n", "SELECT k, COUNT(*) AS n FROM r GROUP BY k")
        db.update({"r": [(1, 2)]})
        second = db.apply({"r": [(1, 3)]})
        third = db.apply({"r": [(2, 3)]})
    db, deltas = reopened_database(tmp_path / "db", after=2)
    with db:
        assert {batch: found["n"] for batch, found in deltas.items()} == {3: second["n"], 4: third["n"]}


def test_what_a_folder_holds_is_said(tmp_path: Path) -> None:
    crown.open_database(tmp_path / "db", SCHEMA).close()
    crown.open("SELECT k FROM r", tmp_path / "view", SCHEMA).close()
    with pytest.raises(CrownError, match=r"has a database; open it with crown\.open_database"):
        crown.open("SELECT k FROM r", tmp_path / "db", SCHEMA)
    with pytest.raises(CrownError, match=r"has one view; open it with crown\.open"):
        crown.open_database(tmp_path / "view", SCHEMA)
    with pytest.raises(QueryChangedError):
        crown.open_database(tmp_path / "db", {"r": {"k": "int64"}})
    (tmp_path / "empty").mkdir()
    with pytest.raises(CrownError, match="has no database yet"):
        crown.open_database(tmp_path / "empty")


@pytest.mark.filterwarnings("ignore::crown.errors.RecoveryWarning")
def test_a_process_with_a_database_may_die_at_any_moment(tmp_path: Path) -> None:
    folder, known = tmp_path / "db", 0
    for first, last in deaths(3, "database", str(folder)):
        assert first in (known + 1, known + 2)
        with crown.open_database(folder) as db:
            assert last <= db.batches <= last + 1
            known = db.batches
            twin = crown.database(SCHEMA)
            for number in range(known):
                step(random.Random(number), twin, number)
            assert contents(db) == contents(twin)
            db.check_invariants()
    assert known > 10


def test_a_damaged_log_is_said(tmp_path: Path) -> None:
    with crown.open_database(tmp_path / "db", SCHEMA) as db:
        db.apply({"r": [(1, 2)]})
    log = tmp_path / "db" / "0.log"
    log.write_bytes(log.read_bytes()[:-3])
    with pytest.raises(crown.DamagedStateError, match="acknowledged batches are missing"):
        crown.open_database(tmp_path / "db")
    with pytest.warns(RecoveryWarning), crown.open_database(tmp_path / "db", repair=True) as db:
        assert db.table("r").num_rows == 0
