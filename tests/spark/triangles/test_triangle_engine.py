"""The linear-space count of triangles in a cell, without Spark. Oracles: all triples of vertices after every batch, and
an engine of the same edges for what deletes did not find.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
from collections import Counter
from itertools import combinations

import pyarrow as pa
import pytest

import plans
from crown.engine.engine import Engine
from crown.errors import MissingDeleteError, SnapshotError
from spark_jobs.cell import live
from spark_jobs.cell.cell import Cell, Report
from spark_jobs.commands.state import read_snapshot
from spark_jobs.errors import DamagedStateError, PlanChangedError
from spark_jobs.log.state_log import CellLog
from spark_jobs.triangles import engine as triangle_engine
from spark_jobs.triangles.engine import QUERY, TriangleEngines
from tests.snapshots import put_together, taken_apart

INTS, NAMES = (plans.plan(QUERY, {"edges": {"src": kind, "dst": kind}}) for kind in ("int64", "string"))
VERTICES = 11


def table(rows, plan=INTS):
    """Changes (src, dst, weight); a vertex ``v`` is called ``vertex v`` where names are strings."""
    source, target, weight = ([row[i] for row in rows] for i in range(3))
    kind = pa.int64()
    if plan is NAMES:
        source, target, kind = [f"vertex {v}" for v in source], [f"vertex {v}" for v in target], pa.string()
    weights = pa.array(weight, pa.int64())
    return {"edges": pa.table({"src": pa.array(source, kind), "dst": pa.array(target, kind), "_weight": weights})}


class Truth:
    """A multigraph and the number of its triangles, by trying all triples; undirected: ends in ascending order."""

    def __init__(self, both):
        self.both = both
        self.copies = Counter()

    def batch(self, rng, size):
        """Random changes: loops, duplicates, absent deletes."""
        ends = [(rng.randrange(VERTICES), rng.randrange(VERTICES)) for _ in range(size)]
        return [(*(sorted(e) if self.both else e), rng.choice((1, 1, 2, -1, -1, -3))) for e in ends]

    def apply(self, rows):
        """Net weights, never below zero; the number of triangles after it."""
        net = Counter()
        for source, target, weight in rows:
            net[source, target] += weight
        for ends, weight in net.items():
            self.copies[ends] = max(0, self.copies[ends] + weight)
        edges = {ends for ends, copies in self.copies.items() if copies}
        ways = [((0, 1), (1, 2), (0, 2))] if self.both else [((0, 1), (1, 2), (2, 0)), ((1, 0), (2, 1), (0, 2))]
        return sum(
            all((triple[i], triple[j]) in edges for i, j in way)
            for triple in combinations(range(VERTICES), 3)
            for way in ways
        )


@pytest.fixture
def make(tmp_path):
    """Cells over the same log; ``host`` names the scratch folder, so another one is another machine."""

    def make_cell(both=True, plan=INTS, host="here", **options):
        kind = TriangleEngines(both)
        return Cell(
            plan, CellLog(tmp_path / "state" / "0", kind.fingerprint(plan)), tmp_path / host, engines=kind, **options
        )

    return make_cell


def apply(cell, batch, changes):
    """The one row that a batch yields, and the report."""
    report = Report()
    (told,) = cell.apply(batch, changes, report, None)
    assert told.schema.names == ["count"]
    return told.column(0).to_pylist()[0], report


@pytest.mark.parametrize("plan", [INTS, NAMES], ids=["numbers", "names"])
@pytest.mark.parametrize("both", [True, False], ids=["undirected", "directed"])
def test_the_count_is_right_through_retries_restarts_moves_and_snapshots(make, both, plan):
    rng, truth, twin = random.Random(4), Truth(both), Engine.create(plan)
    redone = restored = most = 0
    for batch in range(40):
        rows = truth.batch(rng, rng.choice((0, 1, 5, 40)))
        changes, count = table(rows, plan), truth.apply(rows)
        list(twin.run(twin.prepare(changes)))
        if rng.random() < 0.3:
            live._attached.clear()  # as in a new process
        cell = make(both, plan, rng.choice(("here", "here", "there")), snapshot_floor=rng.choice((1, 1 << 20)))
        for _ in range(rng.choice((1, 1, 3))):
            told, report = apply(cell, batch, changes)
            assert told == count
            cell.live.engine().check_invariants()
            assert cell.stats()["missing_deletes"] == twin.stats()["missing_deletes"]
            redone += report.redone
            restored += report.restored >= 0
        most = max(most, count)
    assert redone > 10
    assert restored > 5
    assert most > 20


@pytest.mark.parametrize("point", ["before", "between", "after"])
def test_a_worker_killed_before_between_or_after_its_two_states_leaves_nothing_half_done(make, monkeypatch, point):
    """The edges are applied first, the triangle follows; a kill between the two must not be taken for a whole batch."""
    rng, truth = random.Random(5), Truth(True)
    for batch in range(4):
        rows = truth.batch(rng, 50)
        count = truth.apply(rows)
        if batch == 2:
            place = {"before": (Engine, "run"), "between": (triangle_engine, "encode"), "after": (Cell, "_finish")}
            monkeypatch.setattr(*place[point], lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
            worker = multiprocessing.get_context("fork").Process(target=apply, args=(make(), batch, table(rows)))
            worker.start()
            worker.join()
            assert worker.exitcode == -signal.SIGKILL
            monkeypatch.undo()
        told, report = apply(make(), batch, table(rows))
        assert told == count
        assert (report.restored >= 0) == (batch in (0, 2))
        make().live.engine().check_invariants()


@pytest.mark.parametrize(
    "point", [(Engine, "begin"), (triangle_engine, "MappedTriangle")], ids=["first file", "second file"]
)
@pytest.mark.parametrize("source", ["log", "snapshot"])
def test_a_worker_killed_while_it_restores_leaves_no_clean_engine_behind(make, monkeypatch, source, point):
    rng, truth = random.Random(6), Truth(True)
    batches = [truth.batch(rng, 50) for _ in range(4)]
    counts = [truth.apply(rows) for rows in batches]
    for batch in range(3):
        apply(make(snapshot_floor=1 if source == "snapshot" else 1 << 20), batch, table(batches[batch]))
    live._attached.clear()
    here = make().live.folder
    (here / "engine.arena").write_bytes(b"")  # what was there is torn, so the worker begins to restore

    def worker():
        monkeypatch.setattr(*point, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        apply(make(), 3, table(batches[3]))

    child = multiprocessing.get_context("fork").Process(target=worker)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    told, report = apply(make(), 3, table(batches[3]))
    assert told == counts[3]
    assert report.restored == (0 if source == "snapshot" else 3)


def test_a_snapshot_that_was_loaded_in_part_is_not_clean(tmp_path, monkeypatch):
    kind, here, there = TriangleEngines(True), tmp_path / "here.arena", tmp_path / "there.arena"
    engine = kind.create(INTS, here, "ignore")
    list(engine.run(engine.prepare(table([(1, 2, 1), (2, 3, 1), (1, 3, 1)]))))
    engine.commit(0)
    engine.save(tmp_path / "saved", {"version": 0})
    monkeypatch.setattr(triangle_engine, "MappedTriangle", lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        kind.load(tmp_path / "saved", INTS, there, "ignore")
    monkeypatch.undo()
    assert not kind.attach(INTS, there, "ignore").clean
    loaded, extra = kind.load(tmp_path / "saved", INTS, there, "ignore")
    assert (loaded.count, extra) == (1, {"version": 0})


def narrower(data: bytes) -> bytes:
    """A snapshot of the same edges with another type of vertices, as nobody wrote it."""
    first, header, parts = taken_apart(data)
    return put_together(first, json.loads(json.dumps(header).replace('"int64"', '"int32"')), parts)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: data[:-100], "truncated"),
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "checksum"),
        (lambda data: b"something else", "not a snapshot"),
        (lambda data: data.replace(b'"int64"', b'"int32"'), "its header cannot be read"),
        (narrower, "edges of another type"),
    ],
)
def test_a_damaged_or_foreign_snapshot_is_an_error_with_advice_and_the_check_finds_it(make, tmp_path, damage, said):
    apply(make(snapshot_floor=1), 0, table([(1, 2, 1), (2, 3, 1), (1, 3, 1)]))
    path = tmp_path / "state" / "0" / "0.snapshot"
    read_snapshot(path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DamagedStateError, match=rf"0\.snapshot cannot be used .*{said}"):
        apply(make(host="there"), 1, table([(1, 2, -1)]))
    if said != "edges of another type":
        with pytest.raises(SnapshotError, match=said):
            read_snapshot(path)


def test_a_triangle_state_that_was_lost_is_built_again(make):
    rng, truth = random.Random(7), Truth(False)
    for batch in range(3):
        rows = truth.batch(rng, 60)
        count = truth.apply(rows)
        if batch == 2:
            live._attached.clear()
            (make(False).live.folder / "engine.triangles").unlink()
        told, report = apply(make(False), batch, table(rows))
        assert told == count
        assert (report.restored >= 0) == (batch in (0, 2))


def test_a_refused_batch_changes_neither_state(make):
    assert apply(make(), 0, table([(1, 2, 1), (2, 3, 1), (1, 3, 1)]))[0] == 1
    refused = table([(1, 2, -1), (7, 8, -1)])
    with pytest.raises(MissingDeleteError):
        apply(make(host="strict", on_missing="raise"), 1, refused)
    make(host="strict").live.engine().check_invariants()
    assert make(host="strict").stats()["triangle"]["count"] == 1
    assert apply(make(), 1, refused)[0] == 0


def test_state_of_another_count_is_refused(make):
    apply(make(True), 0, table([(1, 2, 1)]))
    with pytest.raises(PlanChangedError, match=r"by plan triangles of .* this is plan directed triangles of"):
        apply(make(False, host="there"), 1, table([(2, 3, 1)]))


def test_state_grows_with_the_edges_and_not_with_the_triangles(make, tmp_path):
    """Complete graphs: triangles per edge grow with the number of vertices, bytes per edge do not."""
    per_edge = []
    for vertices in (40, 160):
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        cell = make(host=f"{vertices}")
        edges = [(a, b, 1) for a, b in combinations(range(vertices), 2)]
        assert apply(cell, 0, table(edges))[0] == vertices * (vertices - 1) * (vertices - 2) // 6
        per_edge.append(cell.stats()["live_bytes"] / len(edges))
    assert per_edge[1] < 1.2 * per_edge[0]
    assert per_edge[1] < 500
