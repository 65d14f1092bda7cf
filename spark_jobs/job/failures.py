"""What the user is told when a job fails: one sentence, and the name of the file that has Spark's own report."""

from __future__ import annotations

import re
import time
import traceback
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from spark_jobs.errors import SparkJobError
from spark_jobs.scratch import scratch_root

# An exception of ours in a worker's traceback, up to where Spark's own text goes on; and what raise_error reports.
_OUR_ERROR = re.compile(
    r"^\s*(?:crown|plans|spark_jobs)\.\w+\.\w+: (.+?)(?=\n\s*(?:at |Driver stack)|\n\s*\n|\Z)", re.M | re.S
)
_BAD_ROW = re.compile(r"USER_RAISED_EXCEPTION\] (.+?)(?= SQLSTATE|\n|\Z)")
_FILE = r"(?:file:)?/*(/.+?)"
_KNOWN = [
    (
        re.compile(
            rf"CSV header does not conform.*?Header: (.*?)\n\s*Schema: (.*?)\n.*?CSV file: {_FILE}\s*$", re.M | re.S
        ),
        "the first line of {2} is {0}, but that of the first file was {1}: give all files of a folder the same columns",
    ),
    (
        re.compile(rf"FILE_NOT_EXIST\S*\].*?(?:File )?{_FILE}(?: does not exist|\. |\s|$)", re.M),
        "{0} is gone, though a batch was to read it: put it back; files of an input folder must stay as they are",
    ),
    (
        re.compile(
            rf"(?:reading file|not a Parquet file:?|Could not read footer for file:?) {_FILE}(?:\. | is not|\s|$)", re.M
        ),
        "{0} cannot be read: it is not what its format says, or it was changed. Put the right file in its place",
    ),
    (
        re.compile("CONCURRENT_STREAM_LOG_UPDATE|concurrently using|CONCURRENT_QUERY|another query with same id"),
        "another job is running on this checkpoint: wait for its end, or give this one a checkpoint of its own",
    ),
    (re.compile("No space left on device"), "a disk is full: make room, and start the job again"),
    (
        re.compile(rf"(?:Mkdirs failed to create|Permission denied|Unable to (?:create|rename)).*?{_FILE}[\s)]"),
        "{0} cannot be written: see that the folder is there and may be written, and start the job again",
    ),
    (
        re.compile("OutOfMemoryError|unable to create native thread"),
        "Spark ran out of memory: give it more (--memory), or make batches smaller",
    ),
]


def failure(error: BaseException) -> SparkJobError | None:
    """Returns the sentence for the user inside Spark's report of a failed stream; None if it is not of our making."""
    for pattern in (_OUR_ERROR, _BAD_ROW):
        found = pattern.search(str(error))
        if found is not None:
            return SparkJobError(found[1].strip())
    return None


def reported(error: BaseException, folder: Path | None) -> SparkJobError:
    """Returns one sentence for what Spark has reported; the report itself goes to a file that the sentence names.

    ``folder``: where the file is written, if possible; else to the scratch folder.
    """
    text = "".join(traceback.format_exception(error)) + str(getattr(error, "_stackTrace", ""))  # the JVM's, with causes
    log = _written(folder, text)
    ours = failure(error)
    return SparkJobError(f"{str(ours).rstrip('.') if ours else _known(text)} (Spark's own report is in {log})")


def _known(report: str) -> str:
    for pattern, sentence in _KNOWN:
        found = pattern.search(report)
        if found is not None:
            return sentence.format(*(unquote(group) for group in found.groups()))
    return "the job stopped, because Spark could not go on"


def _written(folder: Path | None, text: str) -> Path:
    """Writes the report where it can be written, and returns where that is."""
    name = f"crown-error-{time.strftime('%Y%m%d-%H%M%S')}.log"
    if folder is not None:
        with suppress(OSError):
            (folder / name).write_text(text)
            return folder / name
    (scratch_root() / name).write_text(text)
    return scratch_root() / name
