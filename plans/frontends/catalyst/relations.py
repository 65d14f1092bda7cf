"""Translates operators of Spark's logical plan into the query algebra."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, cast, col
from plans.frontends.catalyst import constants, groups, recursions, sessions, windows
from plans.frontends.catalyst.asof import as_of
from plans.frontends.catalyst.blocks import Block, Named, Reading, conjuncts, distinct_names, united
from plans.frontends.catalyst.generate import generate
from plans.frontends.catalyst.scalars import CLOCKS, Meaning, literal, scalar, type_of
from plans.frontends.catalyst.tree import Node, is_table, read, tables_of
from plans.programs.frames import Order
from plans.queries.algebra import FOUND, Relation, SetOperation, Source, Top, check_output_name
from plans.queries.single import joined_as_value
from plans.schema import Schema, Table
from plans.time.windows import CLOCK, NOW

_THROUGH = ("ResolvedHint", "UnresolvedHint", "Repartition", "RepartitionByExpression", "LocalLimit", "PipeOperator")
_NO_ORDER = "a maintained result has no order: ORDER BY without LIMIT is ignored, sort when you read the result"
_NO_CHOICE = "LIMIT without ORDER BY keeps the smallest rows, by all columns from left to right"
_MOST = 2**31 - 1


def parse(plan: Sequence[Mapping[str, Any]], schema: Schema, text: str, zone: str = "UTC") -> Relation:
    """Returns the relation of an analyzed plan whose correlated subqueries have become joins.

    `plan`: the nodes as `LogicalPlan.toJSON` of Spark writes them. Temporary views named like relations of `schema` are
    these relations. `text`: the text of the user's query; `zone`: the JVM's time zone. Raises PlanError for unsupported
    operators.
    """
    tables = {name.lower(): schema[name] for name in schema}
    read_ = next((tables[name.lower()] for name, _ in tables_of(plan) if name.lower() in tables), None)
    reading = Reading(text, tables, zone, read_)
    block = _block(read(plan), reading)
    names = [column.name for column in block.columns]
    for name in names:
        check_output_name(name)
    relation = _unwrapped(block, tuple(names)) or reading.query(block, distinct_names(block))
    return replace(relation, warnings=tuple(dict.fromkeys(reading.warnings)))


def _unwrapped(block: Block, names: tuple[str, ...]) -> Relation | None:
    """Returns the relation that a block passes on unchanged, or None if the block does more."""
    if not block.one or block.sources[0].input is None:
        return None
    relation = block.sources[0].input
    shown = tuple(column.value.value.partition(".")[2] for column in block.columns)
    made = tuple(column.name for column in relation.columns)
    return relation if shown == made == names else None


def _block(node: Node, reading: Reading) -> Block:
    """Returns the block of an operator and its subtree."""
    if node.kind in _THROUGH:
        return _block(node.child, reading)
    found = _OPERATORS.get(node.kind)
    if found is None:
        raise PlanError(f"{node.kind} of Spark's plan is not supported", hint="compute it when you read the result")
    return found(node, reading)


def _expr(
    node: Node, block: Block, reading: Reading, added: list[Source] | None = None, override: Meaning | None = None
) -> Expr:
    """Returns an expression over the columns of a block.

    The sources of its subqueries are appended to `added`. `override` translates other nodes, and is called first.
    """
    known = {column.id: column for column in block.columns}

    def meaning(inner: Node) -> Expr | None:
        found = None if override is None else override(inner)
        if found is not None:
            return found
        if inner.kind == "AttributeReference":
            return _column(inner, known)
        if inner.kind == "GetArrayItem" and (part := groups.part_of(inner)) in known:
            return known[part].value
        if inner.kind in CLOCKS and added is not None:
            return _clock(CLOCKS[inner.kind], reading, added)
        return _subquery(inner, reading, added) if inner.kind in ("ScalarSubquery", "Exists") else None

    return scalar(node, meaning, reading.zone)


def _clock(type_: str, reading: Reading, added: list[Source]) -> Expr:
    """Returns the value of the clock, and adds its source."""
    source = next((one for one in added if one.table == CLOCK), None)
    if source is None:
        source = Source(reading.alias("clock"), CLOCK)
        added.append(source)
    return cast(source.qualified(NOW), type_)


def _column(node: Node, known: Mapping[int, Named]) -> Expr:
    """Returns the value of a column. Raises PlanError if its type differs from the type in Spark."""
    name = node.fields["name"]
    if node.id not in known:
        raise PlanError(f"column {name} is not among the columns of its relation")
    value, wanted = known[node.id].value, type_of(node.fields["dataType"])
    if value.type not in (wanted, "null"):
        raise PlanError(
            f"column {name} has the type {wanted} in Spark and {value.type} in crown",
            hint=f"cast it in the query: CAST(... AS {wanted})",
        )
    return value


def _subquery(node: Node, reading: Reading, added: list[Source] | None) -> Expr:
    """Returns the value of an uncorrelated subquery, and adds its source."""
    if added is None or node.fields.get("joinCond"):
        raise PlanError("a subquery is not supported here", hint="join with it in FROM")
    source = _rows_of(node, reading)
    if node.kind == "Exists":
        added.append(replace(source, join="mark"))
        return col(f"{source.alias}.{FOUND}", "bool")
    if source.input is None or not groups.is_one_row(source.input):
        source = replace(source, join="single" if source.input is None else joined_as_value(source.input))
    added.append(source)
    return source.qualified(source.table.columns[0].name)


def _rows_of(node: Node, reading: Reading) -> Source:
    """Returns the source for the plan of a subquery."""
    plan = node.tree("plan")
    assert plan is not None, "a subquery has a plan"
    return reading.as_source(_block(plan, reading)).sources[0]


# -- leaves ------------------------------------------------------------------------------------------------------------


def _view(node: Node, reading: Reading) -> Block:
    """Returns a relation of the schema, or the plan of another view."""
    name = str(node.fields["desc"]["identifier"]["table"])
    table = reading.tables.get(name.lower())
    if table is None:
        return _block(node.child, reading)
    return _leaf(table, node.child, reading)


def _leaf(table: Table, node: Node, reading: Reading) -> Block:
    """Returns the block of a relation whose columns are numbered by a node of the plan."""
    source = Source(reading.alias(table.name), table)
    columns = []
    for attribute in _output(node):
        spelled = str(attribute.fields["name"])
        if table.column(spelled) is not None:
            columns.append(Named(attribute.id, spelled, source.qualified(spelled)))
    return Block((source,), tuple(columns))


def _alias(node: Node, reading: Reading) -> Block:
    """Returns a table of the catalog that is in the schema, or the plan below an alias."""
    table = reading.tables.get(str(node.fields["identifier"]["name"]).lower())
    if table is None or not is_table(node):
        return _block(node.child, reading)
    return _leaf(table, node.child, reading)


def _output(node: Node) -> tuple[Node, ...]:
    """Returns the output columns of the operator of a temporary view."""
    if "output" in node.fields:
        return node.trees("output")
    return node.trees("projectList") if node.kind == "Project" else _output(node.child)


def _with_ctes(node: Node, reading: Reading) -> Block:
    *definitions, plan = node.children
    reading.ctes |= {int(one.fields["id"]): one.child for one in definitions}
    return _block(plan, reading)


def _cte(node: Node, reading: Reading) -> Block:
    definition = reading.ctes.get(int(node.fields["cteId"]))
    if definition is None:
        raise PlanError("a recursive query is not supported")
    block = _block(definition, reading)
    columns = [replace(c, id=a.id) for c, a in zip(block.columns, node.trees("output"), strict=True)]
    return replace(block, columns=tuple(columns))


# -- rows of one block -------------------------------------------------------------------------------------------------


def _project(node: Node, reading: Reading) -> Block:
    block, columns = _block(node.child, reading), []
    added: list[Source] = []
    for item in node.trees("projectList"):
        sessions.note(item, reading)
        columns.append(Named(item.id, str(item.fields["name"]), _expr(item, block, reading, added)))
    return replace(block, sources=(*block.sources, *added), columns=tuple(columns))


def _filter(node: Node, reading: Reading) -> Block:
    block = _block(node.child, reading)
    added: list[Source] = []
    condition = node.tree("condition")
    assert condition is not None, "a filter has a condition"
    conditions = []
    for part in condition.conjuncts():
        if part.kind == "Exists" and not part.fields.get("joinCond"):
            added.append(replace(_rows_of(part, reading), group=reading.group()))
        else:
            conditions.append(_expr(part, block, reading, added))
    return replace(
        block, sources=(*block.sources, *added), conditions=(*block.conditions, *conjuncts(tuple(conditions)))
    )


# -- joins -------------------------------------------------------------------------------------------------------------


def _join(node: Node, reading: Reading) -> Block:
    left, right = (_block(child, reading) for child in node.children)
    kind = node.word("joinType") or "ExistenceJoin"
    if kind == "RightOuter":
        left, right = right, left
    if kind in ("Inner", "Cross"):
        both = _product(left, right)
        on = _condition(node, both, reading)
        return replace(both, conditions=(*both.conditions, *on))
    if kind in _OUTER:
        right = reading.as_source(right)
        on = _condition(node, _product(left, right), reading)
        both = _product(left, replace(right, sources=(replace(right.sources[0], join=_OUTER[kind], on=on),)))
        return replace(both, columns=(*right.columns, *left.columns)) if kind == "RightOuter" else both
    if kind == "FullOuter":
        return _full(node, left, right, reading)
    if kind == "LeftSemi":
        if not right.plain:
            right = reading.as_source(right)
        group = reading.group()
        right = replace(right, sources=tuple(replace(source, group=group) for source in right.sources))
        both = _product(left, right)
        on = _condition(node, both, reading)
        return replace(both, columns=left.columns, conditions=(*both.conditions, *on))
    if kind not in ("LeftAnti", "ExistenceJoin"):
        raise PlanError(f"a join of kind {kind} is not supported")
    right = reading.as_source(right)
    on = _condition(node, _product(left, right), reading)
    source = replace(right.sources[0], join="anti" if kind == "LeftAnti" else "mark", on=on)
    columns = left.columns
    if kind == "ExistenceJoin":
        found = read(node.fields["joinType"]["exists"])
        columns = (*columns, Named(found.id, "exists", col(f"{source.alias}.{FOUND}", "bool")))
    return replace(left, sources=(*left.sources, source), columns=columns)


_OUTER = {"LeftOuter": "left", "RightOuter": "left", "LeftSingle": "single"}
"""The names in the algebra of Spark's joins that pad rows."""


def _product(left: Block, right: Block) -> Block:
    return Block(
        (*left.sources, *right.sources), (*left.columns, *right.columns), (*left.conditions, *right.conditions)
    )


def _condition(node: Node, block: Block, reading: Reading) -> tuple[Expr, ...]:
    given = node.tree("condition")
    return () if given is None else tuple(_expr(given, block, reading).conjuncts())


def _full(node: Node, left: Block, right: Block, reading: Reading) -> Block:
    """Returns the left join, and the right rows without a partner, padded with NULLs."""
    left, right = reading.as_source(left), reading.as_source(right)
    both = _product(left, right)
    on = _condition(node, both, reading)
    names = distinct_names(both)
    (one,), (two,) = left.sources, right.sources
    matched = replace(both, sources=(one, replace(two, join="left", on=on)))
    padded = [replace(column, value=cast(NULL, column.value.type)) for column in left.columns]
    alone = Block((two, replace(one, join="anti", on=on)), (*padded, *right.columns))
    union = SetOperation((reading.query(matched, names), reading.query(alone, names)), ("union_all", 0, 1))
    return reading.derived(union, both.columns, names, "joined")


# -- sets of rows ------------------------------------------------------------------------------------------------------


def _combined(operator: str, node: Node, reading: Reading) -> Block:
    if node.fields.get("byName"):
        raise PlanError("UNION BY NAME is not supported", hint="select the columns of each branch in the same order")
    blocks = [_block(child, reading) for child in node.children]
    first = blocks[0]
    names = distinct_names(first)
    types = [column.value.type for column in first.columns]
    parts = []
    for block in blocks:
        values = [
            cast(c.value, t) if c.value.type == "null" else c.value for c, t in zip(block.columns, types, strict=True)
        ]
        if [value.type for value in values] != types:
            raise PlanError(
                "the branches of a set operation have other types in Spark",
                hint="cast the columns of all branches to the same types",
            )
        named = [replace(column, value=value) for column, value in zip(block.columns, values, strict=True)]
        parts.append(reading.query(replace(block, columns=tuple(named)), names))
    word = operator if node.fields.get("isAll", operator == "union") is False else f"{operator}_all"
    function: Any = 0
    for number in range(1, len(parts)):
        function = (word, function, number)
    if len(parts) == 1:
        return reading.derived(parts[0], first.columns, names, "rows")
    return reading.derived(SetOperation(tuple(parts), function), first.columns, names, operator)


def _distinct(node: Node, reading: Reading) -> Block:
    block = _block(node.child, reading)
    names = distinct_names(block)
    return reading.derived(reading.query(block, names, True), block.columns, names, "rows")


def _expand(node: Node, reading: Reading) -> Block:
    """Returns one copy of the rows per projection."""
    block = reading.as_source(_block(node.child, reading))
    outputs = node.trees("output")
    types = [type_of(attribute.fields["dataType"]) for attribute in outputs]
    columns = tuple(Named(a.id, str(a.fields["name"]), cast(NULL, t)) for a, t in zip(outputs, types, strict=True))
    names = distinct_names(Block((), columns))
    parts = []
    for projection in node.fields["projections"]:
        values = [cast(_expr(read(item), block, reading), t) for item, t in zip(projection, types, strict=True)]
        shown = tuple(replace(column, value=value) for column, value in zip(columns, values, strict=True))
        parts.append(reading.query(replace(block, columns=shown), names))
    return reading.derived(united(parts), columns, names, "expanded")


# -- order -------------------------------------------------------------------------------------------------------------


def _sort(node: Node, reading: Reading) -> Block:
    reading.warnings.append(_NO_ORDER)
    return _block(node.child, reading)


def _limit(node: Node, reading: Reading) -> Block:
    """Returns the first rows: translates GlobalLimit, LocalLimit, Offset and Sort on top of each other, and projections
    that hide the ORDER BY columns."""
    limit, offset, inner, hiding = None, 0, node, []
    while inner.kind in ("GlobalLimit", "LocalLimit", "Offset", "Project", "SubqueryAlias"):
        if inner.kind == "GlobalLimit":
            if limit is not None or offset:
                break
            limit = _row_count(inner, "limitExpr", reading)
        elif inner.kind == "Offset":
            offset += _row_count(inner, "offsetExpr", reading)
        elif inner.kind == "Project":
            if not all(item.kind == "AttributeReference" for item in inner.trees("projectList")):
                break
            hiding.append(inner)
        inner = inner.child
    if limit is None:
        raise PlanError("OFFSET without LIMIT is not supported", hint="add a LIMIT: LIMIT ... OFFSET ...")
    if inner.kind == "Sort":
        block = _block(inner.child, reading)
        block, order = windows.ordered(inner.trees("order"), block, partial(_expr, reading=reading))
    else:
        reading.warnings.append(_NO_CHOICE)
        block = _block(inner, reading)
        order = tuple(Order(name, False, False) for name in distinct_names(block))
    names = dict(zip(block.columns, distinct_names(block), strict=True))
    shown = [column for column in block.columns if column.id >= 0]
    for project in reversed(hiding):
        known = {column.id: column for column in shown}
        shown = [known[item.id] for item in project.trees("projectList")]
    hidden = [column for column in block.columns if column not in shown]
    columns = (*dict.fromkeys(shown), *hidden)
    rows = reading.query(replace(block, columns=columns), tuple(names[column] for column in columns))
    top = Top(rows, (), order, limit, offset, len(hidden))
    made = columns[: len(columns) - len(hidden)]
    found = reading.derived(top, made, tuple(names[column] for column in made), "top")
    known = {column.id: column for column in found.columns}
    return replace(found, columns=tuple(known[column.id] for column in shown))


def _row_count(node: Node, name: str, reading: Reading) -> int:
    given = node.tree(name)
    value = literal(given, reading.zone).value if given is not None and given.kind == "Literal" else None
    if not isinstance(value, int) or not 0 <= value <= _MOST:
        raise PlanError(f"LIMIT and OFFSET take whole numbers up to {_MOST}")
    return value


def _of_blocks(make: Callable[..., Block]) -> Callable[[Node, Reading], Block]:
    """Returns the operator that ``make`` translates, given the blocks below it and a function that translates
    expressions."""

    def operator(node: Node, reading: Reading) -> Block:
        blocks = [_block(child, reading) for child in node.children]
        return make(node, *blocks, reading, partial(_expr, reading=reading))

    return operator


_OPERATORS: Mapping[str, Callable[[Node, Reading], Block]] = {
    "View": _view,
    "SubqueryAlias": _alias,
    "WithCTE": _with_ctes,
    "CTERelationRef": _cte,
    "UnionLoop": lambda node, reading: recursions.loop(node, reading, _block),
    "UnionLoopRef": recursions.rows_there,
    "Project": _project,
    "Filter": _filter,
    "Generate": _of_blocks(generate),
    "Join": _join,
    "AsOfJoin": _of_blocks(as_of),
    "Aggregate": _of_blocks(groups.grouped),
    "Window": _of_blocks(windows.window),
    "Union": partial(_combined, "union"),
    "Intersect": partial(_combined, "intersect"),
    "Except": partial(_combined, "except"),
    "Distinct": _distinct,
    "Expand": _expand,
    "Sort": _sort,
    "GlobalLimit": _limit,
    "Offset": _limit,
    "OneRowRelation": lambda node, reading: Block((constants.one_row(reading),), ()),
    "Range": lambda node, reading: constants.series(node, reading),
    "LocalRelation": lambda node, reading: constants.values(
        node, reading, partial(scalar, meaning=lambda inner: None, zone=reading.zone)
    ),
}
