"""Lowers joins by a comparison to bands: `p.x < c.y`, or `c.y BETWEEN p.x - 5 AND p.x + 5`, with or without equalities.

A join tree supports only equalities: it would test a comparison on every pair of rows that satisfies them. If one
comparison, or a lower and an upper bound of one value, connects two sides of a join core, each side is kept in order,
and a change finds its matches on the other side as a range.

    conditions -> the two sides, and what connects them -> a feed per side -> BandStage

The complement of a band, `c.y < p.x - 5 OR c.y > p.x + 5`, consists of two bands with one open end each, or, where
these overlap, of one band with two open ends: each row makes two disjoint bands, or one.

A band stage is used unless an equality contains a declared key, so that a row has one partner, or unless a join with
equalities outputs every pair, because the equalities may leave few pairs. Bands with two bounds can only be found one
by one if a bound is one word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from plans.expressions.build import FALSE, MIRROR, NULL, Expr, call, cast, col
from plans.lowering.comparisons.offsets import ORDERING, of_sides, parted
from plans.lowering.groups.expansion import Expansion, carried, grouping, shown
from plans.lowering.groups.monomials import Monomial, one_word
from plans.lowering.joins.matches import aliases_of, together
from plans.lowering.stages import Stages, origin, renamed
from plans.payloads.payload import VALID, VALUE, sum_bits
from plans.plan import Output, passed
from plans.programs.frames import ENDS
from plans.programs.stages import GROUPS, ROWS, SUMS, Band, BandStage, Feed, GroupStage, once_each
from plans.queries.algebra import Group, Query, split

_LOW, _HIGH = "low", "high"
Lowered = Callable[[Query, Stages], Feed]
"""Returns the rows of a join core as a feed."""


@dataclass(eq=False)
class _Side:
    """One side: its sources, the conditions on them alone, and the names of the expressions that the stage reads."""

    aliases: frozenset[str]
    inside: list[Expr]
    prefix: str
    columns: dict[Expr, str] = field(default_factory=dict)

    def name(self, expr: Expr) -> str:
        """Returns the name of an expression as a column of the side's feed. Adds the column if it is missing."""
        return self.columns.setdefault(expr, f"{self.prefix}{len(self.columns)}")


@dataclass(frozen=True)
class _Key:
    """Equal expressions of bands and of points, in this order. ``null_safe``: two NULLs are equal."""

    of: tuple[Expr, Expr]
    null_safe: bool


@dataclass(frozen=True)
class _Bound:
    """A bound, and whether the bound itself is excluded. There is no bound where ``there`` is NULL.

    Where only ``expr`` is NULL, the bound is an integer beyond int64, and every value is on its inner side.
    """

    expr: Expr
    outside: bool
    there: Expr

    @property
    def far(self) -> Expr:
        """Returns the condition that every value is on the inner side."""
        if self.there == self.expr:
            return FALSE
        return call("and", call("not", call("isnull", self.there)), call("isnull", self.expr))


@dataclass
class _Edge:
    """Two sides and what connects them: equal expressions, and bounds of a point."""

    bands: _Side
    points: _Side
    keys: list[_Key]
    point: Expr
    low: _Bound | None
    high: _Bound | None
    either: bool = False  # one of the bounds suffices

    @property
    def bounds(self) -> list[_Bound]:
        """Returns the existing bounds, low before high."""
        return [bound for bound in (self.low, self.high) if bound is not None]

    @property
    def sides(self) -> tuple[_Side, _Side]:
        """Returns bands and points."""
        return self.bands, self.points

    def side_of(self, expr: Expr) -> _Side:
        """Returns the side whose columns an expression reads, or the points if it reads none."""
        return self.bands if aliases_of(expr) & self.bands.aliases else self.points


def banded(group: Group, query: Query, expansion: Expansion, stages: Stages, lowered: Lowered) -> GroupStage | None:
    """Returns the stage of a group over a join core by a comparison whose sums are formed in order. Returns None if the
    core has no such comparison, or if the stage is not worth its cost.

    `query`: the group's input; all its relations are inner joined and count their rows.
    """
    edge = _edge(query)
    leaves = expansion.monomials.leaves
    if edge is None or any(what not in (VALUE, VALID) or expr.type == "float64" for expr, what in leaves):
        return None
    exprs = dict(query.outputs)
    kept = shown(group, query, expansion)
    parts = list(dict.fromkeys(part for name in kept for part in _parts(exprs[name], edge)))
    kinds = tuple(_kept(query, edge, side, parts) for side in edge.sides)
    if not _worth(query, edge, kinds, stages):
        return None
    terms: dict[Monomial, int] = {(): 0}
    for one in expansion.sums.values():
        for monomial in one:
            terms.setdefault(monomial, len(terms))
    factors = [
        tuple((edge.side_of(leaves[i][0]).name(leaves[i][0]), leaves[i][1]) for i in monomial) for monomial in terms
    ]
    number, names = _stage(query, edge, parts, kinds, tuple(factors) if len(terms) > 1 else (), stages, lowered)

    def bits(monomial: Monomial) -> int:
        return sum_bits((leaves[i][0].type, leaves[i][1]) for i in monomial)

    columns = tuple(Output(name, exprs[name].type, _over(exprs[name], names, edge)) for name in kept)
    return grouping(group, Feed(number, columns), expansion, carried(expansion, terms, bits))


def listed(query: Query, stages: Stages, lowered: Lowered) -> int | None:
    """Returns the number of the stage of a join core by a comparison that outputs every pair. Returns None if the core
    has no such comparison, or if the stage is not worth its cost.

    `query`: all its relations are inner joined and count their rows.
    """
    edge = _edge(query)
    if edge is None or not _worth(query, edge, (ROWS, ROWS), stages):
        return None
    parts = list(dict.fromkeys(part for _, expr in query.outputs for part in _parts(expr, edge)))
    number, names = _stage(query, edge, parts, (ROWS, ROWS), (), stages, lowered)
    columns = tuple(Output(name, expr.type, _over(expr, names, edge)) for name, expr in query.outputs)
    made = stages.linear(Feed(number, columns))
    return stages.add(once_each(made, columns)) if query.distinct else made


def is_listed(query: Query) -> bool:
    """Returns whether `listed` lowers a join core."""
    edge = _edge(query)
    return edge is not None and _worth(query, edge, (ROWS, ROWS), None)


# -- what connects the sides -------------------------------------------------------------------------------------------


def _edge(query: Query) -> _Edge | None:
    """Returns the two sides of a join core that are connected by a comparison, or None if there are no such sides."""
    if len(query.sources) < 2 or any(source.join != "inner" or source.group for source in query.sources):
        return None
    parts = [of_sides(part) for one in query.conditions for part in one.conjuncts()]
    first = next((one for part in parts for one in _comparisons(part)), None)
    if first is None:
        return None
    one, other = (frozenset(aliases_of(arg)) for arg in first.args)
    components = together(query.sources, (aliases_of(part) for part in parts if not _between(part, one, other)))
    homes = [next((c for c in components if aliases <= c), None) for aliases in (one, other)]
    if len(components) != 2 or None in homes or homes[0] == homes[1]:
        return None
    crossing = [part for part in parts if all(aliases_of(part) & component for component in components)]
    for left, right in (homes, reversed(homes)):
        assert left is not None
        assert right is not None
        bands, points = (_Side(c, [p for p in parts if aliases_of(p) <= c], x) for c, x in ((left, "b"), (right, "p")))
        bands.inside = [part for part in bands.inside if part.columns]
        found = _tied(bands, points, crossing)
        if found is not None:
            return found
    return None


def _comparisons(part: Expr) -> tuple[Expr, ...]:
    """Returns the comparisons between two relations of a condition: one, or the two of an OR."""
    if part.op == "or" and len(part.args) == 2 and all(map(_compares, part.args)):
        return part.args
    return (part,) if _compares(part) else ()


def _compares(part: Expr) -> bool:
    """Returns whether a condition compares values of two relations. Both values must have one type, because different
    types have different orders. Decimals of too many digits have no common type."""
    if part.op not in ORDERING or part.args[0].type != part.args[1].type:
        return False
    left, right = map(aliases_of, part.args)
    return bool(left) and bool(right) and not left & right


def _between(part: Expr, one: frozenset[str], other: frozenset[str]) -> bool:
    """Returns whether a condition compares, or equates, values of one side with values of the other."""
    tied = _comparisons(part) or ((part,) if part.op in ("eq", "nseq") else ())
    ways = [tuple(map(aliases_of, found.args)) for found in tied]
    return bool(ways) and all(
        left and right and ((left <= one and right <= other) or (left <= other and right <= one))
        for left, right in ways
    )


def _tied(bands: _Side, points: _Side, crossing: Iterable[Expr]) -> _Edge | None:
    """Returns the edge if one side has a single point, with at most one lower and one upper bound. Otherwise returns
    None."""
    keys: list[_Key] = []
    point: Expr | None = None
    low: _Bound | None = None
    high: _Bound | None = None
    ties = [part.args if part.op == "or" else (part,) for part in crossing]
    either = any(len(tie) > 1 for tie in ties)
    for part in (part for tie in ties for part in tie):
        mine, bound = part.args
        op = part.op
        if aliases_of(mine) & bands.aliases:
            mine, bound, op = bound, mine, MIRROR[op]
        if mine.type != bound.type:
            return None
        if op in ("eq", "nseq"):
            keys.append(_Key((bound, mine), op == "nseq"))
            continue
        mine, bound, there = parted(mine, bound, op in ("gt", "ge"))
        if point not in (None, mine) or (low if op in ("gt", "ge") else high) is not None:
            return None
        point = mine
        if op in ("gt", "ge"):
            low = _Bound(bound, op == "gt", there)
        else:
            high = _Bound(bound, op == "lt", there)
    if point is None or (either and not (low and high and len(ties) == 1 + len(keys))):
        return None
    return _Edge(bands, points, keys, point, low, high, either)


def _any(conditions: Iterable[Expr]) -> Expr:
    """Returns the disjunction of conditions."""
    kept = [one for one in conditions if one != FALSE]
    return kept[0] if len(kept) == 1 else call("or", *kept)


# -- when a band stage is worth its cost -------------------------------------------------------------------------------


def _worth(query: Query, edge: _Edge, kept: Sequence[str], stages: Stages | None) -> bool:
    """Returns whether a change finds fewer rows in order than by the equalities alone."""
    if kept[0] == ROWS and edge.low and edge.high and not one_word(edge.point.type):
        return False
    if kept[1] == ROWS and stages is not None and _is_best(query, edge.bands, stages):
        return True
    if any(_covers(query, side, [key.of[number] for key in edge.keys]) for number, side in enumerate(edge.sides)):
        return False
    return not edge.keys or set(kept) != {ROWS}


def _is_best(query: Query, side: _Side, stages: Stages) -> bool:
    """Returns whether a side is one relation with a MIN or MAX per key. A bound that moves passes few points, whereas
    the equalities find all points of the key."""
    if len(side.aliases) > 1:
        return False
    number = origin(query.source(next(iter(side.aliases))).table)
    stage = stages.made[number] if isinstance(number, int) else None
    return isinstance(stage, GroupStage) and {call.function for call in stage.aggregates} <= set(ENDS)


def _kept(query: Query, edge: _Edge, side: _Side, parts: Iterable[Expr]) -> str:
    """Returns how the rows of a side are stored: one by one if the result distinguishes them."""
    keys = [key.of[edge.sides.index(side)] for key in edge.keys]
    distinguished = [part for part in parts if edge.side_of(part) is side and part not in keys]
    if not distinguished:
        return SUMS
    if side is edge.bands and edge.low and edge.high and not edge.either and one_word(edge.point.type):
        return ROWS  # a point lies in few bands with two ends
    bounds = {edge.point, *(bound.expr for bound in edge.bounds)}
    single = _covers(query, side, [*distinguished, *keys]) or any(part in bounds for part in distinguished)
    return ROWS if single else GROUPS


def _covers(query: Query, side: _Side, exprs: Sequence[Expr]) -> bool:
    """Returns whether expressions contain the declared key of a side that is one relation."""
    if len(side.aliases) > 1:
        return False
    table = query.source(next(iter(side.aliases))).table
    there = {split(expr.value)[1].lower() for expr in exprs if expr.op == "col"}
    return bool(table.key) and {name.lower() for name in table.key} <= there


# -- the stage ---------------------------------------------------------------------------------------------------------


def _parts(expr: Expr, edge: _Edge) -> list[Expr]:
    """Returns the outputs of the stage from which an expression is computed: itself, or its columns if it reads both
    sides."""
    if not expr.columns:
        return []
    if any(aliases_of(expr) <= side.aliases for side in edge.sides):
        return [expr]
    return [node for node in expr.postorder() if node.op == "col"]


def _over(expr: Expr, names: dict[Expr, str], edge: _Edge) -> Expr:
    """Returns an expression over the outputs of the stage."""
    if expr in names:
        return col(names[expr], expr.type)
    columns = {part.value: col(names[part], part.type) for part in _parts(expr, edge)}
    return renamed(expr, columns)


def _stage(
    query: Query,
    edge: _Edge,
    parts: Sequence[Expr],
    kept: tuple[str, ...],
    terms: tuple[tuple[tuple[str, str], ...], ...],
    stages: Stages,
    lowered: Lowered,
) -> tuple[int, dict[Expr, str]]:
    """Returns the number of the stage, and the names of its outputs."""
    bands, points = edge.sides
    keys = tuple((bands.name(key.of[0]), points.name(key.of[1])) for key in edge.keys)
    ends = [None if bound is None else bands.name(bound.expr) for bound in (edge.low, edge.high)]
    low, high = (_LOW, _HIGH) if edge.either else ends
    point = points.name(edge.point)
    outside = tuple(bound is not None and bound.outside for bound in (edge.low, edge.high))
    names = {part: edge.side_of(part).name(part) for part in parts}
    outputs = tuple(Output(name, part.type, col(name, part.type)) for part, name in names.items())
    bounds = [] if edge.either else edge.bounds
    compared = [[bound.there for bound in bounds], [edge.point]]
    for number, side in enumerate(edge.sides):
        exprs = [*compared[number], *(key.of[number] for key in edge.keys if not key.null_safe)]
        side.inside += [call("not", call("isnull", expr)) for expr in exprs if not _required(query, expr)]
    if len(bounds) == 2:
        empty = [call("lt" if any(outside) else "le", *(bound.expr for bound in bounds))]
        bands.inside.append(_any([bound.far for bound in bounds] + empty))
    made = BandStage(
        _outside(query, edge, stages, lowered) if edge.either else lowered(_rows(query, bands), stages),
        lowered(_rows(query, points), stages),
        Band(keys, low, high, (outside[0], outside[1]), point, outputs, (kept[0], kept[1]), terms),
    )
    return stages.add(made), names


def _outside(query: Query, edge: _Edge, stages: Stages, lowered: Lowered) -> Feed:
    """Returns two bands for each row, below `high` and above `low`, or one with open ends where the two would
    overlap."""
    assert edge.low is not None
    assert edge.high is not None
    low, high = edge.low.expr, edge.high.expr
    apart = call("le" if edge.low.outside or edge.high.outside else "lt", high, low)
    no_low, no_high = (call("isnull", bound.there) for bound in (edge.low, edge.high))
    rows = _rows(query, edge.bands)
    none = cast(NULL, low.type)
    parts = (
        (none, high, (call("not", call("isnull", high)), call("or", no_low, apart))),
        (low, none, (call("not", call("isnull", low)), call("or", no_high, apart))),
        (none, none, (_any([edge.low.far, edge.high.far, call("not", apart)]),)),
    )
    terms = [
        replace(rows, conditions=(*rows.conditions, *conditions), outputs=(*rows.outputs, (_LOW, one), (_HIGH, other)))
        for one, other, conditions in parts
    ]
    number = stages.linear(*(lowered(term, stages) for term in terms))
    return Feed(number, passed(stages.columns(number)))


def _rows(query: Query, side: _Side) -> Query:
    """Returns the rows of a side, with the columns that the stage reads."""
    sources = tuple(source for source in query.sources if source.alias in side.aliases)
    outputs = tuple((name, expr) for expr, name in side.columns.items())
    return replace(query, sources=sources, conditions=tuple(side.inside), outputs=outputs, distinct=False, names=())


def _required(query: Query, expr: Expr) -> bool:
    """Returns whether an expression is a column that is declared NOT NULL."""
    if expr.op != "col":
        return False
    alias, name = split(expr.value)
    return query.source(alias).table.required(name)
