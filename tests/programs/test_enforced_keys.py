"""Enforced keys: what would break one is refused, and the view is that of DuckDB's table with a PRIMARY KEY."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import crown
from crown.errors import BadRowError, ChangeError, DuplicateKeyError, MemoryBudgetError, MissingDeleteError
from crown.programs.program import ProgramEngine
from plans import PlanError, Schema, Table, program
from plans.commands.declare import table_of
from plans.program import Program
from plans.programs.wiring import used_columns
from plans.time.windows import Window
from tests.marks import slow, turns
from tests.oracles.enforced import ORDERS, SCHEMA, Row, Twin
from tests.programs.results import added, rows_of, rows_of_engine

QUERIES = (
    "SELECT id, v, n FROM o",
    "SELECT id FROM o",
    "SELECT o.id, p.w FROM o JOIN p ON o.v = p.v",
    "SELECT o.id, o.n, p.w FROM o JOIN p ON o.v = p.v",
    "SELECT DISTINCT o.v FROM o WHERE o.n > 1",
    "SELECT v, COUNT(*) AS c, SUM(n) AS s FROM o GROUP BY v",
    "SELECT x.id, y.id AS other FROM o x JOIN o y ON x.v = y.v WHERE x.n < 2",
    "SELECT p.w, o.id FROM p LEFT JOIN o ON o.v = p.v",
    "SELECT p.w, MAX(o.n) AS m FROM o JOIN p ON o.v = p.v GROUP BY p.w",
    "SELECT id, n FROM o ORDER BY n DESC, id LIMIT 3",
    "SELECT id, v FROM o UNION ALL SELECT w, v FROM p",  # reads the base tables again, which so count rows in any case
)
ROWS, JOINED, COUNTED = (QUERIES[i] for i in (0, 3, 5))


def used_of(query: str) -> list[str]:
    made = program(query, SCHEMA)
    assert made.plan is None, "the base tables are what checks"
    return [column.name for column in used_columns(made, False)["o"]]


def set_aside(folder: Path) -> list[int]:
    """Returns the places of the rows in the newest file of a quarantine, and removes it."""
    files = list(folder.glob("*.parquet"))
    places: list[int] = []
    for file in files:
        rows = pq.read_table(file).to_pylist()
        assert all("is enforced, and" in row["reason"] and row["relation"] == "o" for row in rows)
        places += [row["row"] for row in rows]
        file.unlink()
    return places


def filled(view: Any, query: str) -> Counter[Row]:
    result: Counter[Row] = Counter()
    if " p " in f"{query} ":
        added(result, view.apply({"p": Twin.parts()}))
    return result


@pytest.mark.parametrize("batches", [9, slow(40)])
@pytest.mark.parametrize(
    ("query", "options"),
    [(query, options) for query in QUERIES for options in ({}, {"on_missing": "trust"})]
    + [(query, {"threads": 2}) for query in QUERIES if "JOIN" in query],  # others have nothing to cut
)
def test_what_breaks_a_key_is_set_aside_and_the_rest_is_what_duckdb_has(
    query: str, options: dict[str, Any], batches: int, tmp_path: Path
) -> None:
    honest = options.get("on_missing") == "trust"
    twin = Twin(len(query), used_of(query), honest=honest)
    aside = {"on_bad_row": "quarantine", "quarantine": tmp_path / "aside"}
    view = crown.view(query, SCHEMA, **options, **aside)
    result = filled(view, query)
    refused = 0
    for number in range(batches):
        batch = twin.batch(twin.random.randrange(9))
        places = twin.apply(batch)
        refused += len(places)
        added(result, view.apply({"o": batch}))
        assert set_aside(tmp_path / "aside") == places, number
        assert result == twin.result(query), number
        assert rows_of(view) == result
        view.check_invariants()
    assert view.stats()["quarantined"] == refused > 0


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_that_breaks_a_key_is_refused_whole_and_names_its_first_row(query: str) -> None:
    twin, view = Twin(len(query), used_of(query)), crown.view(query, SCHEMA)
    result = filled(view, query)
    refused = 0
    for _ in range(40):
        batch, before = twin.batch(twin.random.randrange(4)), dict(twin.rows)
        places = twin.apply(batch)
        if not places:
            added(result, view.apply({"o": batch}))
            continue
        refused += 1
        with pytest.raises(DuplicateKeyError, match="is enforced, and") as caught:
            view.apply({"o": batch})
        assert (caught.value.relation, caught.value.row) == ("o", places[0])
        assert rows_of(view) == result
        rest = [row for place, row in enumerate(batch) if place not in places]
        twin.rows = before
        assert twin.apply(rest) == [], "the other keys are not touched by it"
        added(result, view.apply({"o": rest}))
        assert result == twin.result(query)
    assert refused > 3
    view.check_invariants()


def test_what_is_refused_is_said_with_the_key_and_how_many_would_have_it() -> None:
    schema = {"t": {"columns": {"a": "int64", "b": "string", "c": "int64"}, "key": ["b", "a"], "enforced": True}}
    view = crown.view("SELECT c FROM t", schema)
    view.apply({"t": [{"a": 1, "b": "x", "c": 1}]})
    said = r"relation 't', row 1: the key a=1, b='x' is enforced, and 3 rows would have it: all changes of this key"
    rows = [{"a": 2, "b": "x", "c": 1}, {"a": 1, "b": "x", "c": 1}, {"a": 1, "b": "x", "c": 2}]
    with pytest.raises(DuplicateKeyError, match=said):
        view.apply({"t": rows})
    assert view.count() == 1
    gone = {"a": 1, "b": "x", "c": 1, "_weight": -1}
    assert view.apply({"t": [gone, {"a": 1, "b": "x", "c": 7, "_weight": 1}]}).num_rows == 2  # in any order
    trusted = crown.view("SELECT c FROM t", schema, on_missing="trust")
    with pytest.raises(BadRowError, match="and the batch deletes a row with this key that does not exist"):
        trusted.apply({"t": [gone]})


def test_names_of_a_key_are_in_any_case_and_order() -> None:
    columns = {"Id": "int64", "shop": "string", "n": "int64"}
    given = [{"columns": columns, "key": key, "enforced": True} for key in (["SHOP", "iD"], ["id", "Shop"])]
    made = [program("SELECT n FROM t", {"t": table}) for table in given]
    assert made[0].fingerprint == made[1].fingerprint
    view = crown.view(made[0])
    view.apply({"t": [{"id": 1, "shop": "a", "n": 1}, {"id": 1, "shop": "b", "n": 1}]})
    with pytest.raises(DuplicateKeyError, match="the key Id=1, shop='b' is enforced"):
        view.apply({"t": [{"id": 2, "shop": "b", "n": 1}, {"id": 1, "shop": "b", "n": 2}]})


def test_rows_that_are_distinct_are_told_apart_by_all_columns_and_null_is_a_value() -> None:
    table = {"columns": {"a": "int64", "b": "float64"}, "distinct": True, "enforced": True}
    view = crown.view("SELECT a FROM t", {"t": table})
    rows = [(1, None), (1, 0.0), (None, None), (1, float("inf"))]
    view.apply({"t": [{"a": a, "b": b} for a, b in rows]})
    assert view.count() == 4
    for a, b in ((1, None), (1, -0.0), (None, None)):
        with pytest.raises(DuplicateKeyError):
            view.apply({"t": [{"a": a, "b": b}]})
    view.apply({"t": [{"a": 1, "b": -0.0, "_weight": -1}]})
    view.apply({"t": [{"a": 1, "b": 0.0}]})
    assert view.count() == 4


def test_a_key_holds_for_rows_that_the_query_does_not_read() -> None:
    view = crown.view("SELECT id FROM o WHERE n > 5", SCHEMA)
    view.apply({"o": [{"id": 1, "v": "a", "n": 0}]})
    with pytest.raises(DuplicateKeyError):
        view.apply({"o": [{"id": 1, "v": "a", "n": 7}]})
    assert view.count() == 0


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
@pytest.mark.parametrize("query", [ROWS, JOINED, COUNTED])
def test_a_batch_that_is_undone_and_applied_again_gives_the_same_rows(query: str, on_missing: str) -> None:
    twin = Twin(5, used_of(query), honest=on_missing == "trust")
    made = program(query, SCHEMA)
    engine, once = (ProgramEngine.create(made, on_missing=on_missing) for _ in range(2))
    for one in (engine, once):
        list(one.run(one.prepare({"p": Twin.parts()} if " p " in f"{query} " else {})))
    for _ in turns(10, 20):
        batch = twin.batch(6)
        refused = twin.apply(batch)
        rest = {"o": [row for place, row in enumerate(batch) if place not in refused]}
        again = []
        for _ in range(2):
            again.append(Counter(map(str, (r for b in engine.run(engine.prepare(rest)) for r in b.to_pylist()))))
            engine.compact()
            engine.undo(rest)
            engine.check_invariants()
        for one in (engine, once):
            list(one.run(one.prepare(rest)))
        assert again[0] == again[1]
        engine.check_invariants()
        assert rows_of_engine(engine) == rows_of_engine(once)


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
def test_a_key_of_texts_is_known_after_compaction_though_nothing_else_keeps_them(on_missing: str) -> None:
    orders = {**ORDERS, "columns": {"id": "string", "v": "string", "n": "int64"}}
    view = crown.view(COUNTED, {"o": orders}, on_missing=on_missing)
    for start in (0, 40, 80):
        view.apply({"o": [{"id": f"order {i}", "v": "a", "n": 1} for i in range(start, start + 40)]})
        view.compact()
    for i in range(120):
        with pytest.raises(DuplicateKeyError):
            view.apply({"o": [{"id": f"order {i}", "v": "b", "n": 1}]})
    assert list(view) == [{"v": "a", "c": 120, "s": 120}]


def test_views_that_are_saved_opened_again_or_added_later_keep_their_keys(tmp_path: Path) -> None:
    twin, view, db = Twin(8), crown.view(ROWS, SCHEMA), crown.database(SCHEMA)
    db.view("first", ROWS)
    crown.open(ROWS, tmp_path / "folder", SCHEMA).close()
    for number in range(12):
        batch = twin.batch(3)
        refused = twin.apply(batch)
        with crown.open(None, tmp_path / "folder") as opened:
            for one in (view, db, opened):
                if refused:
                    with pytest.raises(DuplicateKeyError):
                        one.apply({"o": batch})
                one.apply({"o": [row for place, row in enumerate(batch) if place not in refused]})
            if number == 5:
                opened.snapshot()
            assert rows_of(opened) == twin.result(ROWS)
        if number == 6:
            db.view("second", COUNTED)
        view.save(tmp_path / "view")
        view = crown.load(tmp_path / "view")
        assert rows_of(view) == rows_of(db["first"]) == twin.result(ROWS)
        if number >= 6:
            assert rows_of(db["second"]) == twin.result(COUNTED)
    view.check_invariants()


def test_a_batch_that_something_else_refuses_leaves_the_keys_of_before() -> None:
    view = crown.view(ROWS, SCHEMA, on_missing="raise", memory_budget="1 MiB")
    view.update({"o": [{"id": 1, "v": "a", "n": 1}]})
    with pytest.raises(MissingDeleteError):
        view.apply({"o": [{"id": 2, "v": "b", "n": 1, "_weight": 1}, {"id": 3, "v": "b", "n": 1, "_weight": -1}]})
    with pytest.raises(MemoryBudgetError):
        view.apply({"o": {"id": range(2, 50_000), "v": ["x"] * 49_998, "n": [0] * 49_998}})
    view.check_invariants()
    view.apply({"o": [{"id": 2, "v": "b", "n": 1}]})
    assert view.count() == 2
    view.check_invariants()


def test_every_budget_refuses_a_batch_whole_or_takes_it() -> None:
    rows = [{"id": i, "v": str(i % 7), "n": i} for i in range(4000)]
    refused = taken = 0
    for kib in range(64, 448, 8):
        view = crown.view(ROWS, SCHEMA, memory_budget=kib << 10)
        try:
            view.apply({"o": rows})
            taken += 1
        except MemoryBudgetError:
            refused += 1
            assert view.count() == 0
        view.check_invariants()
    assert min(refused, taken) > 0


def test_a_batch_that_was_prepared_for_another_state_is_not_applied() -> None:
    engine = ProgramEngine.create(program(ROWS, SCHEMA))
    first, second = (engine.prepare({"o": [{"id": 1, "v": v, "n": 0}]}) for v in "ab")
    list(engine.run(first))
    with pytest.raises(ChangeError, match="another batch was applied after this one was prepared"):
        list(engine.run(second))
    engine.check_invariants()
    assert engine.result.count() == 1


def test_what_is_declared_wrongly_is_told_in_one_sentence() -> None:
    columns = {"id": "int64", "at": "timestamp"}
    for given, words in (
        ({"columns": columns, "enforced": True}, "is enforced, but declares neither a key nor distinct rows"),
        ({"columns": columns, "key": ["id"], "enforced": True, "upserts": True}, "has upserts and an enforced key"),
    ):
        with pytest.raises(PlanError, match=words):
            Schema.of({"o": given})
    with pytest.raises(PlanError, match="has a window and an enforced key"):
        crown.view("SELECT id FROM o", {"o": {"columns": columns, "key": ["id"], "enforced": True}}, windows={
            "o": Window(by="at", size="1 hour")
        })  # fmt: skip


def test_explain_says_what_is_checked_and_the_declaration_is_part_of_the_state() -> None:
    enforced, believed = program(JOINED, SCHEMA), program(JOINED, {**SCHEMA, "o": {**ORDERS, "enforced": False}})
    assert "o: key (id); two look-ups per change, memory: a record per key" in crown.view(enforced).explain()
    assert "enforced" not in crown.view(believed).explain()
    assert enforced.fingerprint != believed.fingerprint
    assert Program.from_json(enforced.to_json()).table("o").enforced
    assert "enforced" not in str(believed.to_json())


def test_a_declaration_on_the_command_line_says_the_same() -> None:
    made = table_of("o(id int64 key, v string) enforced")
    assert made == Table("o", made.columns, ("id",), enforced=True)
    made = table_of("o(id int64, v string) distinct enforced")
    assert made == Table("o", made.columns, (), True, enforced=True)
    assert made.told_apart_by == ("id", "v")
    for text in ("o(id int64 key) enforcedly", "o(id int64 key) enforced distinct"):
        with pytest.raises(PlanError, match="does not declare a table"):
            table_of(text)
