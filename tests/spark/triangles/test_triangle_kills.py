"""kill -9 in the middle of a triangle count, of a worker and of the whole driver. Oracle: all triples of vertices.

Exactly once means: whatever was killed, every count told is that of the graph after its batch.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from spark_jobs import local_session, maintain
from spark_jobs.triangles import counts as triangles
from spark_jobs.triangles.counts import triangle_counts
from tests.spark.streams import ChangeFiles
from tests.spark.test_kills import assassin, run_until
from tests.spark.triangles.test_triangles import SCHEMA, Graph, Table, batches, run

PER = ("graph", "vertex")


@pytest.mark.parametrize("per", PER)
def test_a_worker_killed_in_the_middle_of_a_batch_counts_it_once(spark, tmp_path, monkeypatch, per):
    marks, state = tmp_path / "marks", tmp_path / "state"
    marks.mkdir()

    def deadly(*arguments, **options):
        rows = maintain(*arguments, **options)
        return rows.mapInArrow(assassin(str(state / "scratch"), str(marks), {0, 2}), rows.schema)

    monkeypatch.setattr(triangles, "maintain", deadly)
    files, graph, table = ChangeFiles(tmp_path / "in", SCHEMA), Graph(False), Table()
    changes = batches(3, seed=12)
    for batch in changes:
        files.add({"edges": batch})
    run(spark, files, state, table, per=per, cells=1)
    assert {mark.name for mark in marks.iterdir()} == {"0.0", "2.0"}
    for number, batch in enumerate(changes):
        graph.apply(batch)
        assert table.after[number] == graph.counts(per)


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_driver_goes_on_with_every_count_from_its_checkpoint(tmp_path):
    files, changes = ChangeFiles(tmp_path / "in", SCHEMA), batches(5, seed=13)
    for batch in changes:
        files.add({"edges": batch})
    (tmp_path / "out").mkdir()
    program = "import sys; from tests.spark.triangles.test_triangle_kills import main; main(sys.argv[1])"
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path)]
    before, after = (_batches(run_until(command, kill_after)) for kill_after in (1, None))
    assert any(len(numbers) > 1 for numbers in before.values())
    for per in PER:
        if before[per]:
            assert before[per][0] == 0
            assert 0 < after[per][0] <= before[per][-1] + 1  # it went on, and did not begin again
        else:
            assert after[per][0] == 0  # the other stream came to its second batch before this one to its first
        graph, right = Graph(False), []
        for batch in changes:
            graph.apply(batch)
            right.append(graph.counts(per))
        table, seen = {}, []
        for number in range(after[per][-1] + 1):
            rows = json.loads((tmp_path / "out" / f"{per}.{number}.json").read_text())
            table.update({tuple(row[:-1]): row[-1] for row in rows})
            seen.append({key: count for key, count in table.items() if count or key == ()})
        # A file that the killed driver had listed, but not yet given to a batch, comes together with the next one.
        assert len(seen) in (len(right), len(right) - 1)
        assert seen == [counts for counts in right if counts in seen]
        assert seen[-1] == right[-1]


def _batches(lines):
    """Numbers of the batches written, in order, by what was counted."""
    said = re.findall(r"^batch (\d+) (\w+)$", "\n".join(lines), re.M)
    return {per: [int(number) for number, kind in said if kind == per] for per in PER}


def main(folder: str) -> None:
    """A driver with a stream per kind of count; every batch becomes a file of its rows, and a line on stdout."""
    spark = local_session("kills", cores=2, memory="1g", conf={"spark.sql.shuffle.partitions": "1"})
    reader = spark.readStream.schema("src long, dst long, _weight long").option("maxFilesPerTrigger", 1)

    def start(per):
        def write(frame, number):
            target = Path(folder, "out", f"{per}.{number}.json")
            target.with_suffix(".part").write_text(json.dumps([list(row) for row in frame.collect()]))
            os.replace(target.with_suffix(".part"), target)
            print(f"batch {number} {per}", flush=True)

        edges = reader.parquet(str(Path(folder, "in", "edges")))
        state = str(Path(folder, per))
        counts = triangle_counts(spark, edges, per=per, checkpoint=state, cells=1)
        writer = counts.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", state)
        return writer.trigger(availableNow=True).start()

    for query in [start(per) for per in PER]:
        query.awaitTermination()
    spark.stop()
