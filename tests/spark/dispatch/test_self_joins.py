"""A tuple of a self-join goes to a cell once, with the mask of the aliases that read it there, and is stored once.

Oracle: DuckDB, after every batch.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import defaultdict

import pyarrow as pa
import pytest

from spark_jobs import maintain
from spark_jobs.dispatch.envelope import MASK
from spark_jobs.errors import CheckpointError
from spark_jobs.log.delta_file import MASKED, ONE_CELL
from spark_jobs.log.meta import read_meta
from spark_jobs.log.state_log import CellLog, cell_folders
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of, run

SCHEMA = {"e": {"a": "int64", "b": "int64"}, "w": {"a": "int64", "b": "int64", "c": "int64"}}
PATH = "SELECT DISTINCT t0.a x, t1.a y, t2.a z, t2.b u FROM e t0, e t1, e t2 WHERE t0.b = t1.a AND t1.b = t2.a"
CHORD = (  # the catalogue's four_cycle_chord: the chord is in two bags
    "SELECT DISTINCT t0.a x, t1.a y, t2.a z, t3.a u FROM e t0, e t1, e t2, e t3, e t4 "
    "WHERE t0.b = t1.a AND t1.b = t2.a AND t2.b = t3.a AND t3.b = t0.a AND t4.a = t0.a AND t4.b = t2.a"
)


def self_join(rng):
    """A random connected query over at most four atoms of ``e`` and ``w``, as SQL."""
    places, atoms = defaultdict(list), []
    for number in range(rng.randrange(2, 5)):
        relation = rng.choice("eeew")
        known = [rng.choice(list(places))] if places else []
        columns = list(SCHEMA[relation])
        others = [rng.choice([*places, f"v{number}{c}", f"v{number}{c}"]) for c in columns[len(known) :]]
        terms = rng.sample(known + others, len(columns))
        atoms.append(f"{relation} t{number}")
        for column, term in zip(columns, terms, strict=True):
            places[term].append(f"t{number}.{column}")
    outputs = rng.sample(list(places), rng.randrange(1, len(places) + 1))
    where = [f"{first} = {other}" for first, *rest in places.values() for other in rest]
    if rng.random() < 0.5:
        where.append(f"{rng.choice(rng.choice(list(places.values())))} {rng.choice(['<>', '>', '<='])} 2")
    columns = ", ".join(f"{places[name][0]} AS {name}" for name in outputs)
    return f"SELECT DISTINCT {columns} FROM {', '.join(atoms)} WHERE {' AND '.join(where)}"


def stream(rng, count=3):
    """Batches with NULLs, copies and deletes of rows that are there."""
    present, batches = {name: [] for name in SCHEMA}, []
    for _ in range(count):
        batch = {}
        for name, columns in SCHEMA.items():
            rng.shuffle(present[name])
            gone = [present[name].pop() for _ in range(len(present[name]) // 3)]
            new = [tuple(rng.choice([1, 2, 3, 4, 5, None]) for _ in columns) for _ in range(25)]
            present[name] += new
            batch[name] = [(*row, -1) for row in gone] + [(*row, 1) for row in new]
        batches.append(batch)
    return batches


def given(state):
    """Per cell and batch, what the cell was given, by relation."""
    operator = next((state / "crown").glob("*/crown"))
    meta = read_meta(operator)
    for folder in cell_folders(operator):
        log = CellLog.of(folder, meta)
        for batch in log.batches():
            yield folder.name, log.read(batch).changes


def masks_of(table):
    return table.column(MASK).to_numpy()


def is_whole(folder, sql):
    """Whether the files have the relations of the query, and every tuple of a cell always the same mask."""
    seen = defaultdict(set)
    for cell, changes in given(folder):
        assert {f"{name} " for name in changes} <= {name for name in ("e ", "w ") if name in sql}
        for name, table in changes.items():
            masks = masks_of(table)
            assert len(masks) == len(table)
            assert masks.all()
            rows = table.select([column for column in table.column_names if not column.startswith("_")]).to_pylist()
            for row, mask in zip(rows, masks.tolist(), strict=True):
                seen[cell, name, *row.values()].add(mask)
    return max(map(len, seen.values())) == 1


@pytest.mark.parametrize(
    ("query", "cells"),
    [
        slow("path", 2),
        slow("path", 4),
        slow("chord", 2),
        ("chord", 4),
        slow(0, 2),
        slow(0, 4),
        slow(3, 2),
        slow(3, 4),
        slow(5, 2),
        slow(5, 4),
    ],
)
def test_a_self_join_in_cells_is_what_duckdb_says_it_is(spark, tmp_path, query, cells):
    rng = random.Random(f"{query}")
    sql = {"path": PATH, "chord": CHORD}.get(query) or self_join(rng)
    schema = {name: SCHEMA[name] for name in SCHEMA if f"{name} t" in sql}
    files, oracle = ChangeFiles(tmp_path / "in", schema), oracle_of(schema, sql)
    changes = [{name: batch[name] for name in schema} for batch in stream(rng)]
    for batch in changes:
        files.add(batch)
    sink = run(spark, sql, files, tmp_path / "state", cells=cells, schema=schema)
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
        assert set(sink.deltas[number].values()) <= {1, -1}
    if " 2" not in sql:  # a predicate of one atom tells rows apart that are one tuple to another atom
        assert is_whole(tmp_path / "state", sql)


def test_masks_come_back_from_the_log(spark, tmp_path):
    """The live engines are lost between two runs, the last batch is executed twice, and some deletes find nothing."""
    files, oracle, sink = (
        ChangeFiles(tmp_path / "in", {"e": SCHEMA["e"]}),
        oracle_of({"e": SCHEMA["e"]}, PATH),
        Result(),
    )
    rng = random.Random(4)

    def twice(frame, number):
        frame.count()
        sink.write(frame, number)

    for _ in range(2):
        for _ in range(2):
            rows = [
                (rng.randrange(6), rng.choice([1, 2, 3, 4, None]), rng.choice([1, 1, 1, -1, -3])) for _ in range(40)
            ]
            files.add({"e": rows})
            oracle.apply(batch_of({"e": rows}))
        run(spark, PATH, files, tmp_path / "state", consume=twice, schema={"e": SCHEMA["e"]}, cells=2)
        assert sink.state() == oracle.result
        shutil.rmtree(tmp_path / "state" / "scratch")
    notes = [json.loads(path.read_text()) for path in (tmp_path / "state" / "crown").glob("*/crown/*/[23].json")]
    assert [note["redone"] for note in notes] == [True] * 4
    assert sum(sum(note["state"]["missing_deletes"].values()) for note in notes) > 0


def test_an_edge_of_two_bags_comes_once(spark, tmp_path):
    """It came twice under one name: results were right; what is stored, and what is said of deletes, was doubled."""
    schema = {"e": SCHEMA["e"]}
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"e": [(1, 2, 2), (2, 3, 1), (3, 1, 1)]})
    files.add({"e": [(1, 2, -3)]})
    run(spark, CHORD, files, tmp_path / "state", schema=schema, cells=2)
    deleted = [change["e"] for _, change in given(tmp_path / "state") if change["e"].column("_weight")[0].as_py() < 0]
    assert [len(table) for table in deleted] == [1, 1]
    notes = [json.loads(path.read_text()) for path in (tmp_path / "state" / "crown").glob("*/crown/*/1.json")]
    assert sum(sum(note["state"]["missing_deletes"].values()) for note in notes) == len(deleted)


def test_with_one_cell_the_files_are_what_they_were(spark, tmp_path):
    schema = {"e": SCHEMA["e"]}
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"e": [(1, 2, 1), (2, 3, 1)]})
    run(spark, PATH, files, tmp_path / "state", schema=schema, cells=1)
    ((_, changes),) = given(tmp_path / "state")
    assert changes["e"].schema.equals(
        pa.schema([("a", pa.int64()), ("b", pa.int64()), ("_weight", pa.int64())]), check_metadata=True
    )
    assert read_meta(next((tmp_path / "state" / "crown").glob("*/crown")))["format"] == ONE_CELL


def test_cells_that_were_kept_without_masks_are_refused_at_once(spark, tmp_path):
    schema = {"e": SCHEMA["e"]}
    files = ChangeFiles(tmp_path / "in", schema)
    files.add({"e": [(1, 2, 1), (2, 3, 1)]})
    run(spark, PATH, files, tmp_path / "state", schema=schema, cells=2)
    (path,) = (tmp_path / "state" / "crown").glob("*/crown/meta.json")
    meta = json.loads(path.read_text())
    assert meta.pop("checksum")
    assert meta["format"] == MASKED
    path.write_text(json.dumps({**meta, "format": ONE_CELL}))
    for cells in (None, 1, 2):
        with pytest.raises(
            CheckpointError, match=r"has format 1, this version reads format 2 of a state in 2 cells.*new"
        ):
            maintain(spark, PATH, files.frames(spark), checkpoint=str(tmp_path / "state"), schema=schema, cells=cells)


def test_a_row_that_an_alias_wants_everywhere_is_sent_to_a_list_of_cells_that_is_known_beforehand(spark):
    edges = spark.createDataFrame([(1, 2)], "a long, b long")
    deltas = maintain(spark, PATH, {"e": edges}, schema={"e": SCHEMA["e"]}, cells=2)
    plan = deltas._jdf.queryExecution().executedPlan().toString()
    assert "explode([0,1])" in plan
    assert "array_distinct" not in plan
