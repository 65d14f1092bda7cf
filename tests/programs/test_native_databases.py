"""Databases whose stages with a native form have their batches in one call: each beside one that takes steps."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import crown
from crown.databases import Database as Views
from crown.errors import ChangeError
from crown.programs.kernels import pipeline as kernels
from tests.marks import seeds
from tests.oracles.database import Database, to_arrow
from tests.programs.stepwise import bag

SCHEMA = {"r": {"k": "int64", "y": "int64"}, "s": {"k": "int64", "y": "int64", "t": "string"}}
VIEWS = {
    "pairs": "SELECT r.k, s.t FROM r JOIN s ON r.y = s.k",
    "first": "SELECT k, y FROM r ORDER BY y DESC NULLS LAST, k NULLS FIRST LIMIT 3",
    "partners": "SELECT k, (SELECT MAX(t) FROM s WHERE s.k = r.k AND s.y = r.y) AS t FROM r",
    "only": "SELECT k, (SELECT t FROM s WHERE s.k = r.k AND s.y = 7) AS t FROM r",
    "counts": "SELECT t, COUNT(*) AS n, SUM(k) AS s FROM pairs GROUP BY t",
    "numbered": "SELECT t, n, MODE(n) OVER (ORDER BY n, t NULLS FIRST) AS i FROM counts",
    "known": "SELECT DISTINCT k FROM s WHERE y > 1",
    "after": "SELECT n, COUNT(*) AS m FROM counts GROUP BY n",
}


class Both:
    """A database that takes its batches in one call as far as it can, and one that takes them step by step."""

    def __init__(self) -> None:
        self.native, self.steps = crown.database(SCHEMA), crown.database(SCHEMA)
        for name, query in VIEWS.items():
            for one in (self.native, self.steps):
                one.view(name, query)
        self.steps._engine.pipeline = None
        self.tables = Database(SCHEMA)

    def given(self, changes: dict[str, Any]) -> dict[str, Any]:
        """Returns a batch in Arrow's form."""
        return {name: to_arrow(self.tables.schema, name, rows) for name, rows in changes.items()}

    def apply(self, changes: dict[str, Any]) -> None:
        """Applies a batch to both, and compares their deltas and all that they hold."""
        found, expected = (one.apply(self.given(changes)) for one in (self.native, self.steps))
        assert {name: bag(delta) for name, delta in found.items()} == {
            name: bag(delta) for name, delta in expected.items()
        }
        self.tables.apply(changes)
        self.compare()

    def compare(self) -> None:
        """Compares all that both hold and count."""
        first, second = (one.stats() for one in (self.native, self.steps))
        assert {**first, "reserved_bytes": 0} == {**second, "reserved_bytes": 0}
        for number in range(len(first["stages"])):
            known = [one._engine.tallies.known(number) for one in (self.native, self.steps)]
            assert known[0] == known[1]
        for one in (self.native, self.steps):
            one.check_invariants()
        for name in VIEWS:
            assert bag(self.native[name].to_table()) == bag(self.steps[name].to_table())


def changes_of(random: Random, tables: Database, nulls: bool = True) -> dict[str, Any]:
    """Returns a batch, in which some deletes find no row, and some columns that are joined may have no value."""
    values = (None, 0, 1, 2, 3) if nulls else (0, 1, 2, 3)
    batch = {}
    for name, width in (("r", 2), ("s", 3)):
        stored = sorted(tables.rows[name], key=repr)
        deleted = [(row, -1) for row in random.sample(stored, min(len(stored), random.randint(0, 4)))]
        rows = [tuple(random.choice(values) for _ in range(2)) for _ in range(6)]
        rows = [(*row, random.choice("pq")) if width == 3 else row for row in rows]
        batch[name] = deleted + [(row, 1) for row in rows[:5]] + [(row, -1) for row in rows[5:]]
    return batch


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_batches_are_those_of_a_database_that_takes_steps(seed: int) -> None:
    random, both = Random(seed), Both()
    pipeline = both.native._engine.pipeline
    assert pipeline is not None
    run, asked = pipeline.run, set[int]()

    def noted(*arguments: Any) -> int:
        found = run(*arguments)
        asked.add(found)
        return found

    pipeline.run = noted  # type: ignore[method-assign]
    for _ in range(10):
        both.apply(changes_of(random, both.tables, nulls=seed % 3 == 2))
    both.apply({name: rows for name, rows in both.tables.everything(-1).items() if rows})
    assert asked <= {kernels.STAGES_FOLLOW, kernels.STOPPED_AT_GATE}
    told = " ".join(both.native.explain().split())
    assert "one native call" in told
    assert "steps: MODE over this frame has no native form" in told


def test_a_step_that_rejects_a_batch_takes_back_what_the_call_has_done() -> None:
    both = Both()
    excluded = both.native._engine._excluded
    assert 0 < min(excluded) < max(set(range(len(both.native._engine.stages))) - excluded), (
        "a native stage is behind a step"
    )
    both.apply({"r": [((1, 2), 1), ((2, 2), 1)], "s": [((1, 7, "p"), 1), ((2, 2, "q"), 1)]})
    for _ in range(2):
        for one in (both.native, both.steps):
            with pytest.raises(ChangeError, match="2 rows"):
                one.apply(both.given({"r": [((3, 2), 1)], "s": [((1, 7, "q"), 1), ((2, 3, "x"), 1)]}))
        both.compare()
    both.apply({"r": [((3, 2), 1)], "s": [((2, 2, "q"), -1), ((2, 3, "x"), 1)]})


def test_a_view_that_is_added_and_dropped_leaves_the_call_right() -> None:
    random, both = Random(3), Both()
    for number in range(6):
        both.apply(changes_of(random, both.tables))
        if number == 2:
            for one in (both.native, both.steps):
                one.view("more", "SELECT k, MAX(n) AS n FROM pairs JOIN counts USING (t) GROUP BY k")
        if number == 4:
            for one in (both.native, both.steps):
                one.drop("more")
        if number in (2, 4):
            both.steps._engine.pipeline = None


def test_a_copy_of_a_database_has_a_call_of_its_own() -> None:
    random, both = Random(5), Both()
    both.apply(changes_of(random, both.tables))
    fork: Views = both.native.fork()
    batch = changes_of(random, both.tables)
    found = fork.apply(both.given(batch))
    assert {name: bag(delta) for name, delta in found.items()} == {
        name: bag(delta) for name, delta in both.native.apply(both.given(batch)).items()
    }
    fork.check_invariants()
