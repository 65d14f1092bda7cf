"""A batch that was applied can be rolled back: the state is then that of before, clamped deletes included."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import plans
from crown.errors import UnusableStateError
from crown.programs.program import ProgramEngine
from plans.plan import Plan
from tests.engine.comparison import planned
from tests.engine.made import distinct_rows, engine_of, join_stats
from tests.marks import draws
from tests.oracles.database import Database, to_arrow
from tests.oracles.expectation import rows
from tests.strategies import batches, loads, queries, removals


def _contents(engine: ProgramEngine) -> tuple[object, ...]:
    results = [row for batch in engine.results() for row in rows(batch)]
    stats = join_stats(engine)
    return sorted(results, key=repr), engine.result.count(), stats["rows"], stats["groups"], distinct_rows(engine)


def _engine(plan: Plan) -> ProgramEngine:
    return engine_of(plan, seed=1)


@draws(40, 60)
@given(st.data())
def test_undo_takes_back_exactly_what_a_batch_did(data: st.DataObject) -> None:
    query = data.draw(queries(any_output=data.draw(st.booleans())))
    plan = planned(query.sql, query)
    assume(plan is not None)
    database = Database(query.tables)
    schema = {table.name: table for table in plan.tables}
    engine = _engine(plan)
    for draw in (lambda: loads(query), lambda: batches(query, database.rows), lambda: removals(database.rows)):
        batch = data.draw(draw())
        changes = {name: to_arrow(schema, name, part) for name, part in batch.items()}
        before = _contents(engine)
        for deltas in (False, True):
            list(engine.run(engine.prepare(changes), deltas=deltas))
            after = _contents(engine)
            engine.undo(changes)
            assert _contents(engine) == before
            engine.check_invariants()
        list(engine.run(engine.prepare(changes)))
        assert _contents(engine) == after
        database.apply(batch)


QUERIES = (
    "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b",
    "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY r.a",
    "SELECT b FROM r EXCEPT SELECT b FROM s",
    "SELECT DISTINCT r.a FROM r JOIN s ON r.b = s.b",
)
TABLES = {"r": {"a": "int64", "b": "string"}, "s": {"b": "string", "c": "int64"}}


@pytest.mark.parametrize("query", QUERIES)
def test_a_batch_is_undone_by_whoever_opens_the_state_next(query: str, tmp_path: Path) -> None:
    """What its deletes did not find is in the state, not in the process that applied it."""
    program, random = plans.program(query, TABLES), Random(query)
    engine = ProgramEngine.create(program, tmp_path / "state")
    for _ in range(12):
        rows = {
            "r": [{"a": random.randrange(3), "b": random.choice("xyz"), "_weight": _weight(random)} for _ in range(6)],
            "s": [{"b": random.choice("xyz"), "c": random.randrange(3), "_weight": _weight(random)} for _ in range(6)],
        }
        before = _told(engine)
        list(engine.run(engine.prepare(rows)))
        missed, after = bool(engine.absent), _told(engine)
        engine = ProgramEngine.attach(program, tmp_path / "state")
        engine.undo(rows)
        assert _told(engine) == before
        engine.check_invariants()
        with pytest.raises(UnusableStateError, match="the last batch cannot be undone"):
            engine.undo(rows)
        assert not engine.lost
        list(engine.run(engine.prepare(rows)))
        assert (_told(engine), bool(engine.absent)) == (after, missed)
    assert any(engine.stats()["missing_deletes"].values())


def _weight(random: Random) -> int:
    return random.choice((1, 1, 2, -1, -3))


def _told(engine: ProgramEngine) -> tuple[object, ...]:
    stats = engine.stats()
    found = sorted((row for batch in engine.results() for row in rows(batch)), key=repr)
    return found, engine.result.count(), stats["rows"], stats["missing_deletes"], stats["updates"]
