"""The files of a cell: what is written is what is read, snapshots are amortized, meta.json decides who may go on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spark_jobs.errors import DamagedStateError, InputChangedError, PlanChangedError
from spark_jobs.log.delta_file import MASKED, ONE_CELL, Link
from spark_jobs.log.meta import check_meta, read_meta
from spark_jobs.log.state_log import BATCH_WEIGHT, CellLog, Load, read_note, weight

META = {
    "format": MASKED,
    "fingerprint": "f" * 64,
    "cells": 2,
    "grid": {"attributes": ["b"], "shares": [2]},
    "query": "Q(a) :- r(a).",
}


def table(n=3):
    return pa.table({"name": [None, "x", "y"][:n], "at": pa.array([1, 2, None][:n]), "_weight": [1, -1, 2][:n]})


def test_a_delta_reads_back_as_it_was_written(tmp_path):
    log = CellLog(tmp_path / "7", "f")
    link = Link(5, 3, {"r": table(), "s": table(2)})
    published, first = log.publish(link)
    assert first
    assert published == replace(link, digest=log.digest(5))
    again = CellLog(tmp_path / "7", "f").read(5)
    assert (again.batch, again.prev) == (5, 3)
    assert again.changes == link.changes
    assert log.batches() == [5]
    assert not list((tmp_path / "7").glob(".*"))


def test_whoever_publishes_second_gets_the_first_ones_rows(tmp_path):
    log = CellLog(tmp_path / "0", "f")
    log.publish(Link(0, -2, {"r": table()}))
    split = pa.concat_tables([table().slice(1), table().slice(0, 1)])
    won, first = log.publish(Link(0, -2, {"r": split}))
    assert not first
    assert won.changes["r"] == table()
    for other in (
        Link(0, -1, {"r": table()}),
        Link(0, -2, {"r": table(2)}),
        Link(0, -2, {}),
        Link(0, -2, {"s": table()}),
    ):
        with pytest.raises(InputChangedError, match="cell 0: batch 0"):
            log.publish(other)


def test_numbers_sort_as_numbers(tmp_path):
    log = CellLog(tmp_path / "0", "f")
    for batch in (9, 10, 100, 2):
        log.publish(Link(batch, -2, {}))
    assert log.batches() == [2, 9, 10, 100]
    assert log.newest() == 100


@pytest.mark.parametrize("rows", [1, 60_000], ids=["tiny", "large"])
def test_a_snapshot_is_due_when_the_log_outweighs_the_last_one_or_has_too_many_batches(tmp_path, rows):
    log, size = CellLog(tmp_path / "0", "f"), 20 * BATCH_WEIGHT
    noise = {"r": pa.table({"at": np.random.default_rng(0).integers(0, 1 << 60, rows), "_weight": np.ones(rows, int)})}
    due, load = [], Load(0, 0)
    for batch in range(50):
        log.publish(Link(batch, batch - 1, noise))
        load = Load(load.snapshot, load.logged + weight(log.folder.size(f"{batch}.delta")))
        assert load == log.weigh(batch)
        due.append(log.snapshot_due(load, 1))
        if due[-1]:
            log.write_snapshot(batch, lambda path: path.write_bytes(b"s" * size))
            load = Load(size, 0)
    every = size // max(log.folder.size("0.delta"), BATCH_WEIGHT) + 1
    assert (every < 10) == (rows > 1)
    assert due == [batch % every == 0 for batch in range(50)]


def test_meta_is_written_once_and_then_demanded(tmp_path):
    check_meta(tmp_path / "op", META)
    check_meta(tmp_path / "op", META)
    assert read_meta(tmp_path / "op") == META


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"fingerprint": "0" * 64}, "f{64}.*0{64}.*new checkpoint"),
        ({"cells": 4}, "2 cells.*4.*cells=2"),
        ({"grid": {"attributes": ["c"], "shares": [2]}}, "partitioned by"),
    ],
)
def test_another_plan_or_cut_is_refused_with_both_sides(tmp_path, change, said):
    check_meta(tmp_path / "op", META)
    with pytest.raises(PlanChangedError, match=said):
        check_meta(tmp_path / "op", {**META, **change})


@pytest.mark.parametrize(
    ("cells", "format", "said"),
    [
        (2, ONE_CELL, "has format 1, this version reads format 2 of a state in 2 cells: .*new checkpoint"),
        (1, MASKED, "has format 2, this version reads format 1 of a state in 1 cell: .*new checkpoint"),
        (2, 3, "has format 3, this version reads format 2"),
    ],
)
def test_a_state_of_another_format_is_refused_whatever_number_of_cells_is_asked_for(tmp_path, cells, format, said):
    stored = {**META, "cells": cells, "format": format}
    for wanted in (META, {**META, "cells": 1, "format": ONE_CELL}):
        with pytest.raises(PlanChangedError, match=said):
            check_meta(tmp_path / "op", stored)
        with pytest.raises(PlanChangedError, match=said):
            check_meta(tmp_path / "op", wanted)


def test_a_delta_without_masks_is_not_taken_for_one_with_masks(tmp_path):
    CellLog(tmp_path / "0", "f", ONE_CELL).publish(Link(0, -2, {"r": table()}))
    with pytest.raises(DamagedStateError, match="has format 1, this version reads format 2"):
        CellLog(tmp_path / "0", "f", MASKED).read(0)


@pytest.mark.parametrize("content", ["{", json.dumps({"format": 1}), "[]"])
def test_a_foreign_meta_file_is_an_error(tmp_path, content):
    (tmp_path / "meta.json").write_text(content)
    with pytest.raises(DamagedStateError, match=r"meta\.json"):
        read_meta(tmp_path)


def test_notes_are_for_reading_and_may_be_missing(tmp_path):
    log = CellLog(tmp_path / "0", "f")
    log.write_note(3, {"deltas": 7})
    assert read_note(tmp_path / "0", 3) == {"deltas": 7}
    assert read_note(tmp_path / "0", 4) is None
