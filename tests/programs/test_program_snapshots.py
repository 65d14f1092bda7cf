"""A program that is saved and loaded goes on as if nothing had been."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from crown.errors import SnapshotError
from crown.programs import snapshot
from crown.programs.program import ProgramEngine
from plans.schema import Table
from tests.models.program import results
from tests.oracles.database import Database, to_arrow
from tests.programs import random_programs
from tests.programs.test_programs import apply, changes_of, result_of, sum_by_k
from tests.stages import random_groups


@pytest.mark.parametrize("seed", range(50, 62))
def test_a_loaded_program_goes_on(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    columns = random_groups.relation(random)
    engine = ProgramEngine.create(random_programs.program(random, columns))
    database = Database({name: Table(name, columns) for name in "rS"})
    for turn in range(6):
        batch = changes_of(random, columns, database)
        if not random_programs.reads_all(engine.plan):
            batch = database.without_absent_deletes(batch)
        changes = {name: to_arrow(database.schema, name, rows) for name, rows in batch.items()}
        before = result_of(engine)
        delta = apply(engine, changes)
        database.apply(batch)
        before.update(delta)
        wanted = results(engine.plan, {name.lower(): rows for name, rows in database.rows.items()})[-1]
        assert Counter({row: n for row, n in before.items() if n}) == result_of(engine) == wanted
        engine.save(tmp_path / "state", {"turn": turn})
        engine, extra = snapshot.load(tmp_path / "state")
        assert extra == {"turn": turn}
        assert result_of(engine) == wanted
        engine.check_invariants()


def test_a_damaged_or_foreign_file_is_refused(tmp_path: Path) -> None:
    engine = sum_by_k()
    apply(engine, {"r": {"k": ["a"], "x": [1], "unread": [1]}})
    path = tmp_path / "state"
    engine.save(path)
    whole = path.read_bytes()
    for damaged, reason in [
        (whole[:-8], "truncated"),
        (whole + b"\0" * 8, "is longer than its header says"),
        (whole[:-1] + b"\1", "checksum"),
        (b"crown snapshot 2\n" + whole.split(b"\n", 1)[1], "not a snapshot"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(SnapshotError, match=reason):
            snapshot.load(path)
