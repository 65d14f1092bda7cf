"""Programs behind the base tables, after every batch: engine = twin, with deletes of absent rows, refusals and undo."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import crown
import plans
from crown.errors import ChangeError, ConcurrentChangeError, MemoryBudgetError, MissingDeleteError
from crown.programs.cells.engine import Engine
from crown.programs.program import ProgramEngine
from plans.expressions.build import col
from plans.plan import Output
from plans.program import Program
from plans.programs.stages import Aggregate, Feed, GroupStage
from plans.programs.wiring import added_relations, netted_by_joins
from plans.schema import Column, Table
from tests.marks import seeds
from tests.models import normalise
from tests.models.program import results
from tests.oracles.database import Database, to_arrow
from tests.programs import random_programs
from tests.stages import random_groups

Row = tuple[Any, ...]


def apply(engine: Engine, changes: dict[str, Any]) -> Counter[Row]:
    return bag(engine.run(engine.prepare(changes)).to_table(engine.delta_schema))


def bag(table: pa.Table) -> Counter[Row]:
    """The rows of a table with their weights; without a column of weights each row counts once."""
    names = [name for name in table.schema.names if name != "_weight"]
    weights = table["_weight"].to_pylist() if len(names) < table.num_columns else [1] * table.num_rows
    columns = [
        column.to_pylist() for name, column in zip(table.schema.names, table.columns, strict=True) if name in names
    ]
    total: Counter[Row] = Counter()
    for i, weight in enumerate(weights):
        total[tuple(normalise(column[i]) for column in columns)] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def result_of(engine: Engine) -> Counter[Row]:
    return bag(pa.Table.from_batches(engine.result.results(), engine.result_schema))


def changes_of(random: Random, columns: tuple[Column, ...], database: Database) -> dict[str, list[tuple[Row, int]]]:
    """Inserts, deletes of what is there, and deletes of what is not."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    for name in random.sample("rS", random.randint(0, 2)):
        changes = [(random_groups.row(random, columns, True), 1) for _ in range(random.randint(0, 8))]
        present = sorted(database.rows[name], key=repr)
        changes += [(row, -random.randint(1, 3)) for row in random.sample(present, min(len(present), 3))]
        changes += [(random_groups.row(random, columns, True), -1) for _ in range(random.randint(0, 2))]
        batch[name] = changes
    return batch


@pytest.mark.parametrize("seed", seeds(8, 100))
def test_random_programs_are_those_of_the_twin(seed: int) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    program = random_programs.program(random, columns)
    database = Database({name: Table(name, columns) for name in "rS"})
    on_missing = random.choice(["ignore", "trust"])
    engine = ProgramEngine.create(program, on_missing=on_missing)
    total: Counter[Row] = Counter()
    for turn in range(9):
        batch = changes_of(random, columns, database) if turn < 8 else database.everything(-1)
        if on_missing == "trust" or not random_programs.reads_all(program):
            batch = database.without_absent_deletes(batch)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items()}
        total.update(apply(engine, changes))
        total = Counter({row: weight for row, weight in total.items() if weight})
        before = {name.lower(): Counter(rows) for name, rows in database.rows.items()}
        database.apply(batch)
        tables = {name.lower(): rows for name, rows in database.rows.items()}
        wanted = results(program, tables)[-1]
        assert total == wanted
        assert result_of(engine) == wanted
        assert engine.result.count() == sum(wanted.values())
        engine.check_invariants()
        for row in list(wanted)[:2]:
            names = [column.name for column in engine.result.columns]
            assert engine.result.multiplicity(dict(zip(names, row, strict=True))) == wanted[row]
        if turn % 3 == 2:
            engine.undo(changes)
            assert result_of(engine) == results(program, before)[-1]
            engine.check_invariants()
            apply(engine, changes)
            engine.compact()
            assert result_of(engine) == wanted
    if on_missing == "ignore":
        assert engine.stats()["input_rows"] == 0


def sum_by_k(on_missing: str = "ignore", **options: Any) -> ProgramEngine:
    table = Table("r", (Column("k", "string"), Column("x", "int64"), Column("unread", "int64")))
    feed = Feed("r", tuple(Output(c.name, c.type, col(c.name, c.type)) for c in table.columns[:2]))
    calls = (Aggregate("n", "int64", "count"), Aggregate("s", "int64", "sum", ("x",)))
    outputs = (Output("k", "string", col("k", "string")), *(Output(a.name, a.type, col(a.name, a.type)) for a in calls))
    by_k = GroupStage(feed, ("k",), calls, outputs)
    again = Feed(0, (Output("s", "int64", col("s", "int64")),))
    total = GroupStage(again, (), (Aggregate("t", "int64", "sum", ("s",)),), (Output("t", "int64", col("t", "int64")),),
                       whole=True)  # fmt: skip
    stages = (by_k, total) if options.pop("twice", False) else (by_k,)
    return ProgramEngine.create(Program("sums", (table,), stages), on_missing=on_missing, **options)


def test_a_stage_that_refuses_a_batch_has_the_stages_before_it_roll_back_theirs() -> None:
    engine = sum_by_k(twice=True)
    rows = [{"k": "a", "x": 2**62, "unread": 1}]
    assert apply(engine, {"r": rows}) == {(2**62,): 1}
    with pytest.raises(ChangeError, match=r"the result, column 't': the sum is no int64"):
        apply(engine, {"r": [{"k": "b", "x": 2**62, "unread": 1}]})
    assert result_of(engine) == {(2**62,): 1}
    assert engine.stats()["stages"][0]["groups"] == 1
    assert engine.stats()["input_rows"] == 1
    assert apply(engine, {"r": [{"k": "b", "x": 1, "unread": 1}]}) == {(2**62,): -1, (2**62 + 1,): 1}


def test_a_delete_of_an_absent_row_is_refused_where_that_is_wanted() -> None:
    engine = sum_by_k("raise")
    apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1}]})
    with pytest.raises(MissingDeleteError, match="relation 'r': the batch deletes 2 copies of"):
        apply(
            engine,
            {"r": [{"k": "a", "x": 1, "unread": 1, "_weight": -2}, {"k": "b", "x": 1, "unread": 1, "_weight": 1}]},
        )
    with pytest.raises(MissingDeleteError, match="'unread': 2"):
        apply(engine, {"r": [{"k": "a", "x": 1, "unread": 2, "_weight": -1}]})
    assert result_of(engine) == {("a", 1, 1): 1}


def test_absent_deletes_are_counted() -> None:
    engine = sum_by_k()
    apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1, "_weight": 2}]})
    assert apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1, "_weight": -5}]}) == {("a", 2, 2): -1}
    assert engine.stats()["missing_deletes"] == {"r": 3}


def test_a_stream_that_lies_is_found_out_when_a_group_would_have_fewer_than_no_rows() -> None:
    engine = sum_by_k("trust")
    apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1}]})
    with pytest.raises(ChangeError, match="the group k='a' would have -1 rows"):
        apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1, "_weight": -2}]})
    assert result_of(engine) == {("a", 1, 1): 1}
    assert engine.stats()["input_rows"] == 0, "no tuples are stored"


def test_rows_that_are_only_passed_on_to_be_summed_are_netted_there() -> None:
    schema = {"l": {"o": "int64", "p": "int64", "d": "int64"}, "r": {"o": "int64", "c": "int64"}}
    query = "SELECT r.c, SUM(l.p * (100 - l.d)) AS s, COUNT(*) AS n FROM l JOIN r ON l.o = r.o GROUP BY r.c"
    assert added_relations(plans.program(query, schema)) == {"l"}
    view = crown.view(query, schema, on_missing="trust")
    weights = [1, 1, -1, 1, -1, 2]
    lines = {"o": [1, 1, 2, 2, 1, 1], "p": [3, 3, 1, 1, 9, 9], "d": [5, 5, 0, 0, 1, 1], "_weight": weights}
    delta = view.apply({"r": [(1, 7), (2, 8)], "l": lines})
    assert delta.to_pylist() == [{"c": 7, "s": 2 * 3 * 95 + 9 * 99, "n": 3, "_weight": 1}]
    view.update({"l": lines | {"_weight": [-weight for weight in weights]}})
    assert list(view) == []


def test_rows_that_one_join_takes_are_netted_there() -> None:
    schema = {"r": {"o": "int64", "c": "int64", "d": "int64"}, "s": {"c": "int64", "n": "int64"}, "t": {"c": "int64"}}
    query = "SELECT s.n, COUNT(*) AS k FROM r JOIN s ON r.c = s.c JOIN s AS z ON z.c = s.c WHERE r.d < 5 GROUP BY s.n"
    assert netted_by_joins(plans.program(query, schema)) == {"r"}, "s is stored twice: with n, and without"
    union = "SELECT r.c FROM r JOIN t ON r.c = t.c UNION ALL SELECT c FROM t"
    assert netted_by_joins(plans.program(union, schema)) == {"r"}, "t is read twice"
    view = crown.view(query, schema, on_missing="trust")
    view.update({"s": [(1, 10), (2, 20)]})
    rows = {"o": [1, 2, 3, 3, 1, 4], "c": [1, 1, 2, 2, 1, 2], "d": [0, 4, 1, 1, 0, 9], "_weight": [1, 1, 1, -1, 1, 1]}
    assert view.apply({"r": rows}).to_pylist() == [{"n": 10, "k": 3, "_weight": 1}]
    assert view.apply({"r": rows | {"_weight": [-1, -1, 1, -1, -1, -1]}}).to_pylist() == [
        {"n": 10, "k": 3, "_weight": -1}
    ]
    assert list(view) == []


def test_a_group_is_looked_up_by_its_key() -> None:
    engine = sum_by_k()
    apply(engine, {"r": {"k": ["a", "b", None], "x": [1, 2, 3], "unread": [1, 1, 1]}})
    assert engine.result.get({"k": "b"}) == {"k": "b", "n": 1, "s": 2}
    assert engine.result.get({"k": None}) == {"k": None, "n": 1, "s": 3}
    assert engine.result.get({"k": "c"}) is None
    with pytest.raises(ChangeError, match="grouped by k"):
        engine.result.get({"n": 1})


def test_a_batch_over_the_memory_budget_is_rolled_back_from_all_parts() -> None:
    engine = sum_by_k(memory_budget=400_000)
    apply(engine, {"r": [{"k": str(i), "x": i, "unread": 1} for i in range(100)]})
    before = result_of(engine)
    with pytest.raises(MemoryBudgetError):
        apply(engine, {"r": [{"k": str(i), "x": i, "unread": 1} for i in range(20_000)]})
    assert result_of(engine) == before
    engine.check_invariants()
    with pytest.raises(MemoryBudgetError):
        apply(engine, {"r": [{"k": "a", "x": i, "unread": 1} for i in range(20_000)]})
    assert result_of(engine) == before
    apply(engine, {"r": [{"k": "a", "x": 5, "unread": 1}]})
    assert engine.result.get({"k": "a"}) == {"k": "a", "n": 1, "s": 5}


def test_a_batch_that_its_owner_cannot_close_is_rolled_back() -> None:
    engine = sum_by_k(twice=True)
    apply(engine, {"r": [{"k": "a", "x": 1, "unread": 1}]})

    def closing() -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="disk is full"):
        list(engine.run(engine.prepare({"r": [{"k": "b", "x": 2, "unread": 1}]}), before_commit=closing))
    assert result_of(engine) == {(1,): 1}
    assert not engine.lost
    assert engine.batches == 1


def test_nothing_is_asked_while_a_batch_is_being_applied_and_closing_early_applies_it() -> None:
    engine = sum_by_k()
    before = engine.results()
    delivery = engine.run(engine.prepare({"r": [{"k": "a", "x": 1, "unread": 1}]}))
    with pytest.raises(ConcurrentChangeError, match="still being applied"):
        engine.result.count()
    delivery.close()
    assert result_of(engine) == {("a", 1, 1): 1}
    delivery = engine.run(engine.prepare({"r": [{"k": "b", "x": 1, "unread": 1}]}))
    assert next(delivery).num_rows == 1
    delivery.abort()
    assert result_of(engine) == {("a", 1, 1): 1}
    with pytest.raises(ConcurrentChangeError, match="has changed since"):
        list(before)
