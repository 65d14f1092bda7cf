"""``threads=N`` with whole programs in cells: what all cells deliver is what one engine does, after every batch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, CrownError, DuplicateKeyError, MemoryBudgetError, MissingDeleteError
from crown.programs.cells.engine import ProgramCells
from plans import program
from plans.search.cells.whole import partitioning_of
from plans.types import arrow_type
from tests.marks import slow

SCHEMA = {
    "r": {"k": "string", "a": "int64", "x": "int32", "b": "bool", "d": "date"},
    "s": {"a": "int64", "t": "string"},
}
QUERIES = {
    "groups by a text": "SELECT k, COUNT(*) AS n, SUM(x) AS s, MIN(x) AS lo FROM r WHERE x > 2 GROUP BY k",
    "groups by a boolean": "SELECT b, SUM(x) AS s FROM r GROUP BY b",
    "groups by a date": "SELECT d, AVG(x) AS m, MEDIAN(x) AS q FROM r WHERE k <> 'bb' GROUP BY d",
    "HAVING": "SELECT a, SUM(x) AS s, COUNT(DISTINCT k) AS d FROM r GROUP BY a HAVING COUNT(*) > 1",
    "a bag": "SELECT r.a, s.t, r.x FROM r JOIN s ON r.a = s.a",
    "a set": "SELECT DISTINCT r.a, s.t FROM r JOIN s ON r.a = s.a",
    "groups over a join": "SELECT r.a, COUNT(*) AS n, SUM(r.x) AS s FROM r JOIN s ON r.a = s.a GROUP BY r.a",
    "padded rows": "SELECT r.a, r.x, s.t FROM r LEFT JOIN s ON r.a = s.a",
    "windows": "SELECT k, a, x, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, a) AS n FROM r",
    "first rows": "SELECT k, x FROM r QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, a) < 3",
    "union": "SELECT a FROM r UNION SELECT a FROM s",
}
VALUES: dict[str, list[Any]] = {
    "k": ["a", "bb", "ccc", "d" * 9, "ü" * 7, None], "a": [None, *range(20)], "x": [None, *range(7)],
    "b": [True, False, None], "d": [None, "2024-01-01", "2024-05-06"], "t": ["u", "v" * 12],
}  # fmt: skip


def arrow(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    strings = {"date": pa.string()}
    fields = [(column, strings.get(kind, arrow_type(kind))) for column, kind in SCHEMA[name].items()]
    table = pa.Table.from_pylist(rows, pa.schema([*fields, ("_weight", pa.int64())]))
    return table.cast(pa.schema([*((c, arrow_type(k)) for c, k in SCHEMA[name].items()), ("_weight", pa.int64())]))


def stream(random: Random, absent: bool) -> list[dict[str, Any]]:
    """Batches of few and of many rows, lists and Arrow tables, with deletes."""
    live: list[tuple[str, dict[str, Any]]] = []
    batches = []
    for _ in range(8):
        rows: dict[str, list[dict[str, Any]]] = {"r": [], "s": []}
        for _ in range(random.choice([10, 700])):
            if live and random.random() < 0.3:
                name, row = live.pop(random.randrange(len(live)))
                rows[name].append({**row, "_weight": -1})
                continue
            name = random.choice("rs")
            row = {column: random.choice(VALUES[column]) for column in SCHEMA[name]}
            if absent and random.random() < 0.1:
                rows[name].append({**row, "_weight": -1})
                continue
            rows[name].append({**row, "_weight": 1})
            live.append((name, row))
        batches.append({name: arrow(name, of) if random.random() < 0.6 else of for name, of in rows.items()})
    return batches


def net(deltas: pa.Table) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, weight in zip(*(column.to_pylist() for column in deltas.columns), strict=True):
        found[tuple(row)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def rows_of(view: crown.View) -> Counter[str]:
    return Counter(map(str, view.to_table().to_pylist()))


@pytest.mark.parametrize("on_missing", ["ignore", slow("raise"), "trust"])
@pytest.mark.parametrize("threads", [2, slow(3)])
@pytest.mark.parametrize("name", QUERIES)
def test_cells_deliver_what_one_engine_does(name: str, threads: int, on_missing: str, tmp_path: Path) -> None:
    random = Random(name)
    options: dict[str, Any] = {"on_missing": on_missing}
    one = crown.view(QUERIES[name], SCHEMA, **options)
    many = crown.view(QUERIES[name], SCHEMA, threads=threads, **options)
    assert isinstance(many._engine, ProgramCells)
    for turn, batch in enumerate(stream(random, on_missing == "ignore")):
        expected = net(one.apply(batch))
        if turn % 3 == 2:
            found = pa.Table.from_batches(list(many.apply_batches(batch)), many.delta_schema)
        else:
            found = many.apply(batch)
        assert net(found) == expected, f"batch {turn}"
        assert rows_of(many) == rows_of(one)
        assert many.count() == one.count()
        many.check_invariants()
        for what in ("rows", "missing_deletes", "filtered", "input_rows"):
            assert many.stats().get(what) == one.stats().get(what)
        before = rows_of(many)
        if turn in (1, 5):
            read = {table.name for table in many._engine.plan.tables}
            many._engine.undo({name: rows for name, rows in batch.items() if name in read})
            many.save(tmp_path / "state")
            many = crown.load(tmp_path / "state")
            assert net(many.apply(batch)) == expected
            assert rows_of(many) == before
    row = next(iter(one))
    assert row in many
    assert many.multiplicity(row) == one.multiplicity(row)
    assert f"{threads} cells, " in many.explain(analyze=True)


def big(n: int, **more: Any) -> dict[str, Any]:
    return {"r": pa.table({"a": range(n), "x": pa.array([1] * n, pa.int32()), **more})}


SUMS, TABLE = "SELECT a, SUM(x) AS s FROM r GROUP BY a", {"r": {"a": "int64", "x": "int32"}}


@pytest.mark.parametrize("rows", [20, 2_000])
@pytest.mark.parametrize("last", [0, 1, 2, 3, 4])
def test_a_batch_that_one_cell_refuses_is_rolled_back_in_all(rows: int, last: int) -> None:
    view = crown.view(SUMS, TABLE, threads=3, on_missing="raise")
    view.apply(big(rows))
    before = rows_of(view)
    absent = {"r": [{"a": a, "x": 1, "_weight": 1} for a in range(rows)] + [{"a": last, "x": 9, "_weight": -1}]}
    for form in (absent["r"], arrow_of(absent["r"])):
        with pytest.raises(MissingDeleteError):
            view.apply({"r": form})
        with pytest.raises(MissingDeleteError):
            list(view.apply_batches({"r": form}))
        assert rows_of(view) == before
        view.check_invariants()
    few = pa.table({"a": range(6), "x": pa.array(6 * [0], pa.int64())})  # in steps, one cell after the other
    assert view.apply({"r": few}).num_rows == 0
    assert view.apply(big(rows)).num_rows == 2 * rows


def arrow_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([("a", pa.int64()), ("x", pa.int32()), ("_weight", pa.int64())]))


@pytest.mark.parametrize("rows", [20, 2_000])
def test_a_batch_stopped_before_it_stands_is_rolled_back_in_all_cells(rows: int, monkeypatch: Any) -> None:
    view = crown.view(SUMS, TABLE, threads=2)
    view.apply(big(rows))
    before = rows_of(view)

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(view, "_before_commit", stop)
    with pytest.raises(KeyboardInterrupt):
        view.apply(big(rows))
    monkeypatch.undo()
    assert rows_of(view) == before
    batches = view.apply_batches(big(rows))
    next(batches)
    batches.abort()
    assert rows_of(view) == before
    view.apply_batches(big(rows)).close()
    assert next(iter(view.get({"a": 1}).items())) == ("a", 1)  # type: ignore[union-attr]
    assert view.get({"a": 1}) == {"a": 1, "s": 2}
    view.check_invariants()


def test_cells_have_one_budget() -> None:
    view = crown.view(SUMS, TABLE, threads=2, memory_budget=1 << 20)
    view.apply(big(1000))
    before = rows_of(view)
    with pytest.raises(MemoryBudgetError):
        view.apply(big(100_000))
    assert rows_of(view) == before
    view.check_invariants()
    view.apply(big(1001))
    assert view.count() == 1001


def test_bad_rows_have_their_places_in_the_batch(tmp_path: Path) -> None:
    rows = {"r": pa.table({"a": ["1", "2", "x", "4"], "x": [1, 2, 3, 4]})}
    with pytest.raises(BadRowError, match="row 2"):
        crown.view(SUMS, TABLE, threads=3).apply(rows)
    view = crown.view(SUMS, TABLE, threads=3, on_bad_row="quarantine", quarantine=tmp_path)
    assert view.apply(rows).num_rows == 3
    assert view.stats()["quarantined"] == 1


def test_rows_of_a_key_are_in_one_cell() -> None:
    upserts = {"r": {"columns": {"k": "int64", "a": "int64", "x": "int64"}, "key": ["k"], "upserts": True}}
    by_key, by_value = (f"SELECT {column}, COUNT(*) AS n FROM r GROUP BY {column}" for column in "ka")
    assert partitioning_of(program(by_key, upserts), 2) == {"r": "k"}
    assert partitioning_of(program(by_value, upserts), 2) is None
    one, many = crown.view(by_key, upserts), crown.view(by_key, upserts, threads=2)
    for x in range(3):
        rows = {"r": [{"k": k, "a": k + x, "x": x} for k in range(x, 600)]}
        assert net(many.apply(rows)) == net(one.apply(rows))
    enforced = {"r": {"columns": {"k": "int64", "a": "int64"}, "key": ["k"], "enforced": True}}
    view = crown.view(by_key, enforced, threads=2)
    view.apply({"r": [{"k": k, "a": 1} for k in range(9)]})
    for k in range(9):
        with pytest.raises(DuplicateKeyError):
            view.apply({"r": [{"k": k, "a": 2}]})
    assert view.count() == 9


def test_what_cannot_be_cut_is_refused_with_a_sentence() -> None:
    for query in ("SELECT SUM(x) AS s FROM r", "SELECT a, x FROM r ORDER BY x LIMIT 3"):
        with pytest.raises(
            CrownError, match=r"cuts a query into cells by a column of its result.* this query has no such column"
        ):
            crown.view(query, TABLE, threads=2)
