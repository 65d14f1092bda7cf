"""``crown.open``: what was applied is there again; what cannot be is one sentence. Oracle: a view in memory."""

from __future__ import annotations

import copy
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import crown
from crown.errors import (
    BadRowError,
    CrownError,
    LockedStateError,
    MissingDeleteError,
    NotDurableError,
    QueryChangedError,
)
from plans.errors import PlanError
from tests.durable.streams import QUERIES, SCHEMA, batch, contents, names, recomputed


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_view_that_is_closed_and_opened_after_every_few_batches_is_that_of_one_life(
    query: str, tmp_path: Path
) -> None:
    source, plain = random.Random(2), crown.view(query, SCHEMA)
    number = 0
    while number < 30:
        verify = number % 2 == 0
        with crown.open(query, tmp_path / "v", SCHEMA, sync="never", snapshot_bytes="9 KB", verify=verify) as view:
            assert view.batches == view.stats()["batches"] == number
            assert contents(view) == contents(plain)
            for _ in range(source.randrange(9)):
                expected = plain.apply(batch(7, number)).to_pylist()
                assert sorted(map(str, view.apply(batch(7, number)).to_pylist())) == sorted(map(str, expected))
                number += 1
            view.check_invariants()
    assert len(contents(plain)) > 3
    assert any(name.endswith(".snapshot") for name in names(tmp_path / "v"))
    assert "0.log" not in names(tmp_path / "v"), "what no recovery needs is deleted"


def test_a_folder_with_threads_goes_on_with_threads(tmp_path: Path) -> None:
    query = QUERIES["join"]
    for part in range(3):
        threads, verify = 2 if part == 0 else None, part == 1
        with crown.open(query, tmp_path / "v", SCHEMA, threads=threads, snapshot_bytes=4000, verify=verify) as view:
            for number in range(8 * part, 8 * part + 8):
                view.apply(batch(3, number))
            assert contents(view) == recomputed(query, 3, 8 * part + 8)
    with pytest.raises(QueryChangedError, match="created with threads=2"):
        crown.open(query, tmp_path / "v", SCHEMA, threads=1)


def test_iterating_over_deltas_is_as_durable_and_an_early_end_too(tmp_path: Path) -> None:
    with crown.open(QUERIES["join"], tmp_path / "v", SCHEMA) as view:
        for number in range(10):
            deltas = view.apply_batches(batch(1, number))
            if number % 2:
                list(deltas)
            else:
                deltas.close()
    with crown.open(None, tmp_path / "v") as view:
        assert view.batches == 10
        assert contents(view) == recomputed(QUERIES["join"], 1, 10)


def test_a_batch_that_is_refused_leaves_nothing_behind(tmp_path: Path) -> None:
    query = "SELECT DISTINCT a, x, day FROM r, t WHERE r.s = t.s"
    with crown.open(query, tmp_path / "v", SCHEMA, on_missing="raise") as view:
        view.apply({"r": [{"a": 1, "s": "x"}]})
        size = os.path.getsize(tmp_path / "v" / "0.log")
        with pytest.raises(BadRowError):
            view.apply({"r": [{"a": "no number", "s": "x"}]})
        with pytest.raises(MissingDeleteError):
            view.apply({"r": [{"a": 9, "s": "x", "_weight": -1}]})
        assert os.path.getsize(tmp_path / "v" / "0.log") == size
        view.apply({"t": [{"s": "x", "x": 1.0, "day": None}]})
    with crown.open(None, tmp_path / "v") as view:
        assert view.batches == 2
        assert view.count() == 1
        with pytest.raises(MissingDeleteError):
            view.apply({"r": [{"a": 9, "s": "x", "_weight": -1}]})


def test_quarantined_rows_are_not_in_the_log(tmp_path: Path) -> None:
    options = {"on_bad_row": "quarantine", "quarantine": tmp_path / "bad"}
    with crown.open("SELECT a, s FROM r", tmp_path / "v", SCHEMA, **options) as view:
        view.apply({"r": [{"a": 1, "s": "x"}, {"a": "two", "s": "x"}]})
    with crown.open("SELECT a, s FROM r", tmp_path / "v", SCHEMA, **options) as view:
        assert contents(view) == {"{'a': 1, 's': 'x'}": 1}
    assert [len(pq.read_table(file)) for file in (tmp_path / "bad").iterdir()] == [1]


def test_a_folder_is_open_once(tmp_path: Path) -> None:
    first = crown.open(QUERIES["join"], tmp_path / "v", SCHEMA)
    with pytest.raises(LockedStateError, match=r"is open already, in this process: close\(\) that view first"):
        crown.open(QUERIES["join"], tmp_path / "v", SCHEMA)
    code = "import crown, sys; crown.open(None, sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "v"], capture_output=True, text=True, check=False)
    assert f"is open already, in process {os.getpid()}" in done.stderr
    first.close()
    first.close()
    crown.open(QUERIES["join"], tmp_path / "v", SCHEMA).close()
    forgotten = crown.open(QUERIES["join"], tmp_path / "v", SCHEMA)
    del forgotten
    crown.open(QUERIES["join"], tmp_path / "v", SCHEMA).close()


def test_a_closed_view_can_be_read_and_takes_no_changes(tmp_path: Path) -> None:
    with crown.open(QUERIES["bag"], tmp_path / "v", SCHEMA) as view:
        view.apply({"r": [{"a": 1, "s": "x"}]})
    assert view.count() == 1
    for change in (view.apply, view.update, view.apply_batches):
        with pytest.raises(NotDurableError, match=r"is closed; crown\.open it again"):
            change({"r": [{"a": 2, "s": "x"}]})
    with pytest.raises(NotDurableError, match="is closed"):
        view.snapshot()
    assert view.count() == 1


def test_another_query_is_refused_with_both(tmp_path: Path) -> None:
    crown.open("SELECT DISTINCT a FROM r", tmp_path / "v", SCHEMA).close()
    with pytest.raises(QueryChangedError, match=r"state of “SELECT DISTINCT a FROM r”, and this is “SELECT DISTINCT s"):
        crown.open("SELECT DISTINCT s FROM r", tmp_path / "v", SCHEMA)
    with pytest.raises(QueryChangedError, match="with another schema, rates or tree"):
        crown.open("SELECT DISTINCT a FROM r", tmp_path / "v", {"r": {"a": "string"}})
    with pytest.raises(QueryChangedError, match="was created with on_missing='ignore'"):
        crown.open("SELECT DISTINCT a FROM r", tmp_path / "v", SCHEMA, on_missing="raise")
    crown.open("SELECT  DISTINCT a\nFROM r", tmp_path / "v", SCHEMA).close()


def test_arguments_that_make_no_sense_are_one_sentence_and_make_no_folder(tmp_path: Path) -> None:
    query = QUERIES["join"]
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(CrownError, match="there is no such folder; give the query"):
        crown.open(None, tmp_path / "v")
    with pytest.raises(CrownError, match="leave out schema"):
        crown.open(None, tmp_path / "v", SCHEMA)
    for wrong in ("always", 0, -1.0, True, None, float("nan")):
        with pytest.raises(CrownError, match="sync must be"):
            crown.open(query, tmp_path / "v", SCHEMA, sync=wrong)
    with pytest.raises(CrownError, match="keep must be"):
        crown.open(query, tmp_path / "v", SCHEMA, keep=-1)
    with pytest.raises(CrownError, match="go together"):
        crown.open(query, tmp_path / "v", SCHEMA, on_bad_row="quarantine")
    with pytest.raises(PlanError, match="SELECT without FROM"):
        crown.open("SELECT nothing", tmp_path / "v", SCHEMA)
    assert names(tmp_path) == {"file", "full"}
    with pytest.raises(CrownError, match="is a file"):
        crown.open(query, tmp_path / "file", SCHEMA)
    with pytest.raises(CrownError, match=r"has files that do not belong to a view \(mine\)"):
        crown.open(query, tmp_path / "full", SCHEMA)
    assert names(tmp_path / "full") == {"mine"}
    with pytest.raises(CrownError, match="create it first"):
        crown.open(query, tmp_path / "no" / "v", SCHEMA)


def test_a_durable_view_is_neither_copied_nor_pickled(tmp_path: Path) -> None:
    with crown.open(QUERIES["bag"], tmp_path / "v", SCHEMA) as view:
        for forbidden in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(CrownError, match=r"a DurableView cannot be copied or pickled: a folder has one view"):
                forbidden(view)
        view.update({"r": [{"a": 1, "s": "x"}]})
        view.save(tmp_path / "copy")
    assert crown.load(tmp_path / "copy").count() == 1


def test_a_forked_process_cannot_write_to_it(tmp_path: Path) -> None:
    code = """
import os, sys, crown
view = crown.open("SELECT a FROM r", sys.argv[1], {"r": {"a": "int64"}})
child = os.fork()
if child == 0:
    try:
        view.update({"r": [{"a": 1}]})
    except crown.errors.NotDurableError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
view.update({"r": [{"a": 2}]})
view.close()
print(crown.open(None, sys.argv[1]).to_table().to_pylist())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "v"], capture_output=True, text=True, check=False, timeout=300
    )
    assert "use the view only in the process that opened it" in done.stdout, done.stderr
    assert "[{'a': 2}]" in done.stdout


def test_a_second_view_does_not_wipe_the_file_of_the_first(tmp_path: Path) -> None:
    view = crown.view(QUERIES["join"], SCHEMA, path=tmp_path / "state")
    view.update({"r": [{"a": 1, "s": "x"}], "t": [{"s": "x", "x": 1.0, "day": None}]})
    with pytest.raises(CrownError, match=r"state' already exists; .*crown\.open keeps a view"):
        crown.view(QUERIES["join"], SCHEMA, path=tmp_path / "state")
    assert view.count() == 1
