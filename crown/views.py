"""``View``: maintains the result of a query in this process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import pyarrow as pa

from crown.analysis import card
from crown.analysis.amplified import BEYOND, Amplification
from crown.analysis.meter import Meter
from crown.analysis.report import ANALYZED, report
from crown.changing import Changeable
from crown.engine.delivery import Delivery
from crown.errors import AmplifiedWarning, CrownError, SnapshotError
from crown.expressions.program import needs_no_arrow
from crown.guards.arguments import Size, file_of, flag_of
from crown.guards.uncopyable import NotCopyable
from crown.ingest.batch import PreparedBatch
from crown.ingest.changes import relations_of
from crown.ingest.clock import with_time
from crown.ingest.tables.frames import schemas, with_tables
from crown.options import Checks, Keywords, Planning, Resources, ViewOptions
from crown.programs.cells.engine import Engine, ProgramCells, engine_of
from crown.programs.cells.result import CellsResultReader
from crown.programs.delta_options import NO_DELTAS, DeltaOptions
from crown.programs.result import ResultReader
from crown.programs.snapshot import load as load_engine
from crown.reading import Readable
from crown.results import html_table, progress_bar
from crown.results.subscribers import Audience, Pick
from crown.store import words_file
from plans import program as make_program
from plans.errors import PlanError, levels_to_caller
from plans.plan import Plan
from plans.program import Program
from plans.show.forms import FORMS


class View(Readable, Changeable[pa.Table], NotCopyable, instead="save(path) and crown.load(path) make a second one"):
    """The maintained result of one query. Created by ``crown.view`` and ``crown.load``. Not thread-safe.

    Memory is linear in the live input rows, independent of the size of the result.

    ``amplified_beyond``: the number of deltas of one change from which ``apply`` issues an AmplifiedWarning. The
    warning names the key, and ``stats`` lists it. None turns the warning off. If warnings are errors, the batch is
    rejected.
    """

    amplified_beyond: int | None = BEYOND

    _engine: Engine

    def __init__(
        self,
        engine: Engine,
        quarantine_dir: Path | None = None,
        batches: int = 0,
        unread: frozenset[str] = frozenset(),
        quiet: bool = True,
    ) -> None:
        super().__init__(engine, quarantine_dir, batches, quiet)
        self._unread = unread  # relations, in lower case, that are declared, and that the query does not read
        self._amplified: list[str] = []
        self._meter = Meter(engine)
        html_table.attach()
        progress_bar.attach(self._meter)

    def _reader(self) -> ResultReader | CellsResultReader:
        return self._engine.result

    def _followed(self) -> tuple[Audience, Pick[pa.Table], str | None]:
        return self._audience, lambda deltas: deltas if deltas.num_rows else None, None

    @property
    def query(self) -> str:
        """Returns the text of the query."""
        return self.plan.query

    @property
    def plan(self) -> Plan | Program:
        """Returns the plan of the query: that of one join, or a program of several stages."""
        return self._engine.plan.plan or self._engine.plan

    @property
    def ranged_schema(self) -> pa.Schema:
        """Returns the Arrow schema of ``apply(ranges=True)``: the columns of the deltas, and ``_until``.

        Raises PlanError with the reason if the deltas of the query cannot be ranges.
        """
        return self._engine.result.ranged.schema

    def apply(
        self,
        changes: Mapping[str, Any],
        *,
        consolidate: bool | None = None,
        factorized: bool = False,
        ranges: bool = False,
    ) -> pa.Table:
        """Applies a batch of changes and returns the exact change of the result.

        ``changes``: a mapping from relation to rows. The rows are a frame (Arrow, pandas, Polars, DuckDB, columns by
        name), a NumPy array, or a list of dicts, tuples or dataclasses. An optional column ``_weight`` has the signed
        number of copies of each row; without it every weight is +1. A batch is a Z-set: the weights of equal rows are
        added, and deletions are applied before insertions. Columns and relations that the query does not read are
        ignored.

        Returns the output columns and ``_weight`` (+1 or -1), with each changed row once.

        ``consolidate=False``: rows that the batch both inserted and deleted stay in the result. This is cheaper for
        queries that project a join. ``factorized=True``: returns products of the join without multiplying them out,
        with a list per branch (``factorized_schema``). ``crown.unfold`` returns their plain rows. ``ranges=True``:
        returns one row for a range of rows that move by the same amount. Such a row has ``_weight`` 0 and is the first
        of its range, ``_until`` has the last one, and the values of window functions are the amounts by which all rows
        of the range move (``ranged_schema``).

        After an error the view is as it was before the batch: ChangeError (unknown relation or column), BadRowError (a
        value that does not fit), MissingDeleteError (with ``on_missing="raise"``), MemoryBudgetError. The same holds
        for Ctrl-C, unless the batch was complete: ``stats()["batches"]`` counts the applied batches. If a batch can be
        neither finished nor undone (the address range is used up), this call and all later calls raise
        UnusableStateError.

        Cost: O(changes * lambda + deltas), see ``explain()``.

        >>> view = view("Q(a, b, c) :- R(a, b), R(b, c).", {"R": {"a": "int64", "b": "int64"}})
        >>> view.apply({"R": [{"a": 1, "b": 2}, {"a": 2, "b": 3}]}).to_pylist()
        [{'a': 1, 'b': 2, 'c': 3, '_weight': 1}]
        >>> view.apply({"R": [{"a": 2, "b": 3, "_weight": -1}, {"a": 2, "b": 4, "_weight": 1}]}).to_pylist()
        [{'a': 1, 'b': 2, 'c': 3, '_weight': -1}, {'a': 1, 'b': 2, 'c': 4, '_weight': 1}]
        """
        if factorized is not False and (factorized := flag_of(factorized, "factorized")):
            self._demand_factorized()
        if ranges is not False and (ranges := flag_of(ranges, "ranges")):
            self._demand_ranges(factorized)
        with self._engine.uninterrupted:
            ranged = self._engine.result.ranged if ranges else None
            deltas = self._applied(changes, DeltaOptions(True, consolidate, factorized, ranged))
        return self._told(deltas) if self._audience.followers else deltas

    def apply_batches(self, changes: Mapping[str, Any], *, consolidate: bool | None = None) -> Delivery:
        """Applies a batch like ``apply``, but yields the deltas while they are enumerated, in bounded memory.

        This method checks the batch, and applies the part of it that one native call applies (``explain()``). The rest
        is applied while the iterator is read. The deltas are provisional until the iterator ends: if it raises an
        error, the batch was undone, and the deltas that it yielded are void. If the iterator is closed early, ``close``
        applies the rest of the batch without output, and raises the errors of that.
        """
        if self._audience.followers:
            raise CrownError("apply_batches hands its deltas to one reader; with subscribers use apply or update")
        with self._engine.uninterrupted:
            prepared = self._prepared(changes, DeltaOptions(consolidate=consolidate))
            return self._engine.run(
                prepared, consolidate=consolidate, before_commit=partial(self._before_commit, prepared, ())
            )

    def update(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch without computing deltas.

        This is the cheapest way to load data. The next ``apply`` rebuilds the live views, O(state).
        """
        if self._audience.followers:
            self.apply(changes)
            return
        with self._engine.uninterrupted:
            self._applied(changes, NO_DELTAS)

    def _applied(self, changes: Mapping[str, Any], options: DeltaOptions) -> pa.Table:
        """Applies a batch at once; returns its deltas."""
        prepared = self._prepared(changes, options)
        deltas = self._engine.apply(prepared, options, partial(self._before_commit, prepared))
        if options.ranged is not None:
            return pa.Table.from_batches(deltas, options.ranged.schema)
        return self._table(deltas, options.factorized)

    def _table(self, deltas: list[pa.RecordBatch], factorized: bool = False) -> pa.Table:
        """Returns the deltas of a batch, as the engine has them, as a table."""
        schema = self._factorized().delta_schema if factorized else self._engine.delta_schema
        return pa.Table.from_batches(deltas, schema)

    def _demand_factorized(self) -> None:
        """Raises CrownError if a batch cannot give factorized rows."""
        self._factorized()
        if self._audience.followers:
            raise CrownError("subscribers receive plain rows; with subscribers leave factorized=True out")

    def _demand_ranges(self, factorized: bool) -> None:
        """Raises CrownError if a batch cannot give ranges."""
        if factorized:
            raise CrownError("a delta is products of factorized=True or ranges of ranges=True; leave one of them out")
        self.ranged_schema  # noqa: B018 - raises if there is none
        if self._audience.followers:
            raise CrownError("subscribers receive plain rows; with subscribers leave ranges=True out")

    def _prepared(self, changes: Mapping[str, Any], options: DeltaOptions) -> PreparedBatch:
        if self._closed or self._audience.followers:
            self._changeable()
        self._meter.begin()
        if self._engine.reads_clock:
            changes = with_time(changes)
        if self._unread:
            changes = relations_of(changes)
            changes = {name: rows for name, rows in changes.items() if name.lower() not in self._unread}
        return self._engine.prepare_for_apply(changes, self._quarantine_dir is None, options)

    def _before_commit(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        """Issues the warnings of an applied batch and quarantines its bad rows, before the batch is committed.

        Warns of deletes of absent rows, and of a change with more deltas than ``amplified_beyond``. If a warning is an
        error, the batch is undone, and no delta is lost.
        """
        beyond = self.amplified_beyond
        if deltas and beyond is not None and sum([part.num_rows for part in deltas]) > beyond:
            self._warn_of_amplified(prepared, deltas)
        engine = self._engine
        if engine.absent if isinstance(engine, ProgramCells) else engine.base_tables.missing:
            self._warn_of_absent(engine.absent)
        if self._quarantine_dir is not None:
            self._set_aside(prepared)
        self._meter.end()

    def _warn_of_amplified(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        watch = Amplification(self.amplified_beyond)
        for part in pa.Table.from_batches(deltas).select(self._engine.delta_schema.names).to_batches():
            watch.add(part)
        found = watch.found(batch.columns for batch in prepared.checked.values())
        if found is not None:
            line = f"batch {self._engine.batches + 1}: {found.line()}"
            message = f"{line}; view.explain(analyze=True) shows why"
            warnings.warn(message, AmplifiedWarning, stacklevel=levels_to_caller())
            self._amplified = [*self._amplified[-9:], line]

    def explain(self, analyze: bool = False, *, format: str = "text") -> str:
        """Returns how the query is maintained: verdict, class, join tree, views and bounds. For a program it lists the
        stages.

        ``analyze``: returns counters instead. They show for each stage its size, the entries that it read and wrote,
        and its most frequent keys; and the cost of the last batch, and rewrites that fit the data. O(keys), vectorized.
        ``format``: ``"text"`` or ``"json"``, and without ``analyze`` also ``"mermaid"``, ``"html"`` or ``"svg"``.
        Raises CrownError for any other format.

        >>> pairs = view("SELECT x.a FROM r x, r y WHERE x.b = y.b", {"r": {"a": "int64", "b": "int64"}})
        >>> pairs.explain().splitlines()[1]
        'verdict   incremental: first order along y -> x'
        """
        forms = ANALYZED if flag_of(analyze, "analyze") else FORMS
        if not isinstance(format, str) or format not in forms:
            raise CrownError(
                f"format must be one of {', '.join(forms)}{' with analyze' if analyze else ''}, not {format!r}"
            )
        if analyze:
            return ANALYZED[format](report(self._engine, self._meter.last))
        return FORMS[format](self._engine.plan, self._engine.wires, needs_no_arrow, self._engine.segments)

    def _kept(self) -> dict[str, Any]:
        return {**super()._kept(), "unread": sorted(self._unread)}

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters (see ``ProgramEngine.stats``), the number of applied batches and of rows that this
        object quarantined, and the last ten warnings of ``amplified`` changes.

        ``windows`` has for each relation with a window the numbers of rows in it and of expired rows, and for event
        time also the number of late rows that were dropped, and the watermark. ``late`` has for relations with upserts
        the number of changes that were too old.
        """
        return {**super().stats(), "amplified": self._amplified}

    def __repr__(self) -> str:
        return f"<crown.View of {self.query!r}>"

    def _repr_html_(self) -> str:
        size = self._engine.stats()["live_bytes"]
        return card.of_view(self, self.plan, size, self._engine.batches, self._meter.last)


def view(
    query: str | Plan | Program,
    schema: Any = None,
    *,
    tables: Mapping[str, Any] | None = None,
    path: str | os.PathLike[str] | None = None,
    **options: Unpack[ViewOptions],
) -> View:
    """Returns a view of ``query``: SQL, Datalog, a GraphFrames motif, a ``Plan`` or its JSON.

    ``schema``: a mapping from relation to columns: ``{column: type}``, a pyarrow schema, or a ``plans.schema.Table``,
    which can declare keys. Instead of columns, a frame, a list of dicts or a dataclass can be given, whose columns are
    used. A Plan needs no schema.
    ``tables``: a mapping from relation to a frame or rows. They are the first batch. Relations that ``schema`` does not
    declare have the columns of these rows.
    ``path``: a new file for the state, which is memory-mapped and may be larger than the memory of the machine. Another
    process cannot use the file; for that, use ``crown.open``.
    ``options``: ``dialect``, ``rates``, ``tree`` and ``windows`` (``crown.options.Planning``); ``on_missing``,
    ``on_bad_row`` and ``quarantine`` (``crown.options.Checks``); ``threads`` and ``memory_budget``
    (``crown.options.Resources``).

    Raises PlanError with the reason and a remedy if the query cannot be maintained, and CrownError for other invalid
    arguments.

    >>> followers = view("SELECT DISTINCT f.b FROM follows f WHERE f.a > 10", {"follows": {"a": "int64", "b": "int64"}})
    >>> followers.update({"follows": {"a": [1, 11, 12], "b": [5, 6, 6]}})
    >>> followers.to_table().to_pylist(), followers.contains({"b": 6}), {"b": 5} in followers
    ([{'b': 6}], True, False)
    """
    given = Keywords("crown.view", ViewOptions, options)
    planning, checks, resources = given.of(Planning), given.of(Checks), given.of(Resources)
    state = None if path is None else file_of(path, "path")
    if state is not None and os.path.lexists(state):
        raise CrownError(
            f"path={str(state)!r} already exists; delete it if no view needs it, or name another file "
            "(crown.open keeps a view and reopens it)"
        )
    folder = checks.folder()
    declared, first = schemas(schema), None
    if tables is not None:
        known = [table.name for table in query.tables] if isinstance(query, (Plan, Program)) else []
        declared, first = with_tables(schema, tables, known)
    program = make_program(query, declared, **planning.keywords())
    demand_quarantine(program, folder)
    threads = resources.threads or 1
    engine = engine_of(program, state, threads=threads, memory_budget=resources.budget, on_missing=checks.missing)
    made = View(engine, folder, unread=unread_of(declared, program), quiet=checks.on_missing is not None)
    if first:
        made.update(first)
    return made


def unread_of(declared: Any, program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) that a schema declares and a program does not read."""
    names = {str(name).lower() for name in declared} if isinstance(declared, Mapping) else set()
    return frozenset(names - {table.name.lower() for table in program.tables})


def demand_quarantine(program: Program, folder: Path | None) -> None:
    """Raises PlanError if late rows are quarantined but no folder is given."""
    aside = [window.relation for window in program.windows if window.late == "quarantine"]
    if aside and folder is None:
        raise PlanError(
            f"late rows of {aside[0]} go to the quarantine, but it has no folder: give "
            'on_bad_row="quarantine" and quarantine=...'
        )


def load(
    path: str | os.PathLike[str],
    *,
    state_path: str | os.PathLike[str] | None = None,
    memory_budget: Size | None = None,
) -> View:
    """Returns the view that ``View.save`` wrote.

    ``state_path`` and ``memory_budget`` are ``path`` and ``memory_budget`` of ``view``. An existing file at
    ``state_path`` is replaced only after the snapshot was verified.

    Raises SnapshotError for a file that is damaged or not a snapshot, and if ``state_path`` is the snapshot itself.
    O(state).
    """
    budget = Resources(memory_budget=memory_budget).budget
    state = None if state_path is None else file_of(state_path, "state_path")
    engine, extra = load_engine(path, state, budget)
    return View(engine, *extra_of(extra, path))


def extra_of(extra: Mapping[str, Any], path: Any) -> tuple[Path | None, int, frozenset[str]]:
    """Returns the data that is saved with the state of a view: the folder of the quarantine, the number of batches, and
    the relations that are not read."""
    folder, batches, unread = extra.get("quarantine"), extra.get("batches", 0), extra.get("unread", [])
    named = isinstance(unread, list) and all(isinstance(name, str) for name in unread)
    if not words_file.is_whole(batches) or not named or not (folder is None or (isinstance(folder, str) and folder)):
        raise SnapshotError(f"{path} is damaged: its counters are not those of a view")
    return None if folder is None else Path(folder), batches, frozenset(unread)
