"""Reports a failed stream in one sentence, with the name of a file that contains Spark's own report."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import unquote

from crown.durable.files import write_durably
from spark_jobs.errors import ANEW, SparkJobError, cause_of
from spark_jobs.folders import local_folder
from spark_jobs.scratch import scratch_root
from spark_jobs.storage.address import masked

# Matches an error of this package in a worker's traceback, up to Spark's own text; and the message of raise_error.
_OUR_ERROR = re.compile(
    r"^\s*(?:crown|plans|spark_jobs)\.\w+\.\w+: (.+?)(?=\n\s*(?:at |Driver stack|SQLSTATE: |=== )|\n\s*\n|\Z)",
    re.M | re.S,
)
_BAD_ROW = re.compile(r"USER_RAISED_EXCEPTION\] (.+?)(?= SQLSTATE|\n|\Z)")
_FILE = r"(?:file:)?/*(/.+?)"
# Matches the traceback of a function that Spark called back; and its error, the line after the indented lines.
_CALLED_BACK = re.compile(r"Python Proxy\. Return Message: (Traceback .*?)(?=\n\s*at |\n=== |\Z)", re.S)
_RAISED = re.compile(r"^ .*\n([A-Za-z_][\w.]*(?:: .*)?)$", re.M)
_KNOWN = [
    (
        re.compile(
            rf"number of fields in the schema:\s*Header length: (\d+), schema size: (\d+)\s*CSV file: {_FILE}\s*$", re.M
        ),
        "the first line of {2} has {0} columns, but that of the first file had {1}: give all files of a folder the "
        "same columns",
    ),
    (
        re.compile(
            rf"reading file {_FILE}\. Data type mismatches when reading Parquet column <\[(.*?)\]>\. Expected Spark "
            r"type (.*?), actual Parquet type (.*?)\."
        ),
        "column {1} of {0} has the type {3}, but that of the first file was {2}: give all files of a folder the same "
        "columns and types",
    ),
    (
        re.compile(
            rf"CSV header does not conform.*?Header: (.*?)\n\s*Schema: (.*?)\n.*?CSV file: {_FILE}\s*$", re.M | re.S
        ),
        "the first line of {2} is {0}, but that of the first file was {1}: give all files of a folder the same columns",
    ),
    (
        re.compile(rf"FILE_NOT_EXIST\S*\].*?(?:File )?{_FILE}(?: does not exist|\. |\s|$)", re.M),
        "{0} is missing, and a batch needs it: restore it. Files of an input folder must not be changed or deleted",
    ),
    (
        re.compile(rf"reading file {_FILE}\. .*?MALFORMED_RECORD_IN_PARSING", re.S),
        "{0} has a row that does not fit the columns of its stream: correct the row, and start the job again",
    ),
    (
        re.compile(
            rf"(?:reading file|not a Parquet file:?|Could not read footer for file:?) {_FILE}(?:\. | is not|\s|$)", re.M
        ),
        "{0} cannot be read: it is not of the expected format, or it was changed. Restore the original file",
    ),
    (
        re.compile("CONCURRENT_STREAM_LOG_UPDATE|concurrently using|CONCURRENT_QUERY|another query with same id"),
        "another job is running on this checkpoint: wait for its end, or give this one a checkpoint of its own",
    ),
    (
        re.compile(r"PYTHON_EXCEPTION.*?ModuleNotFoundError: No module named '([\w.]+)'", re.S),
        "Spark's workers run a Python that has no module {0}: before the session is created, set PYSPARK_PYTHON on "
        "every host to the interpreter for which crown is installed",
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH\]"),
        "Spark's workers run another version of Python than the driver: before the session is created, set "
        "PYSPARK_PYTHON on every host to the interpreter for which crown is installed",
    ),
    (
        re.compile(r"Partition (\S+) offset was changed from (\d+) to (\d+)"),
        "partition {0} of the topic ends at offset {2}, and the checkpoint is at offset {1}: the topic was "
        f"recreated or set back, and its records are not those that the state has. Therefore {ANEW}",
    ),
    (
        re.compile(r"Partitions .+? have been deleted\.|Cannot find initial offsets for partitions"),
        "partitions of the topic that the checkpoint lists are missing: the topic was deleted or recreated. Restore "
        f"it, or {ANEW}",
    ),
    (
        re.compile(
            r"Could not read records in offset \[\d+, \d+\) for topic partition|"
            r"Starting offset for \S+ was \d+ but consumer reset to|Added partition \S+ starts from|"
            r"Some data may have been lost because they are not available in Kafka"
        ),
        "the topic has removed records that were not read yet: keep records for longer than the job may be stopped "
        "(retention.ms); continue without these records (failOnDataLoss=false), and the result lacks their changes; or "
        f"{ANEW}",
    ),
    (re.compile("No space left on device"), "a disk is full: make room, and start the job again"),
    (
        re.compile(rf"(?:Mkdirs failed to create|Permission denied|Unable to (?:create|rename)).*?{_FILE}[\s)]"),
        "{0} cannot be written: check that the folder exists and is writable, and start the job again",
    ),
    (
        re.compile(r"Incomplete log file|(?:Failed to|Cannot) (?:parse|read) (?:log|offset)|malformed log file", re.I),
        "a file of Spark's own checkpoint (offsets, commits, sources) is damaged, so Spark "
        f"does not know which input the state has: restore it from a copy, or {ANEW}",
    ),
    (
        re.compile(r"JAVA_GATEWAY_EXITED"),
        "Java could not start: see its message above, and fix --memory, --conf or JAVA_HOME",
    ),
    (
        re.compile("OutOfMemoryError|unable to create native thread"),
        "Spark ran out of memory: give it more (--memory), or make batches smaller",
    ),
]


@contextmanager
def plain_errors(log: str | Path | None = None) -> Iterator[None]:
    """Turns Spark's report of a failed stream or batch into a :class:`SparkJobError` with one sentence.

    The sentence names the fault, its place, and the remedy. Spark's own report is written to a file that the sentence
    names, in the folder ``log``; by default in the scratch folder. Use it around ``start()`` and
    ``awaitTermination()``. Errors of this package, Ctrl-C, and the error of a closed pipe pass unchanged.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    folder = local_folder(log, "log") if log is not None else None
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if isinstance(error, BrokenPipeError) or _interrupted(error):
            raise
        raise reported(error, folder) from None


def _interrupted(error: BaseException | None) -> bool:
    """Raises KeyboardInterrupt if the error results from Ctrl-C during a call to Spark; returns False otherwise."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt from None
        error = error.__context__
    return False


def failure(error: BaseException) -> SparkJobError | None:
    """Returns the error of this package inside Spark's report of a failed stream; None if there is none."""
    for pattern in (_OUR_ERROR, _BAD_ROW):
        found = pattern.search(str(error))
        if found is not None:
            return SparkJobError(found[1].strip())
    return None


def reported(error: BaseException, folder: Path | None) -> SparkJobError:
    """Returns one sentence for an error of Spark. Writes Spark's report to a file that the sentence names.

    Passwords and queries of URIs are removed from both.

    ``folder``: where the file is written, if possible; else the scratch folder is used.
    """
    text = "".join(traceback.format_exception(error)) + str(getattr(error, "_stackTrace", ""))  # with the JVM's causes
    text = masked(text)
    log = _written(folder, text)
    ours = failure(error)
    reason = masked(" ".join(str(ours).split()).rstrip(".")) if ours else _known(text)
    return SparkJobError(f"{reason} (Spark's own report is in {log})")


def _known(report: str) -> str:
    for pattern, sentence in _KNOWN:
        found = pattern.search(report)
        if found is not None:
            return sentence.format(*(unquote(group) for group in found.groups()))
    called_back = _CALLED_BACK.search(report)
    raised = _RAISED.findall(called_back[1]) if called_back is not None else ()
    if raised:
        return f"the function that foreachBatch calls raised {raised[-1][:300].rstrip('. ')}"
    cause = cause_of(report)
    return "the job stopped, because Spark could not go on" + (f": {cause}" if cause else "")


def _written(folder: Path | None, text: str) -> Path:
    """Writes the report to the first folder that can be written, and returns its path."""
    name = f"crown-error-{time.strftime('%Y%m%d-%H%M%S')}.log"
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / name, text.encode())
            return folder / name
    write_durably(scratch_root() / name, text.encode())
    return scratch_root() / name
