"""Windows on real streams, and in cells that are undone, restored and lost. Oracle: the readable windows and DuckDB."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from random import Random

import pytest

import crown
import plans
from spark_jobs import maintain, read_view
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.errors import SparkJobError
from spark_jobs.job.vitals import Vitals, prometheus, vitals
from spark_jobs.log.state_log import CellLog
from spark_jobs.storage.opening import folder_at
from tests.marks import slow
from tests.oracles import duck
from tests.oracles.database import to_arrow
from tests.spark.recell.jobs import Job
from tests.spark.streams import ChangeFiles, Result, run
from tests.windows.test_windows import START, Twin

SCHEMA = {"r": {"k": "int64", "ts": "timestamp", "s": "string"}, "u": {"k": "int64", "n": "int64"}}
SQL = "SELECT r.k, COUNT(*) AS c, MIN(s) AS lo, MAX(n) AS hi FROM r JOIN u ON r.k = u.k WHERE s <> 'x' GROUP BY r.k"
WINDOWS = {"r": crown.ttl("ts", "30 minutes", lateness="5 minutes"), "u": crown.last_rows(6, by="n")}


def batches(count, seed=1):
    """Rows of both relations, some late, some that nobody wants but that move the watermark; deletes among them."""
    random, known = Random(seed), []
    for number in range(count):
        now = START + dt.timedelta(minutes=12 * number)
        r = [
            (random.randrange(3), now - dt.timedelta(minutes=random.choice((0, 3, 20, 70))), random.choice("pqx"))
            for _ in range(random.randrange(1, 6))
        ]
        gone = random.sample(known, min(len(known), 2))
        known += r
        u = [(random.randrange(3), 10 * number + i) for i in range(random.randrange(4))]
        changes = {"r": [(row, 1) for row in r] + [(row, -1) for row in gone], "u": [(row, 1) for row in u]}
        yield {name: rows for name, rows in changes.items() if rows}


def oracle():
    """The twin, and what its rows come to."""
    return Twin(SCHEMA, plans.program(SQL, SCHEMA, windows=WINDOWS).windows)


@pytest.mark.spark
@pytest.mark.parametrize("cells", [2, slow(1)])
def test_every_batch_is_what_duckdb_says_of_the_rows_that_are_in(spark, tmp_path, cells):
    """After half of the batches the stream starts again; its live engines are lost, so the logs are replayed.

    In two cells each window is an operator before them; a row that is late is late once.
    """
    files, sink, twin = ChangeFiles(tmp_path / "in", SCHEMA), Result(), oracle()
    given = list(batches(6))
    for half in (given[:3], given[3:]):
        for batch in half:
            files.add({name: [(*row, weight) for row, weight in rows] for name, rows in batch.items()})
        run(spark, SQL, files, tmp_path / "state", sink=sink, schema=SCHEMA, windows=WINDOWS, cells=cells)
        shutil.rmtree(tmp_path / "state" / "scratch")
    for number, batch in enumerate(given):
        twin.apply(batch)
        assert sink.state(number) == duck.results(SQL, twin.database)
    assert twin.windows["r"].late > 0
    assert twin.windows["r"].expired > 0
    (stream,) = (tmp_path / "state" / "crown").glob("*/crown")
    operators = {path.parent.name for path in stream.parent.glob("*/meta.json")}
    assert operators == ({"crown"} if cells == 1 else {"crown", "crown.window.r", "crown.window.u"})
    told = [cell for operator in sorted(operators) for cell in vitals(folder_at(stream.parent / operator))]
    assert sum(cell.late for cell in told) == twin.windows["r"].late
    assert sum(cell.expired for cell in told) == sum(window.expired for window in twin.windows.values())
    found = Counter(tuple(row) for row in read_view(spark, str(tmp_path / "state")).collect())
    assert found == duck.results(SQL, twin.database)


class Faulty(Job):
    """A job whose operators execute batches again, as Spark may, and lose their live engines."""

    random = Random(7)

    def _applied(self, stride, given):
        out = super()._applied(stride, given)
        for _ in range(self.random.choice((0, 0, 1, 2))):
            if self.random.random() < 0.4:
                shutil.rmtree(self.folder.parent / self.host / stride.step.operator, ignore_errors=True)
            again = super()._applied(stride, given)
            assert summed(again) == summed(out)
            out = again
        return out


def summed(table):
    """The rows of a table of deltas, each with its weight."""
    found = Counter()
    for row in table.to_pylist():
        weight = row.pop("_weight")
        found[tuple(row.values())] += weight
    return found


@pytest.mark.parametrize(("cells", "windows"), [(2, "both"), (3, "one"), slow(3, "both"), slow(2, "one")])
def test_windows_before_cells_are_executed_again_and_rebuilt_from_their_logs(tmp_path, cells, windows):
    """The driver dies between two operators, too. Oracle: one engine, which sees every batch once."""
    given = WINDOWS if windows == "both" else {"r": WINDOWS["r"]}
    made = plans.program(SQL, SCHEMA, windows=given)
    job, twin = Faulty(tmp_path / "job", made, cells, floor=0 if cells == 3 else 1 << 40), oracle()
    for number, batch in enumerate(batches(12, seed=4)):
        changes = {name: to_arrow(twin.database.schema, name, rows) for name, rows in batch.items()}
        if number % 3 == 2:
            first, stride = next(iter(job.keys.items()))
            job.spark("offsets")
            job._applied(stride, {first: changes[first]} if first in changes else {})
            job.start(cells, host=f"host {number}")
        job.run(changes)
    windows_of = [job.cell(stride, 0).stats()["windows"] for stride in job.keys.values()]
    assert {name: told for found in windows_of for name, told in found.items()} == job.oracle.stats()["windows"]
    assert job.oracle.stats()["windows"]["r"]["late"] > 0


@pytest.mark.spark
def test_what_a_window_cannot_be_here_is_one_sentence(spark, tmp_path):
    frames = ChangeFiles(tmp_path / "in", SCHEMA).frames(spark)
    state = str(tmp_path / "state")
    with pytest.raises(SparkJobError, match=r'crown.last_rows\(n, by="..."\)'):
        maintain(spark, SQL, frames, checkpoint=state, schema=SCHEMA, windows={"u": crown.last_rows(3)})
    late = {"r": crown.ttl("ts", "1 hour", late="quarantine")}
    with pytest.raises(
        SparkJobError, match=r'late rows of r go to a quarantine, and there is none: give on_bad_row="quarantine"'
    ):
        maintain(spark, SQL, frames, checkpoint=state, schema=SCHEMA, windows=late)


def test_a_cell_expires_the_same_rows_however_often_a_batch_is_executed(tmp_path):
    """Batches are executed twice, by live engines that are there, lost, or behind; snapshots are taken at once."""
    random, twin, total = Random(5), oracle(), Counter()
    plan = plans.program(SQL, SCHEMA, windows=WINDOWS)
    log = CellLog(tmp_path / "state" / "0", plan.fingerprint)
    for number, batch in enumerate(batches(12, seed=3)):
        changes = {name: to_arrow(twin.database.schema, name, rows) for name, rows in batch.items()}
        before: Counter = Counter()
        for again in range(random.choice((1, 2, 3))):
            live = tmp_path / random.choice(("here", "there"))
            if random.random() < 0.3:
                shutil.rmtree(live, ignore_errors=True)
            cell = Cell(plan, log, live, snapshot_floor=0 if number % 3 else 1 << 40)
            found = list(cell.apply(number, changes, Report(), None))
            deltas = Counter()
            for part in found:
                for row in part.to_pylist():
                    weight = row.pop("_weight")
                    deltas[tuple(row.values())] += weight
            assert not again or deltas == before, "a batch again has the same deltas"
            before = deltas
        total.update(deltas)
        twin.apply(batch)
        assert Counter({row: n for row, n in total.items() if n}) == duck.results(SQL, twin.database)
        told = cell.stats()["windows"]["r"]
        assert (told["late"], told["expired"]) == (twin.windows["r"].late, twin.windows["r"].expired)
    assert twin.windows["r"].late > 0


def test_what_is_late_and_what_expired_is_in_the_metrics():
    cell = Vitals("q", "crown", "0", 3, 1, 1, 1.0, 1.0, 1, 0, 0, 0, 5, 5, 0, late=2, expired=7, watermarks={"r": "12"})
    assert "(7 rows expired, 2 rows late, watermark of r 12)" in cell.line()
    assert 'crown_late_rows_total{stream="q",operator="crown",cell="0"} 2' in list(prometheus([cell]))


def test_late_rows_of_windows_and_late_changes_by_key_are_two_numbers():
    cell = Vitals("q", "crown", "0", 3, 1, 1, 1.0, 1.0, 1, 0, 0, 0, 5, 5, 0, late=2, outdated=4)
    assert "(2 rows late, 4 changes too old)" in cell.line()
    lines = list(prometheus([cell]))
    assert 'crown_late_rows_total{stream="q",operator="crown",cell="0"} 2' in lines
    assert 'crown_late_changes_total{stream="q",operator="crown",cell="0"} 4' in lines
