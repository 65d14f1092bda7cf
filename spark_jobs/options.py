"""Options of jobs on Spark, beside those that an embedded view also has (``crown.options``).

``maintain``, ``write_deltas``, ``bulk_load`` and ``crown submit`` collect them in one record, ``Options``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crown.analysis.amplified import BEYOND
from crown.changes import FORMATS, WEIGHTS
from crown.guards.arguments import Size, number_of
from crown.options import CheckOptions, Checks, Keywords, Planning, PlanningOptions
from plans.schema import Schema
from spark_jobs.cell.spill import Limits
from spark_jobs.dispatch.placement import AUTO, PLACEMENTS
from spark_jobs.errors import SparkJobError
from spark_jobs.log.state_location import Whereabouts, located
from spark_jobs.tables.deltas.parts import COMPRESSIONS, LZ4

_OPERATOR = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Place:
    """The places of a stream's files.

    ``checkpoint``: the ``checkpointLocation`` of the stream, which no other stream uses: a local or shared folder, or a
    URI (``s3://``, ``gs://``, ``az://``). ``state``: a folder or URI that no other checkpoint uses; default: ``crown/``
    in the checkpoint. ``storage_options``: options of obstore for both; default: from the environment. ``scratch``: a
    host-local folder for the live engines; default: in the system's temporary directory. ``operator``: the name of the
    operator, needed if a stream has several. In a union of several operators, the deltas of an operator with several
    cells must be the first, or call ``repartition()`` on them. Raises ``SparkJobError``.
    """

    checkpoint: str | None = None
    state: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)
    scratch: str | None = None
    operator: str = "crown"

    def __post_init__(self) -> None:
        if not _OPERATOR.fullmatch(self.operator):
            raise SparkJobError(
                f"operator={self.operator!r}: give a name of letters, digits, dots, dashes and underscores"
            )

    def located(self) -> Whereabouts | None:
        """Returns where the state is; None without a checkpoint. Raises ``CheckpointError``."""
        return None if self.checkpoint is None else located(self.checkpoint, self.state, self.storage_options)


@dataclass(frozen=True)
class Cells:
    """The cut of the state into cells, their placement, and the limits of each cell.

    ``cells``: the number of parts into which the state is cut. Each is processed by one core. None: the number in the
    checkpoint, else one per two cores, up to four, and fewer if more cells would not get fewer rows each by the
    ``rates``. Some queries need more operators. If no column of the result of a query of several stages can cut it,
    there is a second round of cells, the operator ``<operator>.merge``, with one cell by default. A relation that is
    declared with ``upserts`` (which needs a ``sequence`` here) or ``enforced`` has an operator
    ``<operator>.keys.<relation>`` before the query, which is cut by its key. If the query has several cells, a relation
    with a window has an operator ``<operator>.window.<relation>`` with one cell.

    ``placement``: ``"pinned"`` keeps each cell on the executor that has its live engine, ``"anywhere"`` does not, and
    ``"auto"`` pins on a cluster. ``cell_budget``: the maximum of state in a cell, in memory or not, as bytes or a text
    such as ``"8 GiB"``. A batch that would exceed it is rejected with ``MemoryBudgetError``. ``cell_memory``: the
    maximum of state in memory. The rest is in the cell's file in ``scratch``, which must be on a disk. Raises
    ``CrownError``.
    """

    cells: int | None = None
    placement: str = AUTO
    cell_budget: Size | None = None
    cell_memory: Size | None = None

    def __post_init__(self) -> None:
        if self.placement not in PLACEMENTS:
            known = ", ".join(f'"{word}"' for word in PLACEMENTS)
            raise SparkJobError(f"placement={self.placement!r}: give one of {known}")
        Limits.of(self.cell_budget, self.cell_memory)

    @property
    def limits(self) -> Limits:
        """Returns the limits of each cell in bytes."""
        return Limits.of(self.cell_budget, self.cell_memory)


@dataclass(frozen=True)
class Output:
    """The form of the deltas.

    ``emit``: ``"weights"``; ``"cdc"`` (``_change_type``), ``"rowkind"`` (``_row_kind``) or ``"ranges"`` (``_until``),
    all with ``_commit_version``; or ``"debezium"``. ``key``: columns of the output that identify the two rows of an
    update. ``consolidate``: omit rows that one batch both inserts and deletes; None: yes. ``compression`` of the files
    that the cells write: ``"lz4"`` (Parquet's LZ4_RAW, the fastest), ``"snappy"`` for readers that do not support LZ4,
    ``"zstd"`` or ``"none"``. Raises ``SparkJobError``.
    """

    emit: str = WEIGHTS
    key: Sequence[str] | None = None
    consolidate: bool | None = None
    compression: str = LZ4

    def __post_init__(self) -> None:
        if self.emit not in FORMATS:
            raise SparkJobError(f"emit={self.emit!r}: give one of {', '.join(FORMATS)}")
        if self.compression not in COMPRESSIONS:
            known = ", ".join(f'"{known}"' for known in COMPRESSIONS)
            raise SparkJobError(f"compression={self.compression!r}: give one of {known}")


@dataclass(frozen=True)
class Watched:
    """The notes of the cells about a batch, which ``crown submit`` and ``crown top`` show.

    ``sample``: the number of deltas for the progress display. ``amplified``: if one change has more deltas than this in
    a cell, the note of the cell names its key. None: never. Raises ``CrownError``.
    """

    sample: int = 0
    amplified: int | None = BEYOND

    def __post_init__(self) -> None:
        number_of(self.sample, "sample", 0)
        if self.amplified is not None:
            number_of(self.amplified, "amplified", 1)


class LoadOptions(PlanningOptions, total=False):
    """The keywords of ``bulk_load``."""

    schema: Any
    change: str | None
    on_missing: str | None
    checkpoint: str | None
    state: str | None
    storage_options: Mapping[str, str] | None
    operator: str
    cells: int | None


class StreamOptions(LoadOptions, CheckOptions, total=False):
    """The keywords of ``maintain``."""

    scratch: str | None
    placement: str
    cell_budget: Size | None
    cell_memory: Size | None
    emit: str
    key: Sequence[str] | None
    consolidate: bool | None
    compression: str
    sample: int
    amplified: int | None


@dataclass(frozen=True)
class Options:
    """All options of a stream.

    ``schema``: declared types and keys of the relations; default: the DataFrames' own columns. ``change``: the column
    with weights or change codes, or ``"debezium"``; None: known columns are recognized by their names.
    """

    schema: Schema = field(default_factory=Schema)
    change: str | None = None
    planning: Planning = field(default_factory=Planning)
    checks: Checks = field(default_factory=Checks)
    place: Place = field(default_factory=Place)
    cells: Cells = field(default_factory=Cells)
    output: Output = field(default_factory=Output)
    watched: Watched = field(default_factory=Watched)

    @staticmethod
    def of(function: str, given: Mapping[str, Any], kind: type = StreamOptions) -> Options:
        """Returns the options that a function received as keywords of ``kind``. Raises the errors of the records, and
        ``CrownError`` for any other keyword.
        """
        words = Keywords(function, kind, given)
        return Options(
            Schema.of(given.get("schema")),
            given.get("change"),
            words.of(Planning),
            words.of(Checks),
            words.of(Place),
            words.of(Cells),
            words.of(Output),
            words.of(Watched),
        )
