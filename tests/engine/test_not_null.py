"""NOT NULL columns and keys: a NULL in them is a bad row, in every engine."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import crown
from crown.errors import BadRowError
from plans import program
from tests.oracles import duck
from tests.oracles.database import Database, to_arrow
from tests.oracles.declared import Declared
from tests.programs.test_programs import bag

SCHEMA = {"r": {"k": "int64 not null", "x": "int64"}, "t": {"columns": {"k": "int64", "y": "string"}, "key": ["k"]}}
QUERIES = (
    "SELECT DISTINCT r.k, t.y FROM r JOIN t ON r.k = t.k",
    "SELECT k, COUNT(*) AS n FROM r GROUP BY k",
    "SELECT k, y FROM t UNION ALL SELECT k, 'r' FROM r",
)


@pytest.mark.parametrize("query", QUERIES)
def test_a_null_in_a_not_null_column_is_a_bad_row(query: str, tmp_path: Path) -> None:
    view = crown.view(query, SCHEMA)
    name = "r" if "r.k" in query or "FROM r" in query else "t"
    with pytest.raises(BadRowError, match="row 1: column 'k' is NULL, and declared NOT NULL"):
        view.apply({name: [{"k": 1, "x": 1}, {"k": None, "x": 2}, {"k": None, "x": 3}]})
    assert view.stats()["batches"] == 0
    view = crown.view(query, SCHEMA, on_bad_row="quarantine", quarantine=tmp_path)
    view.apply({name: [{"k": 1, "x": 1}, {"k": None, "x": 2}, {"k": "text", "x": 3}, {"k": 4, "x": None}]})
    assert view.stats()["quarantined"] == 2


def test_a_null_in_a_key_is_a_bad_row_and_elsewhere_is_none() -> None:
    view = crown.view("SELECT k, y FROM t", SCHEMA)
    with pytest.raises(BadRowError, match="column 'k' is NULL"):
        view.apply({"t": [{"k": None, "y": "a"}]})
    view.apply({"t": [{"k": 1, "y": None}]})
    assert view.count() == 1


def test_a_group_of_null_is_a_group_for_those_who_read_it() -> None:
    db = crown.database({"r": {"k": "int64", "x": "int64"}})
    db.view("sums", "SELECT k, SUM(x) AS s FROM r GROUP BY k")
    db.view("counts", "SELECT COUNT(k) AS n, COUNT(*) AS m FROM sums")
    db.view("others", "SELECT x FROM r WHERE x NOT IN (SELECT k FROM sums)")
    db.update({"r": [{"k": None, "x": 1}, {"k": 2, "x": 3}]})
    assert db["counts"].to_table().to_pylist() == [{"n": 1, "m": 2}]
    assert db["others"].count() == 0


@pytest.mark.parametrize("seed", range(6))
def test_queries_that_gain_have_the_results_of_duckdb(seed: int) -> None:
    queries = (
        "SELECT k, x FROM r WHERE k NOT IN (SELECT k FROM t)",
        "SELECT k, x FROM r WHERE x > 1 OR k IN (SELECT k FROM t WHERE y = 'a')",
        "SELECT x, COUNT(k) AS n FROM r GROUP BY x",
        "SELECT r.x, COUNT(t.k) AS n FROM r LEFT JOIN t ON r.x = t.k GROUP BY r.x",
    )
    random, database = Random(seed), Database(SCHEMA)
    views = [crown.view(query, SCHEMA) for query in queries]
    truths = [Declared(SCHEMA, program(query, SCHEMA), whole=False, upserts=False) for query in queries]
    for turn in range(8):
        batch = {
            "r": [((random.randrange(4), random.choice([None, 0, 1, 2])), random.choice([1, 1, -1])) for _ in range(4)]
        }
        gone = [(row, -1) for row in database.rows["t"]]
        batch["t"] = gone + [((k, random.choice("ab")), 1) for k in range(4) if random.random() < 0.5]
        batch = batch if turn < 7 else database.everything(-1)
        database.apply(batch)
        for query, view, truth in zip(queries, views, truths, strict=True):
            truth.apply(batch)
            used = {table.name for table in view.plan.tables}
            view.apply({n: to_arrow(database.schema, n, rows) for n, rows in batch.items() if n in used})
            assert bag(view.to_table()) == duck.results(query, truth.database)
            view.check_invariants()
