"""A cell read as it was after any batch, without its live engine. Oracle: the deltas of its batches, added up."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

import plans
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.cell.engines import hot_keys, restored, rows_of
from spark_jobs.cell.kept_plan import KeptPlan, keep_plan, kept_plan
from spark_jobs.errors import BrokenChainError, CheckpointError, DamagedStateError
from spark_jobs.log.state_location import located
from spark_jobs.log.state_log import CellLog
from spark_jobs.storage.local import LocalFolder
from spark_jobs.tables.view import place_of
from tests.oracles.expectation import net
from tests.spark.cell.test_cell import HOPS, NAMES, rows, stream

SCHEMA = {"g": {"src": "int64", "dst": "int64"}}
BAG = plans.program("SELECT x.src a, y.dst b FROM g x JOIN g y ON x.dst = y.src", SCHEMA)
SUMS = plans.program("SELECT src, COUNT(*) n, SUM(dst) s FROM g GROUP BY src", SCHEMA)


@pytest.mark.parametrize("floor", [1 << 30, 1], ids=["log only", "snapshots"])
@pytest.mark.parametrize("plan", [HOPS, BAG, SUMS], ids=["join", "bag", "sums"])
def test_every_batch_that_the_state_has_can_be_read_while_the_cell_goes_on(tmp_path, plan, floor):
    log = CellLog(tmp_path / "state" / "0", plan.fingerprint)
    state, kept = Counter(), KeptPlan(plan, "ignore")
    seen = []
    for batch, changes in enumerate(stream(6, size=25)):
        cell = Cell(plan, log, tmp_path / "live", snapshot_floor=floor, keep=100)
        state.update(net(cell.apply(batch, changes, Report(), None)))
        state = Counter({row: weight for row, weight in state.items() if weight})
        seen.append(Counter(state))
        again = Counter(restored_rows(log, kept, batch))
        assert again == state
    files = log.files()
    for batch, expected in enumerate(seen):
        assert Counter(restored_rows(log, kept, batch)) == expected
    assert files == log.files()


def restored_rows(log, kept, batch):
    engine = restored(log, kept, batch, None)
    for part in rows_of(engine):
        yield from zip(*part.to_pydict().values(), strict=True)


def test_a_gap_a_damaged_file_and_a_batch_that_is_not_there_are_refused(tmp_path):
    log = CellLog(tmp_path / "state" / "0", HOPS.fingerprint)
    for batch, changes in enumerate(stream(4, size=25)):
        list(Cell(HOPS, log, tmp_path / "live").apply(batch, changes, Report(), None))
    kept = KeptPlan(HOPS, "ignore")
    aside = (tmp_path / "state" / "0" / "1.delta").rename(tmp_path / "aside")
    assert list(restored_rows(log, kept, 0)) is not None
    with pytest.raises(BrokenChainError, match="batch 2 follows batch 1, but the state before it is that of batch 0"):
        restored(log, kept, 3, None)
    aside.rename(log.delta_path(1))
    second = tmp_path / "state" / "0" / "2.delta"
    second.write_bytes(second.read_bytes()[:-1])
    with pytest.raises(DamagedStateError, match=r"2\.delta is damaged"):
        restored(log, kept, 3, None)
    assert Counter(restored_rows(log, kept, 1))
    empty = CellLog(tmp_path / "state" / "1", HOPS.fingerprint)
    with pytest.raises(BrokenChainError, match="cell 1 has no batch up to 3"):
        restored(empty, kept, 3, None)


def test_a_plan_is_kept_once_and_refused_if_it_was_changed_or_is_another_s(tmp_path):
    said = {"fingerprint": HOPS.fingerprint, "program": json.dumps(HOPS.to_json()), "on_missing": "ignore"}
    with pytest.raises(CheckpointError, match=r"the plan of the cells in .* is not known"):
        kept_plan(LocalFolder(tmp_path), HOPS.fingerprint)
    keep_plan(LocalFolder(tmp_path), **said)
    keep_plan(LocalFolder(tmp_path), **{**said, "on_missing": "trust"})  # later ones change nothing
    assert kept_plan(LocalFolder(tmp_path), HOPS.fingerprint) == KeptPlan(HOPS, "ignore")
    with pytest.raises(DamagedStateError, match="belongs to another query"):
        kept_plan(LocalFolder(tmp_path), NAMES.fingerprint)
    path = tmp_path / "plan.json"
    path.write_text(path.read_text().replace("ignore", "trust!"))
    with pytest.raises(DamagedStateError, match="is damaged"):
        kept_plan(LocalFolder(tmp_path), HOPS.fingerprint)


def test_a_folder_without_one_stream_is_no_view(tmp_path):
    with pytest.raises(CheckpointError, match="holds no state of a stream"):
        place_of(located(str(tmp_path), None), "crown", None)


def test_the_hottest_keys_are_those_that_most_rows_have(tmp_path):
    rng = random.Random(1)
    log, kept = CellLog(tmp_path / "state" / "0", HOPS.fingerprint), KeptPlan(HOPS, "ignore")
    pairs = {(rng.randrange(1000), 7) for _ in range(30)} | {(5, rng.randrange(1000)) for _ in range(20)}
    list(Cell(HOPS, log, tmp_path / "live").apply(0, rows(*((a, b, 1) for a, b in pairs)), Report(), None))
    found = hot_keys(restored(log, kept, 0, None), 3)
    assert [hot.parents for hot in found] == sorted((hot.parents for hot in found), reverse=True)
    counted = [Counter(pair[at] for pair in pairs) for at in (0, 1)]
    for hot in found:
        (value,) = hot.key.values()
        assert hot.parents in {counts[value] for counts in counted}
    assert found[0].parents == max(n for counts in counted for n in counts.values())
