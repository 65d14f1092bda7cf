"""A row of a result is there as often as SQL returns it, wherever it is read; weights are given to those who ask.

Oracle: the multiset of rows that DuckDB returns for the query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.results import copies
from tests.oracles import duck

SCHEMA = {"r": {"a": "int64", "b": "string"}, "s": {"a": "int64", "c": "int64"}}
ROWS = {
    "r": [(1, "x"), (1, "x"), (1, "y"), (2, "x"), (None, "x"), (None, "x"), (3, None)],
    "s": [(1, 7), (1, 7), (2, 8), (4, 9)],
}
QUERIES = {
    "a scan": "SELECT a FROM r",
    "a join": "SELECT r.a, b, c FROM r, s WHERE r.a = s.a",
    "a projected join": "SELECT b FROM r, s WHERE r.a = s.a",
    "an outer join": "SELECT r.a, c FROM r LEFT JOIN s ON r.a = s.a",
    "a union": "SELECT a FROM r UNION ALL SELECT a FROM s",
    "a filter": "SELECT a FROM r WHERE b = 'x'",
    "groups": "SELECT a, COUNT(*) AS n FROM r GROUP BY a",
    "projected groups": "SELECT COUNT(*) AS n FROM r GROUP BY a",
    "the first rows": "SELECT a FROM r ORDER BY a NULLS FIRST, b LIMIT 3",
    "the first groups": "SELECT a, COUNT(*) AS n FROM r GROUP BY a ORDER BY n DESC, a LIMIT 2",
    "a set": "SELECT DISTINCT b FROM r",
    "a difference": "SELECT a FROM r EXCEPT ALL SELECT a FROM s",
}


def in_memory(query: str, folder: Path) -> Any:
    return crown.view(query, SCHEMA)


def of_a_database(query: str, folder: Path) -> Any:
    database = crown.database(SCHEMA)
    view = database.view("v", query)
    database.update(ROWS)
    return view


def in_a_folder(query: str, folder: Path) -> Any:
    return crown.open(query, folder / "view", SCHEMA)


def saved_and_loaded(query: str, folder: Path) -> Any:
    view = crown.view(query, SCHEMA)
    view.save(folder / "view")
    return crown.load(folder / "view")


@pytest.mark.parametrize("make", [in_memory, of_a_database, in_a_folder, saved_and_loaded])
@pytest.mark.parametrize("what", QUERIES)
def test_a_row_is_read_as_often_as_it_is_there(what: str, make: Callable[[str, Path], Any], tmp_path: Path) -> None:
    query, view = QUERIES[what], make(QUERIES[what], tmp_path)
    if make is not of_a_database:
        view.update(ROWS)
    connection = duck.connected()
    for name, columns in SCHEMA.items():
        connection.execute(f"CREATE TEMP TABLE {name} ({', '.join(f'{c} {t}' for c, t in columns.items())})")
        connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", ROWS[name])
    expected = Counter(connection.sql(query).fetchall())
    total = sum(expected.values())
    names = [name for name in view.delta_schema.names if name != "_weight"]
    assert view.schema.names == names
    assert Counter(tuple(row.values()) for row in view) == expected
    assert Counter(tuple(row.values()) for batch in view.results() for row in batch.to_pylist()) == expected
    tables = {
        "to_table": view.to_table(),
        "pa.table": pa.table(view),
        "results": pa.Table.from_batches(view.results(), view.schema),
        "Polars": view.to_polars().to_arrow(),
    }
    for how, table in tables.items():
        assert table.column_names == names, how
        assert Counter(tuple(row.values()) for row in table.to_pylist()) == expected, how
    assert list(view.to_pandas().columns) == names
    assert len(view.to_pandas()) == view.count() == len(view) == total
    assert view.bag or max(expected.values()) == 1

    weighted = view.to_table(weighted=True)
    assert weighted.schema == view.delta_schema
    assert {tuple(row.values())[:-1]: row["_weight"] for row in weighted.to_pylist()} == expected
    assert weighted.num_rows == len(expected)
    assert view.to_pandas(weighted=True)["_weight"].sum() == view.to_polars(weighted=True)["_weight"].sum() == total
    for limit in (0, 1, 2, total, total + 1):
        part = view.to_table(limit)
        assert part.num_rows == min(limit, total)
        assert Counter(tuple(row.values()) for row in part.to_pylist()) <= expected
        assert view.to_table(limit, weighted=True).num_rows == min(limit, len(expected))


def test_the_rows_of_a_motif_are_read_as_often_as_it_is_found() -> None:
    edges = [{"src": 1, "dst": 2}, {"src": 1, "dst": 2}, {"src": 2, "dst": 3}]
    view = crown.graph.motif(None, edges, "(a)-[e]->(b)")
    assert view.schema.names == ["a", "e", "b"]
    assert sorted((row["a"]["id"], row["b"]["id"]) for row in view) == [(1, 2), (1, 2), (2, 3)]
    assert len(view) == view.to_table().num_rows == pa.table(view).num_rows == 3
    assert sorted(row["_weight"] for row in view.to_table(weighted=True).to_pylist()) == [1, 2]
    assert view.delta_schema == view.to_table(weighted=True).schema


def test_cells_on_threads_give_the_same_rows() -> None:
    view = crown.view(QUERIES["a join"], SCHEMA, threads=3)
    view.update(ROWS)
    alone = crown.view(QUERIES["a join"], SCHEMA)
    alone.update(ROWS)
    assert Counter(map(str, view)) == Counter(map(str, alone))
    assert len(view) == len(alone) == 7


def test_a_row_that_is_there_often_takes_the_memory_of_a_batch() -> None:
    view = crown.view("SELECT a FROM r", SCHEMA)
    weights = np.array([2**31 - 1, 1, 5])
    view.update({"r": {"a": [1, 2, 3], "b": ["x", "x", "x"], "_weight": weights}})
    batches = view.results()
    assert [next(batches).num_rows for _ in range(3)] == [copies.ROWS] * 3
    assert view.to_table(limit=3).to_pylist() == [{"a": 1}] * 3
    assert view.count() == weights.sum()


@pytest.mark.parametrize("most", [1, 2, 3, 5, 7, 100])
def test_copies_are_cut_into_batches_of_any_size(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "ROWS", most)
    random = np.random.default_rng(5)
    for _ in range(50):
        weights = random.integers(1, 9, random.integers(1, 12))
        batch = pa.record_batch({"a": np.arange(len(weights)), "_weight": weights})
        found = [part.column(0).to_pylist() for part in copies.repeated(batch)]
        assert [row for part in found for row in part] == np.repeat(np.arange(len(weights)), weights).tolist()
        assert (weights == 1).all() or all(0 < len(part) <= most for part in found)


@pytest.mark.parametrize("query", [QUERIES["a union"], QUERIES["a filter"], QUERIES["a join"]])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_are_read_on_after_a_change_say_so(query: str, weighted: bool) -> None:
    view = crown.view(query, SCHEMA)
    view.update(ROWS)
    batches = view.results(weighted=weighted)
    next(batches)
    view.update({"r": [(9, "z")], "s": [(9, 9)]})
    with pytest.raises(crown.ConcurrentChangeError):
        list(batches)


def test_products_have_no_weights() -> None:
    view = crown.view("Q(a, b, c) :- r(a, b), s(a, c).", SCHEMA)
    with pytest.raises(crown.CrownError, match="leave weighted out"):
        view.results(factorized=True, weighted=True)
