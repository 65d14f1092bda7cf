"""Joins whose batches are one native call: each beside an engine that takes them step by step, and beside DuckDB.

Every reason for which the call comes back early has a query, and random batches that lead there.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.engine import buffers
from crown.errors import AmplifiedWarning, BadRowError, ChangeError, MemoryBudgetError, MissingDeleteError
from crown.kernels.memory import arena as A
from crown.programs.kernels import pipeline as kernels
from crown.programs.pipelines import joins, pipeline
from crown.stages.kernels.groups import batch as group_batch
from tests.marks import by_turns, seeds, turns
from tests.programs.stepwise import Changes, Stepwise, bag

EDGES = {"g": {"src": "int64", "dst": "int64"}}
TABLES = {
    "r": {"k": "int64", "b": "int32", "v": "int64", "d": "decimal(12,2)"},
    "s": {"b": "int32", "c": "int64", "f": "float64", "t": "date"},
}
TEXTS = {"u": {"k": "int64", "x": "string", "y": "string"}, "w": {"x": "string", "z": "binary"}}
HOPS = "FROM g a, g b, g c WHERE a.dst = b.src AND b.dst = c.src"
QUERIES = {
    "two tables": ("SELECT DISTINCT k, r.b, v, d, c, f, t FROM r, s WHERE r.b = s.b", TABLES),
    "conditions": (
        "SELECT DISTINCT k, r.b, v, c FROM r, s WHERE r.b = s.b AND v > 1 AND NOT d IS NULL AND c IN (1, 2, 3)",
        TABLES,
    ),
    "three hops": (f"SELECT DISTINCT a.src, b.src AS x, c.src AS y, c.dst AS z {HOPS}", EDGES),
    "three hops, of which one is tested": (
        f"SELECT DISTINCT a.src, b.src AS x, c.src AS y, c.dst AS z {HOPS} AND c.dst > 2 AND c.src <> c.dst", EDGES,
    ),
    "columns of some": (f"SELECT DISTINCT b.src AS x, c.src AS y {HOPS}", EDGES),
    "tests of several kinds": (
        "SELECT DISTINCT a.k, b.k AS l, a.v, b.v AS w FROM r a, r b, r c WHERE a.k = b.v AND b.k = c.v "
        "AND b.b IN (1, 2) AND c.d BETWEEN 10 AND 60 AND NOT c.b IS NULL AND a.b IS NULL AND b.k <= b.v",
        TABLES,
    ),
    "rows that are not told apart": ("SELECT DISTINCT v FROM r, s WHERE r.b = s.b", TABLES),
    "computed columns": ("SELECT DISTINCT k, r.b, v, v + c AS x, d, c, f, t FROM r, s WHERE r.b = s.b", TABLES),
    "duplicates": ("SELECT k, r.b, v, d, c, f, t FROM r, s WHERE r.b = s.b AND v > 1", TABLES),
    "duplicates, of some columns": ("SELECT v AS w, v, c AS x FROM r, s WHERE r.b = s.b AND k > 1", TABLES),
    "duplicates of a sum": ("SELECT k FROM r, s WHERE r.b = s.b", TABLES),
    "duplicates of three": ("SELECT a.k, c.d FROM r a, s, r c WHERE a.b = s.b AND s.c = c.v", TABLES),
    "duplicates of hops": (f"SELECT a.src, c.dst {HOPS}", EDGES),
    "duplicates, computed": ("SELECT k + c AS x FROM r, s WHERE r.b = s.b AND v <= c", TABLES),
    "texts": ("SELECT DISTINCT k, u.x, y, z FROM u, w WHERE u.x = w.x", TEXTS),
    "texts that are compared": (
        "SELECT k, y, z FROM u, w WHERE u.x = w.x AND (y = 'a text that is long' OR y IS NULL OR k > 5)", TEXTS,
    ),
    "a left join": ("SELECT k, r.b, v, c, f, t FROM r LEFT JOIN s ON r.b = s.b AND c > 1", TABLES),
    "two left joins": (
        "SELECT a.k, a.v, s.c, c.d FROM r a LEFT JOIN s ON a.b = s.b LEFT JOIN r c ON s.c = c.v", TABLES,
    ),
    "a full join": ("SELECT k, v, c, t FROM r FULL JOIN s ON r.b = s.b", TABLES),
    "rows without a partner": ("SELECT k, v FROM r LEFT JOIN s ON r.b = s.b WHERE c IS NULL", TABLES),
    "conditions over both": ("SELECT DISTINCT k, r.b, v, d, c, t FROM r, s WHERE r.b = s.b AND v < c", TABLES),
}  # fmt: skip
ABSENT: dict[str, tuple[Any, ...]] = {
    "g": (99, 99), "r": (99, 99, 99, Decimal(99)), "s": (99, 99, 99.0, None), "u": (99, "absent", "absent"),
    "w": ("absent", b"absent"),
}  # fmt: skip
"""Rows that no other row equals in any column that is read."""


def rows_of(table: str, random: Random) -> tuple[Any, ...]:
    """Returns a row, some of whose values are NULL."""
    if table == "g":
        row: tuple[Any, ...] = (random.randrange(5), random.randrange(5))
        return tuple(None if random.random() < 0.03 else value for value in row)
    if table in TEXTS:
        texts = [random.choice(("", "short", "a text that is long", "ä" * 20)) for _ in range(2)]
        row = (random.randrange(8), *texts) if table == "u" else (texts[0], texts[1].encode())
    elif table == "r":
        row = (
            random.randrange(8),
            random.randrange(4),
            random.randrange(6),
            Decimal(random.randrange(8000)).scaleb(-2),
        )
    else:
        row = (random.randrange(4), random.randrange(5), random.randrange(4) / 2, None)
    return tuple(None if random.random() < 0.03 else value for value in row)


def changes_of(both: Stepwise, table: str, random: Random, absent: bool) -> Changes:
    """Returns random changes of a table; ``absent``: some of its deletes may find no row."""
    there = list(both.database.rows[table].elements())
    gone = [(row, -1) for row in random.sample(there, random.randrange(len(there) // 2 + 1))]
    come = [(rows_of(table, random), random.choice((1, 1, 1, 2, 0))) for _ in range(random.choice((0, 1, 3, 30)))]
    if absent:
        gone += [(ABSENT[table], -1)] * random.randrange(2)
    changes = gone + come
    random.shuffle(changes)
    return changes


def batch_of(both: Stepwise, tables: Iterable[str], random: Random, absent: bool) -> dict[str, Changes]:
    """Returns random changes of some tables; those without a change are left out."""
    names = list(tables)
    some = random.sample(names, random.randrange(1, len(names) + 1))
    batch = {table: changes_of(both, table, random, absent) for table in some}
    return {table: changes for table, changes in batch.items() if changes}


@pytest.mark.parametrize(("kind", "on_missing"), by_turns(QUERIES, ("ignore", "trust", "raise")))
@pytest.mark.parametrize("seed", seeds(1, 10))
def test_batches_are_those_of_an_engine_that_takes_them_step_by_step(seed: int, kind: str, on_missing: str) -> None:
    query, tables = QUERIES[kind]
    random = Random(f"{seed} {kind} {on_missing}")
    both = Stepwise(query, tables, on_missing=on_missing)
    if kind == "texts that are compared":  # no scan tests them: texts of rows that are left out stay
        both.apart |= {"dictionary", "live_bytes"}
    for number in turns(8, 24):
        if batch := batch_of(both, tables, random, on_missing == "ignore"):
            wanted = {"consolidate": random.choice((None, None, True, False))}
            if number % 3 == 1:
                both.aborted(batch, read=number % 2)
            both.apply(batch, deltas=number % 6 != 5, dicts=random.random() < 0.3, **wanted)
    both.is_duckdbs()
    if on_missing != "ignore":  # else every batch may have a delete that finds no row
        assert (
            both.results[group_batch.DONE]
            or both.results[kernels.JOIN_ROWS_PENDING]
            or both.results[kernels.MESSAGE_TOO_LARGE]
        )
    everything = {table: changes for table, changes in both.database.everything(-1).items() if changes}
    both.apply(everything)
    assert not both.view.to_table().num_rows


def edges(n: int, far: int = 0) -> Changes:
    """Returns edges into a hub, and as many out of it."""
    return [((1_000 + far + i, 0), 1) for i in range(n)] + [((0, 1_000 + far + i), 1) for i in range(n)]


PAIRS = "SELECT DISTINCT a.src, a.dst AS x, b.dst AS y FROM g a, g b WHERE a.dst = b.src"


def small_buffers(monkeypatch: pytest.MonkeyPatch, cells: int = 300) -> None:
    """Has the buffers of joins take few rows."""
    monkeypatch.setattr(buffers, "BLOCK_CELLS", cells)


def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a call make room for few rows of joins, and for no more rows than the batch has."""
    monkeypatch.setattr(joins, "_MIN_ROWS", 8)
    monkeypatch.setattr(pipeline, "_ROWS_OF_ROOM", 1)
    monkeypatch.setattr(pipeline, "_KEPT_WORDS", 0)


REPEATED = "SELECT a.src, a.dst AS x, b.dst AS y FROM g a, g b WHERE a.dst = b.src"


@pytest.mark.parametrize("query", [PAIRS, REPEATED, QUERIES["three hops"][0]])
def test_a_full_buffer_is_handed_on(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of deletes, of inserts, and of inserts behind deletes that are in it already."""
    small_buffers(monkeypatch)
    both = Stepwise(query, EDGES)
    both.apply(edges(15))
    both.apply([(row, -1) for row, _ in edges(5)])
    few = [(row, -1) for row, _ in edges(8)[7:9]]
    both.apply([*few, *edges(20, 100)])
    both.apply([((2_000, 0), 1), *few, ((0, 3_000), 1)], consolidate=True)
    both.apply([(row, -1) for row, _ in both.database.everything()["g"]])
    assert both.results[kernels.JOIN_STOPPED] >= 3, both.results


@pytest.mark.parametrize("consolidate", [None, True])
def test_a_buffer_that_is_full_while_sums_are_published_is_handed_on(
    consolidate: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each row of ``h`` only sums are kept, which all rows of a key are told."""
    small_buffers(monkeypatch)
    both = Stepwise("SELECT src, dst FROM g, h WHERE dst = b", {**EDGES, "h": {"b": "int64"}})
    both.apply({"g": [((i, i % 2), 1) for i in range(400)], "h": [((0,), 1)]}, consolidate=consolidate)
    for weight in (1, -1, 3, -3):
        both.apply({"h": [((0,), weight), ((1,), 1)]}, consolidate=consolidate)
    both.apply({"g": [((1, 1), -1), ((7, 0), 1)], "h": [((0,), -1), ((1,), -4)]}, consolidate=consolidate)
    assert both.results[kernels.JOIN_STOPPED] >= 5, both.results
    both.is_duckdbs()


@pytest.mark.parametrize("columns", ["src, x, y", "x, COUNT(*) AS n, SUM(y) AS s"])
def test_a_buffer_that_is_full_while_rows_are_padded_is_handed_on(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While paddings are removed, before rows of ``h`` come, and while they are inserted."""
    small_buffers(monkeypatch)
    by = " GROUP BY x" if "COUNT" in columns else ""
    both = Stepwise(f"SELECT {columns} FROM g LEFT JOIN h ON dst = x{by}", {**EDGES, "h": {"x": "int64", "y": "int64"}})
    both.apply({"g": [((i, i % 2), 1) for i in range(400)]})
    for weight in (1, -1):
        both.apply({"h": [((0, 5), weight)]})
        both.apply({"h": [((0, 6), weight), ((1, 6), weight)], "g": [((8, 0), -weight), ((1_000, 1), weight)]})
        both.apply({"g": [((2_000, 1), weight), ((5, 1), -weight)]})
    assert by or both.results[kernels.JOIN_STOPPED] >= 5, both.results
    both.is_duckdbs()


def test_a_count_that_leaves_63_bits_refuses_the_batch() -> None:
    """The result is not read: it has as many rows as the counts say."""
    both = Stepwise(QUERIES["duplicates of hops"][0], EDGES)
    first, wrong, more = (
        both.given(changes)
        for changes in (
            [((1, 1), 2**20), ((1, 2), 1), ((2, 1), 1)],
            [((3, 1), 1), ((2, 1), -1), ((1, 1), 2**21)],
            [((3, 1), 1), ((2, 1), -1)],
        )
    )
    assert bag(both.view.apply(first)) == bag(both.other.apply(first))
    for view in (both.view, both.other):
        with pytest.raises(ChangeError, match="a count would leave 63 bits"):
            view.apply(wrong)
    assert both.results[kernels.JOIN_ROWS_PENDING] == 1
    assert bag(both.view.apply(more)) == bag(both.other.apply(more))


def test_a_buffer_that_is_more_than_half_full_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    small_buffers(monkeypatch)
    both = Stepwise(PAIRS, EDGES)
    both.apply(edges(5))
    for n in (11, 14, 16, 19):
        both.apply([((0, 100 * n + i), 1) for i in range(n)])
        both.apply([((0, 100 * n + i), -1) for i in range(n)] + [((0, 100 * n + 50), 1)])
    assert both.results[kernels.JOIN_ROWS_PENDING] >= 2, both.results


def test_what_a_join_made_stays_as_it_was_when_it_was_delivered() -> None:
    view = Stepwise(PAIRS, EDGES).view
    kept = [view.apply({"g": pa.table({"src": [i, 0], "dst": [0, i]})}) for i in range(1, 40)]
    shown = [table.to_pylist() for table in kept]
    view.apply({"g": pa.table({"src": range(100, 400), "dst": [0] * 300})})
    assert [table.to_pylist() for table in kept] == shown


def test_a_delete_that_finds_no_row_is_refused_cut_or_counted() -> None:
    for on_missing in ("raise", "ignore", "trust"):
        both = Stepwise(PAIRS, EDGES, on_missing=on_missing)
        both.apply(edges(3))
        absent = [((1_000, 0), -2), ((5, 5), -1), ((0, 7), 1)]
        if on_missing == "raise":
            assert "deletes 2 copies" in both.refused(both.given(absent), MissingDeleteError)
        else:
            both.apply(absent)
            assert sum(both.view.stats()["stages"][0]["missing_deletes"].values()) == 4 * (on_missing == "trust")
        assert both.results[kernels.JOIN_ROWS_PENDING if on_missing == "trust" else kernels.STOPPED_AT_GATE] == 1, (
            on_missing,
            both.results,
        )
        both.apply(edges(4))


def test_a_bad_row_of_any_relation_is_named() -> None:
    both = Stepwise(*QUERIES["two tables"])
    batch = both.given({"r": [((1, 1, 1, None), 1)], "s": [((1, 1, 1.0, None), 1)]})
    both.view.apply(batch)
    both.other.apply(batch)
    for name in batch:
        weights = pa.array([2**31], pa.int64())
        wrong = {**batch, name: batch[name].set_column(batch[name].num_columns - 1, "_weight", weights)}
        assert "row 0" in both.refused(wrong, BadRowError)
    assert both.results[kernels.NOT_SCANNED] == 2
    assert both.view._engine.header[A.H_EPOCH] == 1


def test_rows_of_whole_numbers_are_taken_whatever_form_they_have() -> None:
    tables = {"g": {"src": "int64", "dst": "int32"}}
    both = Stepwise("SELECT DISTINCT src, dst FROM g WHERE dst > 1", tables)
    query = "SELECT src, COUNT(*) AS n, SUM(dst) AS s FROM g WHERE dst > 1 GROUP BY src"
    both = Stepwise(query, tables)
    forms: list[Any] = [
        [{"src": 1, "dst": 2}, {"src": 1, "dst": 1}],
        [{"dst": 3, "note": "other", "src": 2, "_weight": 2}],
        [(1, 5), (3, 2)],
        [{"_weight": -1, "SRC": 1, "dst": 2}],
        [(3, 2, -1)],
    ]
    for rows in forms:
        assert bag(both.view.apply({"g": rows})) == bag(both.other.apply({"g": rows}))
        both.compare()
    assert both.results == {group_batch.DONE: len(forms)}
    for wrong, said in (
        ({"src": 1, "dst": 2**31}, "dst"),
        ({"src": 1, "dst": 2, "_weight": 2**31}, "_weight"),
        ({"src": -(2**63), "dst": 2, "_weight": 1}, "src"),
    ):
        assert said in both.refused([{"src": 7, "dst": 7, "_weight": 1}, {"_weight": 1, **wrong}], BadRowError)


def test_a_null_in_a_key_is_left_to_the_steps() -> None:
    both = Stepwise(*QUERIES["two tables"])
    both.apply({"r": [((1, None, 1, None), 1), ((None, 1, None, None), 1)], "s": [((1, 1, None, None), 1)]})
    both.apply({"r": [((1, None, 1, None), -1)]})
    assert both.results == {kernels.NULL_KEY: 2}
    both.apply({"r": [((None, 1, None, None), -1), ((2, 1, None, None), 1)]})
    assert both.results[group_batch.DONE] == 1


def test_too_many_copies_of_a_row_refuse_the_batch() -> None:
    both = Stepwise(PAIRS, EDGES)
    both.apply([*edges(2), ((7, 7), 2**31 - 1)])
    said = both.refused(both.given([((5, 0), 1), ((1_000, 0), -1), ((7, 7), 1), ((6, 0), 1)]), ChangeError)
    assert "more than 2147483647 copies" in said
    assert both.results[kernels.JOIN_STOPPED] == 1
    both.apply([((5, 0), 1)])


@pytest.mark.parametrize("query", [PAIRS, REPEATED])
@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_a_budget_stops_a_join(on_missing: str, query: str) -> None:
    both = Stepwise(query, EDGES, on_missing=on_missing, memory_budget=300_000)
    both.apply(edges(5))
    before = bag(both.view.to_table())
    batch = pa.table({"src": range(10, 12_000), "dst": range(20_010, 32_000)})
    for view in (both.view, both.other):
        with pytest.raises(MemoryBudgetError):
            view.apply({"g": batch})
        view.check_invariants()
        assert bag(view.to_table()) == before
    assert both.results[kernels.JOIN_STOPPED] == 1
    assert both.view.apply({"g": batch[:10]}).num_rows == 0


@pytest.mark.parametrize(
    ("query", "budget"),
    [
        ("SELECT DISTINCT src, dst, c, f FROM g, h WHERE dst = b AND c > 2", 130_000),
        ("SELECT src, SUM(dst) AS s FROM g GROUP BY src", 150_000),
    ],
)
def test_the_budget_is_one_of_the_base_tables_and_the_stage(query: str, budget: int) -> None:
    """Both grow in one call: what the base tables have taken in it is not the stage's any more."""
    given: dict[str, Changes] = {"g": [((i, i), 1) for i in range(2_000 if "GROUP" in query else 700)]}
    tables: dict[str, Any] = dict(EDGES)
    if "h" in query.split():
        tables["h"] = {"b": "int64", "c": "int64", "f": "float64"}
        given["h"] = [((i, 5, i / 2), 1) for i in range(300)]
    both = Stepwise(query, tables, on_missing="raise", memory_budget=budget)
    both.refused(both.given(given), MemoryBudgetError)
    assert both.results[group_batch.DONE] == 0
    both.apply({name: changes[:20] for name, changes in given.items()})


def test_a_state_in_a_file_grows(tmp_path: Any) -> None:
    kept, other = crown.view(PAIRS, EDGES, path=tmp_path / "state"), crown.view(PAIRS, EDGES)
    for first in range(0, 60_000, 12_000):
        batch = {"g": pa.table({"src": range(first, first + 12_000), "dst": range(first + 1, first + 12_001)})}
        assert bag(kept.apply(batch)) == bag(other.apply(batch))
    assert bag(kept.to_table()) == bag(other.to_table())
    most = pa.table({"src": range(59_900), "dst": range(1, 59_901), "_weight": np.full(59_900, -1)})
    assert bag(kept.apply({"g": most})) == bag(other.apply({"g": most}))
    kept.check_invariants()


@pytest.mark.parametrize("kind", ["three hops", "computed columns"])
def test_what_is_raised_when_all_is_done_takes_the_batch_back(kind: str) -> None:
    query, tables = QUERIES[kind]
    both = Stepwise(query, tables)
    first = {"g": edges(2)} if tables is EDGES else {"r": [((1, 1, 1, Decimal(1)), 1)], "s": [((1, 1, 1.0, None), 1)]}
    more = {"g": [*edges(1, 50), ((0, 0), 1)]} if tables is EDGES else {"r": [((2, 1, 1, Decimal(1)), 1)]}
    both.apply(first)
    before, table = both.view.stats(), both.table()
    for view in (both.view, both.other):
        view.amplified_beyond = 0
        with pytest.raises(AmplifiedWarning):  # a warning is an error in tests
            view.apply(both.given(more))
        view.amplified_beyond = None
    both.compare()
    assert both.table() == table
    assert both.view.stats()["updates"] == before["updates"]
    both.apply(more)


def test_a_batch_is_undone() -> None:
    both = Stepwise(*QUERIES["three hops, of which one is tested"])
    both.apply(edges(4))
    table = both.table()
    both.apply([*edges(3, 10), *[(row, -1) for row, _ in edges(1)]])
    changes = both.given([*edges(3, 10), *[(row, -1) for row, _ in edges(1)]])
    for view in (both.view, both.other):
        view._engine.undo(changes)
    both.compare()
    assert both.table() == table


def test_other_forms_of_deltas_take_the_steps() -> None:
    both = Stepwise(*QUERIES["three hops"])
    both.apply(edges(3), factorized=True)
    assert not both.results
    assert both.view.apply(both.given(edges(2, 50))).num_rows == both.other.apply(both.given(edges(2, 50))).num_rows
    both.view.update(both.given(edges(1, 90)))
    assert both.results == {group_batch.DONE: 1}
    assert pa.Table.from_batches(both.view.apply_batches(both.given(edges(1, 95)))).num_rows
    assert both.results == {group_batch.DONE: 1}
