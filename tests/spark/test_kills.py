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

from tests.spark.streams import ChangeFiles, Result, assassin, batch_of, oracle_of, run

GRAPH = {"g": {"src": "int64", "dst": "int64"}}
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"


OUTER = "SELECT x.src a, x.dst b, y.dst c FROM g x LEFT JOIN g y ON x.dst = y.src AND y.dst > 20"
TOTAL = "SELECT COUNT(*) n, SUM(x.src * y.dst) s FROM g x JOIN g y ON x.dst = y.src"
UNION = "SELECT src v FROM g UNION ALL SELECT dst FROM g"
RANKS = "SELECT src, dst, SUM(dst) OVER w s, RANK() OVER w r FROM g WINDOW w AS (PARTITION BY src ORDER BY dst)"
WHOLE = "SELECT src, dst, LAG(dst) OVER (ORDER BY dst, src) p FROM g"
ASOF = (
    "SELECT x.src a, x.dst b, y.dst c FROM g x ASOF JOIN (SELECT DISTINCT src, dst FROM g) y ON x.src = y.src AND "
    "x.dst > y.dst"
)
MEDIANS = "SELECT src, MEDIAN(dst) m FROM g GROUP BY src"
BANDS = "SELECT x.src a, COUNT(*) n FROM g x JOIN g y ON y.dst >= x.src AND y.dst < x.dst GROUP BY x.src"


@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        pytest.param(HOPS, 1, id="3-hop-1", marks=pytest.mark.slow),
        pytest.param(HOPS, 2, id="3-hop-2", marks=pytest.mark.slow),
        pytest.param(OUTER, 1, id="outer-1", marks=pytest.mark.slow),
        pytest.param(OUTER, 4, id="outer-4", marks=pytest.mark.slow),
        pytest.param(TOTAL, 1, id="total-1", marks=pytest.mark.slow),
        pytest.param(TOTAL, 2, id="total-2", marks=pytest.mark.slow),
        pytest.param(UNION, 1, id="union-1", marks=pytest.mark.slow),
        pytest.param(UNION, 2, id="union-2", marks=pytest.mark.slow),
        pytest.param(RANKS, 2, id="ranks-2", marks=pytest.mark.slow),
        pytest.param(WHOLE, 2, id="whole-2", marks=pytest.mark.slow),
        pytest.param(ASOF, 2, id="asof-2", marks=pytest.mark.slow),
        pytest.param(MEDIANS, 2, id="medians-2", marks=pytest.mark.slow),
        pytest.param(BANDS, 2, id="bands-2", marks=pytest.mark.slow),
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
    operator = "crown.merge" if (sql, cells) == (TOTAL, 2) else "crown"
    killed = assassin(str(scratch), str(marks), {0, 2}, operator)
    run(spark, sql, files, tmp_path / "state", sink=sink, behind=killed, cells=cells, scratch=str(scratch))
    assert {mark.name for mark in marks.iterdir()} == {"0.0", "2.0"}
    for number, batch in enumerate(changes):
        oracle.apply(batch_of(batch))
        assert sink.state(number) == oracle.result
        assert sql != HOPS or set(sink.deltas[number].values()) <= {1, -1}


@pytest.mark.parametrize(
    "query",
    [
        "Q(a,b,c) :- g(a,b), g(b,c), c > 40.",
        pytest.param(RANKS, id="ranks", marks=pytest.mark.slow),
        pytest.param(MEDIANS, id="medians", marks=pytest.mark.slow),
    ],
)
def test_a_killed_driver_goes_on_from_its_checkpoint_and_writes_everything_once(spark, tmp_path, capsys, query):
    """The driver that is killed is a process of its own; this one goes on."""
    edges = tmp_path / "edges.txt"
    rng = random.Random(6)
    pairs = sorted({(rng.randrange(400), rng.randrange(400)) for _ in range(2500)}, key=lambda _: rng.random())
    edges.write_text("# a comment\n" + "".join(f"{a}\t{b}\n" for a, b in pairs))
    output, checkpoint = tmp_path / "out", tmp_path / "state"
    words = [query, "--input", f"g={edges}", "--batch-rows", "500", "--sample", "0"]
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
