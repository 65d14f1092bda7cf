"""A batch that was applied can be taken back: the state is then that of before, clamped deletes included."""

from __future__ import annotations

import json

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crown.ingest.batch import MissingDeletes
from crown.programs.program import ProgramEngine
from plans.plan import Plan
from tests.engine.comparison import planned
from tests.engine.made import engine_of, join_stats
from tests.oracles.database import Database, to_arrow
from tests.oracles.expectation import rows
from tests.strategies import batches, loads, queries, removals


def _contents(engine: ProgramEngine) -> tuple[object, ...]:
    results = [row for batch in engine.results() for row in rows(batch)]
    stats = join_stats(engine)
    return sorted(results, key=repr), engine.count(), stats["rows"], stats["groups"], stats["support"]


def _engine(plan: Plan) -> ProgramEngine:
    return engine_of(plan, seed=1)


@settings(max_examples=60)
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
            stored = json.loads(json.dumps(engine.missing.to_rows()))
            engine.undo(changes, MissingDeletes.from_rows(stored))
            assert _contents(engine) == before
            engine.check_invariants()
        list(engine.run(engine.prepare(changes)))
        assert _contents(engine) == after
        database.apply(batch)
