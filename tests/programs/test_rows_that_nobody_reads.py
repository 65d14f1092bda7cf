"""Rows that no occurrence of a relation reads are dropped first: no result may tell, and every such row is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from crown.errors import ChangeError, MissingDeleteError
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans import program
from plans.program import Program
from plans.programs.reads import holding, readers
from plans.schema import Column, Table
from plans.time.windows import ttl
from spark_jobs.cell.engines import created
from tests.marks import seeds
from tests.oracles import duck
from tests.oracles.database import Batch, Database, Row, to_arrow
from tests.oracles.declared import Declared
from tests.plans.tpch import QUERIES, TABLES
from tests.programs.test_programs import apply, result_of

SCHEMA = {
    "r": {"a": "int64", "b": "int64", "x": "float64"},
    "s": {"b": "int64", "c": "decimal(6,2)", "t": "string"},
}
AMOUNTS = [Decimal(text) for text in ("-1.50", "2.00", "2.01", "7.25")]
Read = Callable[[Row], bool]
EVERY: Read = lambda row: True  # noqa: E731


def _more(row: Row, column: int, than: Any) -> bool:
    """Whether a value is greater; NaN is the greatest of all, NULL is not."""
    value: Any = row[column]
    return value is not None and (value > than or value == "NaN" or value != value)


# Queries, and which rows of a relation each reads, by what the equalities of its joins say as well.
CASES: dict[str, dict[str, Read]] = {
    "SELECT r.a, COUNT(*) AS n, SUM(s.c) AS m FROM r, s WHERE r.b = s.b AND r.a > 1 AND s.c > 2 GROUP BY r.a": {
        "r": lambda row: _more(row, 0, 1), "s": lambda row: _more(row, 1, 2),
    },
    "SELECT r.a, SUM(s.c * (1 - s.c)) AS m FROM r, s WHERE r.b = s.b AND r.x > 0.5 AND s.t = 'u' GROUP BY r.a": {
        "r": lambda row: _more(row, 2, 0.5), "s": lambda row: row[2] == "u",
    },
    "SELECT p.a, COUNT(*) AS n FROM r p, r q WHERE p.a = q.b AND p.a > 1 AND q.x > 0.5 GROUP BY p.a": {
        "r": lambda row: _more(row, 0, 1) or (_more(row, 2, 0.5) and _more(row, 1, 1)),
    },
    "SELECT p.a, COUNT(*) AS n FROM r p, r q WHERE p.a = q.b AND q.x > 0.5 GROUP BY p.a": {"r": EVERY},
    "SELECT a, COUNT(*) AS n, MIN(b) AS least FROM r WHERE x IS NULL OR a = 2 GROUP BY a": {
        "r": lambda row: row[2] is None or row[0] == 2,
    },
    "SELECT COUNT(*) AS n, SUM(b) AS m FROM r WHERE x > 0.5": {"r": lambda row: _more(row, 2, 0.5)},
    "SELECT a, b FROM r WHERE a > 1 UNION ALL SELECT b, a FROM r WHERE b > 2": {
        "r": lambda row: _more(row, 0, 1) or _more(row, 1, 2),
    },
    "SELECT a FROM r WHERE a > 1 EXCEPT SELECT b FROM s WHERE t LIKE 'u%'": {
        "r": lambda row: _more(row, 0, 1), "s": lambda row: row[2] is not None and str(row[2]).startswith("u"),
    },
    "SELECT r.a, s.t FROM r LEFT JOIN s ON r.b = s.b AND s.c > 2 WHERE r.a > 1": {
        "r": lambda row: _more(row, 0, 1), "s": lambda row: _more(row, 1, 2) and row[0] is not None,
    },
}  # fmt: skip


def row_of(random: Random, name: str) -> Row:
    if name == "r":
        x = random.choice([None, float("nan"), -0.0, 0.0, 0.25, 1.5])
        return random.choice([None, 1, 2, 3]), random.choice([None, 1, 2, 3]), x
    return random.choice([None, 1, 2, 3]), random.choice([None, *AMOUNTS]), random.choice([None, "u", "uv", "w"])


def batch_of(random: Random, database: Database) -> dict[str, list[tuple[Row, int]]]:
    """Inserts, deletes of what is there, and of what is not."""
    batch: dict[str, list[tuple[Row, int]]] = {}
    for name in random.sample(["r", "s"], random.choice([1, 2, 2])):
        changes = [(row_of(random, name), random.choice([1, 1, 2])) for _ in range(random.randint(0, 8))]
        present = sorted(database.rows[name], key=repr)
        changes += [(row, -random.randint(1, 2)) for row in random.sample(present, min(len(present), 4))]
        batch[name] = changes + [(row_of(random, name), -1) for _ in range(random.randint(0, 3))]
    return batch


def arrow_of(database: Database, batch: Batch) -> dict[str, Any]:
    return {name: to_arrow(database.schema, name, changes) for name, changes in batch.items()}


def dropped(query: str, batch: Batch) -> Counter[str]:
    """How many rows of a batch nobody reads, by relation."""
    read = CASES[query]
    return Counter({name: sum(not read.get(name, EVERY)(row) for row, _ in rows) for name, rows in batch.items()})


@pytest.mark.parametrize("on_missing", ["ignore", "trust"])
@pytest.mark.parametrize("query", CASES)
@pytest.mark.parametrize("seed", seeds(1, 20))
def test_results_are_those_of_all_rows_and_what_is_dropped_is_counted(
    query: str, on_missing: str, seed: int, tmp_path: Path
) -> None:
    random = Random(f"{query} {seed}")
    made = program(query, SCHEMA)
    read = [table.name for table in made.tables]
    truth = Declared({name: SCHEMA[name] for name in read}, made, whole=False, upserts=False)
    database, engine = truth.database, ProgramEngine.create(made, on_missing=on_missing)
    total: Counter[str] = Counter()
    for turn in range(8):
        batch = {name: rows for name, rows in batch_of(random, _both(database)).items() if name in read}
        if turn == 7:
            batch = database.everything(-1)
        if on_missing == "trust":
            batch = truth.without_absent_deletes(batch)
        changes = arrow_of(database, batch)
        apply(engine, changes)
        if turn % 3 == 1:
            engine.undo(changes)
            assert result_of(engine) == duck.results(query, database)
            assert Counter(engine.stats().get("filtered", {})) == +total
            apply(engine, changes)
        truth.apply(batch)
        total += dropped(query, batch)
        assert result_of(engine) == duck.results(query, database)
        assert +Counter(engine.stats().get("filtered", {})) == total
        engine.check_invariants()
        if turn == 4:
            engine.save(tmp_path / "state")
            engine, _ = snapshot.load(tmp_path / "state")
    assert engine.stats()["input_rows"] == 0


def _both(database: Database) -> Database:
    """A database with both relations, of which one may have no rows."""
    both = Database(SCHEMA)
    both.rows |= database.rows
    return both


def of(query: str, **options: Any) -> ProgramEngine:
    return ProgramEngine.create(program(query, SCHEMA), **options)


GROUPED = "SELECT a, SUM(b) AS m FROM r WHERE x > 0.5 GROUP BY a"


def test_a_later_stage_that_refuses_a_batch_leaves_the_counters_as_they_were() -> None:
    engine = of("SELECT SUM(m) AS t FROM (SELECT a, SUM(b) AS m FROM r WHERE x > 0.5 GROUP BY a) AS g")
    apply(engine, {"r": [{"a": 1, "b": 2**62, "x": 1.0}, {"a": 1, "b": 1, "x": 0.0}]})
    before = engine.stats()
    with pytest.raises(ChangeError, match="the sum is no int64"):
        apply(engine, {"r": [{"a": 2, "b": 2**62, "x": 1.0}, {"a": 3, "b": 1, "x": 0.0}]})
    assert engine.stats()["filtered"] == before["filtered"] == {"r": 1}
    assert engine.stats()["updates"] == before["updates"] == {"r": 1}
    assert apply(engine, {"r": [{"a": 2, "b": 7, "x": 1.0}]}) == {(2**62,): -1, (2**62 + 7,): 1}


def test_where_absent_deletes_are_refused_all_rows_are_known() -> None:
    engine = of(GROUPED, on_missing="raise")
    apply(engine, {"r": [{"a": 1, "b": 1, "x": 0.0}]})
    with pytest.raises(MissingDeleteError):
        apply(engine, {"r": [{"a": 2, "b": 1, "x": 0.0, "_weight": -1}]})
    assert apply(engine, {"r": [{"a": 1, "b": 1, "x": 0.0, "_weight": -1}]}) == {}
    assert "filtered" not in engine.stats()


def test_relations_with_upserts_or_windows_keep_all_rows() -> None:
    table = Table("r", (Column("a", "int64"), Column("b", "int64")), key=("a",), upserts=True)
    engine = ProgramEngine.create(program("SELECT b, COUNT(*) AS n FROM r WHERE b > 1 GROUP BY b", {"r": table}))
    assert apply(engine, {"r": [{"a": 1, "b": 5}]}) == {(5, 1): 1}
    assert apply(engine, {"r": [{"a": 1, "b": 0}]}) == {(5, 1): -1}, "the row that comes replaces the other"
    windowed = program(GROUPED, SCHEMA, windows={"r": ttl("b", 10)})
    engine = ProgramEngine.create(windowed)
    apply(engine, {"r": [{"a": 1, "b": 100, "x": 1.0}]})
    assert apply(engine, {"r": [{"a": 2, "b": 110, "x": 0.0}]}) == {(1, 100): -1}, "time goes on with every row"


def test_a_value_that_cannot_be_taken_is_told_by_its_place_in_the_batch() -> None:
    engine = of(GROUPED)
    rows = [{"a": 1, "b": 1, "x": 0.0}, {"a": 1, "b": 1, "x": 1.0}, {"a": 1, "b": -(2**63), "x": 1.0}]
    with pytest.raises(ChangeError, match=r"row 2: column 'b': the int64 value -9223372036854775808 is reserved"):
        apply(engine, {"r": rows})


def test_cells_on_spark_keep_what_comes() -> None:
    """Rows that no role reads are left out before the shuffle; a role's own cannot stand for those of another."""
    engine = created(program(GROUPED, SCHEMA), None, "ignore")
    assert isinstance(engine, ProgramEngine)
    apply(engine, {"r": [{"a": 1, "b": 2, "x": 1.0}, {"a": 1, "b": 4, "x": 0.0}]})
    assert engine.stats()["input_rows"] == 2
    assert result_of(engine) == {(1, 2): 1}


def test_conditions_are_known_behind_a_stage_that_computes_columns() -> None:
    made = program(QUERIES[3], TABLES)
    asked = {source: [sorted(map(str, parts)) for parts in found] for source, found in readers(made).items()}
    assert asked["lineitem"] == [["l_shipdate > DATE '1995-03-15'"]]
    held = holding(made, {name: parts for name, parts in readers(made).items() if isinstance(name, str) and all(parts)})
    assert sorted(map(str, held[0])) == ["l_shipdate > DATE '1995-03-15'"]
    assert isinstance(made, Program)
