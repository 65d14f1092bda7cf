"""A state cut into another number of cells, and gone on with: every delta is that of one engine that was never cut."""

from __future__ import annotations

import json
import random
import re
import shutil

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import plans
from crown.commands.main import main
from crown.errors import ChangeError, MemoryBudgetError
from plans.time.windows import last_rows, ttl
from spark_jobs.cell.spill import Limits
from spark_jobs.commands import state as command
from spark_jobs.commands.state import operators, recell_state, troubles
from spark_jobs.errors import CheckpointError, DamagedStateError, PlanChangedError
from spark_jobs.folders import locked
from spark_jobs.log.meta import check_meta, read_meta
from spark_jobs.log.state_location import located
from spark_jobs.log.state_log import CellLog
from spark_jobs.recell import recell as module
from spark_jobs.recell.recell import recell
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import folder_at
from spark_jobs.tables.view import place_of
from tests.marks import by_turns, slow
from tests.spark.recell.jobs import Job
from tests.spark.recell.queries import QUERIES, SCHEMA, batch, program, running

EVERY_RUN = {
    *("3 hops of one relation", "two rounds, the first a plan", "rows by an enforced key"),
    "a window, rows by key, and two rounds",
}
"""The others go the way of one of these; groups and rows by key are cut by further tests."""


@pytest.mark.parametrize("name", [name if name in EVERY_RUN else slow(name) for name in QUERIES])
def test_a_job_that_is_cut_anew_goes_on_as_if_it_never_was(tmp_path, name):
    """The same Spark application goes on, too: it still has the live engines of the cells before."""
    job, more = running(tmp_path, name, 2)
    for cells in (3, 1, 2):
        before = job.root
        done = recell(folder_at(job.folder), cells)
        assert (done.after, done.batch) == (cells, job.batch - 1)
        assert job.root == done.state != before
        assert (before / "s" / "crown").has("meta.json"), "the old state is still there"
        for operator in operators(folder_at(job.folder)):
            meta = read_meta(operator)
            for cell in range(meta["cells"]):
                assert not list(troubles(CellLog.of(operator / str(cell), meta)))
        job.start(cells)
        more()
        more()
        if cells == 3:
            shutil.rmtree(tmp_path / "here")
            more()
    assert place_of(located(str(job.folder), None), "crown", None).batch == job.batch - 1


@pytest.mark.parametrize("key", [1, *(slow(key) for key in (2, 3, 4))])
def test_keys_that_are_enforced_are_known_to_the_new_cells(tmp_path, key):
    job = Job(tmp_path / "job", program("rows by an enforced key"), 2)
    job.run({"e": pa.table({"id": [1, 2, 3, 4], "k": [5, 6, 7, 8], "_weight": [1, 1, 1, 1]})})
    recell(folder_at(job.folder), 3)
    job.start(3)
    job.run({"e": pa.table({"id": [key, key], "k": [4 + key, 9], "_weight": [-1, 1]})})
    with pytest.raises(ChangeError, match=f"the key id={key} is enforced, and 2 rows would have it"):
        job.executed({"e": pa.table({"id": [key], "k": [4 + key], "_weight": [1]})})


@pytest.mark.parametrize("name", ["3 hops of one relation", "groups"])
def test_a_query_whose_deletes_must_find_something_keeps_that_promise(tmp_path, name):
    made = program(name)
    whole = {"g": {"src": [1, 1, 2], "dst": [3, 4, 5], "_weight": [1, 2, 1]}}
    rows = {"k": [1, 2], "name": ["a", "b"], "born": [None, None], "worth": [None, None], "share": [0.5, 1.5]}
    changes = whole if name != "groups" else {"p": {**rows, "_weight": [1, 1]}}
    tables = {relation: pa.table(columns) for relation, columns in changes.items()}
    for relation, table in tables.items():
        of = made.table(relation)
        tables[relation] = table.cast(
            pa.schema([*((c.name, plans.arrow_type(c.type)) for c in of.columns), ("_weight", pa.int64())])
        )
    job = Job(tmp_path / "job", made, 2, on_missing="raise")
    job.run(tables)
    recell(folder_at(job.folder), 3)
    job.start(3)
    gone = {relation: table.slice(0, 1) for relation, table in tables.items()}
    for relation, table in gone.items():
        gone[relation] = table.set_column(table.num_columns - 1, "_weight", pa.array([-1], pa.int64()))
    job.run(gone)


def test_what_a_backfill_left_is_put_aside_with_the_old_cells(tmp_path):
    """The new cells begin after it; it is cut as the old ones were, and would be refused."""
    job, more = running(tmp_path, "groups", 2, floor=0)
    shutil.copytree(job.folder / "crown" / "s", job.folder / "crown" / "backfill")
    done = recell(folder_at(job.folder), 3)
    assert {folder.name for folder in done.aside} == {"s", "backfill"}
    assert not (job.root / "backfill").folders()
    job.start(3, host="there")
    more()


class StopError(BaseException):
    """The process ends here."""


class Countdown:
    """Lets so many steps of the storage happen, and stops the process at the next."""

    steps = ("create", "replace", "publish", "make", "delete")

    def __init__(self, patched, left):
        self.left = left
        for name in self.steps:
            patched.setattr(LocalFolder, name, self._counted(getattr(LocalFolder, name)))

    def _counted(self, step):
        def counted(*given, **named):
            self.left -= 1
            if self.left < 0:
                raise StopError
            return step(*given, **named)

        return counted


def test_a_kill_between_any_two_steps_leaves_the_old_state_or_the_new(tmp_path, monkeypatch):
    job, more = running(tmp_path, "two rounds", 2, batches=1)
    before, stops, done = job.root, 0, False
    while not done:
        with monkeypatch.context() as patched:
            Countdown(patched, stops)
            try:
                recell(folder_at(job.folder), 3)
                done = True
            except StopError:
                stops += 1
        cells = read_meta(job.root / "s" / "crown")["cells"]
        assert cells == 3 if done else (job.root, cells) == (before, 2)
        for operator in operators(folder_at(job.folder)):
            meta = read_meta(operator)
            assert not [t for cell in range(meta["cells"]) for t in troubles(CellLog.of(operator / str(cell), meta))]
        if stops == 7:
            more()  # the old state is not only there, it goes on
    assert stops > 20
    job.start(3)
    more()


def test_going_back_before_the_job_has_run_is_deleting_one_file(tmp_path):
    job, more = running(tmp_path, "groups", 2)
    done = recell(folder_at(job.folder), 3)
    (job.folder / "crown" / "current.json").unlink()
    more()
    recell(folder_at(job.folder), 3)
    assert done.state.name == "cells-3-after-2"
    assert job.root.name == "cells-3-after-3"


def test_a_checkpoint_that_was_cut_anew_may_be_moved(tmp_path):
    job, more = running(tmp_path, "groups", 2)
    recell(folder_at(job.folder), 3)
    job.folder = job.folder.rename(tmp_path / "moved")
    job.start(3)
    more()
    assert str(job.root).startswith(str(tmp_path / "moved"))


def test_what_cannot_be_cut_anew_is_refused_and_nothing_changes(tmp_path, monkeypatch):
    job, more = running(tmp_path, "groups", 2)
    folder = folder_at(job.folder)

    def refused(cells, said, error=CheckpointError):
        with pytest.raises(error, match=said):
            recell(folder, cells)
        assert job.root == folder / "crown"

    with pytest.raises(CheckpointError, match="has no checkpoint of Spark"):
        recell(folder_at(tmp_path / "nowhere"), 3)
    assert not (tmp_path / "nowhere").exists()
    refused(0, "--recell 0: give a number of cells from 1 to 1,024")
    refused(2, "is cut into 2 cells already")
    with locked(job.folder):
        refused(3, r"another job \(process \d+\) is running")
    job.spark("offsets")
    job.spark("commits")
    refused(3, "no cell has batch 3")
    for kind in ("offsets", "commits"):
        (job.folder / kind / "3").unlink()
    (job.folder / "metadata").rename(job.folder / "away")
    refused(3, "has no checkpoint of Spark")
    (job.folder / "away").rename(job.folder / "metadata")
    delta = job.folder / "crown" / "s" / "crown" / "1" / "1.delta"
    data = delta.read_bytes()
    delta.write_bytes(data[:-40] + bytes([data[-40] ^ 1]) + data[-39:])
    refused(3, "is damaged", DamagedStateError)
    delta.write_bytes(data)
    monkeypatch.setattr(module, "sum_of", lambda engine: module.Sum(engine.result.count(), id(engine)))
    refused(3, "gives .* rows with checksum .* nothing was changed")
    monkeypatch.undo()
    more()


@pytest.mark.parametrize(
    ("name", "have"), [slow("groups", 1), slow("groups", 0), ("two rounds", 1), ("rows by key", 2)]
)
def test_a_batch_that_was_begun_and_not_committed_is_executed_by_the_new_cells(tmp_path, name, have):
    """All old cells have it, or one of them, or none; the new ones get it again, at the same place in the history."""
    job, more = running(tmp_path, name, 2)
    rng = random.Random(5)
    changes = batch(rng, {table.name for table in job.query.tables})
    job.executed(changes)
    for stride in (*job.keys.values(), *job.rounds):
        for cell in range(have, 2):
            (job.root / "s" / stride.step.operator / str(cell)).delete([f"{job.batch}.delta"])
    done = recell(folder_at(job.folder), 3)
    assert done.batch == job.batch - 1
    job.start(3, "here" if have == 2 else "there")  # here there are live engines with that batch
    job.run(changes)
    more()


def test_a_batch_for_which_a_cell_has_no_room_is_executed_when_it_has(tmp_path):
    """Refused, the batch has changed nothing; with more room, or in more cells, it is applied."""
    for name, cells in (("3 hops of one relation", 3), ("two rounds", 2)):
        job, more = running(tmp_path / name, name, 2)
        rows, rng = 14_000, random.Random(3)
        made = {"src": [rng.randrange(1 << 30) for _ in range(rows)], "dst": [rng.randrange(9) for _ in range(rows)]}
        changes = {"g": pa.table({**made, "_weight": pa.array([1] * rows, pa.int64())})}
        job.limits = Limits.of("1 MiB", None)
        said = (
            rf"cell [01] has 0\.\d MiB of state, and batch {job.batch} needs more than cell_budget=1\.0 MiB: "
            "the batch was not applied"
        )
        for _ in range(2):
            with pytest.raises(MemoryBudgetError, match=said):
                job.executed(changes)
        job.limits = Limits.of("64 MiB", None)
        if cells != 2:
            recell(folder_at(job.folder), cells)
            job.start(cells)
        job.run(changes)
        more()


def test_a_row_that_stands_in_a_cell_where_it_does_not_belong_is_noticed(tmp_path, monkeypatch):
    for name in ("groups", "3 hops of one relation"):
        job, _ = running(tmp_path / name, name, 2)
        with monkeypatch.context() as patched:
            patched.setattr("spark_jobs.dispatch.hashing.SEED", 43)
            with pytest.raises(DamagedStateError, match="that belong to other cells"):
                recell(folder_at(job.folder), 3)


def test_a_watermark_is_cut_anew_as_well(tmp_path):
    """Rows that are late for the old cells are late for the new ones, and what expired does not come back."""
    made = plans.program("SELECT src, COUNT(*) n FROM g GROUP BY src", SCHEMA, windows={"g": ttl("dst", 10)})
    job = Job(tmp_path / "job", made, 1)
    job.run({"g": pa.table({"src": [1, 2, 3], "dst": [100, 95, 85], "_weight": [1, 1, 1]})})
    job.run({"g": pa.table({"src": [1], "dst": [100], "_weight": [-1]})})
    for cells in (2, 1, 3):
        recell(folder_at(job.folder), cells)
        job.start(cells)
        job.run({"g": pa.table({"src": [5, 6], "dst": [90, 91], "_weight": [1, 1]})})
        (told,) = (cell.stats()["windows"]["g"] for cell in windows_of(job))
        assert (told["late"], told["watermark"]) == (1, 100)
    job.run({"g": pa.table({"src": [9], "dst": [105], "_weight": [1]})})
    assert job.oracle.stats()["windows"]["g"]["late"] == 3


def windows_of(job):
    """The cells that have windows."""
    strides = list(job.keys.values()) or job.rounds
    return [job.cell(stride, 0) for stride in strides]


def test_a_query_whose_rows_leave_as_they_came_is_refused(tmp_path):
    made = plans.program("SELECT src, COUNT(*) n FROM g GROUP BY src", SCHEMA, windows={"g": last_rows(9)})
    job = Job(tmp_path / "job", made, 1)
    job.run(batch(random.Random(1), {"g"}))
    with pytest.raises(CheckpointError, match=r"the rows of g .*, or not when they arrived \(a window by arrival"):
        recell(folder_at(job.folder), 2)


def test_cells_behind_a_window_keep_what_one_cell_needs(tmp_path):
    """A column that only a predicate reads, and the columns that on_missing="raise" looks at."""
    join = "FROM g, p WHERE g.src = p.k"
    for text, on_missing in (
        (f"SELECT DISTINCT g.src, p.name {join} AND p.share > 0.2", "ignore"),
        (f"SELECT DISTINCT g.*, p.* {join}", "raise"),
    ):
        made = plans.program(text, SCHEMA, windows={"g": ttl("dst", 5)})
        job, rng = Job(tmp_path / on_missing, made, 2, on_missing=on_missing), random.Random(1)
        for cells in (1, 3):
            changes = batch(rng, {"g", "p"})
            job.run({name: rows.filter(pc.greater(rows["_weight"], 0)) for name, rows in changes.items()})
            recell(folder_at(job.folder), cells)
            job.start(cells, f"with {cells}")
        job.run({name: rows.filter(pc.greater(rows["_weight"], 0)) for name, rows in batch(rng, {"g", "p"}).items()})


def test_rows_of_which_nothing_is_read_cannot_be_cut(tmp_path):
    job = Job(tmp_path / "job", plans.program("SELECT COUNT(*) n FROM g", SCHEMA), 1)
    job.run(batch(random.Random(1), {"g"}))
    with pytest.raises(CheckpointError, match="do not store the column 'src' of g, because the query does not read it"):
        recell(folder_at(job.folder), 2)


def test_cells_that_keep_no_rows_cannot_be_cut(tmp_path):
    made = program("groups")
    job = Job(tmp_path / "job", made, 2, on_missing="trust")
    job.run({"p": batch(random.Random(1), {"p"})["p"].slice(0, 0)})
    with pytest.raises(CheckpointError, match="do not store the rows of p"):
        recell(folder_at(job.folder), 3)


def test_a_job_that_asks_for_another_number_of_cells_is_told_of_the_command(tmp_path):
    job, _ = running(tmp_path, "groups", 2)
    job.start(3)
    with pytest.raises(PlanChangedError, match=r"cut into 2 cells .* asks for 3: .* --recell 3; or start"):
        check_meta(job.root / "s" / "crown", job.rounds[0].step.meta)


@pytest.mark.parametrize(("have", "name"), by_turns((0, 1, 2), ("groups", "two rounds", "rows by key")))
def test_a_job_whose_first_batch_failed_begins_with_the_cells_that_it_is_given(tmp_path, capsys, name, have):
    """The message about another number of cells names the command, and the command does it."""
    job = Job(tmp_path / "job", program(name), 2)
    host = "here" if have == 2 else "there"
    changes = batch(random.Random(5), {table.name for table in job.query.tables})
    job.executed(changes)
    for stride in (*job.keys.values(), *job.rounds):
        for cell in range(have, 2):
            (job.root / "s" / stride.step.operator / str(cell)).delete(["0.delta"])
    job.start(3)
    with pytest.raises(PlanChangedError, match=r"asks for 3: use cells=2; or .* --recell 3; or start"):
        check_meta(job.root / "s" / "crown", job.rounds[0].step.meta)
    recell_state(folder_at(job.folder), 3, False)
    assert "no batch was committed yet: the job begins with 3 cells instead of 2\n" in capsys.readouterr().out
    job.start(3, host)
    for _ in range(3):
        job.run(changes)
        changes = batch(random.Random(job.batch), {table.name for table in job.query.tables})
    recell(folder_at(job.folder), 2)
    job.start(2, host)
    job.run(changes)


def test_a_backfill_without_a_batch_keeps_its_cells(tmp_path):
    job, _ = running(tmp_path, "groups", 2, floor=0)
    shutil.copytree(job.folder / "crown" / "s", job.folder / "crown" / "backfill")
    for kind in ("offsets", "commits"):
        shutil.rmtree(job.folder / kind)
    for cell in (job.folder / "crown" / "s" / "crown").iterdir():
        for file in cell.iterdir() if cell.is_dir() else ():
            file.unlink()
    with pytest.raises(
        CheckpointError, match=r"rows of bulk_load\(\), and no batch yet: start the job with cells=2, let"
    ):
        recell(folder_at(job.folder), 3)


def test_the_command_says_what_it_did_and_where_the_old_state_is(tmp_path, capsys):
    job, _ = running(tmp_path, "groups", 2)
    arguments = ["checkpoint", "check", "json", "hot", "rollback_to", "recell", "into"]
    given = dict.fromkeys(arguments) | {"checkpoint": str(job.folder), "check": False, "json": False, "recell": 3}
    assert command.run(type("Arguments", (), given)) == 0
    said = capsys.readouterr().out
    assert "cut from 2 to 3 cells after batch 2; the result is the same, " in said
    assert f"aside  {job.folder}/crown/s: delete it when the job has run" in said
    assert command.run(type("Arguments", (), {**given, "recell": None, "check": True})) == 0
    assert re.search(r"cell 2: no batches .*, \d+ rows in [\d.]+ [KM]iB\n", capsys.readouterr().out)


@pytest.mark.parametrize("name", ["two rounds", "groups"])
def test_top_shows_the_state_of_cells_that_are_cut_anew(tmp_path, capsys, name):
    job, _ = running(tmp_path, name, 2)

    def cells_of():
        capsys.readouterr()
        assert main(["top", str(job.folder), "--once", "--json"]) == 0
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    recell(folder_at(job.folder), 3)
    after = cells_of()
    assert {cell["operator"] for cell in after} == ({"crown", "crown.merge"} if name == "two rounds" else {"crown"})
    rows = sum(cell["state_rows"] for cell in after if cell["operator"] == "crown")
    assert rows == job.oracle.stats()["input_rows"] * (2 if name == "two rounds" else 1)  # each row has two roles
    assert {(c["batch"], c["seen"], c["rows"], c["milliseconds"]) for c in after} == {(job.batch - 1, 0, -1, -1.0)}
    assert main(["top", str(job.folder), "--once", "--prometheus", str(tmp_path / "p")]) == 0
    said = capsys.readouterr().out
    assert f"cell 2: batch {job.batch - 1}  no batch since its rows were cut anew  state " in said
    assert "crown_state_rows{" in (tmp_path / "p").read_text()
    assert "crown_batch_rows{" not in (tmp_path / "p").read_text()
    log = CellLog(job.root / "s" / "crown" / "2", "")
    ran = {"rows": 1, "deltas": 2, "restored": -1, "redone": False, "total_ms": 3.0, "bad": 0}
    log.write_note(job.batch, ran | {"state": job.oracle.stats()})
    found = next(cell for cell in cells_of() if (cell["operator"], cell["cell"]) == ("crown", "2"))
    assert (found["batch"], found["seen"], found["median_ms"]) == (job.batch, 1, 3.0)


@pytest.mark.parametrize("place", ["s3", slow("local"), slow("azure"), slow("gcs")], indirect=True)
@pytest.mark.parametrize("name", ["two rounds", slow("rows by key")])
def test_state_on_an_object_store_is_cut_anew_as_well(tmp_path, place, name):
    made = program(name)
    job, rng = Job(tmp_path / "job", made, 2, state=place[0], options=place[1]), random.Random(5)
    reads = {table.name for table in made.tables}
    for _ in range(2):
        job.run(batch(rng, reads))
    done = recell(folder_at(job.folder), 3, place[1])
    assert done.state.parent == folder_at(place[0], "state", place[1])
    job.start(3)
    for _ in range(2):
        job.run(batch(rng, reads))
