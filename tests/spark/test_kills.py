"""kill -9, of a worker in the middle of a batch and of the whole driver. Oracle: DuckDB, or a recompute by Spark.

Exactly once means: whatever was killed, the written deltas add up to the query's result and every batch is its net
change.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_jobs import maintain
from tests.spark.streams import ChangeFiles, Result, batch_of, oracle_of

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"


def assassin(scratch, marks, batches, operator="crown"):
    """A stage behind the operator that kills the operator's worker, once per batch named, at its first deltas."""

    def stage(deltas):
        import os
        import signal
        from pathlib import Path

        from pyspark import TaskContext

        context = TaskContext.get()
        batch, cell = context.getLocalProperty("streaming.sql.batchId"), context.partitionId()
        for rows in deltas:
            mark = Path(marks) / f"{batch}.{cell}"
            if int(batch) in batches and cell == 0 and not mark.exists():
                mark.touch()
                lock = next(Path(scratch).glob(f"*/*/{operator}/{cell}/lock"))
                os.kill(int(lock.read_text()), signal.SIGKILL)
            yield rows

    return stage


OUTER = "SELECT x.src a, x.dst b, y.dst c FROM g x LEFT JOIN g y ON x.dst = y.src AND y.dst > 20"
TOTAL = "SELECT COUNT(*) n, SUM(x.src * y.dst) s FROM g x JOIN g y ON x.dst = y.src"
UNION = "SELECT src v FROM g UNION ALL SELECT dst FROM g"


@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        pytest.param(HOPS, 1, id="3-hop-1", marks=pytest.mark.slow),
        pytest.param(HOPS, 2, id="3-hop-2"),
        pytest.param(OUTER, 1, id="outer-1", marks=pytest.mark.slow),
        pytest.param(OUTER, 4, id="outer-4", marks=pytest.mark.slow),
        pytest.param(TOTAL, 1, id="total-1", marks=pytest.mark.slow),
        pytest.param(TOTAL, 2, id="total-2", marks=pytest.mark.slow),
        pytest.param(UNION, 1, id="union-1", marks=pytest.mark.slow),
        pytest.param(UNION, 2, id="union-2"),
    ],
)
def test_a_worker_killed_in_the_middle_of_a_batch_costs_a_retry_and_nothing_else(spark, tmp_path, sql, cells):
    rng = random.Random(5)
    files, oracle, sink = ChangeFiles(tmp_path / "in", GRAPH), oracle_of(GRAPH, sql), Result()
    changes = [
        {"g": [(rng.randrange(40), rng.randrange(40), rng.choice((1, 1, 1, -1))) for _ in range(250)]} for _ in range(3)
    ]
    for batch in changes:
        files.add(batch)
    marks = tmp_path / "marks"
    marks.mkdir()
    scratch = tmp_path / "scratch"
    state = str(tmp_path / "state")
    deltas = maintain(spark, sql, files.frames(spark), checkpoint=state, cells=cells, scratch=str(scratch))
    operator = "crown.merge" if (sql, cells) == (TOTAL, 2) else "crown"
    killed = deltas.mapInArrow(assassin(str(scratch), str(marks), {0, 2}, operator), deltas.schema)
    stream = killed.writeStream.foreachBatch(sink.write).option("checkpointLocation", state)
    query = stream.trigger(availableNow=True).start()
    query.awaitTermination()
    assert {mark.name for mark in marks.iterdir()} == {"0.0", "2.0"}
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
        assert sql != HOPS or set(sink.deltas[number].values()) <= {1, -1}


def test_a_killed_driver_goes_on_from_its_checkpoint_and_writes_everything_once(spark, tmp_path, capsys):
    """The driver that is killed is a process of its own; this one goes on."""
    edges = tmp_path / "edges.txt"
    rng = random.Random(6)
    pairs = sorted({(rng.randrange(400), rng.randrange(400)) for _ in range(2500)}, key=lambda _: rng.random())
    edges.write_text("# a comment\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    output, checkpoint = tmp_path / "out", tmp_path / "state"
    words = ["Q(a,b,c) :- g(a,b), g(b,c), c > 40.", "--input", f"g={edges}", "--batch-rows", "500", "--sample", "0"]
    words += ["--output", str(output), "--checkpoint", str(checkpoint), "--cores", "2", "--cells", "2", "--verify"]
    program = "import sys; from tests.spark.test_kills import main; sys.exit(main(sys.argv[1:]))"
    first = run_until([sys.executable, "-c", program, *words], kill_after=1)
    done = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    assert main(words) == 0
    second = capsys.readouterr().out.splitlines()
    before, after = ([int(n) for n in re.findall(r"^batch +(\d+)", "\n".join(x), re.M)] for x in (first, second))
    assert second[-1] == "equal", second
    # A file that the killed driver had listed, but not yet given to a batch, comes together with the next one.
    assert (before[0], after[-1]) in ((0, 4), (0, 3))
    assert after[0] == done + 1 >= before[-1] + 1  # it went on, and did not begin again; progress is said late
    assert any("restored" in line for line in second)


def run_until(command: list[str], kill_after: int | None) -> list[str]:
    """Output lines of the command, killed with all its processes after the progress line of that batch."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, env=environment
    )
    lines: list[str] = []
    killed = False
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if kill_after is not None and not killed and re.match(rf"batch +{kill_after} ", line):
                time.sleep(0.25)  # somewhere in the next batch
                os.killpg(process.pid, signal.SIGKILL)
                killed = True  # what it has said by now is read still
        process.wait()
    assert (process.returncode == 0) == (kill_after is None), "\n".join(lines)
    return lines


def main(argv: list[str]) -> int:
    """``crown submit`` without the console script."""
    import argparse

    from spark_jobs.commands import submit

    parser = argparse.ArgumentParser()
    submit.add_arguments(parser)
    return submit.run(parser.parse_args(argv))
