"""What the release before wrote is opened by this one, and goes on: folders of ``crown.open``, a Spark checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import crown
from spark_jobs.commands.state import cells as cells_of
from spark_jobs.commands.state import operators, troubles
from spark_jobs.log.meta import read_meta
from spark_jobs.storage.opening import folder_at
from tests.durable.streams import batch, contents
from tests.spark.cell.test_cell import HOPS, apply, expected, rows
from tests.spark.cell.test_history import Job
from tests.upgrade.files import BATCHES, CHANGES, GOLDEN, KEYED, SEED, VIEWS, keyed


@pytest.mark.parametrize("name", [*VIEWS, "keyed"])
def test_a_view_of_the_release_before_is_opened_and_goes_on(tmp_path: Path, name: str) -> None:
    query, schema = {**VIEWS, "keyed": KEYED}[name]
    changes = [keyed(number) if name == "keyed" else batch(SEED, number) for number in range(BATCHES + 3)]
    fresh = crown.view(query, schema)
    for given in changes[:BATCHES]:
        fresh.update(given)
    shutil.copytree(GOLDEN / "views" / name, tmp_path / "view")
    assert (tmp_path / "view" / f"{BATCHES - 2}.snapshot").exists()
    with crown.open(query, tmp_path / "view", schema) as view:
        assert view.batches == BATCHES
        assert contents(view) == contents(fresh)
        for given in changes[BATCHES:]:
            assert view.apply(given).to_pylist() == fresh.apply(given).to_pylist()
        view.check_invariants()


def test_a_checkpoint_of_the_release_before_is_whole_and_its_stream_goes_on(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "checkpoint", tmp_path / "state")
    job = Job(tmp_path / "state")
    for folder in operators(folder_at(job.folder)):
        for log in cells_of(folder, read_meta(folder) or {}):
            assert list(troubles(log)) == []
            assert log.snapshots()
    more = [*CHANGES, rows((2, 2, 1), (3, 4, -1)), rows((4, 5, 2))]
    wanted = expected(HOPS, more)
    job.reconcile()
    for number in range(BATCHES, len(more)):
        job.spark(number)
        for cell in (0, 1):
            deltas, report = apply(job.cell(cell), number, more[number])
            assert deltas == wanted[number]
            assert (report.restored >= 0) == (number == BATCHES)


def test_the_files_are_small() -> None:
    sizes = [path.stat().st_size for path in GOLDEN.rglob("*") if path.is_file()]
    assert len(sizes) > 15
    assert max(sizes) < 64 << 10
