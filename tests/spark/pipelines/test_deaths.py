"""Pipelines that die at any step, are restored, or computed again: the next run finishes what was begun."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest

import crown
from crown.durable.database import DurableDatabase
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.pipelines.state import PipelineState
from spark_jobs.tables.results.merge import DeltaResult
from tests import campaign
from tests.marks import slow
from tests.spark.pipelines.shop import BY_CITY, RECOMPUTED, Died, Shop, dies, table

_ENDS = {
    "before the log": (DurableDatabase, "apply", 0, True),
    "behind the log": (DurableDatabase, "apply", 0, False),
    "before the tables": (DeltaResult, "apply", 0, True),
    "in the tables": (DeltaResult, "apply", 2, False),
    "before the mark": (PipelineState, "commit", 0, True),
}
"""By step: the function in which the process ends, at which call of it, and whether before or behind it."""
STEPS = [
    slow("before the log"),
    "behind the log",
    slow("before the tables"),
    slow("in the tables"),
    slow("before the mark"),
]


@pytest.fixture
def shop(shop: Shop) -> Shop:
    """All views are in SQL: what Spark makes of them is known to the next run."""
    (shop.folder / "transformations" / "b.py").unlink()
    shop.define("b.sql", BY_CITY)
    return shop


def _end_at(step: str, patch: pytest.MonkeyPatch) -> None:
    owner, name, calls, before = _ENDS[step]
    patch.setattr(owner, name, dies(getattr(owner, name), calls, before))


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_dies_is_finished_by_the_next(shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    source = random.Random(3)
    shop.change(source)
    shop.pipeline().run()
    beside = shop.folder / "storage" / "tables" / "README"
    beside.touch()
    shop.change(source)
    with monkeypatch.context() as patch:
        _end_at(step, patch)
        with pytest.raises(Died):
            shop.pipeline().run()
    shop.pipeline().run()
    shop.check()
    assert beside.exists(), "files beside the tables are left alone"
    shop.change(source)
    shop.pipeline().run()
    shop.check()


def _tables(shop: Shop) -> dict[str, Counter[tuple[object, ...]]]:
    return {view: table(shop.folder / "storage" / "tables" / view) for view in RECOMPUTED}


@pytest.mark.parametrize("step", [slow(""), "behind the log", slow("in the tables"), slow("before the mark")])
def test_every_version_in_the_history_can_be_restored(shop: Shop, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    file = shop.folder / "spark-pipeline.yml"
    file.write_text(file.read_text() + "configuration: {crown.keep: 100}\n")
    source = random.Random(6)
    after = {}
    for _ in range(2):
        shop.change(source)
        version = shop.pipeline().run().version
        after[version] = _tables(shop)
    assert shop.pipeline().status()["history"] == sorted(after)
    for wanted in (1, 2):
        with monkeypatch.context() as patch:
            if step:
                _end_at(step, patch)
                with pytest.raises(Died):
                    shop.pipeline().restore(wanted)
            else:
                shop.pipeline().restore(wanted)
        if step:  # the version stands, so what opens the state next finishes it
            latest = shop.pipeline().status()["history"][-1]
            shop.pipeline().restore(latest)
        assert _tables(shop) == after[wanted]
    shop.pipeline().run()
    shop.check()
    shop.change(source)
    shop.pipeline().run()
    shop.check()


def test_a_version_that_cannot_be_restored_is_said(spark, tmp_path: Path) -> None:
    made = crown.spark.pipeline(spark, tmp_path / "state", keep=0)
    with pytest.raises(SourceError, match="this pipeline has not run yet"):
        made.restore(1)
    made.source("r", lambda: spark.range(3))
    made.view("v", "SELECT id % 2 AS k, COUNT(*) AS n FROM r GROUP BY id % 2")
    made.run()
    with pytest.raises(SourceError, match="version 7 cannot be restored: the state keeps these versions: 1"):
        made.restore(7)
    with pytest.raises(crown.CrownError, match="keep must be a whole number"):
        crown.spark.pipeline(spark, tmp_path / "other", keep=-1)


def test_one_view_is_computed_again_with_those_that_read_it(shop: Shop) -> None:
    source = random.Random(8)
    shop.change(source)
    shop.pipeline().run()
    (shop.folder / "storage" / "tables" / "totals" / "_delta_log" / "00000000000000000000.json").unlink()
    before = _inode(shop, "by_city")
    report = shop.pipeline().full_refresh("TOTALS")
    assert set(report.changed) == set(RECOMPUTED)
    assert {name for name, (inserted, _) in report.changed.items() if inserted} <= {*RECOMPUTED} - {"by_city", "quiet"}
    assert _inode(shop, "by_city") == before, "it reads no totals"
    shop.check()
    shop.change(source)
    shop.pipeline().run()
    shop.check()
    with pytest.raises(SourceError, match=r"there is no view called nothing; there are: .*totals"):
        shop.pipeline().full_refresh("nothing")


def _inode(shop: Shop, view: str) -> int:
    return (shop.folder / "storage" / "tables" / view).stat().st_ino


CALLS = [
    ("rename", False),
    slow("rename", True),
    *(slow(name, when) for name in ("unlink", "rmdir") for when in (True, False)),
]


@pytest.mark.parametrize(("name", "before"), CALLS)
def test_a_refresh_and_another_column_are_whole_whateverdies(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str, before: bool
) -> None:
    source = random.Random(9)
    shop.change(source)
    shop.pipeline().run()
    with monkeypatch.context() as patch:
        patch.setattr(os, name, dies(getattr(os, name), 0, before))
        with pytest.raises(Died):
            shop.pipeline().full_refresh()
    shop.change(source)
    shop.pipeline().run()
    shop.check()
    for number in range(2 if campaign.is_running() else 1):
        shop.add_column(f"more{number}")
        with monkeypatch.context() as patch:
            patch.setattr(os, name, dies(getattr(os, name), number, before))
            with pytest.raises(Died):
                shop.pipeline().run()
        shop.change(source)
        shop.pipeline().run()
        shop.check()


def test_a_state_that_is_older_than_its_tables_is_rejected(shop: Shop) -> None:
    source = random.Random(5)
    shop.change(source)
    shop.pipeline().run()
    storage = shop.folder / "storage"
    shutil.copytree(storage / "crown", storage / "copy")
    shop.change(source)
    shop.pipeline().run()
    shutil.rmtree(storage / "crown")
    (storage / "copy").rename(storage / "crown")
    shop.change(source)
    for _ in range(2):
        with pytest.raises(
            CheckpointError, match=r"has version 2, and the state of the pipeline only version 1, .* copy"
        ):
            shop.pipeline().run()
    shop.pipeline().full_refresh()
    shop.check()
