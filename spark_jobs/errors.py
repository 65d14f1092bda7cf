"""Errors of the Spark side. Each message names the fault, its place, and the remedy."""

import re

from crown.errors import CrownError, SnapshotError

ANEW = (
    "start again with a new checkpoint (checkpoint=, --checkpoint) and an empty output: the job then reads all input "
    "again, or bulk_load() fills both from the tables"
)
"""The remedy of an error after which a checkpoint cannot be continued."""

_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)+[\w$]+: (.+)$", re.M)


def cause_of(report: str) -> str:
    """Returns the last cause in a Java stack trace, without its class; an empty text if there is none."""
    causes = _CAUSE.findall(report)
    return causes[-1][:300].rstrip(". ") if causes else ""


class SparkJobError(CrownError):
    """Base class of every error that the Spark side raises on purpose."""


class SessionError(SparkJobError):
    """Spark cannot start here: Java is missing or too old."""


class SourceError(SparkJobError):
    """An input does not exist, cannot be read, or does not fit its relation."""


class CheckpointError(SparkJobError):
    """The checkpoint cannot be used as it is (another file system, no backfill, locked by a live process)."""


class FolderError(CheckpointError):
    """A given folder cannot be used: it is a file, cannot be written, or is on another file system."""


class PlanChangedError(CheckpointError):
    """The checkpoint belongs to another plan, or to another number of cells."""


class BrokenChainError(CheckpointError):
    """A batch is missing between the state of a cell and the batch to be applied."""


class ForeignRowsError(CheckpointError):
    """A table does not have the rows that its stream has written: another writer added rows, or rows are missing."""


class InputChangedError(CheckpointError):
    """A batch was executed again with other rows than the first time: its source does not replay."""


class DamagedStateError(CheckpointError, SnapshotError):
    """A file of the state log is foreign or damaged."""
