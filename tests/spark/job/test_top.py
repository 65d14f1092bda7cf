"""What ``crown top`` and the file of metrics say of a job, without Spark: its files are imitated."""

from __future__ import annotations

import argparse
import re
import shutil

import pytest

from spark_jobs.cell.cell import Report
from spark_jobs.commands import top
from spark_jobs.errors import CheckpointError, SparkJobError
from spark_jobs.job.metrics import Metrics
from spark_jobs.log.state_location import Whereabouts
from spark_jobs.log.state_log import read_note
from spark_jobs.storage.opening import folder_at
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


def test_top_tells_how_evenly_the_rows_are_spread(tmp_path, capsys):
    job = Job(tmp_path / "state")
    job.spark(0, committed=True)
    noted(job, 0, 0, rows(*((1, at, 1) for at in range(10))))
    assert command(job.folder, "--once") == 0
    assert "balance" not in capsys.readouterr().out, "there is one cell"
    noted(job, 1, 0, rows(*((2, at, 1) for at in range(90))))
    assert command(job.folder, "--once") == 0
    said = "  balance: cell 1 has the most rows, 1.8 times the average of the 2 cells"
    assert capsys.readouterr().out.splitlines()[-1] == said


def test_top_of_a_job_that_has_not_begun_or_is_none(tmp_path, capsys):
    job = Job(tmp_path / "state")
    assert command(job.folder, "--once") == 0
    assert "no cell has a batch yet" in capsys.readouterr().out
    with pytest.raises(CheckpointError, match="holds no view, database, pipeline or stream"):
        command(tmp_path / "else", "--once")
    with pytest.raises(SparkJobError, match="--every 0: give a number of seconds"):
        command(job.folder, "--every", 0)


def test_the_listener_writes_what_spark_and_the_cells_say_to_one_file(tmp_path):
    job = Job(tmp_path / "state")
    for batch, given in enumerate(stream(2)):
        job.spark(batch)
        state = noted(job, 0, batch, given)[1]
    progress = {"id": job.stream, "batchId": 1, "numInputRows": 12, "processedRowsPerSecond": 7.5}
    progress |= {
        "durationMs": {"triggerExecution": 340},
        "observedMetrics": {"crown.crown": {"rows": 11}, "mine": {"x": 1}},
    }
    file = tmp_path / "crown.prom"
    listener = Metrics(str(job.folder), str(file))
    listener.take({**progress, "id": "another stream"})
    assert not file.exists()
    listener.take(progress)
    found = parsed(file.read_text())
    own = (("stream", "s"),)
    assert found["crown_stream_batch"] == {own: 1}
    assert found["crown_stream_input_rows"] == {own: 12}
    assert found["crown_stream_rows_per_second"] == {own: 7.5}
    assert found["crown_stream_trigger_milliseconds"] == {own: 340}
    assert found["crown_stream_sent_rows"] == {(("operator", "crown"), *own): 11}
    assert list(found["crown_state_rows"].values()) == [state["input_rows"]]
    listener.take({**progress, "batchId": 0, "numInputRows": 1})  # an event that comes late
    assert parsed(file.read_text()) == found
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_the_listener_finds_state_that_is_elsewhere_once_the_checkpoint_says_where(tmp_path):
    job = Job(tmp_path / "state")
    job.spark(0)
    noted(job, 0, 0, next(iter(stream(1))))
    (tmp_path / "job").mkdir()
    file, progress = tmp_path / "crown.prom", {"id": job.stream, "batchId": 0}
    listener = Metrics(str(tmp_path / "job"), str(file))
    listener.take(progress)
    assert not file.exists()
    Whereabouts(folder_at(tmp_path / "job"), *[folder_at(job.folder / "crown")] * 2).claim()
    listener.take(progress)
    assert list(parsed(file.read_text())["crown_batch"].values()) == [0]
    given = Metrics(str(tmp_path / "another"), str(tmp_path / "2.prom"), str(job.folder / "crown"))
    given.take(progress)
    assert (tmp_path / "2.prom").read_text() == file.read_text()


def test_metrics_that_cannot_be_written_are_logged_once_and_stop_nothing(tmp_path, caplog):
    job = Job(tmp_path / "state")
    job.spark(0)
    noted(job, 0, 0, next(iter(stream(1))))
    listener = Metrics(str(job.folder), str(tmp_path / "no folder" / "crown.prom"))
    for _ in range(2):
        listener.take({"id": job.stream, "batchId": 0})
    assert caplog.text.count("the metrics cannot be written to") == 1


def parsed(text):
    """The samples of a file in Prometheus' text format by name and labels; every name has HELP and TYPE, once."""
    found, heads = {}, []
    for line in text.splitlines():
        if line.startswith("#"):
            heads.append(tuple(line.split(" ", 3)[1:3]))
            continue
        name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (\S+)", line).groups()
        assert heads[-2:] == [("HELP", name), ("TYPE", name)]  # the samples of a name stand together
        pairs = tuple(sorted(re.findall(r'(\w+)="([^"]*)"', labels)))
        assert pairs not in found.setdefault(name, {})
        found[name][pairs] = float(value)
    assert len(heads) == len(set(heads))
    return found


def test_a_change_that_is_amplified_is_told_with_its_key(tmp_path, capsys):
    job = Job(tmp_path / "state")
    job.spark(0)
    noted(job, 0, 0, next(iter(stream(1))))
    note = job.cell(0).log
    note.write_note(0, {**read_note(note.folder, 0), "amplified": "1 changed row with b = 7 gave 9 of 9 deltas"})
    assert command(job.folder, "--once", "--prometheus", tmp_path / "crown.prom") == 0
    assert "amplified in batch 0: 1 changed row with b = 7 gave 9 of 9 deltas" in capsys.readouterr().out
    found = parsed((tmp_path / "crown.prom").read_text())
    assert list(found["crown_recent_batches_amplified"].values()) == [1]
