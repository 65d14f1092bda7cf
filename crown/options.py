"""The options of public functions, as small frozen records that check their values when they are created.

A public function takes the fields of some records as keywords, and ``Keywords`` creates the records from them. So
``on_missing`` has the same meaning, the same checks and the same error messages in ``crown.view``, ``crown.open``,
``crown.database``, ``maintain`` on Spark and the command line. The typed dictionaries name the keywords of a function
for editors and type checkers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict, TypeVar, get_type_hints

from crown.errors import CrownError
from crown.guards.arguments import Size, flag_of, number_of, one_of, path_of, size_of
from plans.planner import check_options
from plans.time.windows import Window

Sync = str | float
"""When a batch is written to the disk: ``"batch"``, ``"never"``, or a number of seconds."""

MOST_THREADS = 1024
_MOST_SECONDS = 1e9
SNAPSHOT_BYTES = 4 << 20
"""Default minimum of log bytes before a snapshot is written."""
ON_MISSING = ("ignore", "raise", "trust")
ON_BAD_ROW = ("fail", "quarantine")
AnyPath = str | os.PathLike[str]
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Planning:
    """How a query is read and planned.

    ``dialect``: the dialect of SQL. ``"spark"`` reads double quotes as text, ``"ansi"`` as names. ``rates``: a mapping
    from relation to rows per batch, from which the join tree and the cut into cells are chosen. Only ratios matter.
    ``tree``: a join tree in the notation of EXPLAIN, which is used instead of the best one. ``windows``: a mapping from
    relation to a window (``crown.ttl`` and others), which decides which of its rows count. Raises PlanError.
    """

    dialect: str = "spark"
    rates: Mapping[str, float] | None = None
    tree: str | None = None
    windows: Mapping[str, Window] | None = None

    def __post_init__(self) -> None:
        check_options(self.rates, self.tree, self.dialect)

    def keywords(self) -> dict[str, Any]:
        """Returns the keywords for ``plans.program``."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class Checks:
    """How absent and bad rows of changes are handled.

    ``on_missing``: what a delete of an absent row does. ``"ignore"`` (the default) only counts it. ``"raise"`` rejects
    the batch, and compares all columns of a row. ``"trust"`` assumes that there is none, so that rows need not be
    stored. None: the option with which an existing state was created, else the default. ``on_bad_row``: what a row that
    does not fit does. ``"fail"`` rejects the batch. ``"quarantine"`` writes the row and the reason to the folder
    ``quarantine``, and applies the other rows. Raises CrownError.
    """

    on_missing: str | None = None
    on_bad_row: str = "fail"
    quarantine: AnyPath | None = None

    def __post_init__(self) -> None:
        one_of(self.missing, "on_missing", ON_MISSING)
        one_of(self.on_bad_row, "on_bad_row", ON_BAD_ROW)
        if self.quarantine is not None and not self.sets_aside:
            raise CrownError('quarantine= is given, but bad rows reject their batch: give on_bad_row="quarantine", too')

    @property
    def missing(self) -> str:
        """Returns how deletes of absent rows are handled."""
        return "ignore" if self.on_missing is None else self.on_missing

    @property
    def sets_aside(self) -> bool:
        """Returns True if bad rows are quarantined."""
        return self.on_bad_row == "quarantine"

    def demand_rows(self) -> None:
        """Raises CrownError for ``on_missing="trust"``, because a database stores its rows."""
        if self.missing == "trust":
            raise CrownError('on_missing of a database must be "ignore" or "raise", not \'trust\': it stores its rows')

    def folder(self) -> Path | None:
        """Returns the local folder of the quarantine, which is created for the first bad row. Returns None if a bad row
        rejects its batch."""
        if not self.sets_aside:
            return None
        if self.quarantine is None:
            raise CrownError('on_bad_row="quarantine" and the folder quarantine=... go together; give both or neither')
        folder = path_of(self.quarantine, "quarantine")
        if os.path.exists(folder) and not os.path.isdir(folder):
            raise CrownError(f"quarantine={str(folder)!r} is a file; name a folder")
        return folder


@dataclass(frozen=True)
class Resources:
    """The threads and the memory that a view may use.

    ``threads``: the number of cells into which the state is cut by hashing output attributes. Batches are applied to
    the cells in parallel, which pays for batches of several thousand rows. A query that cannot be cut is rejected.
    None: the number with which an existing state was created, else one. ``memory_budget``: the maximum of the state in
    bytes, or a text such as ``"512 MiB"``. A batch that needs more is rejected and undone. Raises CrownError.
    """

    threads: int | None = None
    memory_budget: Size | None = None

    def __post_init__(self) -> None:
        if self.threads is not None:
            object.__setattr__(self, "threads", number_of(self.threads, "threads", 1, MOST_THREADS))
        if self.memory_budget is not None:
            object.__setattr__(self, "memory_budget", size_of(self.memory_budget, "memory_budget"))

    @property
    def budget(self) -> int | None:
        """Returns the budget in bytes."""
        return None if self.memory_budget is None else int(self.memory_budget)


@dataclass(frozen=True)
class Durability:
    """How a view is stored in a folder.

    ``sync``: when a batch is written to the disk. ``"batch"``: before ``apply`` returns. A number of seconds: with the
    next batch after that time. ``"never"``: when the operating system chooses. All three survive a crash of the
    process; only ``"batch"`` survives a crash of the machine. ``snapshot_bytes``: a snapshot is written when the log is
    larger than this and than the last snapshot. ``keep``: the number of older snapshots that are kept with their log.
    With one of them, the newest snapshot may be damaged. ``repair``: continues with the readable part of a damaged
    folder. ``verify=False``: if possible, a snapshot is mapped into memory instead of being read, so opening costs only
    the log. Damage to the snapshot is not detected then, and no program may write to it while the folder is open.
    Raises CrownError.
    """

    sync: Sync = "batch"
    snapshot_bytes: Size = SNAPSHOT_BYTES
    keep: int = 1
    repair: bool = False
    verify: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "sync", _sync(self.sync))
        object.__setattr__(self, "snapshot_bytes", size_of(self.snapshot_bytes, "snapshot_bytes"))
        object.__setattr__(self, "keep", number_of(self.keep, "keep", 0))
        object.__setattr__(self, "repair", flag_of(self.repair, "repair"))
        object.__setattr__(self, "verify", flag_of(self.verify, "verify"))

    @property
    def floor(self) -> int:
        """Returns ``snapshot_bytes`` as a number."""
        return int(self.snapshot_bytes)


class PlanningOptions(TypedDict, total=False):
    """The keywords of ``Planning``."""

    dialect: str
    rates: Mapping[str, float] | None
    tree: str | None
    windows: Mapping[str, Window] | None


class CheckOptions(TypedDict, total=False):
    """The keywords of ``Checks``."""

    on_missing: str | None
    on_bad_row: str
    quarantine: AnyPath | None


class ViewOptions(PlanningOptions, CheckOptions, total=False):
    """The keywords of a view: those of ``Planning``, ``Checks`` and ``Resources``."""

    threads: int | None
    memory_budget: Size | None


class DatabaseOptions(CheckOptions, total=False):
    """The keywords of a database, which apply to all of its views."""

    memory_budget: Size | None
    windows: Mapping[str, Window] | None


class DurabilityOptions(TypedDict, total=False):
    """The keywords of ``Durability``."""

    sync: Sync
    snapshot_bytes: Size
    keep: int
    repair: bool
    verify: bool


class DurableOptions(ViewOptions, DurabilityOptions, total=False):
    """The keywords of a durable view."""


class DurableDatabaseOptions(DatabaseOptions, DurabilityOptions, total=False):
    """The keywords of a durable database."""


@dataclass(frozen=True)
class Keywords:
    """The keywords of a call of ``function``. The typed dictionary ``kind`` lists the allowed ones. Raises CrownError
    for any other."""

    function: str
    kind: type
    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        known = list(get_type_hints(self.kind))
        for name in self.given:
            if name not in known:
                close = get_close_matches(name, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(sorted(known))}"
                raise CrownError(f"{self.function} has no option {name!r}; {hint}")

    def of(self, record: Callable[..., _Record]) -> _Record:
        """Returns a record of the keywords that are its fields. Raises the errors of the record."""
        own = {each.name for each in fields(record)}  # type: ignore[arg-type]
        return record(**{name: value for name, value in self.given.items() if name in own})


@contextmanager
def as_flags(names: Iterable[str]) -> Iterator[None]:
    """Makes error messages name options as on the command line: ``--cell-budget`` instead of ``cell_budget``."""
    spoken = re.compile(rf"\b({'|'.join(names)})(?:=(?=[\s:,;])|(?==)|(?= must\b))")
    try:
        yield
    except CrownError as error:
        raise type(error)(spoken.sub(lambda word: f"--{word[1].replace('_', '-')}", str(error))) from None


def _sync(given: Any) -> Sync:
    if isinstance(given, str) and given in ("batch", "never"):
        return given
    if isinstance(given, (int, float)) and not isinstance(given, bool) and 0 < given < _MOST_SECONDS:
        return float(given)
    raise CrownError(f'sync must be "batch", "never" or a positive number of seconds, not {given!r:.100}')
