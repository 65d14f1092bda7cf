"""A budget that is used up to any word refuses the batch, and takes it as soon as there is room; it never waits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crown
from crown.errors import MemoryBudgetError
from tests.engine.stopping.stops import small_blocks
from tests.engine.stopping.subjects import SUBJECTS, TENANTS, WIDE, Run, Subject

ROOM = range(-3, 100)  # words
ONE_ENGINE = [subject for subject in SUBJECTS if not subject.name.startswith(("threads", "mapped"))]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("subject", ONE_ENGINE, ids=str)
def test_a_batch_is_refused_or_taken_whatever_room_there_is(subject: Subject, tmp_path: Path) -> None:
    with small_blocks():
        run = Run(subject, 5, tmp_path)
        limits = run.view._engine.memory.budget
        limits.fixed = False
        applied = False
        for room in ROOM:
            limits.change(limits.used + room)
            try:
                run.view.apply(run.changes)
            except MemoryBudgetError:
                continue
            applied = True
            break
        limits.change(1 << 28)
        run.verify(applied=applied, may_be_lost=False)


@pytest.mark.usefixtures("impatient")
def test_a_batch_of_new_wide_keys_finds_room_in_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    view = crown.view(WIDE, {"G": TENANTS}, path=tmp_path / "state")
    triangle = [(1, 5, 2, 5), (2, 5, 3, 5), (3, 5, 1, 5)]
    for batch in range(2):
        rows = rng.integers(10, 1 << 30, (30_000, 4))
        rows[[7, 777, 29_999]] = np.array(triangle) - [0, 5 * batch, 0, 5 * batch]
        columns = zip(TENANTS, rows.T, strict=True)
        view.update({"G": pa.table({name: column.astype(TENANTS[name]) for name, column in columns})})
        assert view.count() == 3 * (batch + 1)
    assert view.stats()["live_bytes"] > 8 * 8 * 131_072, "more than a file has room for at first"
