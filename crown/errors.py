"""The errors and warnings of crown. Each message says what happened, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plans.errors import CrownError, FunctionError, PlanError, QueryWarning

__all__ = [
    "AmplifiedWarning", "BadRowError", "ChangeError", "ConcurrentChangeError", "CrownError", "DamagedStateError",
    "DataWarning", "DuplicateKeyError", "FunctionError", "LateRowError", "LockedStateError", "MemoryBudgetError",
    "MissingDeleteError", "MissingPackageError", "NotDurableError", "PlanError", "QueryChangedError", "QueryWarning",
    "RecoveryWarning", "SeveralRowsError", "SlowReaderError", "SnapshotError", "UnusableStateError",
]  # fmt: skip


class ChangeError(CrownError):
    """The changes passed to ``apply`` do not match the view, for example because of an unknown relation or a wrong
    type."""


class BadRowError(ChangeError):
    """A row of a batch is invalid. The batch was not applied.

    Attributes: ``relation`` (name), ``row`` (0-based position in the batch of that relation), ``reason``.
    """

    def __init__(self, relation: str, row: int, reason: str) -> None:
        self.relation = relation
        self.row = row
        self.reason = reason
        super().__init__(f"relation {relation!r}, row {row}: {reason}")


class LateRowError(BadRowError):
    """A row arrived late for a window with ``late="raise"``. The batch was not applied."""


class DuplicateKeyError(BadRowError):
    """Two rows would have the same enforced key after the batch. The batch was not applied."""


class MissingDeleteError(ChangeError):
    """A delete removes more copies of a row than exist, with ``on_missing="raise"``. The batch was not applied."""


class SeveralRowsError(ChangeError):
    """A subquery that is used as a value would have two rows. The batch was not applied."""


class MemoryBudgetError(CrownError):
    """The state would exceed its memory budget or its address range. The batch was not applied."""


class UnusableStateError(CrownError):
    """A batch was interrupted and could not be undone, so the state is invalid.

    All later calls raise this error. Load the last snapshot with ``crown.load``, or create a new view.
    """


class SnapshotError(CrownError):
    """A snapshot or state file is damaged, belongs to another query, or is a file of another kind."""


class ConcurrentChangeError(CrownError):
    """A result iterator was used after the view had changed, or a view was used while a batch was being applied."""


class SlowReaderError(CrownError):
    """The queue of a reader of ``changes()`` is full: the batch was rejected, or the reader has missed its deltas."""


class LockedStateError(CrownError):
    """The folder of a durable view is already open, in this process or another one."""


class QueryChangedError(SnapshotError):
    """The folder of a durable view has the state of another query, or was created with other options."""


class DamagedStateError(SnapshotError):
    """Files of a durable view are damaged or missing, so that applied batches cannot be read.

    ``fault``: the message without what to do, for an owner of the folder who has another remedy.
    """

    def __init__(self, fault: str, remedy: str = "") -> None:
        super().__init__(fault + remedy)
        self.fault = fault


class NotDurableError(CrownError):
    """A batch could not be written to the log, or the view was closed. The batch was not applied."""


class AmplifiedWarning(UserWarning):
    """A change of a batch has more deltas than ``View.amplified_beyond``. The message names the key.

    It is issued before the batch is committed. If warnings are errors, the batch is rejected and the view does not
    change.
    """


class DataWarning(UserWarning):
    """Changes are read in a way that may not be intended. Each view issues it once.

    It is issued before the batch is applied. If warnings are errors, the batch is rejected.
    """


class RecoveryWarning(UserWarning):
    """A durable view was recovered without some of its files or batches. The message names them."""


class ProjectError(CrownError):
    """The specification, the definitions or the sources of a pipeline project are invalid."""


class MissingPackageError(CrownError, ImportError):
    """A function needs a package that is not installed. The message has the command that installs it."""


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
"""The packages of each optional part, by the name of its extra."""


@contextmanager
def needs(what: str) -> Iterator[None]:
    """Replaces the error of a failed import inside the block by a MissingPackageError, which names ``what`` needs the
    package."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        extra = next((extra for extra, names in _EXTRAS.items() if name in names), None)
        if extra is None and name not in ("pandas", "polars"):
            raise
        wanted = name if extra is None else f"'crown-ivm[{extra}]'"
        raise MissingPackageError(f"{what} needs {name}: pip install {wanted}", name=name) from None
