"""Deltas in ranges, and reads by place: a copy to which the ranges are applied = DuckDB after every batch."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

import crown
from crown.errors import ChangeError, CrownError, MemoryBudgetError, MissingDeleteError
from plans.errors import PlanError
from plans.programs.frames import Order
from plans.schema import Column, Table
from tests.marks import every, seeds
from tests.models.shifts import Copy
from tests.oracles import duck
from tests.oracles.database import Database, Row, canonical

TIMES: dict[str, tuple[Any, ...]] = {
    "int64": (*range(6), -(2**62), None),
    "float64": (0.5, -1.5, -0.0, 0.0, float("inf"), float("nan"), None),
    "string": ("", "a", "a and more", "b", "é", None),
}
AMOUNTS: dict[str, tuple[Any, ...]] = {
    "int64": (0, 1, -7, 2**40, None),
    "decimal(38,2)": (Decimal("0.00"), Decimal("-1.50"), Decimal(10) ** 24, None),
}
SMALL = {"t": {"k": "string", "x": "int64", "a": "int64"}}
RUNNING = "SELECT k, x, a, SUM(a) OVER w AS s, RANK() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY x)"


def query_of(random: Random) -> tuple[str, list[str], list[Order]]:
    """A query, the columns of its result that are no functions, and how its rows are ordered."""
    total, partition = random.random() < 0.5, random.choice(["PARTITION BY k ", "PARTITION BY k ", ""])
    named = ["x", "i", "a", *([] if partition else ["k"])] if total else ["x"]  # DuckDB breaks ties as it likes
    order = [Order(name, random.random() < 0.5, random.random() < 0.5) for name in named]
    by = ", ".join(
        f"{one.column} {'DESC' if one.falling else 'ASC'} NULLS {'LAST' if one.nulls_last else 'FIRST'}"
        for one in order
    )
    functions = ["SUM(a) OVER w", "COUNT(a) OVER w", "SUM(a) FILTER (WHERE i > 1) OVER w", "RANK() OVER w"]
    functions += ["COUNT(DISTINCT a) OVER w", "SUM(DISTINCT a) FILTER (WHERE i > 1) OVER w"]
    functions.append("DENSE_RANK() OVER w")
    if total:
        rows = "OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
        functions = [*functions, "ROW_NUMBER() OVER w", f"SUM(a) {rows}", f"COUNT(*) {rows}"]
    chosen = random.sample(functions, random.randint(1, 3))
    forms = ("{}", "{} - 1", "5 - 3 + {}")
    chosen = [random.choice(forms).format(one) if _is_number(one) else one for one in chosen]
    shown = ["k", "x", "i", "a"] if total else random.choice([["k", "x", "i", "a"], ["i", "x", "k"], ["x", "k"]])
    items = ", ".join([*shown, *(f"{one} AS f{i}" for i, one in enumerate(chosen))])
    return f"SELECT {items} FROM t WINDOW w AS ({partition}ORDER BY {by})", shown, order


def _is_number(function: str) -> bool:
    return function.startswith(("RANK", "DENSE_RANK", "ROW_NUMBER", "COUNT"))


def copy_of(view: crown.View, shown: list[str], order: list[Order], partitioned: bool) -> Copy:
    said = {one.column: one for one in order}
    ends = view.ranged_schema.field("_until").type
    names = [ends.field(i).name for i in range(ends.num_fields)]
    compared = [(shown.index(name), said.get(name, Order(name))) for name in names]
    return Copy(len(shown), [shown.index("k")] if partitioned else [], compared, Counter())


def told(view: crown.View, batch: dict[str, Any], shown: list[str]) -> tuple[Counter[Row], list[tuple[Row, Row, Row]]]:
    """The rows and the ranges of a delta."""
    rows: Counter[Row] = Counter()
    ranges = []
    delta = view.apply(batch, ranges=True)
    assert delta.schema == view.ranged_schema
    for one in delta.to_pylist():
        weight, until = one.pop("_weight"), one.pop("_until")
        assert (until is None) == (weight != 0)
        (first,) = canonical([tuple(one.values())])
        if until is None:
            rows[first] += weight
            continue
        (last,) = canonical([tuple({**one, **until}.values())])
        assert any(first[len(shown) :]), "a range that does not move"
        ranges.append((first[: len(shown)], last[: len(shown)], first[len(shown) :]))
    return rows, ranges


@pytest.mark.parametrize("seed", seeds(8, 400))
def test_ranges_and_pages_are_what_duckdb_has(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    time, amount = random.choice(list(TIMES)), random.choice(list(AMOUNTS))
    columns = (Column("k", "string"), Column("x", time), Column("i", "int64"), Column("a", amount))
    query, shown, order = query_of(random)
    schema = {"t": {column.name: column.type for column in columns}}
    view = crown.view(query, schema)
    database = Database({"t": Table("t", columns)})
    partitioned = "PARTITION" in query
    copy = copy_of(view, shown, order, partitioned)
    for turn in range(8):
        there = list(database.rows["t"].elements())
        changes = [(row, -1) for row in random.sample(there, len(there) // 2 if turn else 0)]
        for _ in range(random.randint(0, 9)):
            row = (
                random.choice("ab"),
                random.choice(TIMES[time]),
                random.randint(0, 3),
                random.choice(AMOUNTS[amount]),
            )
            changes.append((row, random.choice((1, 1, 1, 2))))
        batch = {"t": [(*row, weight) for row, weight in changes]}
        names = [*(column.name for column in columns), "_weight"]
        given = {"t": [dict(zip(names, row, strict=True)) for row in batch["t"]]}
        if turn == 4:  # the state is that of any view
            view.save(tmp_path / "view")
            view = crown.load(tmp_path / "view")
        rows, ranges = told(view, given, shown)
        copy.apply(rows, ranges)
        database.apply({"t": changes})
        wanted = duck.results(query, database)
        assert copy.rows == wanted, query
        view.check_invariants()
        assert view.count() == wanted.total()
        _compare_pages(random, view, copy, partitioned)


def _compare_pages(random: Random, view: crown.View, copy: Copy, partitioned: bool) -> None:
    """Pages follow each other in the order of the rows, and a row is found by what tells it from others."""
    names = view.columns
    for key in ("a", "b", "none") if partitioned else (None,):
        of = None if key is None else {"k": key}
        mine = [row for row in copy.sorted() if key is None or row[copy.keys[0]] == key]
        at, found = 0, []
        while page := canonical(
            map(tuple, map(dict.values, view.page(at, size := random.randint(1, 9), of).to_pylist()))
        ):
            found += page
            at += size
        assert Counter(found) == Counter(mine)
        assert all(copy.compare(one, other) <= 0 for one, other in pairwise(found))
        for row in random.sample(mine, min(2, len(mine))):
            same = [other for other in mine if copy.compare(row, other) == 0]
            asked = {names[place]: row[place] for place, _ in copy.order}
            key_of = {**({} if key is None else {"k": key}), **asked}
            if len(same) == 1:
                assert canonical([tuple((view.get(key_of) or {}).values())]) == [row]
            else:
                with pytest.raises(ChangeError, match=f"{len(same)} rows have this key: "):
                    view.get(key_of)


def filled(rows: int = 6) -> crown.View:
    view = crown.view(RUNNING, SMALL)
    view.update({"t": [("a", x, 10) for x in range(rows)]})
    return view


def signed(k: str, x: int, a: int, weight: int) -> dict[str, Any]:
    return {"k": k, "x": x, "a": a, "_weight": weight}


def test_a_change_in_the_midst_of_a_partition_is_a_row_and_a_range() -> None:
    view = filled(1000)
    assert view.apply({"t": [("a", 1000, 1)]}).num_rows == 1
    assert view.apply({"t": [("a", -1, 3)]}, ranges=True).to_pylist() == [
        {"k": "a", "x": -1, "a": 3, "s": 3, "r": 1, "_weight": 1, "_until": None},
        {"k": "a", "x": 0, "a": 10, "s": 3, "r": 1, "_weight": 0, "_until": {"x": 1000, "a": 1}},
    ]
    assert view.apply({"t": [signed("a", -1, 3, -1), signed("a", 2000, 3, 1)]}, ranges=True).num_rows == 3
    assert view.apply({"t": [signed("a", 5, 10, -1), signed("a", 5, 10, 1)]}, ranges=True).num_rows == 0
    assert view.apply({}, ranges=True).num_rows == 0
    view.check_invariants()


def test_a_refused_batch_leaves_the_rows_as_they_were() -> None:
    view = crown.view(RUNNING, SMALL, on_missing="raise", memory_budget="1 MiB")
    view.update({"t": [("a", x, 10) for x in range(50)]})
    before = view.to_table()
    with pytest.raises(MissingDeleteError):
        view.apply(
            {"t": [{"k": "a", "x": -1, "a": 1, "_weight": 1}, {"k": "b", "x": 1, "a": 1, "_weight": -1}]}, ranges=True
        )
    with pytest.raises(MemoryBudgetError):
        view.apply({"t": [("a", x, x) for x in range(100_000)]}, ranges=True)
    with pytest.raises(ChangeError, match=r"the window function SUM\(a\): the sum is no int64"):
        view.apply({"t": [("a", 20, 2**62), ("a", 21, 2**62)]}, ranges=True)
    view.check_invariants()
    assert view.to_table() == before
    assert view.apply({"t": [("a", 60, 1)]}, ranges=True).num_rows == 1


REFUSED = {
    "SELECT k, x, AVG(a) OVER (PARTITION BY k ORDER BY x) AS s FROM t": "AVG by the same amount",
    "SELECT k, x, SUM(CAST(a AS DOUBLE)) OVER (PARTITION BY k ORDER BY x) AS s FROM t": "SUM by the same amount",
    "SELECT k, x, NTILE(2) OVER (PARTITION BY k ORDER BY x) AS s FROM t": "NTILE by the same amount",
    "SELECT x, SUM(a) OVER (PARTITION BY k ORDER BY x) AS s FROM t": "does not have the ORDER BY columns",
    "SELECT k, SUM(a) OVER (PARTITION BY k ORDER BY x) AS s FROM t": "does not have the ORDER BY columns",
    "SELECT k, x, 2 * ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS s FROM t": "the column s of this",
    "SELECT k, x, 5 - ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS s FROM t": "the column s of this",
    "SELECT k, COUNT(*) AS n FROM t GROUP BY k": "are not those of one window",
    "SELECT x AS _until, ROW_NUMBER() OVER (ORDER BY x) AS s FROM t": "which the result has already",
}


@every(REFUSED)
def test_a_query_without_ranges_says_why(query: str) -> None:
    view = crown.view(query, SMALL)
    with pytest.raises((PlanError, CrownError), match=REFUSED[query]):
        view.apply({"t": [("a", 1, 1)]}, ranges=True)
    with pytest.raises((PlanError, CrownError), match=REFUSED[query]):
        _ = view.ranged_schema
    assert view.count() == 0, "it is refused before the batch is applied"


def test_forms_of_deltas_exclude_each_other() -> None:
    view = filled()
    with pytest.raises(CrownError, match="leave one of them out"):
        crown.view("Q(a) :- R(a).", {"R": {"a": "int64"}}).apply({}, ranges=True, factorized=True)
    stop = view.subscribe(lambda _: None)
    with pytest.raises(CrownError, match="subscribers receive plain rows"):
        view.apply({"t": [("a", 1, 1)]}, ranges=True)
    stop()
    assert view.apply({"t": [("a", 1, 1)]}, ranges=True).num_rows
    with pytest.raises(CrownError, match="ranges must be True or False"):
        view.apply({"t": [("a", 1, 1)]}, ranges="yes")  # type: ignore[arg-type]


def test_rows_are_read_by_their_place_whatever_the_window_functions_are() -> None:
    query = "SELECT x AS at, a - LAG(a) OVER (ORDER BY x) AS d, MAX(a) OVER (ORDER BY x) AS m FROM t"
    plain = "SELECT x AS at, LAG(a) OVER (ORDER BY x) AS d, MAX(a) OVER (ORDER BY x) AS m FROM t"
    view = crown.view(plain, SMALL)
    view.update({"t": [("a", x, x % 3) for x in range(10)]})
    assert view.page(8, 5).to_pylist() == [{"at": 8, "d": 1, "m": 2}, {"at": 9, "d": 2, "m": 2}]
    assert view.get({"at": 4}) == {"at": 4, "d": 0, "m": 2}
    with pytest.raises(CrownError, match=r"use results\(\) to read all rows"):
        crown.view(query, SMALL).page(0, 1)


def test_what_is_no_key_or_place_is_refused() -> None:
    view = filled()
    assert view.get({"k": "b", "x": 1}) is None
    assert view.get({"k": "a", "x": 77}) is None
    for key, why in ({"k": "a"}, "each of k, x, not for k"), ({"k": "a", "a": 10}, "each of k, x, not"):
        with pytest.raises(ChangeError, match=why):
            view.get(key)
    with pytest.raises(ChangeError, match=r"takes a value for each of k$"):
        view.page(0, 1)
    whole = crown.view("SELECT x, SUM(2 * a) OVER (ORDER BY x) AS s FROM t", SMALL)
    with pytest.raises(ChangeError, match="takes no value: there is one partition, not for k"):
        whole.page(0, 1, {"k": "a"})
    with pytest.raises(ChangeError, match=r"the window function SUM\(2 \* a\): the sum is no int64"):
        whole.update({"t": [("a", 1, 2**61), ("a", 2, 2**61), ("a", 3, 2**61)]})
    with pytest.raises(ChangeError, match="takes a dict"):
        view.page(0, 1, "a")  # type: ignore[arg-type]
    with pytest.raises(CrownError, match="limit must be a whole number"):
        view.page(0, -1, {"k": "a"})


def test_views_of_a_database_are_read_by_place() -> None:
    database = crown.database(SMALL)
    numbers = database.view("numbers", "SELECT x, ROW_NUMBER() OVER (ORDER BY x DESC) AS n FROM t")
    sums = database.view("sums", "SELECT k, SUM(a) AS s FROM t GROUP BY k")
    database.update({"t": [("a", x, x) for x in range(5)]})
    assert numbers.page(1, 2).to_pylist() == [{"x": 3, "n": 2}, {"x": 2, "n": 3}]
    assert numbers.get({"x": 0}) == {"x": 0, "n": 5}
    with pytest.raises(CrownError, match="is not that of a single window"):
        sums.page(0, 1)
