"""``crown submit`` when something is wrong, not there, or stopped: a sentence, never a traceback. And ``--verify`` with
rows that were not applied as they came.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from spark_jobs.commands import submit
from spark_jobs.errors import SparkJobError
from tests.marks import slow
from tests.spark.job.test_submit import PATHS, command

SCHEMA = "g(src int64, dst int64)"


def write(folder, number, rows, names="src,dst,_weight"):
    folder.mkdir(exist_ok=True)
    path = folder / f"{number} %.csv"
    path.write_text(names + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))
    os.utime(path, (1e9 + number, 1e9 + number))


def words(tmp_path, *more):
    found = [PATHS, "--schema", SCHEMA, "--input", f"g={tmp_path / 'g'}:format=csv,files=1"]
    return [*found, "--output", tmp_path / "out", "--checkpoint", tmp_path / "state", *more]


@pytest.mark.parametrize("cells", [slow(1), 2])
def test_verify_compares_with_what_was_applied(spark, tmp_path, capsys, cells):
    """Quarantined rows are left out; a delete takes away what was there at the time, and is not made up for later."""
    rng = random.Random(8)
    for number in range(2):
        rows = [(rng.randrange(12), rng.randrange(25), rng.choice((1, 1, 2, -1, -3))) for _ in range(60)]
        write(tmp_path / "g", number, [*rows, ("seven", 8, 1), (7, 8, "many"), (9, 10)])
    options = words(tmp_path, "--on-bad-row", "quarantine", "--verify", "--cells", cells)
    assert command(submit, *options) == 0
    said = capsys.readouterr().out
    assert "6 bad rows quarantined" in said
    assert "deletes found nothing to delete" in said
    assert said.endswith("equal\n")
    write(tmp_path / "g", 9, [(1, 2, 5), (2, 24, 1)])
    assert command(submit, *options) == 0  # it is still known what was clamped
    assert capsys.readouterr().out.endswith("equal\n")


def test_verify_still_finds_a_difference(spark, tmp_path, capsys):
    for number in range(2):
        write(tmp_path / "g", number, [(number, 2, 1), (2, 20 + number, 1), (5, 5, -1)])
    assert command(submit, *words(tmp_path)) == 0
    log = tmp_path / "out" / "_spark_metadata"
    (log / "1").write_text("v1")  # what the second batch wrote is lost
    (log / ".1.crc").unlink()
    assert command(submit, *words(tmp_path, "--verify")) == 1
    assert capsys.readouterr().out.endswith("DIFFERENT\n")


def test_verify_says_before_it_begins_that_spark_does_not_read_a_query(spark, tmp_path):
    write(tmp_path / "g", 0, [(1, 2, 1), (1, 5, 1), (2, 4, 1)])
    found = words(tmp_path, "--verify")
    for query in (
        "SELECT a.dst, b.dst AS d FROM g a ASOF JOIN g b ON a.src = b.src AND a.dst > b.dst",
        "WITH RECURSIVE t(b) AS (SELECT src FROM g UNION SELECT g.dst FROM g JOIN t ON g.src = t.b) SELECT b FROM t",
    ):
        found[0] = query
        with pytest.raises(SparkJobError, match=r"SQL, which does not read this query \(.*\): leave --verify out"):
            command(submit, *found)
    found[0] = "SELECT src, COUNT(*) AS n FROM g GROUP BY src"
    with pytest.raises(SparkJobError, match="text in Spark's SQL, and this one is in duckdb: leave --verify out"):
        command(submit, *found, "--dialect", "duckdb")
    assert not list((tmp_path / "out").glob("*.parquet"))
    assert command(submit, *found) == 0
    assert {tuple(row) for row in spark.read.parquet(str(tmp_path / "out")).collect()} == {(1, 2, 1), (2, 1, 1)}


def test_verify_says_that_it_cannot_compare_with_rows_that_only_the_state_refused(spark, tmp_path, capsys):
    declared = "g(src int64 key, dst int64) enforced"
    options = ["SELECT src, dst FROM g", "--schema", declared, "--input", f"g={tmp_path / 'g'}:format=csv,files=1"]
    options += ["--output", tmp_path / "out", "--checkpoint", tmp_path / "state", "--on-bad-row", "quarantine"]
    write(tmp_path / "g", 1, [(1, 5, 1), (2, 5, 1), ("seven", 5, 1)])
    assert command(submit, *options, "--verify") == 0
    assert capsys.readouterr().out.endswith("equal\n")
    write(tmp_path / "g", 2, [(1, 6, 1), (3, 5, 1)])
    with pytest.raises(SparkJobError, match=r"--verify cannot compare: .* and 1 of them were quarantined"):
        command(submit, *options, "--verify")
    assert command(submit, *options) == 0


def drift(folder):
    write(folder, 1, [(1, 2, 1)], "src,target,_weight")


def garble(folder):
    (folder / "1.parquet").write_bytes(b"PAR1 is how it begins, and that is all")


@pytest.mark.parametrize(
    ("damage", "said"),
    [(drift, "the first line of .*csv is src, target"), (garble, "1.parquet is not a readable Parquet file")],
)
def test_an_input_file_that_is_not_like_the_first_ends_the_job_in_a_sentence(spark, tmp_path, damage, said):
    write(tmp_path / "g", 0, [(1, 2, 1)])
    options = words(tmp_path)
    if damage is garble:
        frame = spark.range(5).selectExpr("id src", "id dst", "1L _weight")
        frame.coalesce(1).write.parquet(str(tmp_path / "p"))
        (file,) = (tmp_path / "p").glob("*.parquet")
        (tmp_path / "g" / "0 %.csv").unlink()
        file.rename(tmp_path / "g" / "0.parquet")
        options[4] = f"g={tmp_path / 'g'}:format=parquet,files=1"
    damage(tmp_path / "g")
    with pytest.raises(SparkJobError, match=said) as error:
        command(submit, *options)
    assert "\n" not in str(error.value)
    if damage is drift:  # the other is seen before Spark reads it
        assert Path(re.search(r"Spark's own report is in (.*)\)$", str(error.value))[1]).stat().st_size > 200


def test_an_output_folder_that_is_gone_is_said(spark, tmp_path):
    write(tmp_path / "g", 0, [(1, 2, 1), (2, 20, 1)])
    assert command(submit, *words(tmp_path)) == 0
    (tmp_path / "out").rename(tmp_path / "away")
    with pytest.raises(SparkJobError, match=r"has written 1 batches to .*out"):
        command(submit, *words(tmp_path))
    with pytest.raises(SparkJobError, match=r"writes to .*out"):
        command(submit, *words(tmp_path, "--output", "noop"))


START = "import sys; print('up', flush=True); from crown.commands.main import main; sys.exit(main())"


def process(tmp_path, *more):
    """``crown submit`` in a process of its own, with what it writes to both ends in files."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path[1:]])}
    options = [str(word) for word in words(tmp_path, *more)]
    with open(tmp_path / "stdout", "w") as stdout, open(tmp_path / "stderr", "w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-c", START, "submit", *options],
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            env=environment,
        )


def ended(running, tmp_path):
    running.wait(90)
    return running.returncode, (tmp_path / "stdout").read_text(), (tmp_path / "stderr").read_text()


@pytest.mark.spark
@pytest.mark.parametrize("seconds", [slow(0.1), slow(1.0), slow(3.0), slow(6.0)])
def test_ctrl_c_while_starting_is_no_traceback(tmp_path, seconds):
    write(tmp_path / "g", 0, [(1, 2, 1), (2, 20, 1)])
    running = process(tmp_path, "--trigger", "1 second")
    deadline = time.monotonic() + 60
    while not (tmp_path / "stdout").read_text() and time.monotonic() < deadline:
        time.sleep(0.01)  # until Python itself has started
    time.sleep(seconds)
    os.killpg(running.pid, signal.SIGINT)
    code, _, said = ended(running, tmp_path)
    assert code in (0, 130)
    assert "Traceback" not in said
    assert "Exception" not in said


def test_ctrl_c_ends_a_running_job_with_its_summary(spark, tmp_path, capsys):
    """A terminal sends it to all processes of a job: the next test does."""
    write(tmp_path / "g", 0, [(1, 2, 1), (2, 20, 1)])
    over = threading.Event()

    def interrupt():
        while not (tmp_path / "state" / "commits" / "0").exists() and not over.wait(0.05):
            pass
        if not over.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        assert command(submit, *words(tmp_path, "--trigger", "1 second")) == 0
    finally:
        over.set()
        thread.join()
    said = capsys.readouterr()
    assert "2 rows in, 1 deltas out" in said.out
    assert "Traceback" not in said.err


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_ends_a_running_job_with_its_summary_and_no_traceback(tmp_path):
    write(tmp_path / "g", 0, [(1, 2, 1), (2, 20, 1)])
    running = process(tmp_path, "--trigger", "1 second")
    deadline = time.monotonic() + 120
    while "batch     0" not in (tmp_path / "stdout").read_text() and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(running.pid, signal.SIGINT)
    code, out, said = ended(running, tmp_path)
    assert code == 0
    assert "2 rows in, 1 deltas out" in out
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


@pytest.mark.slow
def test_a_batch_past_the_budget_of_a_cell_ends_the_job_which_goes_on_with_more(spark, tmp_path, capsys):
    rng = random.Random(6)
    for number, size in enumerate((20, 12_000, 20)):
        write(tmp_path / "g", number, [(rng.randrange(1 << 30), rng.randrange(20), 1) for _ in range(size)])
    limits = ("--cells", 1, "--cell-memory", "16 MiB", "--scratch", tmp_path / "scratch", "--cell-budget")
    said = r"cell 0 has 0\.\d MiB of state, and batch 1 needs more than cell_budget=1\.0 MiB: the batch was not applied"
    for _ in range(2):
        with pytest.raises(SparkJobError, match=said):
            command(submit, *words(tmp_path, *limits, "1 MiB"))
    assert command(submit, *words(tmp_path, *limits, "64 MiB", "--verify")) == 0
    assert capsys.readouterr().out.endswith("equal\n")
