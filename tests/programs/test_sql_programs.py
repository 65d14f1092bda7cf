"""Queries in SQL that are programs of stages, after every batch: engine = DuckDB."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
import plans
from crown.errors import CrownError
from tests.marks import seeds, turns
from tests.oracles import duck
from tests.oracles.database import Database
from tests.programs.driver import Driver

Row = tuple[Any, ...]
SCHEMA = {
    "r": {"columns": {"id": "int64", "k": "int64", "x": "float64"}, "key": ["id"]},
    "t": {"columns": {"k": "int64", "name": "string"}, "key": ["k"]},
    "s": {"k": "int64", "y": "int64"},
    "d": {"day": "date", "n": "int64"},
    "e": {"at": "timestamp_ntz", "z": "int64"},
}
QUERIES = (
    "SELECT k, COUNT(*) AS n, SUM(x) AS total FROM r GROUP BY k HAVING COUNT(*) > 1",
    "SELECT COUNT(*) AS n, SUM(y) AS total, MIN(y) AS least, AVG(y) AS mean FROM s WHERE y > 1",
    "SELECT k, COUNT(DISTINCT y) AS n, MAX(y) - MIN(y) AS spread FROM s GROUP BY k",
    "SELECT q.y, b AS k FROM s AS q (y, b)",
    "WITH q (a, b) AS (SELECT k, y FROM s) SELECT p.a, p.b FROM q AS p (b, a)",
    "SELECT k FROM r UNION ALL SELECT k FROM s",
    "SELECT k FROM r EXCEPT SELECT k FROM s",
    "SELECT k FROM s INTERSECT ALL SELECT k FROM r",
    "SELECT r.id, t.name FROM r LEFT JOIN t ON r.k = t.k",
    "SELECT id FROM r WHERE NOT EXISTS (SELECT * FROM s WHERE s.k = r.k)",
    "SELECT r.id, q.n FROM r JOIN (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS q ON r.k = q.k",
    "SELECT name, COUNT(*) AS n, SUM(x) AS total FROM r JOIN t USING (k) GROUP BY name",
    "SELECT r.k, s.y FROM r JOIN s ON r.k = s.k",
    "SELECT name, MIN(y) AS least, COUNT(DISTINCT s.k) AS n FROM s LEFT JOIN t ON s.k = t.k GROUP BY name",
    "SELECT a.y, COUNT(*) AS n FROM s AS a JOIN s AS b ON a.k = b.k GROUP BY a.y",
    "SELECT name, c, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS c FROM r GROUP BY k) AS q JOIN t USING (k) "
    "GROUP BY name, c",
    "SELECT name, COUNT(*) AS n FROM (SELECT DISTINCT r.id, r.x, t.name FROM r JOIN t ON r.k = t.k) AS q GROUP BY name",
    "SELECT n, COUNT(*) AS m FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS q GROUP BY n",
    "SELECT k, y FROM s ORDER BY y DESC NULLS FIRST, k NULLS LAST LIMIT 3 OFFSET 1",
    "SELECT id FROM r ORDER BY x NULLS FIRST, id LIMIT 2",
    "SELECT k, COUNT(*) AS n FROM s GROUP BY k ORDER BY n DESC, SUM(y) NULLS FIRST, k NULLS FIRST LIMIT 2",
    "SELECT DISTINCT k FROM s ORDER BY 1 NULLS LAST LIMIT 2",
    "SELECT k, COUNT(*) FROM s GROUP BY k ORDER BY COUNT(*) DESC, k NULLS FIRST LIMIT 2",
    "SELECT k, COUNT(*), -k FROM s GROUP BY k ORDER BY 2, 3 NULLS FIRST LIMIT 2",
    "SELECT COUNT(*) AS n, SUM(y) AS y FROM s GROUP BY GROUPING SETS (())",
    "SELECT 1 AS one FROM s GROUP BY GROUPING SETS (GROUPING SETS (()))",
    "SELECT MAX(y) AS m FROM s GROUP BY () HAVING COUNT(*) < 5",
    "SELECT k, y, COUNT(*) AS n FROM s GROUP BY (k, y)",
    "SELECT k FROM r UNION ALL SELECT y FROM s ORDER BY k NULLS FIRST LIMIT 4",
    "SELECT id, k, x FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, id) <= 2",
    "SELECT q.id, t.name FROM (SELECT id, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x NULLS FIRST, id) AS n "
    "FROM r) AS q JOIN t ON q.k = t.k WHERE q.n BETWEEN 2 AND 3 AND q.id > 1",
    "SELECT r.id, q.y FROM r LEFT JOIN (SELECT k, y, ROW_NUMBER() OVER (PARTITION BY k ORDER BY y NULLS FIRST) AS n "
    "FROM s) AS q ON r.k = q.k AND q.n = 1",
    "WITH q AS (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id DESC) AS n FROM r) "
    "SELECT name, COUNT(*) AS m FROM q JOIN t USING (k) WHERE n < 3 GROUP BY name",
    "SELECT id FROM r WHERE k IN (SELECT k FROM t ORDER BY name NULLS FIRST, k LIMIT 1)",
    "(SELECT k FROM r ORDER BY x NULLS FIRST, k NULLS FIRST LIMIT 2) EXCEPT ALL SELECT k FROM s",
    "SELECT k, y, COUNT(*) AS n, SUM(y) AS t FROM s GROUP BY ROLLUP (k, y) HAVING COUNT(*) > 0",
    "SELECT k, y, COUNT(*) AS n, GROUPING(k) AS g FROM s GROUP BY CUBE (k, y) HAVING GROUPING(k) + GROUPING(y) < 2",
    "SELECT name, k + 1 AS l, MIN(x) AS m FROM r JOIN t USING (k) GROUP BY GROUPING SETS ((name, k), (name), (k))",
    "SELECT DISTINCT COUNT(*) AS n FROM s GROUP BY k, GROUPING SETS ((y), (k))",
    "SELECT k, y FROM s GROUP BY ROLLUP (k, y) HAVING COUNT(*) > 0",
    "SELECT DISTINCT y FROM s GROUP BY k, CUBE (y, k)",
    "SELECT k, y FROM s GROUP BY GROUPING SETS ((k, y), (k), (y))",
    "SELECT k, MAX(-1) AS m FROM s GROUP BY ROLLUP (k) HAVING COUNT(*) > 0 UNION ALL SELECT y, k FROM s",
    "SELECT DISTINCT y FROM s GROUP BY GROUPING SETS ((k, y), (k)) EXCEPT SELECT x FROM r",
    "SELECT id FROM r UNION SELECT COUNT(*) FROM s GROUP BY ROLLUP (k) HAVING COUNT(*) > 0 UNION ALL SELECT k FROM t",
    "SELECT COUNT(*) AS n FROM t JOIN ((SELECT k FROM r) AS q JOIN s ON q.k = s.k) ON t.k = q.k",
    "SELECT r.id, s.y, t.name FROM r JOIN (s FULL JOIN t ON s.k = t.k) ON r.k = s.y",
    "SELECT a.y, t.name, s.k FROM s AS a JOIN ((t RIGHT JOIN s ON s.k = t.k) LEFT JOIN r ON r.k = s.k) ON a.y = s.y",
    "SELECT r.id, q.n, t.name FROM r JOIN ((SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS q FULL JOIN t ON q.k = t.k) "
    "ON r.k = q.k AND q.n > 1",
    "SELECT k, r.x, y, name FROM r JOIN (s FULL JOIN t USING (k)) USING (k)",
    "SELECT k, r.x, y, name FROM r FULL JOIN (s FULL JOIN t USING (k)) USING (k)",
    "SELECT * FROM d JOIN (s FULL JOIN t USING (k)) ON d.n = s.y",
    "SELECT k, y, name, d.n FROM d JOIN (s NATURAL JOIN t) ON d.n = s.y",
    "SELECT * FROM s SEMI JOIN (r JOIN t USING (k)) ON s.y = r.id",
    "SELECT k, y FROM s SEMI JOIN (r LEFT JOIN t USING (k)) ON s.y = r.id AND t.name IS NULL",
    "SELECT COUNT(*) AS n FROM s SEMI JOIN (r FULL JOIN t ON r.k = t.k) ON s.k = t.k",
    "SELECT * FROM s ANTI JOIN (r SEMI JOIN t USING (k)) ON s.y = r.id",
    "SELECT k, SUM(0.00) FILTER (WHERE y > 1) AS z FROM r JOIN s USING (k) GROUP BY k",
    "SELECT COUNT(y) FILTER (WHERE CAST(NULL AS BOOLEAN)) AS n, MIN(DATE '2024-02-29') AS m "
    "FROM r LEFT JOIN s USING (k)",
    "SELECT e.z, d.n FROM e JOIN d ON CAST(e.at AS DATE) = d.day",
    "SELECT DISTINCT d.n FROM d WHERE EXISTS (SELECT 1 FROM e WHERE CAST(e.at AS DATE) = d.day AND e.z > 0)",
    "SELECT d.n, COUNT(e.z) AS m FROM d LEFT JOIN e ON CAST(e.at AS DATE) = d.day GROUP BY d.n",
    "SELECT d.n, SUM(e.z) AS m FROM e JOIN d ON CAST(e.at AS DATE) = d.day AND e.z = d.n GROUP BY d.n",
)
VALUES = {
    "id": range(12),
    "k": (None, 1, 2, 3),
    "x": (None, 0.5, 1.5, -2.0),
    "name": ("a", "b", None),
    "y": (None, 1, 2, 5),
    "day": (None, dt.date(2024, 2, 29), dt.date(1969, 12, 31), dt.date(1970, 1, 1)),
    "at": (None, dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(1969, 12, 31, 23), dt.datetime(1970, 1, 1)),
    "n": (1, 2),
    "z": (None, 0, 1, 2),
}
KEYED = {"r": 0, "t": 0}


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    """Inserts that keep the keys, and deletes of what is there."""
    batch = {}
    for name in random.sample(sorted(SCHEMA), random.randint(0, 3)):
        rows = database.rows[name]
        gone = random.sample(sorted(rows, key=repr), min(len(rows), random.randint(0, 3)))
        changes = [(row, -1) for row in gone]
        left = Counter(rows)
        left.subtract(gone)
        taken = {row[KEYED[name]] for row, n in left.items() if n > 0} if name in KEYED else set()
        for _ in range(random.randint(0, 5)):
            row = tuple(random.choice(VALUES[column.name]) for column in database.schema[name].columns)
            if name in KEYED and (row[KEYED[name]] is None or row[KEYED[name]] in taken):
                continue
            taken.add(row[0])
            changes.append((row, 1))
        batch[name] = changes
    return batch


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("seed", seeds(1, 5))
def test_a_query_is_maintained(query: str, seed: int) -> None:
    random = Random(seed)
    driver = Driver(query, plans.program(query, SCHEMA), SCHEMA)
    for turn in turns(5, 8):
        driver.step(batch_of(random, driver.database), again=turn % 4 == 3)
    driver.remove_everything()


def test_a_view_of_groups_is_kept_in_a_file_saved_and_loaded(tmp_path: Path) -> None:
    query = "SELECT k, SUM(y) AS total FROM s GROUP BY k"
    view = crown.view(query, SCHEMA, path=tmp_path / "state", memory_budget="64 MiB")
    delta = view.apply({"s": {"k": [1, 1, 2], "y": [3, 4, 5]}})
    assert delta.to_pylist() == [{"k": 1, "total": 7, "_weight": 1}, {"k": 2, "total": 5, "_weight": 1}]
    assert view.get({"k": 1}) == {"k": 1, "total": 7}
    assert (2, 5) in view
    assert not view.bag
    assert "group" in view.explain()
    view.save(tmp_path / "saved")
    for state_path in (None, tmp_path / "other"):
        loaded = crown.load(tmp_path / "saved", state_path=state_path)
        loaded.apply({"s": [{"k": 1, "y": 3, "_weight": -1}, {"k": 1, "y": 4, "_weight": -1}]})
        assert loaded.to_table().to_pylist() == [{"k": 2, "total": 5}]
        loaded.check_invariants()


def test_a_bag_shows_how_often_a_row_is_there() -> None:
    view = crown.view("SELECT k FROM r UNION ALL SELECT k FROM s", SCHEMA)
    view.update({"r": {"id": [1, 2], "k": [1, 1], "x": [0.5, 0.5]}, "s": {"k": [1], "y": [None]}})
    assert view.bag
    assert view.multiplicity({"k": 1}) == view.count() == 3
    assert view.to_table().num_rows == 3


def test_a_program_is_not_cut_into_cells() -> None:
    with pytest.raises(CrownError, match="leave threads out"):
        crown.view("SELECT COUNT(*) AS n FROM s", SCHEMA, threads=2)


@pytest.mark.parametrize("grouping", ["ROLLUP (k)", "CUBE (k)", "GROUPING SETS ((k), (), ())"])
@pytest.mark.parametrize("dialect", ["duckdb", "postgres", "spark"])
def test_a_grouping_by_nothing_has_a_row_without_rows_where_the_dialect_says_so(dialect: str, grouping: str) -> None:
    query = f"SELECT k, COUNT(*) AS n, SUM(y) AS t, GROUPING(k) AS g FROM s GROUP BY {grouping}"
    view, tables = crown.view(query, SCHEMA, dialect=dialect), Database(SCHEMA)
    for rows in ([], [((1, 2), 1)], [((None, 3), 1)], [((1, 2), -1), ((None, 3), -1)]):
        tables.apply({"s": rows})
        view.apply({"s": [{"k": k, "y": y, "_weight": weight} for (k, y), weight in rows]})
        wanted = duck.results(query, tables)
        if dialect == "spark" and not tables.rows["s"]:
            wanted = Counter()
        assert Counter(tuple(row.values()) for row in view) == wanted
