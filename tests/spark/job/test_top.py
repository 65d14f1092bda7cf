"""What ``crown top`` and the file of metrics say of a job, without Spark: its files are imitated."""

from __future__ import annotations

import argparse
import re
import shutil

import pytest

from spark_jobs.cell.cell import Report
from spark_jobs.commands import top
from spark_jobs.errors import CheckpointError, SparkJobError
from tests.oracles.expectation import net
from tests.spark.cell.test_cell import HOPS, expected, rows, stream
from tests.spark.cell.test_history import Job


def command(*words):
    parser = argparse.ArgumentParser()
    top.add_arguments(parser)
    return top.run(parser.parse_args(list(map(str, words))))


def noted(job, cell, batch, changes):
    """Applies a batch as a worker does, and leaves its note; returns the number of deltas."""
    report, given = Report(), job.cell(cell)
    deltas = net(given.apply(batch, changes, report, None))
    state = given.stats()
    given.log.write_note(
        batch,
        {name: getattr(report, name) for name in ("rows", "deltas", "restored", "redone")}
        | {"total_ms": 1.5 * (batch + 1), "bad": batch, "state": state},
    )
    return report.deltas, state, deltas


def test_top_tells_the_newest_batch_and_what_happened_lately(tmp_path, capsys):
    job = Job(tmp_path / "state")
    changes = [*stream(3), rows((99, 99, -1))]
    for batch, given in enumerate(changes):
        job.spark(batch, committed=batch < 3)
        if batch == 2:
            shutil.rmtree(job.scratch / job.stream / "1")
        for cell in (0, 1):
            count, state, deltas = noted(job, cell, batch, given)
            assert deltas == expected(HOPS, changes)[batch]
    noted(job, 0, 3, changes[3])
    assert command(job.folder, "--once", "--prometheus", tmp_path / "crown.prom") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == str(job.state)
    assert said[1] == "  Spark has committed batch 2 and begun 3"
    absent = sum(state["missing_deletes"].values())
    assert re.fullmatch(
        rf"  cell 0: batch 3 +1 rows in +{count} deltas out +6 ms \(median 4\)  state {state['input_rows']} rows .*"
        rf"\(1 executed again, 6 rows quarantined, {absent} deletes found nothing\)",
        said[2],
    )
    assert "(1 of 4 restored, 6 rows" in said[3]
    lines = (tmp_path / "crown.prom").read_text().splitlines()
    labels = 'stream="s",operator="crown",cell="1"'
    assert f"crown_batch{{{labels}}} 3" in lines
    assert f"crown_state_bytes{{{labels}}} {state['live_bytes']}" in lines
    assert f"crown_absent_deletes_total{{{labels}}} {absent}" in lines
    assert "# TYPE crown_absent_deletes_total counter" in lines
    assert all(re.fullmatch(r"# (HELP|TYPE) \w+ .+|\w+\{[^}]+\} [0-9.e+]+", line) for line in lines)


def test_top_of_a_job_that_has_not_begun_or_is_none(tmp_path, capsys):
    job = Job(tmp_path / "state")
    assert command(job.folder, "--once") == 0
    assert "no cell has a batch yet" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match="holds no state of a job"):
        command(tmp_path / "else", "--once")
    with pytest.raises(SparkJobError, match="--every 0: give a number of seconds"):
        command(job.folder, "--every", 0)
