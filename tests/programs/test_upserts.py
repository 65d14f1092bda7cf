"""Updates by key without the row before: after every batch the view is that of DuckDB after INSERT OR REPLACE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import crown
from crown import changes as changelog
from crown.errors import BadRowError, ChangeError, MemoryBudgetError, MissingDeleteError, UnusableStateError
from crown.programs.program import ProgramEngine
from plans import PlanError, Schema, Table, program
from plans.commands.declare import table_of
from tests.marks import turns
from tests.oracles.upserts import Row, Twin, schema
from tests.programs.results import added, rows_of, rows_of_engine

QUERIES = (
    "SELECT id, v, n FROM o",
    "SELECT id FROM o",
    "SELECT o.id, p.w FROM o JOIN p ON o.v = p.v",
    "SELECT DISTINCT o.v FROM o WHERE o.n > 1",
    "SELECT v, COUNT(*) AS c, SUM(n) AS s FROM o GROUP BY v",
    "SELECT x.id, y.id AS other FROM o x JOIN o y ON x.v = y.v WHERE x.n < 3",
    "SELECT p.w, o.id FROM p LEFT JOIN o ON o.v = p.v",
    "SELECT p.w, MAX(o.n) AS m FROM o JOIN p ON o.v = p.v GROUP BY p.w",
    "SELECT id, n FROM o ORDER BY n DESC, id LIMIT 3",
)
ROWS, JOINED, COUNTED, GROUPED = (QUERIES[i] for i in (0, 2, 4, 7))


@pytest.mark.parametrize("sequence", [None, "seq"])
@pytest.mark.parametrize("query", QUERIES)
def test_after_every_batch_the_view_is_what_duckdb_has_after_insert_or_replace(
    query: str, sequence: str | None
) -> None:
    twin = Twin(len(query), sequence is not None)
    view = crown.view(query, schema(sequence))
    tables = (
        {"p": [{"v": v, "w": i} for i, v in enumerate("abc")]} if "p" in view.schema.names or " p " in query else {}
    )
    result: Counter[Row] = Counter()
    if tables:
        added(result, view.apply(tables))
    late = 0
    for number in turns(10, 12):
        batch = twin.batch(twin.random.randrange(12))
        late += twin.apply(batch)
        added(result, view.apply({"o": batch}))
        assert result == twin.result(query), number
        assert rows_of(view) == result
        view.check_invariants()
        assert view.stats()["rows"]["o"] == twin.duck.execute("SELECT COUNT(*) FROM o").fetchall()[0][0]
    assert view.stats()["late"]["o"] == late
    assert (late > 0) == (sequence is not None)


@pytest.mark.parametrize("sequence", [None, "seq"])
def test_a_batch_that_is_undone_and_applied_again_gives_the_same_rows(sequence: str | None) -> None:
    twin = Twin(5, sequence is not None)
    made = program(COUNTED, schema(sequence))
    engine, once = ProgramEngine.create(made), ProgramEngine.create(made)
    for _ in turns(10, 20):
        batch = {"o": twin.batch(8)}
        again = []
        for _ in range(2):
            again.append(Counter(map(str, (r for b in engine.run(engine.prepare(batch)) for r in b.to_pylist()))))
            before = engine.stats()
            engine.compact()  # values of the rows before are still needed
            engine.undo(batch)
        list(engine.run(engine.prepare(batch)))
        list(once.run(once.prepare(batch)))
        assert again[0] == again[1]
        for name in ("rows", "missing_deletes", "late", "tombstones"):
            assert engine.stats()[name] == before[name] == once.stats()[name], name
        engine.check_invariants()
        assert rows_of_engine(engine) == rows_of_engine(once)


def begun_again(folder: Path, tables: dict[str, Any], twin: Twin, batches: int) -> Iterator[tuple[int, Any, Any]]:
    """Per batch how many changes came too late so far, a view that has been saved and loaded, and one opened again."""
    view, late = crown.view(ROWS, tables), 0
    with crown.open(ROWS, folder / "folder", tables) as opened:
        assert rows_of(opened) == Counter()
    for _ in range(batches):
        batch = twin.batch(9)
        late += twin.apply(batch)
        view.update({"o": batch})
        view.save(folder / "view")
        view = crown.load(folder / "view")
        with crown.open(None, folder / "folder") as opened:
            opened.update({"o": batch})
            if opened.batches == 5:
                opened.snapshot()
            assert rows_of(opened) == twin.result(ROWS)
            yield late, view, opened
        assert rows_of(view) == twin.result(ROWS)


def test_a_view_that_is_saved_and_loaded_and_one_that_is_opened_again_go_on(tmp_path: Path) -> None:
    assert len(list(begun_again(tmp_path, schema("seq"), Twin(8, True), 10))) == 10


def test_a_database_takes_upserts_and_fills_late_views_from_the_rows_by_key() -> None:
    twin = Twin(9, True)
    db = crown.database(schema("seq"))
    db.view("first", COUNTED)
    for number in range(12):
        batch = twin.batch(9)
        twin.apply(batch)
        db.apply({"o": batch})
        if number == 6:
            db.view("second", "SELECT id, seq FROM o WHERE n > 1")
        assert rows_of(db["first"]) == twin.result(COUNTED)
        if number >= 6:
            assert rows_of(db["second"]) == twin.result("SELECT id, seq FROM o WHERE n > 1")


def test_several_threads_and_trusted_deletes_give_the_same() -> None:
    for options in ({"threads": 2}, {"on_missing": "trust"}):
        twin = Twin(4, True)
        view = crown.view(GROUPED, schema("seq"), **options)
        view.update({"p": [{"v": v, "w": i} for i, v in enumerate("abc")]})
        for _ in range(12):
            batch = twin.batch(9)
            twin.apply(batch)
            view.apply({"o": batch})
            assert rows_of(view) == twin.result(GROUPED)


def test_a_batch_that_is_refused_leaves_the_rows_of_before() -> None:
    view = crown.view(ROWS, schema(), on_missing="raise", memory_budget="1 MiB")
    view.update({"o": [{"id": 1, "v": "a", "n": 1, "seq": 0}]})
    before = rows_of(view)
    with pytest.raises(MissingDeleteError, match=r"deletes the row of the key \{'id': 2\}, but there is none"):
        view.apply({"o": [{"id": 1, "v": "b", "n": 1, "seq": 0, "_weight": 1}, {"id": 2, "_weight": -1, "seq": 0}]})
    assert rows_of(view) == before
    with pytest.raises(MemoryBudgetError):
        view.apply({"o": {"id": range(50_000), "v": ["x"] * 50_000, "n": [0] * 50_000, "seq": [0] * 50_000}})
    assert rows_of(view) == before
    view.check_invariants()
    view.apply({"o": [{"id": 1, "_weight": -1, "seq": 0}]})
    assert rows_of(view) == Counter()


def test_of_two_changes_of_a_key_with_one_sequence_the_row_that_comes_wins_then_the_later() -> None:
    view = crown.view("SELECT id, v FROM o", schema("seq"))
    rows = [{"id": 1, "v": v, "n": 0, "seq": 7, "_weight": w} for v, w in (("a", 1), ("b", 1), ("b", -1))]
    view.apply({"o": rows})
    assert rows_of(view) == Counter({(1, "b"): 1})


def test_a_change_that_only_moves_the_sequence_changes_nothing_and_is_remembered() -> None:
    view = crown.view("SELECT id, v FROM o", schema("seq"))
    row = {"id": 1, "v": "a", "n": 0, "seq": 1}
    view.apply({"o": [row]})
    assert view.apply({"o": [{**row, "seq": 5}]}).num_rows == 0
    assert view.apply({"o": [{**row, "v": "b", "seq": 3}]}).num_rows == 0
    assert view.stats()["late"]["o"] == 1


def test_rows_before_an_update_are_known_so_their_codes_change_nothing() -> None:
    view = crown.view("SELECT id, v FROM o", schema())
    view.apply({"o": [{"id": 1, "v": "a", "n": 0, "seq": 0, "_row_kind": "+I"}]})
    kinds = [("b", "+U"), ("a", "-U")]  # Flink may send the two in any order, or the second alone
    view.apply({"o": [{"id": 1, "v": v, "n": 0, "seq": 0, "_row_kind": kind} for v, kind in kinds]})
    assert rows_of(view) == Counter({(1, "b"): 1})
    view.apply({"o": [{"id": 1, "_row_kind": "-D"}]})  # its other columns are not looked at
    assert rows_of(view) == Counter()


def test_debezium_without_replica_identity_full_is_taken_by_key() -> None:
    view = crown.view("SELECT id, v FROM o", schema())
    row = {"id": 1, "v": "a", "n": 0, "seq": 0}
    envelopes: list[dict[str, Any] | None] = [
        {"op": "c", "before": None, "after": row},
        {"op": "u", "before": None, "after": {**row, "v": "b"}},
        {"op": "c", "before": None, "after": {**row, "id": 2}},
        {"op": "d", "before": {"id": 2, "v": None, "n": None, "seq": None}, "after": None},
        None,
    ]
    view.apply({"o": changelog.from_debezium(envelopes)})
    assert rows_of(view) == Counter({(1, "b"): 1})
    plain = crown.view("SELECT id, v FROM o", {"o": {**schema()["o"], "key": (), "upserts": False}})
    with pytest.raises(ChangeError, match="or declare the table with upserts"):
        plain.apply({"o": changelog.from_debezium(envelopes)})


def test_envelopes_that_are_delivered_again_change_nothing() -> None:
    view = crown.view("SELECT v, COUNT(*) AS n FROM o GROUP BY v", schema("seq"))
    row = {"id": 1, "v": "a", "n": 0, "seq": 1}
    envelopes = [
        {"op": "c", "before": None, "after": row},
        {"op": "u", "before": row, "after": {**row, "v": "b", "seq": 2}},
        {"op": "c", "before": None, "after": {**row, "id": 2}},
    ]
    for batch in (envelopes[:2], [envelopes[1], envelopes[1], envelopes[2]], envelopes, envelopes[:1]):
        view.apply({"o": changelog.from_debezium(batch)})
    assert rows_of(view) == Counter({("b", 1): 1, ("a", 1): 1})


def test_bad_rows_are_told_and_deletes_need_the_key() -> None:
    view = crown.view("SELECT id, v FROM o", schema("seq"))
    for row, reason in (
        ({"id": None, "v": "a", "seq": 1}, "column 'id' is NULL, and part of the key"),
        ({"id": 1, "v": "a", "seq": None}, "column 'seq' is NULL, and the sequence"),
        ({"id": 1, "v": "a", "seq": 1, "_weight": 2}, "a relation with upserts has every row once; use 1 or -1"),
    ):
        with pytest.raises(BadRowError, match=reason):
            view.apply({"o": [row]})
    with pytest.raises(ChangeError, match="column 'v' is missing from the batch"):
        view.apply({"o": [{"id": 1, "seq": 1}]})
    with pytest.raises(BadRowError, match="column 'v' is missing"):
        view.apply({"o": [{"id": 1, "seq": 1}, {"id": 2, "v": "a", "seq": 1}]})


def test_what_is_declared_wrongly_is_told_in_one_sentence() -> None:
    columns = {"id": "int64", "v": "string", "seq": "float64"}
    for given, words in (
        ({"columns": columns, "upserts": True}, "has upserts, but no key"),
        ({"columns": columns, "key": ["id"], "sequence": "v"}, "has a sequence, which orders upserts, but no upserts"),
        (
            {"columns": columns, "key": ["id"], "upserts": True, "sequence": "x"},
            "is 'x', which is not one of its columns",
        ),
        ({"columns": columns, "key": ["id"], "upserts": True, "sequence": "id"}, "outside of the key"),
        ({"columns": columns, "key": ["id"], "upserts": True, "sequence": "seq"}, "has the type float64"),
        ({"columns": columns, "keys": ["id"]}, "unknown declaration 'keys'"),
    ):
        with pytest.raises(PlanError, match=words):
            Schema.of({"o": given})


def test_explain_says_how_changes_are_taken_and_the_declaration_is_part_of_the_state() -> None:
    plain, ordered = (program(JOINED, schema(sequence)) for sequence in (None, "seq"))
    assert "by sequence seq, older ones dropped" in crown.view(ordered).explain()
    assert "in the order of the batch" in crown.view(plain).explain()
    given = schema()
    given["o"] = {**given["o"], "upserts": False}
    assert len({plain.fingerprint, ordered.fingerprint, program(JOINED, given).fingerprint}) == 3


def test_a_declaration_on_the_command_line_says_the_same() -> None:
    made = table_of("o(id int64 key, v string, seq timestamp sequence) upserts")
    assert made == Table("o", made.columns, ("id",), upserts=True, sequence="seq")
    with pytest.raises(PlanError, match="marks two columns"):
        table_of("o(id int64 key, a int64 sequence, seq int64 sequence) upserts")


def test_a_key_of_several_columns_and_text_is_one_key() -> None:
    table = {"columns": {"v": "string", "b": "string", "a": "int64"}, "key": ["a", "b"], "upserts": True}
    view = crown.view("SELECT b, v FROM t", {"t": table})
    for rows, wanted in (
        ([(1, "x", "p"), (1, "y", "q"), (2, "x", "r")], {("x", "p"), ("y", "q"), ("x", "r")}),
        ([(1, "y", "s"), (2, "x", "t"), (2, "x", "u")], {("x", "p"), ("y", "s"), ("x", "u")}),
    ):
        view.apply({"t": [{"a": a, "b": b, "v": v} for a, b, v in rows]})
        assert set(rows_of(view)) == wanted
    view.apply({"t": [{"a": 1, "b": "x", "_weight": -1}, {"a": 9, "b": "x", "_weight": -1}]})
    assert set(rows_of(view)) == {("y", "s"), ("x", "u")}
    assert view.stats()["missing_deletes"] == {"t": 1}


def test_what_a_batch_replaced_is_not_known_after_another_one_was_refused() -> None:
    """The state says so, instead of undoing nothing; whoever asked builds it anew."""
    engine = ProgramEngine.create(program(JOINED, schema()), on_missing="raise")
    first = {"o": [{"id": 1, "v": "a", "n": 1, "seq": 0}]}
    list(engine.run(engine.prepare(first)))
    with pytest.raises(MissingDeleteError):
        list(engine.run(engine.prepare({"p": [{"v": "a", "w": 1, "_weight": -1}]})))
    with pytest.raises(UnusableStateError, match="the last batch cannot be undone"):
        engine.undo(first)
