"""Groups in two steps: each cell groups its rows, and the groups of the cells are grouped where they are merged.

A count is the sum of the counts of the cells, a sum the sum of their sums, a minimum the minimum of their minima. So a
cell need not send its rows: it keeps groups of its own and sends their changes, at most an old and a new row per group
and batch. A group exists as long as some cell has it. For a mean, a variance or a sum of doubles, which are rounded
once, a cell sends the exact sums behind them as digits, and the result is computed where the cells are merged. If an
aggregate cannot be computed from parts, such as a number of distinct values or a median, the cells send rows.
"""

from __future__ import annotations

from dataclasses import replace

from plans.expressions.build import col
from plans.payloads.carried import ExportedSum, Summed
from plans.payloads.sums import ONCE, ORDERED, ROWS, Sums, Unit, digits_of, doubles_of, limbs_of, term_of, unit
from plans.plan import Output
from plans.programs.stages import Aggregate, Feed, GroupStage
from plans.queries.algebra import unused
from plans.schema import WEIGHT, Column


def partial(stage: GroupStage) -> GroupStage | None:
    """Returns the stage that groups the rows of one cell: its keys, then the parts of its aggregates. Returns None if
    some aggregate cannot be computed from parts."""
    if stage.values:
        return None
    if all(_in_parts(aggregate) for aggregate in stage.aggregates):
        return _with_outputs(stage, stage.aggregates, ())
    if any(_needs_rows(a) for a in stage.aggregates) or _units(stage) is None:
        return None
    ordered = tuple(a for a in stage.aggregates if a.function in ONCE)
    return _with_outputs(stage, ordered, _telling(stage))


def merged(stage: GroupStage, parts: GroupStage, relation: str, columns: tuple[Column, ...]) -> GroupStage:
    """Returns the stage that groups the rows of ``parts``, ``partial(stage)``: a `relation` with these columns."""
    k = len(stage.keys)
    inner = [*stage.keys, *(f"{column.name} part" for column in columns[k:])]
    feed = Feed(relation, tuple(Output(n, c.type, col(c.name, c.type)) for n, c in zip(inner, columns, strict=True)))
    place = {output.expr.value: name for output, name in zip(parts.outputs, inner, strict=True)}
    aggregates = tuple(
        Aggregate(a.name, a.type, "sum" if a.function == "count" else a.function, (place[a.name],))
        if a in parts.aggregates
        else a
        for a in stage.aggregates
    )
    whole = GroupStage(feed, stage.keys, aggregates, stage.outputs, stage.having, stage.whole)
    if not parts.exported:
        return whole
    imported = tuple(
        replace(
            one, columns=tuple(place[name] for name in one.columns), far=None if one.far is None else place[one.far]
        )
        for one in parts.exported
    )
    types = _types(stage)
    summed = {
        name: Summed(name, types[name], col(name, types[name]), *of) for name, of in (_units(stage) or {}).items()
    }
    return replace(whole, summed=tuple(summed.values()), imported=imported)


def _with_outputs(
    stage: GroupStage, aggregates: tuple[Aggregate, ...], exported: tuple[ExportedSum, ...]
) -> GroupStage:
    """Returns the stage whose outputs are its keys, these aggregates and the digits of these sums."""
    types = {column.name: column.type for column in stage.feed.columns}
    whats = [*((key, types[key]) for key in stage.keys), *((a.name, a.type) for a in aggregates)]
    for one in exported:
        whats += [(name, "int64") for name in one.columns] + ([] if one.far is None else [(one.far, "binary")])
    names: list[str] = []
    for what, _ in whats:
        names.append(unused(what, [*names, WEIGHT]))
    outputs = tuple(Output(name, type_, col(what, type_)) for name, (what, type_) in zip(names, whats, strict=True))
    return replace(stage, aggregates=aggregates, outputs=outputs, having=None, exported=exported)


def _telling(stage: GroupStage) -> tuple[ExportedSum, ...]:
    """Returns the sums from which the aggregates are computed, with names for their digits."""
    types, carried = _types(stage), {term_of(one): (one.limbs, one.doubles) for one in stage.join_sums}
    made = [term for a in stage.aggregates if a.function not in ONCE for term in Sums(a, types).terms]
    taken = [*stage.keys, *types, *(a.name for a in stage.aggregates)]
    found = []
    for number, term in enumerate(dict.fromkeys([ROWS, *made])):
        limbs, doubles = carried[term] if term in carried else (limbs_of(term, types), doubles_of(term, types))
        columns: list[str] = []
        for digit in range(digits_of(limbs)):
            columns.append(unused(f"sum {number} digit {digit}", [*taken, *columns]))
        far = unused(f"sum {number} far", [*taken, *columns]) if doubles else None
        of = (term.needs, term.where, term.factors, term.side, term.of)
        found.append(ExportedSum(*of, limbs, doubles, tuple(columns), far))
    return tuple(found)


def _units(stage: GroupStage) -> dict[str, Unit] | None:
    """Returns the units of the arguments of sums, or None if an argument has two units, as a column and as a carried
    sum."""
    types, carried = _types(stage), {term_of(one) for one in stage.join_sums}
    given = {one.name: (one.bits, one.digits, one.doubles) for one in stage.summed}
    found: dict[str, Unit] = {}
    for aggregate in stage.aggregates:
        if aggregate.function in ONCE:
            continue
        known = all(term in carried for term in Sums(aggregate, types).terms)
        for name in aggregate.arguments:
            mine = given[name] if known else unit(types[name])
            if found.setdefault(name, mine) != mine:
                return None
    return found


def _types(stage: GroupStage) -> dict[str, str]:
    return {c.name: c.type for c in stage.feed.columns} | {one.name: one.type for one in stage.summed}


def _needs_rows(aggregate: Aggregate) -> bool:
    return aggregate.power > 1 or (
        aggregate.function not in ONCE and (aggregate.distinct or aggregate.function in ORDERED)
    )


def _in_parts(aggregate: Aggregate) -> bool:
    if aggregate.function in ONCE:
        return True
    return not aggregate.distinct and (
        (aggregate.function == "count" and aggregate.power == 1)
        or (aggregate.function == "sum" and aggregate.type != "float64")
    )
