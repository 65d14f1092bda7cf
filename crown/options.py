"""Options in small frozen records, each of which checks what it is given when it is made.

A public function takes the fields of some records as keywords, and ``Keywords`` makes the records of them: so
``on_missing`` means the same, is checked in the same way and is refused with the same sentence by ``crown.view``,
``crown.open``, ``crown.database``, ``maintain`` on Spark and the command line. The typed dictionaries say which
keywords a function takes; a test holds them to the records.
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
"""When a batch is put on the disk: ``"batch"``, ``"never"``, or seconds."""

MOST_THREADS = 1024
_MOST_SECONDS = 1e9
SNAPSHOT_BYTES = 4 << 20
"""Bytes of log below which no snapshot is worth its write."""
ON_MISSING = ("ignore", "raise", "trust")
ON_BAD_ROW = ("fail", "quarantine")
AnyPath = str | os.PathLike[str]
_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Planning:
    """How a query is read and planned.

    ``dialect`` of SQL: ``"spark"`` reads double quotes as text, ``"ansi"`` as names. ``rates``: rows per batch by
    relation, to choose the join tree and the cut into cells; only ratios matter. ``tree``: a join tree as EXPLAIN
    writes it, instead of the best. ``windows``: which rows of a relation are in, by its name (``crown.ttl`` and
    others). Raises PlanError.
    """

    dialect: str = "spark"
    rates: Mapping[str, float] | None = None
    tree: str | None = None
    windows: Mapping[str, Window] | None = None

    def __post_init__(self) -> None:
        check_options(self.rates, self.tree, self.dialect)

    def keywords(self) -> dict[str, Any]:
        """Returns what ``plans.program`` takes."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class Checks:
    """What becomes of changes that do not fit.

    ``on_missing``: deletes of absent rows are counted (``"ignore"``, the default), refuse their batch (``"raise"``,
    which looks at all columns of a row), or are taken not to be there (``"trust"``), which saves storing the rows;
    None: the default, or what a state was made with. ``on_bad_row``: a row that does not fit refuses its batch
    (``"fail"``), or is written with the reason to the folder ``quarantine`` (``"quarantine"``), and the others are
    applied. Raises CrownError.
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
        """Returns what deletes of absent rows do."""
        return "ignore" if self.on_missing is None else self.on_missing

    @property
    def sets_aside(self) -> bool:
        """Returns True if bad rows go to the quarantine."""
        return self.on_bad_row == "quarantine"

    def demand_rows(self) -> None:
        """Raises CrownError if deletes are taken on trust: a database keeps its rows."""
        if self.missing == "trust":
            raise CrownError('on_missing of a database must be "ignore" or "raise", not \'trust\': it keeps its rows')

    def folder(self) -> Path | None:
        """Returns the folder of this host to which bad rows go, which is made when the first one does; None where they
        refuse their batch."""
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
    """What a view may use.

    ``threads``: cut the state into that many cells by hashing output attributes, and apply batches to them in parallel
    (if the query cannot be cut as a whole, its joins); None: one, or what a state was made with. ``memory_budget``:
    bytes of state, or a text such as ``"512 MiB"``: a batch that would pass it is refused and undone.

    Raises CrownError.
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
    """How a view is kept in a folder.

    ``sync``: when a batch is put on the disk: ``"batch"``, before ``apply`` returns; a number of seconds, with the next
    batch after that time; ``"never"``, when the system likes. All three survive the death of the process; ``"batch"``
    that of the machine, too. ``snapshot_bytes``: write a snapshot when the log outweighs that and the last snapshot.
    ``keep``: snapshots kept before the newest, with their log: one of them, and the newest may be damaged. ``repair``:
    go on with what can be read of a damaged folder. ``verify`` False: a snapshot is mapped into memory, where the
    system can, and not read, so opening costs what is in the log; damage to it is not noticed, and no program may
    write to it while the folder is open. Raises CrownError.
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
    """The keywords of a database: what holds for all of its views."""

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
    """What a ``function`` was given, whose keywords a typed dictionary ``kind`` names; CrownError for any other."""

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
        """Returns the record of those keywords that are its fields. Raises what the record does."""
        own = {each.name for each in fields(record)}  # type: ignore[arg-type]
        return record(**{name: value for name, value in self.given.items() if name in own})


@contextmanager
def as_flags(names: Iterable[str]) -> Iterator[None]:
    """Has errors about options call them as a command line does: ``--cell-budget`` for ``cell_budget``."""
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
