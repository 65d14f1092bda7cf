"""What goes wrong in production ends in one sentence, the same through the command line and through the API."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from crown.errors import CrownError
from spark_jobs import maintain, plain_errors
from spark_jobs.commands import state, submit, top
from spark_jobs.errors import CheckpointError, FolderError, PlanChangedError, SourceError, SparkJobError
from spark_jobs.folders import local_folder, locked, unclaimed
from spark_jobs.ingest.sources import Input
from spark_jobs.job import places
from spark_jobs.locking import exclusive
from spark_jobs.storage.local import LocalFolder
from tests.marks import turns
from tests.spark.job.test_submit import PATHS, command
from tests.spark.job.test_submit_failures import SCHEMA, words, write

QUERY = "Q(a,b,c) :- g(a,b), g(b,c)."
URIS = ["s3a:/bucket/x", "hdfs:x", "hdfs://host/x", "file://elsewhere/x"]
STORES = ["s3a://bucket/x", "abfss://c@a.net/x"]
FIELDS = T.StructType([T.StructField(name, T.LongType()) for name in ("src", "dst", "_weight")])


def by_maintain(**options):
    """Asks ``maintain`` with a frame of which only the columns are looked at before the folders are."""
    frame = SimpleNamespace(isStreaming=True, schema=FIELDS, columns=FIELDS.names)
    return maintain(None, QUERY, {"g": frame}, cells=1, **options)


def by_submit(tmp_path, *more):
    (tmp_path / "g").mkdir(exist_ok=True)
    (tmp_path / "g" / "1.csv").write_text("src,dst\n1,2\n")
    return command(submit, PATHS, "--schema", SCHEMA, "--input", f"g={tmp_path / 'g'}", *more)


@pytest.mark.parametrize("uri", [*URIS, *STORES])
def test_a_uri_that_cannot_be_served_is_refused_and_makes_no_folder(tmp_path, monkeypatch, uri):
    monkeypatch.chdir(tmp_path)
    attempts = [
        lambda: by_submit(tmp_path, "--output", "noop", "--checkpoint", uri),
        lambda: by_submit(tmp_path, "--output", uri, "--checkpoint", "state"),
        lambda: by_submit(tmp_path, "--output", "noop", "--scratch", uri),
    ]
    aside = ("--on-bad-row", "quarantine", "--quarantine", uri)
    if uri in URIS:
        attempts += [
            lambda: by_maintain(checkpoint=uri),
            lambda: by_maintain(checkpoint="state", state=uri),
            lambda: by_maintain(checkpoint="state", on_bad_row="quarantine", quarantine=uri),
            lambda: by_submit(tmp_path, "--output", "noop", "--checkpoint", "state", "--state", uri),
            lambda: by_submit(tmp_path, "--output", "noop", *aside),
            lambda: command(state, uri),
            lambda: command(top, uri, "--once"),
        ]
    for attempt in attempts:
        with pytest.raises(FolderError, match=re.escape(uri)) as error:
            attempt()
        assert "\n" not in str(error.value)
        assert re.search("give a local|write (s3a?|file)://|elsewhere", str(error.value))
    with pytest.raises((SourceError, FolderError), match=re.escape(uri)):
        Input.parse(f"g={uri}:format=csv")
    assert {path.name for path in tmp_path.iterdir()} <= {"g"}


def test_a_file_uri_and_a_path_are_the_same_folder(tmp_path):
    assert local_folder(f"file://{tmp_path}/a%20b") == local_folder(tmp_path / "a b") == tmp_path / "a b"
    assert local_folder(f"file:{tmp_path}") == tmp_path


@pytest.mark.parametrize("place", ["{file}", "{file}/below", "/proc/none"])
def test_a_folder_that_cannot_be_written_is_refused_before_a_stream_starts(tmp_path, place):
    (tmp_path / "file").write_text("x")
    given, good = place.format(file=tmp_path / "file"), str(tmp_path / "state")
    said = "give (a|another) folder"
    aside = {"on_bad_row": "quarantine"}
    for options in ({"checkpoint": given}, {"checkpoint": good, "quarantine": given, **aside}):
        with pytest.raises(FolderError, match=said):
            by_maintain(**options)
    options = ("--on-bad-row", "quarantine", "--quarantine", given), ("--scratch", given), ("--checkpoint", given)
    for words_ in options:
        with pytest.raises(FolderError, match=said):
            by_submit(tmp_path, "--output", "noop", *words_)


def test_a_checkpoint_that_a_job_holds_is_refused_to_others_and_not_to_itself(tmp_path):
    unclaimed(tmp_path)
    with locked(tmp_path):
        unclaimed(tmp_path)
        (tmp_path / ".crown.lock").write_text("1")  # as if another process had written it
        with pytest.raises(SparkJobError, match=r"process 1\) is running"):
            by_maintain(checkpoint=str(tmp_path))
    unclaimed(tmp_path)


OTHER = "import sys, pathlib; from spark_jobs.folders import unclaimed; unclaimed(pathlib.Path(sys.argv[1]))"


def test_a_stream_holds_its_checkpoint_from_a_second_after_its_start_until_it_ends(spark, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    other = [sys.executable, "-c", OTHER, str(checkpoint)]
    (tmp_path / "g").mkdir()
    frame = spark.readStream.schema(FIELDS).json(str(tmp_path / "g"))
    deltas = maintain(spark, QUERY, {"g": frame}, checkpoint=str(checkpoint), cells=1)
    for _ in turns(1, 2):
        query = deltas.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).start()
        try:
            time.sleep(1.2)
            deadline = time.monotonic() + 60
            while subprocess.run(other, capture_output=True, check=False).returncode == 0:
                assert time.monotonic() < deadline
                time.sleep(0.2)
            said = subprocess.run(other, capture_output=True, text=True, check=False).stderr
            assert f"another job (process {os.getpid()}) is running on the checkpoint {checkpoint}" in said
            maintain(spark, QUERY, {"g": frame}, checkpoint=str(checkpoint), cells=1)  # it is its own process
            with (
                pytest.raises(CheckpointError, match="is running on the checkpoint"),
                exclusive(LocalFolder(checkpoint)),
            ):
                pass
        finally:
            query.stop()
        with exclusive(LocalFolder(checkpoint)):
            pass  # as soon as it has ended
        subprocess.run(other, check=True)


def test_where_bad_rows_go_is_asked_for_only_if_they_go_there(tmp_path):
    with pytest.raises(CrownError, match=r'--quarantine is given, but bad rows.* give --on-bad-row="quarantine"'):
        by_submit(tmp_path, "--output", "noop", "--quarantine", tmp_path / "aside")


def test_an_output_that_was_replaced_meanwhile_is_not_taken_for_the_jobs(tmp_path):
    from tests.spark.job.test_places import ran

    checkpoint, output = tmp_path / "state", tmp_path / "out"
    checkpoint.mkdir()
    places.claim_output(output, checkpoint)
    ran(checkpoint, output, 3)
    (output / "_crown.json").unlink()  # Spark has made the folder anew
    with pytest.raises(SparkJobError, match="was removed, or replaced"):
        places.claim_output(output, checkpoint)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (
            "x\nCaused by: java.lang.IllegalArgumentException: Number of column in CSV header is not equal to number "
            "of fields in the schema:\n Header length: 2, schema size: 3\nCSV file: file:///in/2.csv\n\tat x",
            "the first line of /in/2.csv has 2 columns, but that of the first file had 3",
        ),
        (
            "Encountered error while reading file file:///in/1.parquet. Data type mismatches when reading Parquet "
            "column <[dst]>. Expected Spark type bigint, actual Parquet type BINARY. SQLSTATE",
            "column dst of /in/1.parquet has the type BINARY, but that of the first file was bigint",
        ),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_EXCEPTION] An exception was thrown from "
            'the Python worker: Traceback (most recent call last):\n  File "spark_jobs/cell/step.py", line 19, in '
            "<module>\n    import pyarrow as pa\nModuleNotFoundError: No module named 'pyarrow'\n SQLSTATE: 38000",
            "Spark's workers run a Python that has no module pyarrow: before the session is created, set ",
        ),
        (
            "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function: An exception was "
            "raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
            '  File "a.py", line 1, in f\n    int("x")\n    ~~~^^^^^\nValueError: "x"\n\nDuring handling of the above '
            'exception, another exception occurred:\n\nTraceback (most recent call last):\n  File "a.py", line 3, in '
            "f\n    raise app.OrderError(1)\napp.OrderError: 1 has no price\n SQLSTATE: 39000\n=== Streaming",
            "the function that foreachBatch calls raised app.OrderError: 1 has no price (Spark's own",
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker", "Spark's workers run another version of Python"),
        ("x\nCaused by: java.lang.A: one\nCaused by: java.lang.B: two.\n", "Spark could not go on: two"),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited", "Java could not start"),
    ],
)
def test_what_spark_reports_through_the_api_becomes_one_sentence(tmp_path, report, said):
    with pytest.raises(SparkJobError) as error, plain_errors(tmp_path):
        raise PySparkException(report)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    (log,) = tmp_path.glob("crown-error-*.log")
    assert report in log.read_text()
    assert str(error.value).endswith(f"(Spark's own report is in {log})")


def test_errors_of_ours_and_interrupts_pass_as_they_are(tmp_path):
    for error in (SparkJobError("one"), KeyboardInterrupt(), BrokenPipeError(), ZeroDivisionError()):
        with pytest.raises(type(error)), plain_errors(tmp_path):
            raise error
    assert not list(tmp_path.iterdir())


def test_a_stream_of_the_api_ends_in_one_sentence(spark, tmp_path):
    """The same checkpoint twice, and a bad row."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"src": 1, "dst": 2}\n')
    frame = spark.readStream.schema("src string, dst long").json(str(tmp_path / "in"))

    def start(trigger):
        deltas = maintain(
            spark,
            QUERY,
            {"g": frame},
            checkpoint=str(tmp_path / "state"),
            schema={"g": {"src": "int64", "dst": "int64"}},
        )
        writer = deltas.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "state"))
        return writer.trigger(**trigger).start()

    spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", "false")  # else Spark stops the first itself
    running = start({"processingTime": "1 minute"})
    try:
        with pytest.raises(SparkJobError, match="another job is running on this checkpoint"), plain_errors(tmp_path):
            start({"processingTime": "1 minute"})
    finally:
        running.stop()
    (tmp_path / "in" / "2.json").write_text('{"src": "one", "dst": 2}\n')
    said = "bad row in relation 'g': column 'src': 'one'"
    with pytest.raises(SparkJobError, match=said) as error, plain_errors(tmp_path):
        start({"availableNow": True}).awaitTermination()
    assert "\n" not in str(error.value)


def test_parquet_files_of_other_columns_are_refused_before_they_are_read_as_null(spark, tmp_path):
    folder = tmp_path / "g"
    for number, names in enumerate((("src", "dst"), ("src", "target"))):
        frame = spark.createDataFrame([(1, 2)], [*names])
        frame.coalesce(1).write.mode("append").parquet(str(tmp_path / f"p{number}"))
        (file,) = (tmp_path / f"p{number}").glob("*.parquet")
        folder.mkdir(exist_ok=True)
        file.rename(folder / f"{number}.parquet")
    with pytest.raises(SourceError, match=r"0.parquet has a column 'dst', but .*1.parquet has none"):
        command(submit, PATHS, "--schema", SCHEMA, "--input", f"g={folder}", "--output", "noop")


def test_an_output_folder_that_is_gone_while_the_job_runs_ends_it(spark, tmp_path):
    write(tmp_path / "g", 0, [(1, 2, 1), (2, 20, 1)])

    def remove():
        deadline = time.monotonic() + 120
        while not (tmp_path / "out" / "_spark_metadata" / "0").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        shutil.rmtree(tmp_path / "out")

    thread = threading.Thread(target=remove)
    thread.start()
    with pytest.raises(SparkJobError, match="was removed, or replaced"):
        command(submit, *words(tmp_path, "--trigger", "1 second"))
    thread.join()


@pytest.mark.spark
@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_traceback(tmp_path):
    """``crown submit ... | head -1``."""
    for number in range(3):
        write(tmp_path / "g", number, [(number, 2, 1), (2, 20 + number, 1)])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path[1:]])}
    command_ = [sys.executable, "-m", "crown", "submit", *map(str, words(tmp_path))]
    with open(tmp_path / "stderr", "w") as stderr:
        running = subprocess.Popen(command_, stdout=subprocess.PIPE, stderr=stderr, env=environment)
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        code = running.wait(120)
    said = (tmp_path / "stderr").read_text()
    assert code == 141
    assert "Traceback" not in said
    assert "BrokenPipe" not in said


def test_a_query_written_in_another_way_goes_on_and_another_query_is_told_apart(spark, tmp_path, capsys):
    schema = ["--schema", SCHEMA]
    folders = ["--output", tmp_path / "out", "--checkpoint", tmp_path / "state"]
    source = ["--input", f"g={tmp_path / 'g'}:format=csv"]
    queries = [
        "Q(a,c) :- g(a,b), g(b,c), c > 12.",
        "SELECT DISTINCT x.src AS a, y.dst AS c FROM g y, g x WHERE y.dst > 12 AND x.dst = y.src",
    ]
    for number, query in enumerate(queries):
        write(tmp_path / "g", number, [(number, 2, 1), (2, 20 + number, 1)])
        verify = ["--verify"] * (query is queries[-1])
        assert command(submit, query, *schema, *source, *folders, *verify) == 0
    assert capsys.readouterr().out.endswith("equal\n")
    with pytest.raises(PlanChangedError, match="but joins, filters or computes in another way") as error:
        command(submit, "Q(a,c) :- g(a,b), g(b,c), c > 13.", *schema, *source, *folders)
    assert "\n" not in str(error.value)
    with pytest.raises(PlanChangedError, match="its output is a int64, d int64, not a int64, c int64"):
        command(submit, "Q(a,d) :- g(a,b), g(b,d), d > 12.", *schema, *source, *folders)
