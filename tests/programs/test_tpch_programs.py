"""TPC-H, maintained: rows come in batches and go again, and the engine has DuckDB's rows all the while."""

from __future__ import annotations

from random import Random

import pytest

from crown.programs.program import ProgramEngine
from plans import program
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.lowering.test_tpch import answer, rounded, tables
from tests.plans.tpch import QUERIES, TABLES
from tests.programs.test_programs import apply, result_of


@pytest.mark.parametrize("number", sorted(QUERIES))
def test_a_query_is_maintained_while_its_tables_come_and_go(number: int) -> None:
    made = program(QUERIES[number], TABLES)
    random = Random(number)
    read = {table.name for table in made.tables}
    engine, database = ProgramEngine.create(made), Database(TABLES)
    full = tables(random.randrange(4))
    rows = [(name, row, copies) for name in sorted(read) for row, copies in full.rows[name].items()]
    random.shuffle(rows)
    parts = [rows[i::4] for i in range(4)]
    for part, sign in [(p, 1) for p in parts] + [(p, -1) for p in parts[:3]]:
        batch: dict[str, list[tuple[Row, int]]] = {}
        for name, row, copies in part:
            batch.setdefault(name, []).append((row, sign * copies))
        apply(engine, {name: to_arrow(database.schema, name, changes) for name, changes in batch.items()})
        database.apply(batch)
        assert rounded(result_of(engine)) == rounded(answer(number, database))
    engine.check_invariants()
