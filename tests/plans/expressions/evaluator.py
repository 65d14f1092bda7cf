"""A program by definition: every stage from scratch, over multisets of rows. No tree, no state, no engine.

What a stage means is written down here once more, as plainly as Python can say it; the lowering is right if the last
stage has the rows that the query has.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import product

import pyarrow as pa

from plans.expressions.expr import Expr
from plans.payloads.payload import FLOAT_BITS, VALUE
from plans.payloads.sums import ORDERED, SHAPES, Sums, Term
from plans.plan import BagAtom, Node, Output, Plan
from plans.program import Program
from plans.programs.fixpoints import top_of
from plans.programs.stages import (
    Aggregate,
    BandStage,
    Feed,
    FixpointStage,
    Function,
    GroupStage,
    JoinStage,
    LinearStage,
    OverStage,
    PointwiseStage,
    SingleStage,
    SliceStage,
    Stage,
    TimedStage,
    TopStage,
    outputs_of,
)
from plans.types import arrow_type
from tests.models.bands import pairs
from tests.models.over import over, sliced
from tests.models.payload import factor
from tests.oracles.database import Database, Row, canonical
from tests.plans.expressions.aggregates import aggregated, form, moments, summed

Bag = Counter[Row]
Relation = tuple[list[tuple[str, str]], Bag]
"""Columns, as pairs of name and type, and rows with their multiplicities."""
CARRIED = "#"
"""A column with what a row of a payload carries: the value of every term, for one valuation."""


def results(program: Program, database: Database) -> Bag:
    """Returns the rows of a program's last stage over the base tables."""
    known: dict[str | int, Relation] = {}
    for table in program.tables:
        columns = [(column.name, column.type) for column in table.columns]
        known[table.name] = columns, Counter(database.rows[table.name])
    return last(program.stages, known)[1]


def last(stages: Sequence[Stage], known: dict[str | int, Relation]) -> Relation:
    """Returns the last of some stages over known relations, to which it adds all of them."""
    for number, stage in enumerate(stages):
        if isinstance(stage, JoinStage):
            made = joined(stage, known)
        elif isinstance(stage, GroupStage):
            made = grouped(stage, [fed(feed, known) for feed in (stage.feed, *stage.values)])
        elif isinstance(stage, PointwiseStage):
            made = pointwise(stage, [fed(leaf, known) for leaf in stage.leaves])
        elif isinstance(stage, TopStage):
            made = first(stage, fed(stage.feed, known))
        elif isinstance(stage, SingleStage):
            made = single(stage, fed(stage.feed, known))
        elif isinstance(stage, OverStage):
            made = shape(outputs_of(stage)), over(stage, fed(stage.feed, known)[1])
        elif isinstance(stage, BandStage):
            made = banded(stage, fed(stage.bands, known), fed(stage.points, known))
        elif isinstance(stage, SliceStage):
            made = shape(outputs_of(stage)), sliced(stage, fed(stage.feed, known)[1])
        elif isinstance(stage, TimedStage):
            made = timed(stage, fed(stage.feed, known), fed(stage.clock, known))
        elif isinstance(stage, FixpointStage):
            made = fixpoint(stage, [fed(feed, known) for feed in stage.feeds])
        else:
            made = linear(stage, [fed(term, known) for term in stage.terms])
        assert all(copies > 0 for copies in made[1].values()), f"stage {number} has rows that are not there"
        known[number] = known[f"#{number}"] = made
    return known[len(stages) - 1]


def fixpoint(stage: FixpointStage, tables: Sequence[Relation]) -> Relation:
    """The rows that the body derives from the tables and from these rows: it begins with none, and ends where they stay
    the same. What is derived does not depend on stamps.
    """
    rows: Bag = Counter()
    columns = [(column.name, column.type) for column in stage.tables[-1].columns]
    while True:
        there = Counter({(*row, 1): copies for row, copies in rows.items()}) if stage.distinct else rows
        names = [table.name for table in stage.tables]
        _, derived = last(stage.stages, dict(zip(names, (*tables, (columns, there)), strict=True)))
        made = Counter({row[:-1] for row in derived}) if stage.distinct else derived
        top = top_of(stage)
        made = made if top is None else first(top, (columns[:-1], made))[1]
        if made == rows:
            return shape(outputs_of(stage)), rows
        rows = made


def arrays(columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> dict[str, pa.Array]:
    return {
        name: pa.array([row[i] for row in rows], arrow_type(type_))
        for i, (name, type_) in enumerate(columns)
        if name != CARRIED
    }


def computed(exprs: Iterable[Expr], columns: Sequence[tuple[str, str]], rows: Sequence[Row]) -> list[Row]:
    """Returns per row the values of expressions."""
    given = arrays(columns, rows)
    made = [expr.evaluate(given, len(rows)).to_pylist() for expr in exprs]
    return canonical(tuple(column[i] for column in made) for i in range(len(rows)))


def shape(outputs: Sequence[Output]) -> list[tuple[str, str]]:
    return [(out.name, out.type) for out in outputs]


def fed(feed: Feed, known: dict[str | int, Relation]) -> Relation:
    columns, bag = known[feed.source]
    rows = list(bag)
    wanted = computed([out.expr for out in feed.columns], columns, rows)
    kept = [row[0] is True for row in computed([feed.where], columns, rows)] if feed.where is not None else None
    made: Bag = Counter()
    for i, row in enumerate(rows):
        if kept is None or kept[i]:
            made[(*wanted[i], *(row[-1:] if carries(columns) else ()))] += feed.weight * bag[row]
    return shape(feed.columns) + columns[-1:] * carries(columns), made


def carries(columns: list[tuple[str, str]]) -> bool:
    return columns[-1:] == [(CARRIED, "")]


def first(stage: TopStage, rows: Relation) -> Relation:
    """A row is in the window if enough copies, and not too many, come before it in its group."""
    columns, bag = rows
    names = [name for name, _ in columns]
    order = [(names.index(one.column), one.falling, one.nulls_last) for one in stage.order]
    order += [(i, False, False) for i in range(len(names)) if i not in [at for at, _, _ in order]]

    def before(one: Row, other: Row) -> bool:
        for at, falling, nulls_last in order:
            a, b = one[at], other[at]
            if a != b:
                return (a is None) != nulls_last if a is None or b is None else bool((a > b) if falling else (a < b))
        return False

    keys = [names.index(key) for key in stage.keys]
    made: Bag = Counter()
    for row, copies in bag.items():
        rank = sum(n for o, n in bag.items() if [o[k] for k in keys] == [row[k] for k in keys] and before(o, row))
        inside = min(rank + copies, stage.offset + stage.limit) - max(rank, stage.offset)
        made[row[: len(row) - stage.hidden]] += max(inside, 0)
    return columns[: len(columns) - stage.hidden], +made


def single(stage: SingleStage, rows: Relation) -> Relation:
    columns, bag = rows
    keys = [[name for name, _ in columns].index(key) for key in stage.keys]
    copies = Counter(tuple(row[k] for k in keys) for row in bag.elements())
    assert all(n == 1 for n in copies.values()), "a key has several rows"
    return rows


def timed(stage: TimedStage, rows: Relation, clock: Relation) -> Relation:
    columns, bag = rows
    at = {name: i for i, (name, _) in enumerate(columns)}
    made: Bag = Counter()
    for ((now,), _), (row, copies) in product(clock[1].items(), bag.items()):
        since, until = (None if name is None else row[at[name]] for name in (stage.since, stage.until))
        if (since is None or since <= now) and (until is None or now < until):
            made[row[: len(row) - stage.hidden]] += copies
    return columns[: len(columns) - stage.hidden], made


def banded(stage: BandStage, bands: Relation, points: Relation) -> Relation:
    """The pairs, with the terms that they carry."""
    types = dict((*bands[0], *points[0]))
    made: Bag = Counter()
    for row, copies in pairs(stage, bands[1], points[1]):
        terms = stage.band.terms
        carried = tuple(math.prod(_factor(row[name], types[name], what) for name, what in term) for term in terms)
        made[(*(row[out.name] for out in stage.band.outputs), *([carried] if terms else []))] += copies
    return shape(stage.band.outputs) + [(CARRIED, "")] * bool(stage.band.terms), made


def linear(stage: LinearStage, terms: list[Relation]) -> Relation:
    made: Bag = Counter()
    for columns, bag in terms:
        assert [t for _, t in columns] == [t for _, t in terms[0][0]]
        made.update(bag)
    return terms[0][0], made


COUNTS: dict[str, Callable[..., int]] = {
    "distinct": lambda m: int(m > 0),
    "union_all": lambda m, n: m + n,
    "union": lambda m, n: int(m + n > 0),
    "except_all": lambda m, n: max(m - n, 0),
    "except": lambda m, n: int(m > 0 and n == 0),
    "intersect_all": min,
    "intersect": lambda m, n: int(m > 0 and n > 0),
}


def pointwise(stage: PointwiseStage, leaves: list[Relation]) -> Relation:
    for columns, _ in leaves:
        assert [t for _, t in columns] == [t for _, t in leaves[0][0]]

    def value(function: Function, row: Row) -> int:
        if isinstance(function, int):
            return leaves[function][1][row]
        return COUNTS[str(function[0])](*(value(part, row) for part in function[1:] if not isinstance(part, str)))

    rows = {row for _, bag in leaves for row in bag}
    return leaves[0][0], +Counter({row: value(stage.function, row) for row in rows})


def joined(stage: JoinStage, known: dict[str | int, Relation]) -> Relation:
    """Join all relations, filter, project; count valuations, or forget duplicates."""
    plan = stage.plan
    atoms: list[Node | BagAtom] = [node for node in plan.nodes if node.kind == "input" and not node.padded]
    atoms += [atom for node in plan.nodes if node.bag is not None for atom in node.bag.atoms]
    padded = [node for node in plan.nodes if node.padded]
    uses = Counter(name for atom in (*atoms, *padded) for name in atom.attributes)
    bindings: list[tuple[dict[str, object], int]] = [({}, 1)]
    bound: set[str] = set()
    while atoms or padded:
        atom = max(atoms, key=lambda atom: len(bound & set(atom.attributes))) if atoms else padded.pop(0)
        if atoms:
            atoms.remove(atom)
        keys = [name for name in atom.attributes if name in bound]
        matches = defaultdict(list)
        for row, copies in selected(atom, known).items():
            values = dict(zip(atom.attributes, row, strict=True))
            if all(values[n] is not None or uses[n] == 1 or plan.attributes[n].null_safe for n in values):
                weight = copies if stage.mode != "set" and "[" not in atom.name else 1
                matches[tuple(values[name] for name in keys)].append((values, weight))
        lacking = []
        if isinstance(atom, Node) and atom.padded:
            lacking = [({name: None for name in atom.attributes if name not in bound}, 1)]
        bindings = [
            (old | new, m * n)
            for old, m in bindings
            for new, n in matches[tuple(old[name] for name in keys)] or lacking
        ]
        bound |= set(atom.attributes)
    columns = [(name, plan.attributes[name].type) for name in sorted(bound)]
    rows = [tuple(binding[name] for name, _ in columns) for binding, _ in bindings]
    kept = computed(plan.residual, columns, rows)
    outputs = computed([out.expr for out in plan.output], columns, rows)
    made: Bag = Counter()
    for (binding, weight), mask, row in zip(bindings, kept, outputs, strict=True):
        if all(value is True for value in mask):
            made[(*row, *([products(plan, binding)] if stage.mode == "payload" else []))] += weight
    if stage.mode == "set":
        once = {
            (tuple(binding[name] for name in plan.free) if plan.support else (), row)
            for (binding, _), mask, row in zip(bindings, kept, outputs, strict=True)
            if all(value is True for value in mask)
        }
        made = Counter(row for _, row in once)
    else:
        counts_every_atom(plan)
    return shape(plan.output) + [(CARRIED, "")] * (stage.mode == "payload"), made


def products(plan: Plan, binding: dict[str, object]) -> tuple[int | Fraction, ...]:
    """The terms of the payload for one valuation."""
    assert plan.payload is not None
    return tuple(
        math.prod(_factor(binding[name], plan.attributes[name].type, what) for _, name, what in term)
        for term in plan.payload.terms
    )


def counts_every_atom(plan: Plan) -> None:
    if plan.count is not None:
        assert plan.payload is None
        assert len(plan.nodes) == 1
        assert not any("[" in atom.name for atom in plan.count.atoms)
        return
    assert plan.payload is not None
    assert not plan.support
    counted = [node.name for node, kind in zip(plan.nodes, plan.payload.kinds, strict=True) if kind == "counted"]
    if plan.listed:
        assert counted == [plan.nodes[0].name]
        return
    assert counted == [node.name for node in plan.nodes if node.kind == "input" and "[" not in node.name]


def selected(atom: Node | BagAtom, known: dict[str | int, Relation]) -> Bag:
    """The rows of an atom: selected by its predicate, projected on its columns."""
    columns, bag = known[atom.relation]
    rows = list(bag)
    kept = [row[0] for row in computed([atom.predicate], columns, rows)] if atom.predicate is not None else None
    where = [[name for name, _ in columns].index(column) for column in atom.columns]
    made: Bag = Counter()
    for i, row in enumerate(rows):
        if kept is None or kept[i] is True:
            made[tuple(row[j] for j in where)] += bag[row]
    return made


# groups -------------------------------------------------------------------------------------------------------------


def grouped(stage: GroupStage, feeds: Sequence[Relation]) -> Relation:
    members: list[tuple[list[str], dict[Row, list[tuple[Row, int]]]]] = []
    for columns, bag in feeds:
        names = [name for name, _ in columns]
        groups: dict[Row, list[tuple[Row, int]]] = {(): []} if stage.whole else {}
        for row, copies in bag.items():
            groups.setdefault(tuple(row[names.index(key)] for key in stage.keys), []).append((row, copies))
        members.append((names, groups))
    assert all(list(groups) == list(members[0][1]) or set(groups) == set(members[0][1]) for _, groups in members)
    types = {name: type_ for columns, _ in feeds for name, type_ in columns}
    types |= {one.name: one.type for one in stage.summed}

    def value(call: Aggregate, key: Row) -> object:
        parts = [*call.arguments, *([] if call.where is None else [call.where])]
        if call.distinct or call.function in ORDERED:
            names, groups = members[stage.read_by(parts)]
            return aggregated(call, names, types, groups[key])
        names, groups = members[0]
        return value_of(stage, call, names, types, groups[key])

    made = [(key, types[key]) for key in stage.keys] + [(call.name, call.type) for call in stage.aggregates]
    values = [(*key, *(value(call, key) for call in stage.aggregates)) for key in members[0][1]]
    values = canonical(values)
    if stage.having is not None:
        mask = computed([stage.having], made, values)
        values = [row for row, kept in zip(values, mask, strict=True) if kept[0] is True]
    return shape(stage.outputs), Counter(computed([out.expr for out in stage.outputs], made, values))


def _factor(value: object, kind: str, what: str) -> int | Fraction:
    """What a value counts as in a product: that of a double in the unit of near doubles, which may leave a fraction."""
    if isinstance(value, float) and what == VALUE:
        return Fraction(value) * 2**FLOAT_BITS if math.isfinite(value) else 0
    return factor(value, kind, what)


def value_of(
    stage: GroupStage, call: Aggregate, names: list[str], types: dict[str, str], rows: list[tuple[Row, int]]
) -> object:
    """An aggregate of a group: of its rows, or of the sums that they carry."""
    carried = {
        Term(one.needs, one.where, one.factors, one.side, one.of): sum(
            (copies * sum(c * row[-1][number] for c, number in one.parts) for row, copies in rows), 0
        )
        for one in stage.join_sums
    }
    terms = Sums(call, types).terms
    if not set(terms) <= set(carried) or not terms or terms == (Term(),):
        return aggregated(call, names, types, rows)
    units = {one.name: Fraction(1, (1 << one.bits) * 10**one.digits) for one in stage.summed}
    of = Sums(call, types)
    n = carried[of.term()]
    if call.function in ("count", "count_if", "regr_count"):
        return n
    if n == 0:
        return None
    sides = [[carried[term] for term in of.sides(name)] for name in of.needs if of.sides(name)]
    if any(plus or minus for plus, minus in sides):
        if call.function not in ("sum", "avg") or all(sides[0]):
            return math.nan
        return math.inf if sides[0][0] else -math.inf

    def total(*factors: str) -> Fraction:
        return carried[of.term(*factors)] * math.prod((units[name] for name in factors), start=Fraction(1))

    y, x = of.arguments[0], of.arguments[-1]
    if call.function in ("sum", "avg"):
        return summed(call, total(x), n)
    if call.function in SHAPES:
        return form(call.function, n, [total(*[x] * power) for power in range(1, SHAPES[call.function] + 1)])
    return moments(call.function, n, total(x), total(y), total(x, x), total(y, y), total(x, y))
