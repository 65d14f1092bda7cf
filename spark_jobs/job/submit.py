"""Runs a whole job: inputs → ``maintain`` → sink, with progress, a summary and an optional comparison with a
recompute.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from crown.changes import DEBEZIUM, RANGES, WEIGHTS
from plans.program import Program
from plans.schema import Column, Schema, Table
from spark_jobs.cell.quarantine import marked
from spark_jobs.dispatch.envelope import envelope_of
from spark_jobs.errors import SourceError, SparkJobError
from spark_jobs.feeds.topics import Topics
from spark_jobs.folders import local_folder, locked
from spark_jobs.ingest import edges
from spark_jobs.ingest.conventions import normal
from spark_jobs.ingest.source_log import files_in_order
from spark_jobs.ingest.sources import Input, changes
from spark_jobs.job import places, sinks, verify
from spark_jobs.job.failures import plain_errors
from spark_jobs.job.metrics import Metrics, metrics
from spark_jobs.job.progress import Summary, Watcher
from spark_jobs.log.history import stream_of
from spark_jobs.log.state_location import located
from spark_jobs.operator import planned, stream
from spark_jobs.options import Options
from spark_jobs.session import java_memory, session_of_command
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.local import LocalFolder
from spark_jobs.storage.opening import ensure_writable, folder_at
from spark_jobs.tables.deltas.parts import LZ4
from spark_jobs.tables.deltas.write import read_deltas, write_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_INTERVAL = re.compile(r"(\d+\s*(microsecond|millisecond|second|minute|hour|day)s?\s*)+", re.I)
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Job:
    """The configuration of a job; the fields are the options of ``crown submit``. ``options``: the options of
    ``maintain``, except the checkpoint, which is optional for a job that writes no files.
    """

    query: str
    inputs: tuple[Input, ...]
    output: str
    options: Options = field(default_factory=Options)
    checkpoint: Path | None = None
    format: str = "parquet"
    sink: str = sinks.SPARK
    trigger: str | None = None
    topics: Topics | None = None
    window: str | None = None
    batch_rows: int = 100_000
    cores: int | None = None
    memory: str = "2 GiB"
    conf: Mapping[str, str] = field(default_factory=dict)
    prometheus: str | None = None
    verify: bool = False
    json: bool = False

    @property
    def to_files(self) -> bool:
        """Returns True if the deltas are written to a folder."""
        return self.output not in (sinks.CONSOLE, sinks.NOOP)

    def target(self) -> Folder:
        """Returns the folder to which the deltas are written. Raises ``FolderError`` if the sink does not support
        it.
        """
        if self.sink == sinks.SPARK:
            return LocalFolder(local_folder(self.output, "--output"))
        return folder_at(self.output, "--output", spool=self.options.place.scratch)


@dataclass(frozen=True)
class Outcome:
    """The result of a job. ``verified`` is None unless the job was to be verified."""

    summary: Summary
    verified: bool | None


def run(job: Job, say: Callable[[str], None] = print) -> Outcome:
    """Runs a job to its end, or, with a trigger, until interrupted.

    ``say`` receives every line of output, or, if the job asks for ``json``, a line of JSON in place of each.

    Raises ``SparkJobError``, ``CrownError`` or ``PlanError``, each with one sentence for the user, whether the error
    occurs here, in Spark or in a worker process. Spark's report is then in a file that the sentence names.
    """
    _check(job)
    if job.checkpoint is not None:
        ensure_writable(LocalFolder(job.checkpoint), "--checkpoint")
        places.check_checkpoint(job.checkpoint)
    checkpoint = job.checkpoint if job.checkpoint is not None else Path(tempfile.mkdtemp(prefix="crown-"))
    try:
        with locked(checkpoint), plain_errors(job.checkpoint):
            located(str(checkpoint), job.options.place.state).demand_settled()
            if job.to_files:
                with places.locked_output(job.target(), checkpoint, job.sink):
                    return _run(job, checkpoint, say)
            places.without_output(checkpoint)
            return _run(job, checkpoint, say)
    finally:
        if job.checkpoint is None:
            shutil.rmtree(checkpoint, ignore_errors=True)


def _run(job: Job, checkpoint: Path, say: Callable[[str], None]) -> Outcome:
    spark = session_of_command("crown submit", cores=job.cores, memory=job.memory, conf=job.conf)
    schema = _schema(job)
    frames = _frames(spark, schema, job, checkpoint, True)
    for note in _notes(job, checkpoint):
        say(json.dumps({"note": note}) if job.json else note)
    sample = max(job.options.watched.sample, sinks.CONSOLE_ROWS if job.output == sinks.CONSOLE else 0)
    options = replace(
        job.options,
        schema=schema,
        change=None,  # the frames have weights
        place=replace(job.options.place, checkpoint=str(checkpoint)),
        watched=replace(job.options.watched, sample=sample),
    )
    plan = planned(job.query, frames, schema, options.planning)
    if job.verify:
        verify.demand_readable(spark, plan, options.planning.dialect)
    listener = None
    if job.prometheus is not None:
        listener = metrics(spark, str(checkpoint), job.prometheus, state=options.place.state)
    if job.sink == sinks.SPARK:
        deltas = stream(spark, job.query, frames, options)
        query = sinks.start(deltas, job.output, job.format, checkpoint, job.trigger)
    else:
        query = write_stream(spark, job.query, frames, job.output, options, job.sink, sinks.when(job.trigger))
    summary = _follow(job, query, [output.name for output in plan.output], checkpoint, sample, say, listener)
    for line in [json.dumps(summary.totals())] if job.json else summary.lines():
        say(line)
    if not job.verify:
        return Outcome(summary, None)
    return Outcome(summary, _verified(spark, job, plan, schema, checkpoint, summary, say))


def _check(job: Job) -> None:
    names = [given.name.lower() for given in job.inputs]
    if len(set(names)) < len(names):
        raise SourceError("two inputs have the same name: a relation has one input; merge the folders")
    if job.window is not None and not any(given.format == "edges" for given in job.inputs):
        raise SourceError(
            "--window turns an edge list into a sliding window, but no input is an edge list (format=edges)"
        )
    if job.topics is not None:
        _check_topics(job)
    if job.verify and job.options.output.emit != WEIGHTS:
        raise SparkJobError("--verify adds up the weights that were written: leave --verify out, or --emit")
    if job.options.output.emit in (DEBEZIUM, RANGES) and job.format == "csv" and job.to_files:
        raise SparkJobError(
            f"--emit {job.options.output.emit} writes nested rows, which CSV cannot hold: give --format json"
        )
    keyed = [name for name in job.options.schema if job.options.schema[name].upserts]
    if job.verify and keyed:
        raise SparkJobError(
            f"--verify needs the old row of every change, which the upserts of relation {keyed[0]!r} do not have: "
            "leave --verify out, or the upserts"
        )
    if job.verify and job.options.planning.windows:
        raise SparkJobError(
            f"--verify recomputes over all rows, and {next(iter(job.options.planning.windows))} has a window, which "
            "drops rows: leave --verify out, or the window"
        )
    if job.verify and not job.to_files:
        raise SparkJobError("--verify compares the written output: give a folder as --output")
    if job.trigger is not None and not _INTERVAL.fullmatch(job.trigger.strip()):
        raise SparkJobError(f"--trigger {job.trigger!r}: give an interval, such as '5 seconds' or '1 minute'")
    java_memory(job.memory, "--memory")
    if job.cores is not None and job.cores < 1:
        raise SparkJobError(f"--cores {job.cores}: give 1 or more")
    if job.to_files:
        if job.format not in sinks.FILE_FORMATS:
            raise SparkJobError(f"--format {job.format}: use one of {', '.join(sinks.FILE_FORMATS)}")
        if job.checkpoint is None:
            raise SparkJobError(
                "--output to files needs --checkpoint DIR, where the job's state is kept for its next run"
            )
    output = job.target() if job.to_files else None
    places.check_apart(job.checkpoint, output, {given.name: given.path for given in job.inputs})
    if job.prometheus is not None and not local_folder(job.prometheus, "--prometheus").parent.is_dir():
        raise SparkJobError(f"--prometheus {job.prometheus}: its folder does not exist; create it first")
    if job.sink != sinks.SPARK:
        if not job.to_files:
            raise SparkJobError(f"--sink {job.sink} writes a table: give a folder as --output")
        if job.format != "parquet":
            raise SparkJobError(f"--sink {job.sink} has a format of its own: leave out --format, or --sink")
    elif job.options.output.compression != LZ4:
        raise SparkJobError(
            f"--compression {job.options.output.compression} is for files that the cells write: give --sink delta or "
            "parquet, or leave it out"
        )
    if job.options.checks.quarantine is not None:
        ensure_writable(folder_at(str(job.options.checks.quarantine), "--quarantine"), "--quarantine")
    if job.options.place.state is not None:
        if job.checkpoint is None:
            raise SparkJobError("--state needs --checkpoint DIR, where Spark keeps which batches it has committed")
        folder_at(job.options.place.state, "--state")
    if job.options.place.scratch is not None:
        ensure_writable(LocalFolder(local_folder(job.options.place.scratch, "--scratch")), "--scratch")


def _check_topics(job: Job) -> None:
    if job.verify:
        raise SparkJobError(
            "--verify reads the input again, and a topic may have removed records: leave out --verify, or --kafka"
        )
    if job.options.change is not None:
        raise SparkJobError(
            "--change names a column of files, and the records of topics are Debezium's envelopes: leave it out"
        )
    if job.batch_rows < 1:
        raise SparkJobError(f"--batch-rows {job.batch_rows}: give 1 or more")


def _schema(job: Job) -> Schema:
    """Returns the declared relations and, for other files that are read without Spark, the columns that they name; src
    and dst for an edge list.
    """
    tables = [job.options.schema[name] for name in job.options.schema]
    for given in job.inputs:
        if given.format == "edges" and given.name not in job.options.schema:
            found = edges.columns(given.path)
            named = None if found is None else Schema.of({given.name: found})[given.name]
            tables.append(named or Table(given.name, (Column("src", "int64"), Column("dst", "int64"))))
    return Schema(tuple(tables))


def _frames(spark: SparkSession, schema: Schema, job: Job, checkpoint: Path, streaming: bool) -> dict[str, DataFrame]:
    """Returns the changes of all inputs, with weights."""
    found = {given.name: _frame(spark, given, schema, job, checkpoint, streaming) for given in job.inputs}
    if job.topics is not None:
        found |= job.topics.frames(spark, schema, job.batch_rows)
    return normal(found, job.options.change, schema)


def _notes(job: Job, checkpoint: Path) -> list[str]:
    """Returns notes about edge lists and the windows over them."""
    lists = [given.name for given in job.inputs if given.format == "edges"]
    notes = (edges.notes(name, checkpoint / "staging" / name, job.batch_rows, job.window) for name in lists)
    return [note for found in notes for note in found]


def _frame(spark: SparkSession, given: Input, schema: Schema, job: Job, checkpoint: Path, streaming: bool) -> DataFrame:
    """Returns the changes of one input; an edge list is first staged as change files in the checkpoint."""
    table = schema.get(given.name)
    if given.format != "edges":
        return changes(spark, given, table, job.options.change, streaming)
    if table is None:
        raise SourceError(f"relation {given.name!r} is not declared")
    folder = checkpoint / "staging" / given.name
    edges.stage(given.path, table, folder, batch_rows=job.batch_rows, span=job.window, change=job.options.change)
    return changes(spark, Input(given.name, folder, "parquet", {}, given.files or 1), table, None, streaming)


def _follow(
    job: Job,
    query: StreamingQuery,
    columns: Sequence[str],
    checkpoint: Path,
    sample: int,
    say: Callable[[str], None],
    listener: Metrics | None,
) -> Summary:
    """Reports every micro-batch of a stream until it ends. ``columns``: of the result."""
    summary = Summary()
    readers = len(job.topics.into) if job.topics is not None else 0
    watcher = Watcher(query, located(str(checkpoint), job.options.place.state).root, places.OPERATOR, readers)
    target = job.target() if job.to_files else None

    def report() -> None:
        found = list(watcher.new())
        if target is not None and (found or isinstance(target, LocalFolder)):
            places.check_exists(target)
        for progress in found:
            summary.batches.append(progress)
            if job.json:
                say(json.dumps(progress.to_json(columns, sample)))
                continue
            say(progress.line())
            for line in sinks.sample_lines(progress, columns, sample):
                say(line)

    try:
        while not _ended(query):
            report()
        report()
    except KeyboardInterrupt:
        query.stop()
        report()
    except PySparkException:
        report()  # reports a missing output, which may be the cause
        raise
    finally:
        if listener is not None and query.lastProgress is not None:  # its event may arrive after the job has ended
            listener.take(json.loads(query.lastProgress.json))
        if query.isActive:  # the reader of the output has ended
            with suppress(Exception):
                query.stop()
    return summary


def _ended(query: StreamingQuery) -> bool:
    """Waits a moment; returns True if the stream has ended. Raises the error that ended it."""
    if query.isActive:
        time.sleep(POLL_SECONDS)
        return False
    query.awaitTermination()
    return True


def _verified(
    spark: SparkSession,
    job: Job,
    plan: Program,
    schema: Schema,
    checkpoint: Path,
    summary: Summary,
    say: Callable[[str], None],
) -> bool:
    """Compares the accumulated output with a recompute from scratch, and reports the outcome."""
    aside = located(str(checkpoint), job.options.place.state).quarantine
    if job.options.checks.quarantine is not None:
        aside = folder_at(str(job.options.checks.quarantine), "--quarantine")
    unknown = marked(aside / str(stream_of(checkpoint))) if job.options.checks.sets_aside else 0
    if unknown:
        raise SparkJobError(
            f"--verify cannot compare: it recomputes from all rows of the input, and {unknown} of them were "
            "quarantined by the cells (an enforced key): leave --verify out"
        )
    frames = _frames(spark, schema, job, checkpoint, False)
    relations = envelope_of(plan, cells=1, quarantine=False).relations
    by_name = {name.lower(): frame for name, frame in frames.items()}
    applied = {
        name: verify.applied(by_name[name.lower()], files_in_order(checkpoint, source))
        for source, name in enumerate(relations)
    }
    clamped = not summary.batches or bool(summary.totals()["absent_deletes"])
    columns = [output.name for output in plan.output]
    if not job.json:
        say("recomputing the query from scratch with Spark ...")
    if job.sink == sinks.SPARK:
        written = spark.read.format(job.format).load(str(local_folder(job.output)))
    else:
        written = read_deltas(spark, job.output)
    maintained = verify.digest(verify.accumulated(written, columns, bag=plan.plan is None))
    expected = verify.digest(verify.recomputed(plan, applied, clamped=clamped))
    equal = maintained == expected
    if job.json:
        say(json.dumps({"maintained": str(maintained), "recomputed": str(expected), "equal": equal}))
        return equal
    say(f"maintained  {maintained}")
    say(f"recomputed  {expected}")
    say("equal" if equal else "DIFFERENT")
    return equal
