"""Cells of a join whose batch is one native call: its rows have masks, which say which occurrences read them.

Beside an engine that takes steps. ``tests.ingest.test_masks`` has random queries, and compares all cells with DuckDB.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import pyarrow as pa
import pytest

import plans
from crown.engine import buffers
from crown.programs.delta_options import ALL_DELTAS
from crown.programs.kernels.pipeline import ALL_DONE
from crown.programs.program import ProgramEngine
from tests.ingest.test_masks import MASK, SCHEMA, masked, number
from tests.marks import by_turns, turns
from tests.oracles.expectation import net

BY_CALL = {
    "three hops": "SELECT DISTINCT x.a, x.b, y.b AS c, z.b AS d FROM g x, g y, g z WHERE x.b = y.a AND y.b = z.a",
    "a predicate": "SELECT DISTINCT x.a, x.b, y.b AS c FROM g x, g y WHERE x.b = y.a AND y.b > 3",
    "duplicates": "SELECT x.a FROM g x, g y WHERE x.b = y.a",
    "a left join": "SELECT DISTINCT x.a, x.b, y.b AS c FROM g x LEFT JOIN g y ON x.b = y.a",
    "one column": "SELECT DISTINCT x.a, x.b FROM g x, g y WHERE x.b = y.a",
    "rows that are netted": "SELECT DISTINCT x.a, x.b FROM g x, g y WHERE x.b = y.b AND y.a > 3",
}


@pytest.mark.parametrize(
    ("kind", "on_missing", "block_cells"), by_turns(BY_CALL, ("ignore", "trust", "raise"), (30, 1 << 13))
)
def test_a_call_applies_and_counts_what_the_steps_do(
    kind: str, on_missing: str, block_cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a small buffer is full, if no alias reads a tuple, and if a key is NULL."""
    monkeypatch.setattr(buffers, "BLOCK_CELLS", block_cells)
    query = BY_CALL[kind]
    random, join = Random(query), plans.program(query, SCHEMA).only_join
    assert join is not None
    program = masked(join.plan)
    call, steps = (ProgramEngine.create(program, on_missing=on_missing) for _ in range(2))
    assert call.segments == ("one native call",)
    statuses, run = Counter[int](), call.pipeline.run
    monkeypatch.setattr(call.pipeline, "run", lambda *arguments: statuses.update([found := run(*arguments)]) or found)
    there: Counter[tuple[int, int | None]] = Counter()
    for number_of_batch in turns(15, 40):
        gone = [(row, -1) for row in random.sample(sorted(there.elements(), key=repr), there.total() // 3)]
        come = [(random_row(random, number_of_batch % 5 == 4), random.choice((1, 1, 2))) for _ in range(20)]
        absent = [((9, number_of_batch), -1)] if on_missing == "ignore" and number_of_batch % 3 == 0 else []
        changes = [*gone, *come, *absent]
        for row, weight in changes:
            there[row] = max(there[row] + weight, 0)
        masks = [1 + number(row) % 7 if any(row) else 0 for row, _ in changes]
        columns = {"a": [row[0] for row, _ in changes], "b": [row[1] for row, _ in changes]}
        batch = {"g": pa.table({**columns, "_weight": [weight for _, weight in changes], MASK: masks})}
        delta = net(call.run(call.prepare_for_apply(batch, True, ALL_DELTAS)))
        assert delta == net(steps.run(steps.prepare(batch)))
        for engine in (call, steps):
            engine.check_invariants()
        assert counted(call) == counted(steps)
    assert any((status in ALL_DONE) == (block_cells > 30) for status in statuses)


def random_row(random: Random, nulls: bool) -> tuple[int, int | None]:
    """A row of ``g``; with ``nulls``, its ``b`` may be NULL."""
    return random.randrange(9), None if nulls and random.random() < 0.1 else random.randrange(9)


def counted(engine: ProgramEngine) -> dict[str, object]:
    """What an engine has counted, but for the steps of a kernel that is called again when its buffer was full."""
    (stage,) = engine.stats()["stages"]
    return {**engine.stats(), "stages": {name: n for name, n in stage.items() if name != "steps"}}
