"""Errors of the Spark side. Each message says what was found, where, and what to do about it."""

import re

from crown.errors import CrownError, SnapshotError

_CAUSE = re.compile(r"^Caused by: (?:[\w$]+\.)+[\w$]+: (.+)$", re.M)


def cause_of(report: str) -> str:
    """Returns the last cause that a report of Java's names, without its class; an empty text if it names none."""
    causes = _CAUSE.findall(report)
    return causes[-1][:300].rstrip(". ") if causes else ""


class SparkJobError(CrownError):
    """Base class of every error that the Spark side raises on purpose."""


class SessionError(SparkJobError):
    """Spark cannot start here: Java is missing or too old."""


class SourceError(SparkJobError):
    """An input does not exist, cannot be read, or does not fit the relation it is given for."""


class CheckpointError(SparkJobError):
    """The checkpoint cannot be used as it is (another file system, no backfill, locked by a live process)."""


class FolderError(CheckpointError):
    """A folder that was named cannot be used: it is a file, cannot be written, or is on another file system."""


class PlanChangedError(CheckpointError):
    """The checkpoint belongs to another plan, or to another number of cells."""


class BrokenChainError(CheckpointError):
    """A batch is missing between the state of a cell and the batch it is asked to apply."""


class ForeignRowsError(CheckpointError):
    """A table has other rows than its stream has written: another writer's, or too few."""


class InputChangedError(CheckpointError):
    """A batch was executed again with other rows than the first time: its source does not replay."""


class DamagedStateError(CheckpointError, SnapshotError):
    """A file of the state log is foreign or damaged."""
