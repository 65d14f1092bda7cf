"""Aggregates whose sums are formed inside of a join: engine = definition of the program = DuckDB, after every batch."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import plans
from crown.ingest.batch import MissingDeletes
from crown.stages.program import ProgramEngine
from plans.program import GroupStage, JoinStage, Program
from tests.oracles import duck
from tests.oracles.database import Database, Row, to_arrow
from tests.plans.evaluator import results
from tests.plans.random_sums import TABLES, VALUES, Writer
from tests.plans.test_programs import rounded
from tests.stages.test_programs import apply, result_of

Batch = dict[str, list[tuple[Row, int]]]


def batch_of(random: Random, database: Database) -> Batch:
    """Inserts that keep the key, several copies of some, and deletes of what is there."""
    batch: Batch = {}
    for name in random.sample(sorted(TABLES), random.randint(1, 3)):
        rows = database.rows[name]
        gone = random.sample(sorted(rows, key=repr), min(len(rows), random.randint(0, 4)))
        changes: list[tuple[Row, int]] = [(row, -random.randint(1, rows[row])) for row in gone]
        left = Counter(rows)
        for row, weight in changes:
            left[row] += weight
        taken = {row[0] for row, n in left.items() if n > 0}
        for _ in range(random.randint(0, 6)):
            row = tuple(random.choice(VALUES[column.name]) for column in database.schema[name].columns)
            if name == "e" and row[0] in taken:
                continue
            taken.add(row[0])
            changes.append((row, 1 if name == "e" else random.choice((1, 1, 3))))
        batch[name] = changes
    return batch


def in_payload(program: Program) -> bool:
    """Whether some sum is formed inside of a join."""
    return any(isinstance(stage, JoinStage) and stage.mode == "payload" for stage in program.stages)


def compare(query: str, random: Random) -> Program:
    program = plans.program(query, TABLES)
    engine = ProgramEngine.create(program)
    assert Program.from_json(program.to_json()) == program
    database, total = Database(TABLES), Counter[Row]()
    used = {table.name for table in program.tables}
    for turn in range(7):
        batch = batch_of(random, database) if turn < 6 else database.everything(-1)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items() if name in used}
        before = result_of(engine)
        total.update(apply(engine, changes))
        if turn % 3 == 2:
            engine.undo(changes, MissingDeletes.from_rows(engine.missing.to_rows()))
            assert result_of(engine) == before, query
            engine.check_invariants()
            apply(engine, changes)
        database.apply(batch)
        after = result_of(engine)
        assert after == Counter({row: n for row, n in total.items() if n}), query
        assert rounded(after) == rounded(results(program, database)), query
        assert rounded(after) == rounded(duck.results(query, database)), query
        engine.check_invariants()
    for stage, part in zip(program.stages, engine.stages, strict=True):
        if isinstance(stage, GroupStage) and not stage.whole:
            assert part.stats()["groups"] == 0, query
    return program


@pytest.mark.parametrize("seed", range(60))
def test_a_random_aggregate_over_a_join_is_maintained(seed: int) -> None:
    compare(Writer(seed).query(), Random(seed))


def test_most_random_aggregates_are_summed_in_the_join() -> None:
    programs = [plans.program(Writer(seed).query(), TABLES) for seed in range(60)]
    assert sum(map(in_payload, programs)) > 30
