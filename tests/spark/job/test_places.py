"""A job's folders, and the sentences for what Spark reports, without Spark: its files are imitated."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import shutil

import pytest

from crown.errors import CrownError
from crown.options import as_flags
from spark_jobs.errors import CheckpointError, SourceError, SparkJobError
from spark_jobs.folders import locked
from spark_jobs.ingest.source_log import files_in_order
from spark_jobs.ingest.sources import Input, changes
from spark_jobs.job import places
from spark_jobs.job.failures import reported
from spark_jobs.job.submit import Job, run
from spark_jobs.options import Options


@pytest.fixture
def job(tmp_path):
    checkpoint, output = tmp_path / "state", tmp_path / "out"
    checkpoint.mkdir()
    return checkpoint, output


def ran(checkpoint, output, batches):
    """What Spark leaves behind after so many batches."""
    (checkpoint / "metadata").write_text('{"id": "s"}')
    for folder in (checkpoint / "offsets", checkpoint / "commits", output / "_spark_metadata"):
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(batches):
            (folder / str(number)).write_text("v1")


def test_an_empty_or_new_output_becomes_the_jobs_and_stays_it(job):
    checkpoint, output = job
    places.claim_output(output, checkpoint)
    for batches in (0, 1, 5):
        ran(checkpoint, output, batches)
        places.claim_output(output, checkpoint)
    (output / "_spark_metadata" / "5").write_text("v1")  # written, not yet committed
    places.claim_output(output, checkpoint)
    moved = output.rename(output.with_name("elsewhere"))
    places.claim_output(moved, checkpoint)


def test_what_a_job_notes_is_its_owners_alone(job):
    checkpoint, output = job
    old = os.umask(0)
    try:
        places.claim_output(output, checkpoint)
        reported(RuntimeError("no idea"), checkpoint)
    finally:
        os.umask(old)
    files = [checkpoint / "output.json", output / "_crown.json", *checkpoint.glob("crown-error-*.log")]
    assert [oct(path.stat().st_mode & 0o777) for path in files] == ["0o600"] * 3


@pytest.mark.parametrize("report", ["no idea", "spark_jobs.errors.CheckpointError: {} is gone", "Caused by: a.B: {}"])
def test_a_report_and_its_sentence_have_no_credentials(tmp_path, report):
    uris = "jdbc://ann:hunter2@db/x and s3://bucket/x?X-Amz-Signature=hunter2"
    said = str(reported(RuntimeError(f"{report.format(uris)}\n\tat {uris}"), tmp_path))
    (log,) = tmp_path.glob("crown-error-*.log")
    assert "s3://bucket/x?..." in log.read_text()
    assert "hunter2" not in said + log.read_text()


def test_an_output_from_before_there_were_marks_is_taken_if_it_fits(job):
    checkpoint, output = job
    ran(checkpoint, output, 3)
    places.claim_output(output, checkpoint)
    assert (output / "_crown.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda c, o: (o / "part-0.parquet").write_text("x"),
            "has files that do not belong to this job .part-0.parquet",
        ),
        (lambda c, o: ran(c.parent / "other", o, 2), "output of a job with another checkpoint"),
        (
            lambda c, o: (places.claim_output(o, c.parent / "other"), (o / "p").touch()),
            "output of a job with another checkpoint",
        ),
        (lambda c, o: (ran(c, o, 2), shutil.rmtree(o)), "does not exist, but the job of .* has written 2 batches"),
        (
            lambda c, o: (ran(c, o, 2), shutil.rmtree(o), o.mkdir()),
            r"is empty, but the job of .* has written 2 batches",
        ),
        (
            lambda c, o: (ran(c, o, 5), (c / "commits" / "4").unlink(), (c / "commits" / "3").unlink()),
            r"up to 4, .*batch 2",
        ),
        (lambda c, o: (ran(c, o, 2), (o / "_spark_metadata" / "1").unlink()), r"up to 0, .*batch 1"),
        (lambda c, o: (o.rmdir(), o.write_text("x")), "it is a file"),
        (lambda c, o: (c / "output.json").write_text("{"), "output.json is damaged"),
    ],
    ids=["files", "unmarked", "marked", "gone", "emptied", "set back", "lost batch", "a file", "damaged mark"],
)
def test_an_output_that_is_not_this_jobs_or_not_whole_is_refused(job, change, said):
    checkpoint, output = job
    output.mkdir()
    (checkpoint.parent / "other").mkdir()
    change(checkpoint, output)
    with pytest.raises(SparkJobError, match=said):
        places.claim_output(output, checkpoint)


def test_a_job_with_an_output_does_not_run_without_it(job):
    checkpoint, output = job
    places.without_output(checkpoint)
    places.claim_output(output, checkpoint)
    with pytest.raises(SparkJobError, match=r"writes to .*out"):
        places.without_output(checkpoint)


def _hold(checkpoint, ready, done):
    with locked(checkpoint):
        ready.set()
        done.wait(30)


def _hold_output(output, checkpoint, ready, done):
    with places.locked_output(output, checkpoint):
        ready.set()
        done.wait(30)


def test_two_jobs_that_begin_with_one_output_are_one_too_many(job):
    """Both find it empty; Spark's file sink would skip, in each, the batches whose numbers the other has written."""
    checkpoint, output = job
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold_output, args=(output, checkpoint, ready, done))
    other.start()
    assert ready.wait(30)
    mine = checkpoint.with_name("mine")
    mine.mkdir()
    with (
        pytest.raises(
            CheckpointError, match=rf"process {other.pid}\) is running on the output .*give this one another output"
        ),
        places.locked_output(output, mine),
    ):
        pass
    done.set()
    other.join()
    with places.locked_output(output, mine):
        pass


def test_two_jobs_on_one_checkpoint_are_one_too_many(job):
    checkpoint, _ = job
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(checkpoint, ready, done))
    other.start()
    assert ready.wait(30)
    with pytest.raises(CheckpointError, match=rf"process {other.pid}\) is running"), locked(checkpoint):
        pass
    done.set()
    other.join()
    with locked(checkpoint):
        pass


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"trigger": "soon"}, "--trigger 'soon'"),
        ({"trigger": "5"}, "--trigger '5'"),
        ({"memory": "1x"}, "--memory must be a positive number of bytes"),
        ({"memory": "8m"}, "--memory='8m' is too small to start with; give at least 512 MiB"),
        ({"cell_memory": "8m"}, "--cell-memory='8m' is too small to start with; give at least 16 MiB"),
        ({"cell_budget": "8 KiB"}, "--cell-budget='8 KiB' is too small"),
        ({"cores": 0}, "--cores 0"),
        ({"checkpoint": "{file}"}, "--checkpoint .*it is a file"),
        ({"checkpoint": "{file}/state"}, "--checkpoint .*below one"),
        ({"checkpoint": "/proc/state"}, "--checkpoint .*cannot be written"),
        ({"checkpoint": "{folder}/state", "output": "{file}"}, "--output .*it is a file"),
        ({"checkpoint": "{folder}/state", "output": "{folder}"}, "--output .*do not belong to this job"),
        ({"checkpoint": "{folder}"}, r"--checkpoint .*do not belong to a job .*give an empty folder"),
        ({"checkpoint": "{folder}/state", "output": "{folder}/./state"}, "--checkpoint and --output are one folder"),
        ({"checkpoint": "{folder}", "input": "{folder}"}, "--checkpoint .* is in the folder of --input g"),
        ({"checkpoint": "{folder}/state", "input": "{folder}"}, "--checkpoint .* is in the folder of --input g"),
        (
            {"checkpoint": "{folder}/_state", "output": "{folder}/out", "input": "{folder}"},
            "--output .* is in the folder of --input g",
        ),
    ],
)
def test_what_cannot_be_is_said_before_spark_starts(tmp_path, options, said):
    (tmp_path / "file").write_text("x")
    places_ = {"file": tmp_path / "file", "folder": tmp_path}
    options = {key: value.format(**places_) if isinstance(value, str) else value for key, value in options.items()}
    if "checkpoint" in options:
        options["checkpoint"] = type(tmp_path)(options["checkpoint"])
    folders = [options.pop("input")] if "input" in options else []
    inputs = tuple(Input("g", type(tmp_path)(folder), "csv") for folder in folders)
    with pytest.raises(CrownError, match=said):
        start(inputs, {"output": "noop", **options})


def start(inputs, given):
    """Runs a job with these fields of it and of its options, as the command does."""
    own = {name: given.pop(name) for name in ("cell_memory", "cell_budget", "state", "quarantine") if name in given}
    with as_flags(own):
        options = Options.of("crown submit", own)
    run(Job("Q(a,b) :- g(a,b).", inputs, options=options, **given))


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.parquet", b"PAR1 and then something else"), ("x.csv", b"\xff\xfe\x00a,b\n"), ("x.parquet", b"")],
)
def test_a_first_file_that_cannot_be_read_is_a_sentence(tmp_path, name, content):
    from plans.schema import Schema

    (tmp_path / name).write_bytes(content)
    table = Schema.of({"r": {"a": "int64"}})["r"]
    with pytest.raises(
        SourceError, match=rf"{name}( is not a readable Parquet file| cannot be read|: it is text in UTF-16)"
    ):
        changes(None, Input("r", tmp_path, name.split(".")[1]), table, None, streaming=True)


REPORTS = {
    "Job aborted.\nspark_jobs.errors.PlanChangedError: the state was written by plan 1\n\n\tat org": "by plan 1",
    "[USER_RAISED_EXCEPTION] bad row in relation 'g': no SQLSTATE: P0001": "bad row in relation 'g': no",
    "Caused by: CSV header does not conform to the schema.\n Header: src, to\n Schema: src, dst\n"
    "Expected: dst but found: to\nCSV file: file:///in/2.csv\n\tat x": "line of /in/2.csv is src, to, but .* src, dst",
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/3.parquet. SQLSTATE": "/in/3.parquet",
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/4.json.  SQLSTATE: KD001\n\tat org\n"
    "Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records": (
        "/in/4.json has a row that does not fit the columns of its stream"
    ),
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log.": "another job is running",
    "java.lang.OutOfMemoryError: Java heap space": "--memory",
    "java.lang.Whatever: no idea": "the job stopped, because Spark could not go on",
}


@pytest.mark.parametrize("report", REPORTS)
def test_a_report_of_sparks_becomes_one_sentence_that_names_the_file_with_it(tmp_path, report):
    said = str(reported(RuntimeError(report), tmp_path / "not" / "there"))
    (log,) = (tmp_path / "not" / "there").glob("crown-error-*.log")
    assert report in log.read_text()
    assert said.endswith(f"(Spark's own report is in {log})")
    assert "\n" not in said
    assert re.search(REPORTS[report], said)


def test_files_are_in_the_order_of_the_batches_that_read_them(tmp_path):
    """Entries 2 and 3 of the log went into one batch, so did 4 and 5; the offsets of entry 0 are gone; 6 is new."""
    (tmp_path / "sources" / "1").mkdir(parents=True)
    (tmp_path / "offsets").mkdir()

    def entry(n):
        return json.dumps({"path": f"file:///{n}", "timestamp": n, "batchId": n})

    (tmp_path / "sources" / "1" / "4.compact").write_text("v1\n" + "\n".join(map(entry, range(5))))
    for n in (5, 6):
        (tmp_path / "sources" / "1" / str(n)).write_text("v1\n" + entry(n))
    for batch, end in ((7, 1), (8, 3), (9, 3), (10, 5)):
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n-\n{{"logOffset":{end}}}')
    order = files_in_order(tmp_path, 1)
    assert order == {f"/{n}": end for n, end in ((0, 0), (1, 1), (2, 3), (3, 3), (4, 5), (5, 5))}
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n-\n{"logOffset":1}')
    assert files_in_order(tmp_path, 1)["/0"] == 1
    (tmp_path / "sources" / "1" / "5").write_text("v1\nsomething else")
    with pytest.raises(CheckpointError, match="is not the log"):
        files_in_order(tmp_path, 1)
