"""Operators whose partitions are not the first ones of their stage: which cell is theirs, and what is refused."""

from __future__ import annotations

from collections import Counter

import pytest

import crown
from spark_jobs import maintain, plain_errors
from spark_jobs.errors import SparkJobError
from spark_jobs.recell.recell import recell
from spark_jobs.storage.opening import folder_at
from tests.marks import slow
from tests.spark.streams import ChangeFiles, Result, rows_of, run

pytestmark = pytest.mark.spark

KEYED = {"columns": {"id": "int64", "v": "int64"}, "key": ["id"], "enforced": True}
PLAIN = {"id": "int64", "v": "int64"}
TABLES = {"kept": KEYED, "other": KEYED, "raw": PLAIN, "timed": PLAIN, "late": PLAIN}
BATCHES = [
    {name: [(i, i, 1) for i in range(4)] for name in TABLES},
    {"raw": [(1, 7, 1)], "other": [(2, 2, -1), (2, 5, 1)], "late": [(3, 4, 1)]},
    {"kept": [(3, 3, -1), (1, 1, -1), (3, 8, 1)], "timed": [(3, 6, 1)]},
    {"raw": [(3, 9, 1), (0, 0, -1)], "timed": [(1, 9, 1)]},
]
CELLS = (2, 2, 1, 3)
WINDOWS = {"timed": crown.ttl("v", 5), "late": crown.last_rows(3, by="v")}


@pytest.mark.parametrize("adaptive", ["false", slow("true")])
@pytest.mark.parametrize("behind", [slow(("kept", "other")), slow(("timed", "late")), ("other", "timed")])
def test_what_stands_before_cells_knows_its_own_though_others_come_first_in_the_union(
    spark, tmp_path, behind, adaptive
):
    """Spark's sources stay in their order, too, when the job is cut anew."""
    one, two = behind
    query = f"SELECT r.id, r.v, a.v AS x, b.v AS y FROM raw r JOIN {one} a ON r.id = a.id JOIN {two} b ON b.id = r.id"
    tables = {name: TABLES[name] for name in ("raw", *behind)}
    windows = {name: WINDOWS[name] for name in behind if name in WINDOWS}
    files, sink, view = ChangeFiles(tmp_path / "in", tables), Result(), crown.view(query, tables, windows=windows)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    for number, batch in enumerate(BATCHES):
        mine = {name: batch[name] for name in tables if name in batch}
        files.add(mine)
        names = ["id", "v", "_weight"]
        view.update({r: [dict(zip(names, row, strict=True)) for row in rows] for r, rows in mine.items()})
        if number and CELLS[number] != CELLS[number - 1]:
            recell(folder_at(tmp_path / "state"), CELLS[number])
        run(spark, query, files, tmp_path / "state", sink=sink, schema=tables, cells=CELLS[number], windows=windows)
        whole = view.to_table().to_pylist()
        weights = Counter()
        for row in whole:
            weights[row["id"], row["v"], row["x"], row["y"]] += row.get("_weight", 1)
        assert sink.state() == weights, number
    assert whole


def test_deltas_behind_others_in_a_union_are_refused_unless_one_cell_makes_them(spark, tmp_path):
    tables, query = {"raw": PLAIN}, "SELECT DISTINCT id, v FROM raw"
    files, seen = ChangeFiles(tmp_path / "in", tables), Counter()
    files.add({"raw": [(1, 2, 1), (2, 3, 1)]})

    def both(cells, folder, behind=lambda deltas: deltas):
        made = [
            maintain(
                spark, query, files.frames(spark), schema=tables, checkpoint=str(folder), cells=cells, operator=name
            )
            for name in ("one", "two")
        ]
        writer = made[0].union(behind(made[1])).writeStream.foreachBatch(lambda frame, _: seen.update(rows_of(frame)))
        stream = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
        try:
            stream.awaitTermination()
        finally:
            stream.stop()

    with pytest.raises(SparkJobError, match="write the deltas with a query of their own"), plain_errors():
        both(2, tmp_path / "two")
    both(1, tmp_path / "one")
    assert seen == {(1, 2): 2, (2, 3): 2}
    both(2, tmp_path / "apart", lambda deltas: deltas.repartition(2))
    assert seen == {(1, 2): 4, (2, 3): 4}
