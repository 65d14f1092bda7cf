"""The stages of a program: what each one reads, and the rows that it produces.

Every stage reads net Z-sets (of base relations or earlier stages) and produces one. Law: the sum of a stage's outputs
over all batches is the stage's definition over the sums of its inputs. A stage that reads other stages never receives a
delete of an absent row, because the stages before it are exact.

Columns have the planner's types (`plans.schema`). Rows between stages are bags: every row has a multiplicity > 0.

Feeds in which a row enters once for each element of an array.

The column of the elements is an `EXPLODE` of the array, which is not a scalar function: it is the whole expression of
one column of a feed, and the reader of the feed expands it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from plans import serial
from plans.expressions.build import col
from plans.expressions.expr import Expr
from plans.nested import element_of
from plans.payloads.carried import ExportedSum, JoinSum, Summed
from plans.plan import Output, Plan, passed
from plans.programs.frames import Frame, Order, Slice, WindowFunction, keep_values
from plans.schema import Column, Table

SUMS, GROUPS, ROWS = "sums", "groups", "rows"
"""How a row of one side finds rows of the other side: as sums over all that match, as such sums for each of the groups
that the outputs show, or one by one."""
PairTerm = tuple[tuple[str, str], ...]
"""A product of factors: (feed column, kind of factor), see `plans.payloads.payload`."""


@dataclass(frozen=True)
class Band:
    """Pairs of a row of `bands` and a row of `points` with equal keys (NULL equals NULL), whose point is in the band.

    `keys` are pairs of feed columns. A point is in the band if it is above `low`, a column of `bands`, and below
    `high`. Either bound may be missing or NULL: the band is open there. `outside` says whether the bound itself is
    excluded. The feeds leave out points that are NULL, and empty bands. `outputs` are columns of both feeds, whose
    names differ. `kept`: how each side finds the rows of the other. With `terms`, of which the first is empty, the rows
    also carry the sums of these products, and only group stages read them.
    """

    keys: tuple[tuple[str, str], ...]
    low: str | None
    high: str | None
    outside: tuple[bool, bool]
    point: str
    outputs: tuple[Output, ...]
    kept: tuple[str, str]
    terms: tuple[PairTerm, ...] = ()

    def within(self, point: str, low: str, high: str) -> str:
        """Returns the condition with these names in the syntax of SQL."""
        parts = []
        if self.low is not None:
            parts.append(f"{point} {'>' if self.outside[0] else '>='} {low}")
        if self.high is not None:
            parts.append(f"{point} {'<' if self.outside[1] else '<='} {high}")
        return " AND ".join(parts)


Function = int | tuple["str | Function", ...]
"""A function of the multiplicities of leaves: the number of a leaf, or (operator, operand, ...).

Operators: `distinct` (one operand), `union_all`, `union`, `except_all`, `except`, `intersect_all`, `intersect` (two).
"""


@dataclass(frozen=True)
class Feed:
    """The rows that enter a stage: those of `source` for which `where` is TRUE, `weight` times, as `columns`.

    `source` is the name of a relation or the number of an earlier stage. `columns` and `where` are expressions over the
    source's columns, by name. They depend on the row alone, so a delete gives the same rows as its insert. If a column
    is an `EXPLODE` of an array, a row enters once for each element. At most one column is, and it is the whole
    expression.
    """

    source: str | int
    columns: tuple[Output, ...]
    where: Expr | None = None
    weight: int = 1


@dataclass(frozen=True)
class JoinStage:
    """A join core: a tree plan. Its relations are base tables, or `#i` for stage i.

    `mode`: `set` (every row of the free attributes once, as its output), `bag` (a result's weight is the sum over its
    valuations of the products of multiplicities), `payload` (a bag whose rows also carry the sums that the plan's
    payload names; only group stages read it). Equal atoms are merged only in set mode. The product is over the input
    nodes except those whose names end in `[...]`: these and bags only determine which rows join, and have weight 1. An
    atom of a bag is also a node of its own. `masks`: in a cell of a plan that was cut, the column of the base tables
    whose bits tell which occurrences read a row there (bit i: number i of `plans.programs.reads.occurrences`). It is a
    function of the row's other columns.
    """

    json_may_lack: ClassVar[tuple[str, ...]] = ("masks",)
    plan: Plan
    mode: str = "set"
    masks: str | None = None


@dataclass(frozen=True)
class Aggregate:
    """An aggregate over the rows of a group: a column `name` of `type` in the stage's outputs.

    `function`: count, sum, avg, min, max, var_pop, var_samp, stddev_pop, stddev_samp, covar_pop, covar_samp, corr,
    regr_*, skewness, kurtosis (both also with _samp), cofactor (`plans.payloads`), percentile, percentile_trunc (of
    integers, one of them), percentile_disc (all three of a `share` of the rows), string_agg (with a `separator`),
    array_agg (both in an `order`, then by the argument), bit_and, bit_or, bit_xor. `arguments` are names of feed
    columns, none for COUNT(*). `where` names a boolean feed column (FILTER): rows count where it is TRUE.
    """

    json_may_lack: ClassVar[tuple[str, ...]] = ("share", "separator", "order", "power")
    name: str
    type: str
    function: str
    arguments: tuple[str, ...] = ()
    distinct: bool = False
    where: str | None = None
    share: float | None = None
    separator: str | None = None
    order: tuple[Order, ...] = ()
    power: int = 1

    @classmethod
    def of(cls, one: WindowFunction) -> Aggregate:
        """Returns a window function as an aggregate of the rows of its frame."""
        call = (one.function, one.arguments, one.distinct, one.where, one.share, one.separator, one.by)
        return cls(one.name, one.type, *call)

    def over(self, frame: Frame) -> WindowFunction:
        """Returns this aggregate as a window function over a frame."""
        made = WindowFunction(self.name, self.type, self.function, self.arguments, self.where, frame)
        return replace(made, distinct=self.distinct, share=self.share, separator=self.separator, by=self.order)

    @property
    def read(self) -> tuple[str, ...]:
        """Returns the distinct feed columns that the aggregate reads."""
        where = () if self.where is None else (self.where,)
        return tuple(dict.fromkeys((*self.arguments, *(one.column for one in self.order), *where)))


@dataclass(frozen=True)
class GroupStage:
    """GROUP BY: one row per key that has rows, `−old, +new` when it changes.

    `keys` are names of feed columns; `having` and `outputs` are expressions over the names of keys and aggregates.
    `whole`: there is no GROUP BY; the one group exists before any input, and the first batch delivers its row. If the
    feed is a join stage in payload mode, `summed` are the arguments whose sums the payload has, `join_sums` these sums;
    the feed has columns for the others. `values` are additional feeds, each with the keys and the arguments of some of
    MIN, MAX and DISTINCT, which `feed` then need not have: every such combination in a row of the group, once.
    `exported` are sums whose digits the `outputs` may name. `imported` are sums that columns of the feed contain, whose
    rows are such outputs; `summed` then has their arguments.
    """

    feed: Feed
    keys: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    having: Expr | None = None
    whole: bool = False
    summed: tuple[Summed, ...] = ()
    join_sums: tuple[JoinSum, ...] = ()
    values: tuple[Feed, ...] = ()
    exported: tuple[ExportedSum, ...] = ()
    imported: tuple[ExportedSum, ...] = ()

    json_may_lack: ClassVar[tuple[str, ...]] = ("summed", "join_sums", "values", "exported", "imported")

    def json_left_out(self) -> tuple[str, ...]:
        """Returns the fields that only groups over a payload, groups with several feeds, and groups in cells have."""
        kept = ("summed",) if self.join_sums or self.imported else ()
        return tuple(name for name in self.json_may_lack if name not in kept and not getattr(self, name))

    def read_by(self, columns: Iterable[str]) -> int:
        """Returns the number of the feed that has these columns: 0 for `feed`, then those of `values`."""
        wanted = set(columns)
        named = [{column.name for column in feed.columns} for feed in (self.feed, *self.values)]
        return next(i for i, names in enumerate(named) if wanted <= names)


@dataclass(frozen=True)
class PointwiseStage:
    """Per row a function of the row's multiplicities in the leaves: DISTINCT, UNION, EXCEPT, INTERSECT, missing keys.

    All leaves have columns of the same types; the names are the first leaf's.
    """

    leaves: tuple[Feed, ...]
    function: Function


@dataclass(frozen=True)
class LinearStage:
    """The sum of its terms: UNION ALL, projection, selection, padding with NULLs. It has no state.

    All terms have columns of the same types; the names are the first term's.
    """

    terms: tuple[Feed, ...]


@dataclass(frozen=True)
class TopStage:
    """ORDER BY ... LIMIT: the rows of each group from position `offset` on, `limit` of them. Each copy has a position.

    `keys` are the names of the feed columns that form the groups, none for one group. Rows are sorted by `order`; ties
    are broken by the other feed columns in their order, ascending, NULLs first. NaN is the greatest value, and text is
    compared by its bytes. The last `hidden` feed columns are not in the output. `distinct`: the rows of the stage are
    distinct.
    """

    feed: Feed
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    limit: int
    offset: int = 0
    hidden: int = 0
    distinct: bool = False


@dataclass(frozen=True)
class OverStage:
    """Window functions: every row of the feed, each copy separately, with the value of each function.

    Rows with the same `keys` are a partition. `order`, the breaking of ties, and `hidden` are those of `TopStage`.
    `distinct`: the rows of the stage are distinct.
    """

    feed: Feed
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    functions: tuple[WindowFunction, ...]
    hidden: int = 0
    distinct: bool = False

    @property
    def shown(self) -> tuple[Output, ...]:
        """Returns the feed columns that are in the output."""
        return self.feed.columns[: len(self.feed.columns) - self.hidden]


@dataclass(frozen=True)
class SliceStage:
    """The rows of `feed` that a slice selects by a running sum in each partition.

    `keys` and `order` are those of `TopStage`; `order` has one column. The slice reads the last two feed columns, which
    are not in the output. Rows without a bound are distinct in the other columns.
    """

    feed: Feed
    keys: tuple[str, ...]
    order: tuple[Order, ...]
    slice: Slice
    hidden: ClassVar[int] = 2


@dataclass(frozen=True)
class TimedStage:
    """The rows of `feed` whose period contains the time: `since` <= time < `until`.

    `since` and `until` name the last feed columns, which have type timestamp, are never NULL, and are not in the
    output. None: no such bound. `clock` is a feed of one column, the time, with one row. Before it has a row, there is
    no output.
    """

    feed: Feed
    clock: Feed
    since: str | None = None
    until: str | None = None

    @property
    def hidden(self) -> int:
        """Returns the number of feed columns that are not in the output."""
        return (self.since is not None) + (self.until is not None)


@dataclass(frozen=True)
class SingleStage:
    """The rows of `feed`, at most one for each value of `keys`: a batch that would leave two is rejected.

    `keys` are names of feed columns; without keys the feed has at most one row. Copies of a row are several rows.
    """

    feed: Feed
    keys: tuple[str, ...] = ()


@dataclass(frozen=True)
class BandStage:
    """The pairs of a row of `bands` and a row of `points` that satisfy a `band`."""

    bands: Feed
    points: Feed
    band: Band


@dataclass(frozen=True)
class FixpointStage:
    """A recursion: the rows that its body derives from its feeds and from these rows themselves.

    The body is `stages` over `tables` (see `plans.programs.fixpoints`), and its last stage has the derived rows. Table
    `i` has the rows of feed `i`; the last table has the rows of this stage.

    `distinct` (UNION): the least fixed point. A row is in it once if it is derived at all. The last table and the
    derived rows then have one more column, the last: the stamp of a row is greater than those of all rows from which it
    was first derived, and that of a derivation is the greatest stamp among the rows that it reads, or 0. Otherwise
    (UNION ALL), a row is in it as often as it is derived, and the body is linear in its rows.

    `best` (MIN or MAX and, after it, MIN_BY or MAX_BY, with `distinct`): of derived rows that agree in all other
    columns, only the first in this order is in the fixed point. The body is monotone: from a better row it derives a
    better row.
    """

    feeds: tuple[Feed, ...]
    tables: tuple[Table, ...]
    stages: tuple[Stage, ...]
    distinct: bool
    best: tuple[Order, ...] = ()


Stage = (
    JoinStage | GroupStage | PointwiseStage | LinearStage | TopStage | OverStage | SliceStage | TimedStage
    | SingleStage | BandStage | FixpointStage
)  # fmt: skip


def identity(stage: Stage) -> dict[str, Any]:
    """Returns everything that determines the rows and the state of a stage. Equal stages are created only once."""
    if isinstance(stage, JoinStage):
        masks = {} if stage.masks is None else {"masks": stage.masks}
        return {"kind": "join", "mode": stage.mode, "plan": stage.plan.fingerprint, **masks}
    if isinstance(stage, FixpointStage):
        outside = serial.to_json(replace(stage, stages=()), lambda expr: expr)
        return {"kind": "fixpoint", **outside, "stages": [identity(inner) for inner in stage.stages]}
    kept = {"values": "kept"} if isinstance(stage, OverStage) and keep_values(stage.functions) else {}
    return {"kind": serial.kind_name(type(stage)), **serial.to_json(stage, lambda expr: expr), **kept}


def outputs_of(stage: Stage) -> tuple[Output, ...]:
    """Returns the columns of a stage's rows: names and types. Their expressions are over the stage's input."""
    if isinstance(stage, JoinStage):
        return stage.plan.output
    if isinstance(stage, GroupStage):
        return stage.outputs
    if isinstance(stage, BandStage):
        return stage.band.outputs
    if isinstance(stage, SingleStage):
        return stage.feed.columns
    if isinstance(stage, FixpointStage):
        derived = outputs_of(stage.stages[-1])
        return derived[: len(derived) - stage.distinct]
    if isinstance(stage, (TopStage, SliceStage, TimedStage)):
        return stage.feed.columns[: len(stage.feed.columns) - stage.hidden]
    if isinstance(stage, OverStage):
        return (*stage.shown, *(Output(one.name, one.type, col(one.name, one.type)) for one in stage.functions))
    feeds = stage.leaves if isinstance(stage, PointwiseStage) else stage.terms
    return feeds[0].columns if feeds else ()


def once_each(number: int, columns: Iterable[Output | Column]) -> PointwiseStage:
    """Returns the stage with the distinct rows of stage `number`, which has these columns."""
    return PointwiseStage((Feed(number, passed(columns)),), ("distinct", 0))


EXPLODE = "explode"
"""The operator of a feed column that has the elements of an array, one per row."""


def exploded(feed: Feed) -> Feed:
    """Returns a feed in which a row enters once for each element of the array in its last column."""
    *rest, array = feed.columns
    element = element_of(array.type)
    assert element is not None, "the last column is an array"
    return replace(feed, columns=(*rest, Output(array.name, element, Expr(EXPLODE, element, (array.expr,)))))


def exploded_column(feed: Feed) -> Output | None:
    """Returns the column of a feed that multiplies rows, with the array as its expression, or None if there is none."""
    found = next((column for column in feed.columns if column.expr.op == EXPLODE), None)
    return None if found is None else Output(found.name, found.expr.args[0].type, found.expr.args[0])
