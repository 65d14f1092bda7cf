"""``View``: the result of a query, kept up to date in this process."""

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
from crown.ingest.quarantine import write as write_quarantine
from crown.ingest.tables.frames import schemas, with_tables
from crown.options import Checks, Keywords, Planning, Resources, ViewOptions
from crown.programs.cells.engine import Engine, ProgramCells, engine_of
from crown.programs.cells.result import ResultOfCells
from crown.programs.result import ResultOf
from crown.programs.snapshot import load as load_engine
from crown.programs.wanted import NOTHING, Wanted
from crown.reading import Readable
from crown.results import html_table, progress_bar
from crown.results.subscribers import Audience, Pick
from crown.store import words_file
from plans import program as make_program
from plans.callers import levels_to_caller
from plans.errors import PlanError
from plans.plan import Plan
from plans.program import Program
from plans.show.forms import FORMS


class View(Readable, Changeable[pa.Table], NotCopyable, instead="save(path) and crown.load(path) make a second one"):
    """The result of one query, kept up to date. Made by ``crown.view`` and ``crown.load``; not thread-safe.

    Memory is linear in the live input tuples, whatever the size of the result. ``amplified_beyond``: if ``apply`` finds
    that a change gave more deltas than that, it issues an AmplifiedWarning that names the key, and ``stats`` has it;
    None for never. Where warnings are errors, it refuses the batch.
    """

    amplified_beyond: int | None = BEYOND

    def __init__(
        self,
        engine: Engine,
        quarantine_dir: Path | None = None,
        batches: int = 0,
        unread: frozenset[str] = frozenset(),
        quiet: bool = True,
    ) -> None:
        super().__init__(quiet)
        self._engine = engine
        self._unread = unread  # relations, in lower case, that are declared, and that the query does not read
        self._quarantine_dir = quarantine_dir
        self._quarantined = 0
        self._amplified: list[str] = []
        engine.batches = batches
        self._meter = Meter(engine)
        html_table.attach()
        progress_bar.attach(self._meter)

    def _reader(self) -> ResultOf | ResultOfCells:
        return self._engine.result

    def _maintained(self) -> Program:
        return self._engine.plan

    def _followed(self) -> tuple[Audience, Pick[pa.Table], str | None]:
        return self._audience, _if_rows, None

    @property
    def query(self) -> str:
        """Returns the text of the query."""
        return self.plan.query

    @property
    def plan(self) -> Plan | Program:
        """Returns what is maintained: the plan of one join, or a program of several stages."""
        return self._engine.plan.plan or self._engine.plan

    @property
    def ranged_schema(self) -> pa.Schema:
        """Returns the Arrow schema of ``apply(ranges=True)``: that of the deltas, and ``_until``.

        Raises PlanError for a query whose deltas are no ranges, and says why.
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

        ``changes``: relation -> a frame (Arrow, pandas, Polars, DuckDB, columns by name), a NumPy array, or a list of
        dicts, tuples or dataclasses, with an optional signed integer column ``_weight`` (absent: +1). A batch is a
        Z-set: weights of equal rows are summed, deletions take effect before insertions. Returns the output columns and
        ``_weight`` (+1 / -1), each changed row once. ``consolidate=False`` leaves rows in that the batch both added and
        removed (cheaper for join-project queries). ``factorized=True`` returns products as they are, with a list per
        branch of the join, ``factorized_schema``; ``crown.unfold`` makes plain rows of them.
        ``ranges=True`` returns what moves by the same amount as one row: a row of ``_weight`` 0 is the first of a
        range, its window functions are how far those of all rows move until the one in ``_until`` (``ranged_schema``).

        Columns that the query does not read are ignored, and so are relations of the schema that it does not read.

        Errors leave the view as it was: ChangeError (unknown relation or column), BadRowError (a value that does not
        fit), MissingDeleteError (with ``on_missing="raise"``), MemoryBudgetError. So does Ctrl-C, unless the batch was
        done already: ``stats()["batches"]`` counts the batches applied. A batch that can be neither finished nor taken
        back (the address range is used up) raises UnusableStateError, and so does everything after it.

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
            deltas = self._applied(changes, Wanted(True, consolidate, factorized, ranged))
        return self._told(deltas) if self._audience.followers else deltas

    def apply_batches(self, changes: Mapping[str, Any], *, consolidate: bool | None = None) -> Delivery:
        """Does what ``apply`` does, but yields the deltas as they are enumerated: memory stays bounded however many
        there are.

        The batch is checked at once and applied while the iterator is consumed. Until the iterator ends the deltas are
        provisional: if it raises, the batch has been taken back, and those that it yielded are void. Closing it early
        applies the rest without output; its ``close`` raises what stops that.
        """
        if self._audience.followers:
            raise CrownError("apply_batches hands its deltas to one reader; with subscribers use apply or update")
        prepared = self._prepared(changes)
        return self._engine.run(prepared, consolidate=consolidate, closing=partial(self._close, prepared, ()))

    def update(self, changes: Mapping[str, Any]) -> None:
        """Applies a batch without asking for deltas.

        The cheapest way to load data. The next ``apply`` rebuilds the live views, O(state).
        """
        if self._audience.followers:
            self.apply(changes)
            return
        with self._engine.uninterrupted:
            self._applied(changes, NOTHING)

    def _applied(self, changes: Mapping[str, Any], wanted: Wanted) -> pa.Table:
        """Applies a batch at once; returns its deltas."""
        prepared = self._prepared(changes, wanted)
        found = self._engine.apply(prepared, wanted, partial(self._close, prepared))
        if wanted.ranged is not None:
            return pa.Table.from_batches(found, wanted.ranged.schema)
        return self._table(found, wanted.factorized)

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

    def _prepared(self, changes: Mapping[str, Any], at_once: Wanted | None = None) -> PreparedBatch:
        if self._closed or self._audience.followers:
            self._changeable()
        self._meter.begin()
        if self._engine.reads_clock:
            changes = with_time(changes)
        if self._unread:
            changes = relations_of(changes)
            changes = {name: rows for name, rows in changes.items() if name.lower() not in self._unread}
        engine, strict = self._engine, self._quarantine_dir is None
        if engine.pipeline is None or at_once is None:
            return engine.prepare(changes, strict)
        return engine.prepare_at_once(changes, strict, at_once)

    def _close(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        """Does what is still to be done when all of a batch is applied, before it stands.

        Warns of deletes that found nothing, and of a change that was amplified beyond what is allowed: where that is an
        error, the batch is taken back, and no delta is lost. Quarantines the rows of the batch that could not be taken.
        """
        beyond = self.amplified_beyond
        if deltas and beyond is not None and sum([part.num_rows for part in deltas]) > beyond:
            self._warn_of_amplified(prepared, deltas)
        engine = self._engine
        if engine.absent if isinstance(engine, ProgramCells) else engine.base_tables.missing:
            self._warn_of_absent(engine.absent)
        if self._quarantine_dir is not None and (bad := prepared.bad):
            self._quarantined += write_quarantine(self._quarantine_dir, self._engine.batches, bad)
        self._meter.end()

    def _warn_of_amplified(self, prepared: PreparedBatch, deltas: Sequence[pa.RecordBatch]) -> None:
        watch = Amplification(self.amplified_beyond)
        for part in pa.Table.from_batches(deltas).select(self._engine.delta_schema.names).to_batches():
            watch.add(part)
        found = watch.found(batch.columns for batch in prepared.checked.values())
        if found is not None:
            told = f"batch {self._engine.batches + 1}: {found.line()}"
            said = f"{told}; view.explain(analyze=True) shows why"
            warnings.warn(said, AmplifiedWarning, stacklevel=levels_to_caller())
            self._amplified = [*self._amplified[-9:], told]

    def explain(self, analyze: bool = False, *, format: str = "text") -> str:
        """Returns how the query is maintained: verdict, class, join tree, views and bounds; of a program its stages.

        ``analyze``: what the view has done so far instead: per stage what it holds, touched and emitted, its hottest
        keys, what the last batch cost, and rewrites that the data speak for; O(keys), in vectorised steps.
        ``format``: ``"text"``, ``"json"``, and without ``analyze`` ``"mermaid"``, ``"html"``, ``"svg"``. CrownError for
        others.

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes plan and state to one file (replaced atomically). O(state)."""
        self._engine.save(path, self._kept())

    def _kept(self) -> dict[str, Any]:
        """Returns what is saved with the state; ``extra_of`` reads it."""
        folder = None if self._quarantine_dir is None else str(self._quarantine_dir)
        return {"batches": self._engine.batches, "quarantine": folder, "unread": sorted(self._unread)}

    def compact(self) -> int:
        """Frees dictionary entries of values that are gone. Returns how many. It runs by itself as needed."""
        return self._engine.compact()

    def stats(self) -> dict[str, Any]:
        """Returns sizes and counters (see ``ProgramEngine.stats``), batches applied, rows quarantined by this object,
        and what it told of ``amplified`` changes, the last ten.

        Of each relation with a window, under ``windows``: rows that are in, that expired, and by event time those that
        were dropped as late, and the watermark. Of relations with upserts, under ``late``: changes that were too old.
        """
        own = {"batches": self._engine.batches, "quarantined": self._quarantined, "amplified": self._amplified}
        return {**self._engine.stats(), **own}

    def check_invariants(self) -> None:
        """Recomputes every internal view and compares (slow; for tests). Raises AssertionError."""
        self._engine.check_invariants()

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

    ``schema``: relation -> {column: type} (or pyarrow schema, or ``plans.schema.Table`` to declare keys); not needed
    for a Plan. A frame, a list of dicts, or a dataclass in place of the columns stands for the columns that it has.
    ``tables``: relation -> a frame or rows: the first batch, from which the schema is taken where ``schema`` has none.
    ``path``: keep the state in that new file (memory-mapped, may exceed RAM) instead of memory. It is of no use to
    another process: ``crown.open`` makes a view that can be opened again.
    ``options``: ``dialect``, ``rates``, ``tree`` and ``windows`` (``crown.options.Planning``); ``on_missing``,
    ``on_bad_row`` and ``quarantine`` (``crown.options.Checks``); ``threads`` and ``memory_budget``
    (``crown.options.Resources``). Raises PlanError for a query that cannot be maintained, with the reason and what to
    do, and CrownError for any other argument that makes no sense.

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


def _if_rows(deltas: pa.Table) -> pa.Table | None:
    return deltas if deltas.num_rows else None


def unread_of(declared: Any, program: Program) -> frozenset[str]:
    """Returns the relations (in lower case) that a schema declares and a program does not read."""
    names = {str(name).lower() for name in declared} if isinstance(declared, Mapping) else set()
    return frozenset(names - {table.name.lower() for table in program.tables})


def demand_quarantine(program: Program, folder: Path | None) -> None:
    """Raises PlanError if late rows are to be set aside and there is no folder for them."""
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

    ``state_path`` and ``memory_budget`` as ``path`` and ``memory_budget`` of ``view``; a file at ``state_path`` is
    replaced only once the snapshot is known to be whole.

    Raises SnapshotError for a foreign or damaged file, and if ``state_path`` is the snapshot itself. O(state).
    """
    budget = Resources(memory_budget=memory_budget).budget
    state = None if state_path is None else file_of(state_path, "state_path")
    engine, extra = load_engine(path, state, budget)
    return View(engine, *extra_of(extra, path))


def extra_of(extra: Mapping[str, Any], path: Any) -> tuple[Path | None, int, frozenset[str]]:
    """Returns what is saved with the state of a view: the folder of the quarantine, the number of batches, and the
    relations that are not read."""
    folder, batches, unread = extra.get("quarantine"), extra.get("batches", 0), extra.get("unread", [])
    named = isinstance(unread, list) and all(isinstance(name, str) for name in unread)
    if not words_file.is_whole(batches) or not named or not (folder is None or (isinstance(folder, str) and folder)):
        raise SnapshotError(f"{path} is damaged: its counters are not those of a view")
    return None if folder is None else Path(folder), batches, frozenset(unread)
