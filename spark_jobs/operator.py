"""``maintain``: change tables in, exact deltas of a query out, as a plain Spark DataFrame.

    change DataFrames → check → dispatch to cells → ``mapInArrow(step)`` → deltas

A program whose stages can only be merged at the end takes two such rounds (``plans.search.cells.exchanges``).

One micro-batch costs O(changes + deltas), amortized: now and then a cell writes a snapshot. Deltas are delivered
exactly once with any replayable source and any idempotent or transactional sink, through retries, killed workers and
drivers, and restarts: see ``spark_jobs.cell.cell``.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from pyspark.sql import DataFrame, SparkSession

import plans
from crown.changes import RANGES, WEIGHTS
from crown.options import Checks, Planning
from plans.errors import PlanError
from plans.files.delimited import UNREADABLE
from plans.plan import Plan
from plans.program import Program
from plans.programs.stages import GroupStage
from plans.queries.algebra import Relation
from plans.schema import Schema
from plans.search.cells.count import worthwhile
from plans.search.cells.exchanges import Exchange, rounds, rounds_along
from plans.search.cells.shares import Grid
from plans.time.windows import CLOCK, Window
from spark_jobs import cluster, locking
from spark_jobs import scratch as scratch_space
from spark_jobs.cell.spill import NONE, demand_disk
from spark_jobs.dispatch.chain import applied, strides, written
from spark_jobs.dispatch.envelope import WEIGHT
from spark_jobs.dispatch.keys import strides_by_key, strides_within
from spark_jobs.emitted import check as check_emit
from spark_jobs.emitted import emitted
from spark_jobs.errors import CheckpointError, SourceError, SparkJobError
from spark_jobs.feeds.brokers import check_topics
from spark_jobs.ingest.conventions import check_names, normal
from spark_jobs.ingest.types import table_of_spark
from spark_jobs.log.history import reconcile
from spark_jobs.log.meta import check_meta, read_meta
from spark_jobs.log.state_location import QUARANTINES, TABLES, Whereabouts
from spark_jobs.options import Options, StreamOptions
from spark_jobs.queries.catalyst import kept, relation_of
from spark_jobs.storage.folder import Folder
from spark_jobs.storage.opening import ensure_writable, folder_at
from spark_jobs.tables.deltas.parts import Parts
from spark_jobs.tables.deltas.shape import delta_schema, files_schema

Query = str | DataFrame | Plan | Program | Mapping[str, Any]


def maintain(
    spark: SparkSession,
    query: Query,
    changes: Mapping[str, DataFrame],
    **options: Unpack[StreamOptions],
) -> DataFrame:
    """Maintains ``query`` over streams of changes; returns the stream of its deltas.

    ``query``: SQL, Datalog, a motif, a plan, or a DataFrame over temporary views that have the names of the relations.
    Spark reads SQL that this package cannot read. ``changes``: a DataFrame per relation, with its columns and either
    ``_weight`` (whole number: +n adds n copies, −n removes n), or a column named by ``change`` with weights or change
    codes (``crown.ingest.conventions.CODES``), or neither: then every row is an insert. Either all DataFrames are
    streaming, or none is.
    ``_change_type`` (Spark, Delta, Iceberg), ``_row_kind`` and Debezium's envelopes (``op``, ``before``, ``after``;
    also ``change="debezium"``) are recognized.

    The result has the query's output columns and ``_weight`` (bigint): the net change of the micro-batch. Write it to
    any sink with ``writeStream``. For batch DataFrames the result is that of the query, as one batch of inserts, and no
    state is stored.

    ``options`` are the fields of these records, which document them:

    - ``spark_jobs.options.Options``: ``schema``, ``change``;
    - ``spark_jobs.options.Place``: ``checkpoint`` (required for streams), ``state``, ``storage_options``, ``scratch``,
      ``operator``;
    - ``crown.options.Planning``: ``dialect``, ``rates``, ``tree``, ``windows``;
    - ``crown.options.Checks``: ``on_missing``, ``on_bad_row``, ``quarantine``. A row that does not fit stops the stream
      before any state changes, with an error naming relation, row and reason. With a quarantine, the row is written
      once as a JSON line to the quarantine (default: ``quarantine/`` in the checkpoint);
    - ``spark_jobs.options.Cells``: ``cells``, ``placement``, ``cell_budget``, ``cell_memory``;
    - ``spark_jobs.options.Output``: ``emit``, ``key``, ``consolidate``;
    - ``spark_jobs.options.Watched``: ``sample``, ``amplified``.

    Raises ``PlanError`` (the query), ``SourceError`` (the DataFrames), ``CheckpointError`` and its subclasses (the
    state), and ``CrownError`` for an unknown option.
    """
    return stream(spark, query, changes, Options.of("maintain", options))


def stream(
    spark: SparkSession, query: Query, changes: Mapping[str, DataFrame], options: Options, into: str | None = None
) -> DataFrame:
    """Implements ``maintain``. ``into``: the folder or URI of a table; the cells write their deltas there, and the
    result has a row per file. That is half of a sink, which ``write_deltas`` completes.
    """
    planning, checks, place, cells = options.planning, options.checks, options.place, options.cells
    output, operator = options.output, options.place.operator
    streaming = _all_streaming(changes)
    changes = normal(changes, options.change, options.schema)
    if streaming and place.checkpoint is None:
        raise CheckpointError("a stream needs checkpoint=: a folder where the operator keeps its state")
    where = place.located()
    aside = _quarantine(options, where)
    plan = planned(query, changes, options.schema, planning)
    read = {table.name.lower() for table in plan.tables}
    changes = {name: frame for name, frame in changes.items() if name.lower() in read}
    check_emit(output.emit, output.key, plan)
    _check_late(plan, checks)
    limits = cells.limits
    if limits != NONE and not streaming:
        raise SparkJobError("cell_budget= and cell_memory= are for streams, and these are batch tables: leave them out")
    stored, certain = where.stored(operator) if where is not None and streaming else (None, False)
    plan = kept(
        plan,
        stored,
        certain,
        lambda text, d: planned(text, changes, options.schema, replace(planning, dialect=d)),
    )
    made = _rounds(spark, plan, cells.cells, stored, planning.rates)
    if where is not None and streaming:
        check_topics(changes, options.schema, where.checkpoint)
        if stored is None:
            where.loaded(operator)
        where.claim()
        locking.claim(spark, where.checkpoint)
        if into is not None:
            where.writes_to(TABLES, into)
        if aside is not None and aside != where.quarantine:
            where.writes_to(QUARANTINES, str(aside))
    if aside is not None:
        ensure_writable(aside, "quarantine")
    space = scratch_space.claim(place.scratch, cluster.application(spark)) if streaming else None
    if space is not None and limits.memory is not None:
        demand_disk(space.parent)
    common: dict[str, Any] = {
        "on_missing": checks.missing,
        "quarantine": str(aside) if aside is not None else None,
        "root": str(where.root) if where is not None and streaming else None,
        "checkpoint": str(where.checkpoint) if where is not None else None,
        "options": dict(place.storage_options or {}),
        "scratch": str(space) if space is not None else None,
        "keep": int(spark.conf.get("spark.sql.streaming.minBatchesToRetain") or 100),
        "run": uuid.uuid4().hex,
        "limits": limits,
    }
    before = {
        **strides_by_key(plan, made[0].grid.cells, operator, **common),
        **strides_within(plan, made, operator, **common),
    }
    found = strides(
        made,
        operator=operator,
        consolidate=output.consolidate,
        sample=options.watched.sample,
        amplified=options.watched.amplified,
        ranges=output.emit == RANGES,
        whole=json.dumps(after_keys(plan).to_json()),
        query=plan.query,
        fingerprint=plan.fingerprint,
        **common,
    )
    if certain and stored is not None and where is not None:
        for stride in (*before.values(), *found):
            check_meta(stored.parent / stride.step.operator, stride.step.meta)
            reconcile(where.checkpoint, stored.parent.name, stride.step.operator, where.root)
    grid = found[-1].round.grid
    ways = {"options": common["options"], "spool": common["scratch"], "compression": output.compression}
    if into is not None and output.emit == WEIGHTS:
        return applied(spark, found, changes, cells.placement, before, Parts(into, delta_schema(plan), **ways))
    deltas = emitted(applied(spark, found, changes, cells.placement, before), output.emit, output.key, plan, grid)
    return deltas if into is None else written(deltas, Parts(into, files_schema(deltas.schema), **ways))


def _quarantine(options: Options, where: Whereabouts | None) -> Folder | None:
    """Returns the folder of bad rows; None if bad rows stop the stream."""
    checks = options.checks
    if not checks.sets_aside:
        return None
    if checks.quarantine is not None:
        return folder_at(str(checks.quarantine), "quarantine", options.place.storage_options)
    if where is None:
        raise SparkJobError('on_bad_row="quarantine" needs quarantine=: the folder where the rows go')
    return where.quarantine


def _check_late(plan: Program, checks: Checks) -> None:
    late = [window.relation for window in plan.windows if window.late == "quarantine"]
    if late and not checks.sets_aside:
        raise SparkJobError(
            f'late rows of {late[0]} go to a quarantine, and there is none: give on_bad_row="quarantine", or the '
            'window late="drop", which counts them'
        )


def planned(query: Query, changes: Mapping[str, DataFrame], declared: Schema, planning: Planning) -> Program:
    """Returns the program, over the declared schema and, for relations it does not declare, the columns of their
    DataFrames, which ``normal`` has converted.
    """
    every = all_tables(declared, changes)
    said: str | Plan | Program | Mapping[str, Any] | Relation
    if isinstance(query, DataFrame):
        said = relation_of(query.sparkSession, query, every)
    elif isinstance(query, str) and not query.lstrip().startswith("{"):
        said = _read(query, every, planning.dialect, changes)  # parsed once, so that it warns once
    else:
        said = query
    program = plans.program(said, every, **planning.keywords())
    if any(isinstance(stage, GroupStage) and stage.values for stage in program.stages) and not _cuttable(program):
        other = plans.program(said, every, **planning.keywords(), together=True)
        program = other if _cuttable(other) else program  # several cells are worth more than cheaper feeds
    _check_windows(program.windows)
    given = {name.lower() for name in changes}
    for table in program.tables:
        if table == CLOCK and table.name not in given:
            raise SourceError(
                "the query reads the clock (NOW(), CURRENT_DATE), and a stream has no clock: pass the time as "
                "changes, {'now()': spark.readStream.format('rate').load().selectExpr('0 AS clock', 'timestamp AS "
                "now')}"
            )
        if table.name.lower() not in given:
            raise SourceError(f"the query reads relation {table.name!r}, but no changes are given for it")
    used = {table.name.lower() for table in program.tables}
    for name in changes:
        if name.lower() not in used and name not in declared:
            known = ", ".join(table.name for table in program.tables)
            raise SourceError(f"relation {name!r} is not part of this query, which reads: {known}")
    check_names(program, changes, declared)
    return program


def _read(text: str, every: Schema, dialect: str, changes: Mapping[str, DataFrame]) -> Relation:
    """Returns the relation of a query text. Spark reads SQL that the reader of this package cannot read."""
    try:
        return plans.parse(text, every, dialect=dialect)
    except PlanError as refused:
        if dialect != "spark":
            raise
        try:
            return relation_of(next(iter(changes.values())).sparkSession, text, every)
        except PlanError:
            raise refused from None  # this error has the position in the text


def all_tables(declared: Schema, changes: Mapping[str, DataFrame]) -> Schema:
    """Returns the declared relations and, for undeclared ones, the columns of their DataFrames."""
    left_out = frozenset({WEIGHT, UNREADABLE})
    found = {
        name: table_of_spark(name, frame.schema, left_out) for name, frame in changes.items() if name not in declared
    }
    return Schema.of({**{name: declared[name] for name in declared}, **found})


def _check_windows(windows: Sequence[Window]) -> None:
    """Raises :class:`SparkJobError` for windows that are not supported here."""
    for window in windows:
        if window.arrival:
            raise SparkJobError(
                f"the window of {window.relation} is by order of arrival, and the rows of a micro-batch have no "
                'order: name a column that orders them, crown.last_rows(n, by="...")'
            )


def _cuttable(program: Program) -> bool:
    """Returns True if a program runs in more than one cell, in one round or in two."""
    try:
        return bool(rounds(program, 2))
    except PlanError:
        return False


def _all_streaming(changes: Mapping[str, DataFrame]) -> bool:
    kinds = {frame.isStreaming for frame in changes.values()}
    if not kinds:
        raise SourceError("no changes are given: pass a DataFrame per relation of the query")
    if len(kinds) > 1:
        batch = ", ".join(name for name, frame in changes.items() if not frame.isStreaming)
        raise SourceError(
            f"streams and batch tables cannot be mixed (batch: {batch}): load batch tables with bulk_load()"
        )
    return kinds.pop()


def _rounds(
    spark: SparkSession,
    plan: Program,
    cells: int | None,
    stored: Folder | None,
    rates: Mapping[str, float] | None,
) -> tuple[Exchange, ...]:
    """Returns the rounds in as many cells as the state has, if the state belongs to this plan and no other number is
    asked for.
    """
    meta = read_meta(stored) if stored is not None else None
    known = meta is not None and meta["fingerprint"] == plan.fingerprint and cells in (None, meta["cells"])
    plan = after_keys(plan)
    if meta is None or not known:
        return rounds(plan, default_cells(spark, plan, rates) if cells is None else cells)
    return rounds_along(plan, Grid.from_json(meta["grid"]))


def after_keys(plan: Program) -> Program:
    """Returns the program of the query's own cells: relations that are looked up by key come from ``dispatch.keys``."""
    return plan.plain()


def default_cells(spark: SparkSession, plan: Program, rates: Mapping[str, float] | None = None) -> int:
    """Returns one cell per two cores, up to four: a cell keeps a Python process and a JVM thread busy. Returns fewer if
    more cells would get almost as many rows each, by the ``rates`` (see ``plans.search.cells.count``). Returns one if
    the query cannot be cut, or only in two rounds or behind windows, which cost a shuffle in every batch.
    """
    return worthwhile(plan, max(1, min(cluster.cores(spark) // 2, 4)), rates)
