"""Turns change DataFrames into the one DataFrame whose partitions are the cells' inputs.

Steps per relation: check the rows; copy each row to the cells that need it; add a mask (which atoms of the relation
read the row there) or a tag (the relation of the cell's program); assign the columns to slots. Then the union of all
relations is sent by ``repartitionById``, where the partition number is the cell (``groupBy`` would hash, and cells
would collide). All steps are built-in expressions in generated code; no Python runs before the shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from plans.expressions.build import Expr
from plans.plan import BagAtom, Plan
from plans.programs.reads import occurrences
from plans.schema import Table
from plans.search.cells.exchanges import Exchange
from plans.search.cells.shares import Grid
from spark_jobs.dispatch.envelope import BAD, CELL, FILE, MASK, TAG, WEIGHT, Envelope, stamp_period
from spark_jobs.dispatch.placed import pushed
from spark_jobs.dispatch.placement import pinned
from spark_jobs.feeds.delta_files import SIGN
from spark_jobs.ingest.rows import CheckedRows, check, rows_of_cells
from spark_jobs.ingest.text_files import FILES
from spark_jobs.ingest.types import carried_type, spark_type

_COMPARE: dict[str, Callable[[Column, Column], Column]] = {
    "eq": Column.__eq__,
    "ne": Column.__ne__,
    "lt": Column.__lt__,
    "le": Column.__le__,
    "gt": Column.__gt__,
    "ge": Column.__ge__,
    "nseq": Column.eqNullSafe,
}
ONE_TASK_CORES = 3
_PLACE = "_place"


def dispatched(
    given: Exchange,
    envelope: Envelope,
    frames: Mapping[str, DataFrame],
    cores: int,
    counter: str | None = None,
    anchored: bool = False,
    later: bool = False,
    files: Mapping[str, DataFrame] | None = None,
) -> DataFrame:
    """Returns the rows of all ``frames`` (by base relation), checked, masked and partitioned by cell; columns as in
    ``envelope``.

    Without quarantine a bad row fails the stage before the shuffle with relation, row and reason in the message. One
    cell on ``ONE_TASK_CORES`` cores or fewer needs no shuffle: reading, checking and applying are one task, which saves
    0.15 s of a 0.8 s batch. A bad row then fails the task before the step has read its input, so before it touches
    state. ``cores`` = 0: the rows come from other cells, each of which needs its own task. Faults that the engine of a
    stream's only cell detects itself are not checked here.

    ``counter``, for streams: a name under which Spark's progress reports the rows sent to cells. Spark removes a plan
    over no rows up to the first node that counts, and also a projection above the shuffle. So with the counter below
    the shuffle and nothing above it, every cell runs a task for every batch that is read, also for one without rows.

    ``anchored``: cells stay on their executors, see ``spark_jobs.dispatch.placement``. ``later``: the rows come from
    the round before, and need no check. ``files``: names of the files of relations whose rows the cells read
    themselves; a row with a file's name then stands for the rows of the file.
    """
    cells = given.grid.cells
    by_engine = counter is not None and cells == 1 and not envelope.quarantine
    files = files or {}
    made = [
        _file_names(given, envelope, name, frames[name], files[name], counter)
        if name in files
        else _relation(given, envelope, name, frames[name], later, by_engine, bool(files))
        for name in frames
    ]
    union = reduce(DataFrame.unionAll, made)
    if counter is not None:
        union = union.observe(counter, F.count(F.lit(1)).alias("rows"))
        began = _began(cells)
        union = union.withColumn(CELL, (began if cells == 1 else began * cells + F.col(CELL)).cast("int"))
    if anchored:
        return pinned(union, cells)
    if cells == 1 and 0 < cores <= ONE_TASK_CORES:
        return union.coalesce(1)
    return union.repartitionById(cells, F.col(CELL))


def _began(cells: int) -> Column:
    """Returns the stamp of the micro-batch that a row was read for, see ``spark_jobs.dispatch.envelope.stamp``.

    Spark writes the time into the plan of every batch. As a number in generated code it would cause a new compilation
    in every batch, 25 ms. ``zip_with`` does not generate code for its values, so the code is the same in every batch.
    """
    begun = F.pmod(F.unix_millis(F.current_timestamp()), F.lit(stamp_period(cells)))  # the start of the batch
    one = F.array(F.lit(0))
    return F.get(F.zip_with(one, one, lambda _x, _y: begun), F.lit(0))


def base_relations(given: Exchange, envelope: Envelope) -> list[str]:
    """Returns the relations from which the cells' relations are made, in the order in which they are first read."""
    return list(dict.fromkeys(_base(given, name) for name in envelope.relations))


def _base(given: Exchange, relation: str) -> str:
    return relation if given.roles is None else given.roles[relation].relation


def made_of(given: Exchange, envelope: Envelope, base: str) -> tuple[Table, list[int]]:
    """Returns a base relation, and the tags of the cells' relations that are made of it."""
    tags = [tag for tag, name in enumerate(envelope.relations) if _base(given, name) == base]
    return replace(given.maintained.table(envelope.relations[tags[0]]), name=base), tags


def _file_names(
    given: Exchange, envelope: Envelope, base: str, frame: DataFrame, files: DataFrame, counter: str | None
) -> DataFrame:
    """Returns a row per file and cell for a base relation that the cells read from its files."""
    table, tags = made_of(given, envelope, base)
    check(frame, table, list(envelope.placed[tags[0]]))  # checks that the frame has the columns
    if counter is not None:
        files = files.observe(f"{FILES}{counter}.{base}", F.count(F.lit(1)).alias("rows"))
    cells = F.explode(F.array(*map(F.lit, range(given.grid.cells))))
    sign = F.col(SIGN) if SIGN in files.columns else _long(0)
    made = {CELL: cells, TAG: F.lit(tags[0]), MASK: _long(0), WEIGHT: sign, FILE: F.col(files.columns[0])}
    return _carried(envelope, files, made, True)


def _relation(
    given: Exchange, envelope: Envelope, base: str, frame: DataFrame, later: bool, by_engine: bool, with_files: bool
) -> DataFrame:
    """Returns the rows of a base relation, for all relations of the cells that are made of it.

    ``by_engine``: the engine may detect faults of rows, if it receives all of them. ``with_files``: other relations
    are read from files.
    """
    plan, (table, tags) = given.maintained, made_of(given, envelope, base)
    names, placed = {envelope.relations[tag].lower() for tag in tags}, envelope.placed[tags[0]]
    mine = [(bit, atom) for bit, atom in enumerate(occurrences(plan)) if atom.relation.lower() in names]
    column = {name.lower(): F.col(f"s{slot}") for name, slot in placed.items()}
    wanted = {bit: None if envelope.whole else _wanted(atom, column) for bit, atom in mine}
    filtered = not (envelope.masked or envelope.whole) and all(condition is not None for condition in wanted.values())
    by_engine = by_engine and not (filtered or table.upserts)
    rows = rows_of_cells(frame, list(placed)) if later else check(frame, table, list(placed), by_engine)
    made = {f"s{slot}": rows.columns[name] for name, slot in placed.items()}
    made[WEIGHT] = _strict_weight(rows, table.name, envelope.quarantine)
    if envelope.quarantine:
        made[BAD] = _bad(rows, table.name)
    sent = frame
    if filtered or given.grid.cells > 1:  # else one projection is enough, which saves Spark time per batch
        sent = frame.select(*(value.alias(name) for name, value in made.items()))
        made = {name: F.col(name) for name in made}
    if filtered:
        keep = reduce(Column.__or__, [condition for condition in wanted.values() if condition is not None])
        sent = sent.filter(keep | _noteworthy(envelope))
    if given.grid.cells == 1:
        made |= {CELL: F.lit(0), TAG: F.lit(tags[0])}
    elif given.roles is None:
        assert plan.plan is not None, "what has no roles is one join"
        sent = _masked(plan.plan, envelope, given.grid, sent, mine, wanted, column)
        made |= {CELL: F.col(CELL), TAG: F.lit(tags[0]), MASK: F.col(MASK)}
    else:
        sent = _cut(given, envelope, sent, tags, column)
        made |= {CELL: F.col(CELL), TAG: F.col(TAG)}
    return _carried(envelope, sent, made | {FILE: F.lit(None).cast("string")}, with_files)


def _carried(envelope: Envelope, sent: DataFrame, made: dict[str, Column], files: bool) -> DataFrame:
    """Returns the rows in the columns of the envelope."""
    for i, type_ in enumerate(envelope.slots):
        made.setdefault(f"s{i}", F.lit(None).cast(carried_type(spark_type(type_))))
    carried = [CELL, *([TAG] if envelope.tagged else []), *([MASK] if envelope.masked else []), WEIGHT]
    carried += [*([BAD] if envelope.quarantine else []), *(f"s{i}" for i in range(len(envelope.slots)))]
    return sent.select(*(made[name].alias(name) for name in [*carried, *([FILE] if files else [])]))


def _long(value: int) -> Column:
    return F.lit(value).cast("bigint")


def _strict_weight(rows: CheckedRows, relation: str, quarantine: bool) -> Column:
    """Returns the weight. Without quarantine, evaluating the weight of a bad row raises the error."""
    if rows.bad is None or quarantine:
        return rows.weight
    message = F.concat(F.lit(f"bad row in relation '{relation}': "), rows.reason, F.lit("; row: "), rows.text)
    return F.when(rows.bad, F.raise_error(message).cast("bigint")).otherwise(rows.weight)


def _bad(rows: CheckedRows, relation: str) -> Column:
    """Returns relation, reason and row as JSON for a bad row, NULL for a good one."""
    if rows.bad is None:
        return rows.reason
    note = F.struct(F.lit(relation).alias("relation"), rows.reason.alias("reason"), rows.text.alias("data"))
    return F.when(rows.bad, F.to_json(note))


def _cut(
    given: Exchange, envelope: Envelope, typed: DataFrame, tags: list[int], column: Mapping[str, Column]
) -> DataFrame:
    """Returns the rows with ``_cell`` and ``_tag``: for each relation made of them, once in the cell that their hashed
    columns determine, or once in every cell.
    """
    cells, targets = given.grid.cells, []
    for tag in tags:
        hashed = (given.roles or {})[envelope.relations[tag]].hashed
        values = [_hashable(column[name.lower()], type_) for name, type_ in hashed]
        where = [F.pmod(F.xxhash64(F.lit(0), *values), F.lit(cells))] if hashed else map(F.lit, range(cells))
        targets += [F.struct(cell.cast("int").alias(CELL), F.lit(tag).alias(TAG)) for cell in where]
    places = F.array(*targets)
    if envelope.quarantine:  # a bad row goes to one fixed cell, which writes it to the quarantine
        home = F.pmod(F.xxhash64(F.col(BAD)), F.lit(cells)).cast("int").alias(CELL)
        places = F.when(F.col(BAD).isNotNull(), F.array(F.struct(home, F.lit(tags[0]).alias(TAG)))).otherwise(places)
    return typed.withColumn(_PLACE, F.explode(places)).select("*", f"{_PLACE}.{CELL}", f"{_PLACE}.{TAG}")


def _hashable(value: Column, type_: str) -> Column:
    """Returns a value such that equal values have equal hashes: -0.0 becomes 0.0."""
    return value.cast(carried_type(spark_type(type_))) if type_ != "float64" else value + F.lit(0.0)


def _masked(
    plan: Plan,
    envelope: Envelope,
    grid: Grid,
    typed: DataFrame,
    atoms: list[tuple[int, BagAtom]],
    wanted: Mapping[int, Column | None],
    column: Mapping[str, Column],
) -> DataFrame:
    """Returns the rows once per cell that needs them, with ``_cell`` and ``_mask``.

    In a cell the mask is a function of the tuple that an atom reads. The hashed columns are columns of the atom, and
    apart from them only the atom's predicate clears a bit; the engine drops such a row for the atom anyway.
    """
    hashed = {bit: _hashed(grid, atom) for bit, atom in atoms}
    ways = {way: _coordinates(plan, grid, dict(way), column) for way in dict.fromkeys(hashed.values())}
    # The cells found by fewer hashed columns include all cells found by these columns and others.
    widest = [way for way in ways if not any(set(other) < set(way) for other in ways)]
    places: list[Column] | Column = _places([_targets(grid, ways[way]) for way in widest])
    if envelope.quarantine:  # a bad row goes to one fixed cell, which writes it to the quarantine
        home = F.pmod(F.xxhash64(F.col(BAD)), F.lit(grid.cells)).cast("int")
        places = _instead(F.col(BAD).isNotNull(), home, places)
    sent = typed.withColumn(CELL, places[0] if isinstance(places, list) else F.explode(places))
    mask = F.lit(0).cast("bigint")
    for bit, _ in atoms:
        coordinates = ways[hashed[bit]] if len(ways) > 1 else {}  # with one way, every row is where it belongs
        conditions = [_coordinate_of(grid, axis) == value for axis, value in coordinates.items()]
        condition = wanted[bit]
        if condition is not None:
            conditions.append(condition)
        here = reduce(Column.__and__, conditions, F.lit(True))
        mask = mask.bitwiseOR(F.when(here, F.lit(1 << bit).cast("bigint")).otherwise(F.lit(0).cast("bigint")))
    return sent.withColumn(MASK, mask).filter((F.col(MASK) != 0) | _noteworthy(envelope))


def _places(ways: list[list[Column]]) -> list[Column] | Column:
    """Returns the cells of a row: a list of one column if there is at most one cell, else an array of distinct cells.

    ``ways``: the target cells of the row for each way of hashing it. ``array_distinct`` builds a hash set per row in
    Spark, so two cells, and the cells of one way, are distinguished without it.
    """
    if len(ways) == 1:
        return ways[0] if len(ways[0]) == 1 else F.array(*ways[0])
    if [len(targets) for targets in ways] == [1, 1]:
        (one,), (other,) = ways
        return F.when(one == other, F.array(one)).otherwise(F.array(one, other))
    return F.array_distinct(F.array(*(target for targets in ways for target in targets)))


def _instead(condition: Column, cell: Column, places: list[Column] | Column) -> list[Column] | Column:
    """Returns the places of a row, replaced by ``cell`` where the condition holds."""
    if isinstance(places, list):
        return [F.when(condition, cell).otherwise(places[0])]
    return F.when(condition, F.array(cell)).otherwise(places)


def _noteworthy(envelope: Envelope) -> Column:
    """Returns the condition for rows that a filter must pass although no atom reads them: a bad row is quarantined, or
    must raise its error.
    """
    return F.col(BAD).isNotNull() if envelope.quarantine else F.col(WEIGHT).isNull()


def _hashed(grid: Grid, atom: BagAtom) -> tuple[tuple[int, str], ...]:
    """Returns the axes along which a row of the atom has a coordinate, each with the column that determines it."""
    return tuple(
        (axis, atom.columns[atom.attributes.index(attribute)].lower())
        for axis, attribute in enumerate(grid.attributes)
        if attribute in atom.attributes
    )


def _coordinates(plan: Plan, grid: Grid, hashed: Mapping[int, str], column: Mapping[str, Column]) -> dict[int, Column]:
    """Returns the coordinates of a row along the axes in ``hashed``."""
    found = {}
    for axis, name in hashed.items():
        value = column[name].cast(carried_type(spark_type(plan.attributes[grid.attributes[axis]].type)))
        found[axis] = F.pmod(F.xxhash64(F.lit(axis), value), F.lit(grid.shares[axis])).cast("int")
    return found


def _targets(grid: Grid, coordinates: Mapping[int, Column]) -> list[Column]:
    """Returns all cells with these coordinates. Along an axis without a coordinate, every position counts."""
    base: Column = F.lit(0)
    offsets = [0]
    for axis, share in enumerate(grid.shares):
        stride = grid.stride(axis)
        if axis in coordinates:
            base = base + coordinates[axis] * stride
        else:
            offsets = [offset + stride * i for offset in offsets for i in range(share)]
    return [(base + F.lit(offset)).cast("int") for offset in offsets]


def _coordinate_of(grid: Grid, axis: int) -> Column:
    """Returns the coordinate of ``_cell`` along an axis."""
    stride = grid.stride(axis)
    whole = F.col(CELL) if stride == 1 else F.floor(F.col(CELL) / stride).cast("int")
    return whole % grid.shares[axis] if axis else whole


def _wanted(atom: BagAtom, column: Mapping[str, Column]) -> Column | None:
    """Returns the condition of the atom's predicate, as far as Spark evaluates it in the same way; None if there is
    none.

    The condition may pass too many rows (the engine tests again), never too few: conjuncts with arithmetic, LIKE or
    timestamps, where the two could differ, are left to the engine.
    """
    translated = [_translated(part, column) for part in pushed(atom)]
    return F.coalesce(reduce(Column.__and__, translated), F.lit(False)) if translated else None


def _translated(expr: Expr, column: Mapping[str, Column]) -> Column:
    if expr.op == "col":
        return column[expr.value.lower()]
    if expr.op == "literal":
        return F.lit(expr.value) if expr.type == "null" else F.lit(expr.value).cast(spark_type(expr.type))
    args = [_translated(arg, column) for arg in expr.args]
    if expr.op == "cast":
        return args[0].try_cast(spark_type(expr.type))
    if expr.op in ("and", "or"):
        return reduce(Column.__and__ if expr.op == "and" else Column.__or__, args)
    if expr.op == "not":
        return ~args[0]
    if expr.op == "isnull":
        return args[0].isNull()
    if expr.op == "in":
        return args[0].isin(*args[1:])
    return _COMPARE[expr.op](*args)
