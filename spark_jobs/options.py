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

    ``checkpoint``: the stream's own ``checkpointLocation``: a local or shared folder, or ``s3://``, ``gs://``,
    ``az://``. ``state``: a folder or such a URI that no other checkpoint uses; default: ``crown/`` in the checkpoint.
    ``storage_options``: obstore's, for both; by default the environment's. ``scratch``: a host-local folder for the
    live engines; default: under the system's temporary directory. ``operator``: a name, needed when one stream has more
    than one. In a union of several, deltas that come from more than one cell must be first, or be followed by
    ``repartition()``. Raises ``SparkJobError``.
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

    ``cells``: the number of parts into which the state is cut, each processed by one core; None: the number in the
    checkpoint, else one per two cores, up to four, as far as more cells get fewer rows each by the ``rates``. A query
    of several stages that no column of its result cuts takes a second round of cells, the operator
    ``<operator>.merge``; its default is one cell. A relation that is declared with ``upserts`` (here it needs a
    ``sequence``) or ``enforced`` takes one before, ``<operator>.keys.<relation>``, cut by its key; one with a window
    ``<operator>.window.<relation>``, in one cell, if the query has several. ``placement``: ``"pinned"`` keeps each cell
    on the executor that has its live engine, ``"anywhere"`` does not; ``"auto"`` pins on a cluster. ``cell_budget``:
    the most state that a cell may have, in memory or not, as bytes or ``"8 GiB"``: a batch that would exceed it is
    refused with ``MemoryBudgetError``. ``cell_memory``: how much of the state may be in memory; the rest is in the
    cell's file in ``scratch``, which must be on a disk. Raises ``CrownError``.
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
    update. ``consolidate``: leave out rows that one batch both adds and removes; None: yes. ``compression`` of files
    that the cells write: ``"lz4"`` (Parquet's LZ4_RAW, the fastest), ``"snappy"`` for readers that do not support that,
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
    """The notes of the cells about a batch, for people.

    ``sample``: how many deltas to keep for the progress display. ``amplified``: if one change yields more deltas in a
    cell, the cell's note names its key; ``crown submit`` and ``crown top`` show it. None: never. Raises ``CrownError``.
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
