"""Every error that crown raises, and the engine's own. Each message says what was found, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plans.errors import CrownError, FunctionError, PlanError, QueryWarning

__all__ = [
    "AmplifiedWarning",
    "BadRowError",
    "ChangeError",
    "ConcurrentChangeError",
    "CrownError",
    "DamagedStateError",
    "DataWarning",
    "DuplicateKeyError",
    "FunctionError",
    "LateRowError",
    "LockedStateError",
    "MemoryBudgetError",
    "MissingDeleteError",
    "MissingPackageError",
    "NotDurableError",
    "PlanError",
    "QueryChangedError",
    "QueryWarning",
    "RecoveryWarning",
    "SeveralRowsError",
    "SlowReaderError",
    "SnapshotError",
    "UnusableStateError",
]


class ChangeError(CrownError):
    """The changes handed to ``apply`` do not have the shape that the view expects (unknown relation, no such type)."""


class BadRowError(ChangeError):
    """A row of a change batch cannot be taken; nothing of its batch has been applied.

    Attributes: ``relation`` (name), ``row`` (0-based position in the batch of that relation), ``reason``.
    """

    def __init__(self, relation: str, row: int, reason: str) -> None:
        self.relation = relation
        self.row = row
        self.reason = reason
        super().__init__(f"relation {relation!r}, row {row}: {reason}")


class LateRowError(BadRowError):
    """A window with ``late="raise"``: a row came after its time was over; nothing of its batch has been applied."""


class DuplicateKeyError(BadRowError):
    """An enforced key: the batch would leave two rows with it; nothing of the batch has been applied."""


class MissingDeleteError(ChangeError):
    """``on_missing="raise"``: a delete found fewer copies than it removes; nothing of its batch has been applied."""


class SeveralRowsError(ChangeError):
    """A subquery that is used as a value would have two rows; nothing of the batch has been applied."""


class MemoryBudgetError(CrownError):
    """The state would outgrow its memory budget or its address range."""


class UnusableStateError(CrownError):
    """A batch was stopped half-way and could not be taken back: the state is neither before nor after it.

    Nothing is read from it or written to it any more. ``crown.load`` the last snapshot, or start anew.
    """


class SnapshotError(CrownError):
    """A snapshot or state file is foreign, damaged, or belongs to another query."""


class ConcurrentChangeError(CrownError):
    """A result iterator was used after the view had changed, or a view was used while a batch was being applied."""


class SlowReaderError(CrownError):
    """A reader of ``changes()`` has no room for another delta: the batch was refused, or the reader lost it."""


class LockedStateError(CrownError):
    """The folder of a durable view is open already, in this process or another one."""


class QueryChangedError(SnapshotError):
    """The folder of a durable view holds the state of another query, or of one that was made with other options."""


class DamagedStateError(SnapshotError):
    """Files of a durable view are damaged or gone, and batches that were applied cannot be read from them."""


class NotDurableError(CrownError):
    """A batch could not be written down, or the view was closed; the batch was not applied."""


class AmplifiedWarning(UserWarning):
    """A change of a batch gave more deltas than ``View.amplified_beyond``; the message names the key.

    It is issued before the batch stands: where warnings are errors, the batch is refused, and the view is as it was.
    """


class DataWarning(UserWarning):
    """Changes are read in a way that may not be meant; each view says so once.

    It is issued before the batch is applied: where warnings are errors, the batch is refused.
    """


class RecoveryWarning(UserWarning):
    """A durable view was brought back, but not from everything that was there; what was left out is said."""


class ProjectError(CrownError):
    """A pipeline project cannot be used: its specification, its definitions or its sources."""


class MissingPackageError(CrownError, ImportError):
    """What was asked for needs a package that is not installed; the message has the command that installs it."""


_EXTRAS = {
    "jit": ("numba", "llvmlite"),
    "spark": ("pyspark", "py4j", "deltalake"),
    "projects": ("yaml",),
    "opentelemetry": ("opentelemetry",),
    "postgres": ("psycopg",),
    "kafka": ("confluent_kafka",),
    "iceberg": ("pyiceberg",),
    "graphframes": ("graphframes",),
    "bench": ("duckdb", "tqdm", "matplotlib", "tpchgen_cli"),
}
"""Packages of the optional parts, by the extra that brings them."""


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Turns the failing import of a package, inside the block, into MissingPackageError; ``what`` needs it."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        extra = next((extra for extra, names in _EXTRAS.items() if name in names), None)
        if extra is None and name not in ("pandas", "polars"):
            raise
        wanted = name if extra is None else f"'crown-ivm[{extra}]'"
        raise MissingPackageError(f"{what} needs {name}: pip install {wanted}", name=name) from None
