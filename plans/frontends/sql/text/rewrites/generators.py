"""Rewrites generators: STACK and JSON_TUPLE as INLINE of structs, series and VALUES of columns as UNNEST, and FLATTEN
as EXPLODE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import call, literal, nodes
from plans.frontends.sql.text.place import extent, place_of, placed, replace_relation


def with_applied(tree: Any) -> Any:
    """Returns a statement with LEFT JOIN LATERAL ... ON TRUE in place of OUTER APPLY."""
    for node in nodes(tree, exp.Lateral, exp.Table):
        if isinstance(node.parent, exp.Join) and node.args.get("cross_apply") is False:
            node.parent.set("side", "LEFT")
            node.parent.set("on", exp.true())
    return tree


def with_values(tree: Any, dialect: str) -> Any:
    """Returns a statement whose VALUES have the names of the dialect, with UNNEST of an array in place of VALUES that
    read columns of other relations: `LATERAL (VALUES ('a', t.a), ('b', t.b)) AS v(name, x)`.

    VALUES whose rows have different lengths stay, and are rejected later.
    """
    for values in nodes(tree, exp.Values):
        rows = [row.expressions if isinstance(row, exp.Tuple) else [row.unnest()] for row in values.expressions]
        width, node = len(rows[0]) if rows else 0, values
        while isinstance(node.parent, (exp.Subquery, exp.Lateral, exp.CTE)) and node.parent.this is node:
            node = node.parent
        if not isinstance(node.parent, (exp.From, exp.Join, exp.With)) or any(len(row) != width for row in rows):
            continue
        names = [_VALUE_NAMES.get(dialect, _VALUE_NAMES["spark"])(i) for i in range(width)]
        alias = (node.args.get("alias") or exp.TableAlias()).copy()
        alias.set("columns", [*alias.columns, *map(exp.to_identifier, names[len(alias.columns) :])])
        if values.find(exp.Column) is None or not _may_read_columns(node):
            node.set("alias", alias)
            continue
        made = [exp.Struct(expressions=list(map(_named, names, row))) if width > 1 else row[0].copy() for row in rows]
        array = exp.Unnest(expressions=[exp.Array(expressions=made)], alias=alias)
        replace_relation(node, array)
    return tree


def _may_read_columns(node: Any) -> bool:
    """Returns whether a relation may read columns: of relations before it in FROM, or of an outer query."""
    if isinstance(node, exp.Lateral):
        return True
    return isinstance(node.parent, exp.From) and node.find_ancestor(exp.Select).find_ancestor(exp.Select) is not None


_VALUE_NAMES: dict[str, Callable[[int], str]] = {
    "spark": lambda i: f"col{i + 1}",
    "duckdb": lambda i: f"col{i}",
    **dict.fromkeys(("postgres", "redshift", "snowflake", "sqlite"), lambda i: f"column{i + 1}"),
}
"""The names of the columns of VALUES."""


def with_arrays(tree: Any) -> Any:
    """Returns a statement with INLINE in place of STACK and JSON_TUPLE.

    Calls of another form stay, and are rejected later.
    """
    for node in nodes(tree, exp.Stack, exp.Anonymous):
        rows = _stacked(node) if isinstance(node, exp.Stack) else _of_json(node)
        if rows:
            array = exp.Array(expressions=[exp.Struct(expressions=row) for row in rows])
            node.replace(placed(exp.Inline(this=array), extent(node)))
    return tree


def with_flattened(tree: Any, dialect: str, text: str) -> Any:
    """Rewrites Snowflake's FLATTEN as a lateral view with EXPLODE of its INPUT, and GENERATOR as UNNEST of a series.
    Returns the statement.

    Raises PlanError for parameters that are not supported.
    """
    for node in nodes(tree, exp.Lateral, exp.TableFromRows) if dialect == "snowflake" else ():
        if isinstance(node.this, exp.Generator):
            try:
                _number(node)
            except PlanError as error:
                raise error.at(text, place_of(text, node)) from None
        if type(node.this) is not exp.Explode:
            continue
        try:
            value, outer = _flattened([node.this.this, *node.this.expressions])
        except PlanError as error:
            raise error.at(text, place_of(text, node)) from None
        called = exp.Explode(this=exp.Kwarg(this=exp.Var(this="INPUT"), expression=value))
        made = exp.Lateral(this=called, alias=node.args["alias"].copy() if node.args.get("alias") else None)
        made.set("outer", outer)
        replace_relation(node, made)
    return tree


def _number(node: Any) -> None:
    """Replaces GENERATOR by a series, and SEQ4() and similar calls of its SELECT by the number of the row."""
    count = node.this.args.get("rowcount")
    if not isinstance(count, exp.Literal) or not count.name.isdigit() or node.this.args.get("time_limit") is not None:
        raise PlanError("GENERATOR takes a constant ROWCOUNT", hint="write GENERATOR(ROWCOUNT => 365)")
    name, column = (node.args["alias"].name if node.args.get("alias") else "generator"), "seq"
    alias = exp.TableAlias(this=exp.to_identifier(name), columns=[exp.to_identifier(column)])
    last = exp.Literal.number(int(count.name) - 1)
    numbers = call("SEQUENCE", exp.Literal.number(0), last) if int(count.name) else exp.Array(expressions=[])
    made = exp.Unnest(expressions=[numbers], alias=alias)
    for one in nodes(node.parent_select, exp.Seq1, exp.Seq2, exp.Seq4, exp.Seq8):
        one.replace(placed(exp.column(column, table=name), extent(one)))
    replace_relation(node, made)


def _flattened(given: list[Any]) -> tuple[Any, bool]:
    """Returns the array of FLATTEN, and whether a row without elements is kept."""
    named = [
        one if isinstance(one, exp.Kwarg) else exp.Kwarg(this=exp.Var(this="INPUT"), expression=one) for one in given
    ]
    parts = {one.name.upper(): one.expression for one in named}
    value, path, outer = parts.pop("INPUT", None), parts.pop("PATH", None), parts.pop("OUTER", exp.false())
    usual = {"MODE": literal("BOTH"), "RECURSIVE": exp.false()}
    other = [name for name, one in parts.items() if one != usual.get(name)]
    if value is None or other or len(parts) + 3 < len(given) or not isinstance(outer, exp.Boolean):
        what = f"FLATTEN with {other[0]}" if other else "FLATTEN without an INPUT, or with an OUTER that is a value,"
        raise PlanError(f"{what} is not supported", hint="write FLATTEN(INPUT => x, PATH => 'a', OUTER => TRUE)")
    if path is None:
        return value.copy(), outer.this
    if not isinstance(path, exp.Literal):
        raise PlanError("FLATTEN takes a constant PATH", hint="write the path itself: PATH => 'a.b'")
    return call("JSON_QUERY", value, literal(f"$.{path.name}")), outer.this


def with_series(tree: Any, dialect: str) -> Any:
    """Returns a statement that reads series in FROM by UNNEST, such as `FROM range(1, 10) AS r(x)`, and the rows of
    `LATERAL (SELECT UNNEST(tags) AS t)` by UNNEST in FROM."""
    for node in nodes(tree, exp.Lateral):
        _read_elements(node.this.this if isinstance(node.this, exp.Subquery) else None)
    for node in nodes(tree, exp.Table, exp.Lateral):
        called = node.this.this if type(node.this) is exp.Explode else node.this
        if not isinstance(called, exp.Anonymous) or str(called.this).upper() not in _SERIES:
            continue
        alias = (node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(str(called.this).lower()))).copy()
        if called is node.this and not alias.columns:  # PostgreSQL names them as the alias
            name = "id" if dialect in _IDS else str(called.this).lower()
            alias.set("columns", [exp.to_identifier(name)])
        array = exp.Unnest(expressions=[called.copy()], alias=alias)
        replace_relation(node, array)
    return tree


def _read_elements(select: Any) -> None:
    """Moves the only call that makes rows from the SELECT list of a subquery without FROM to its FROM."""
    if not isinstance(select, exp.Select) or {name for name, value in select.args.items() if value} - {"expressions"}:
        return
    made = nodes(select, exp.Explode, exp.Inline, exp.Posexplode)
    if len(made) != 1 or type(made[0]) is not exp.Explode or made[0].expressions:
        return
    (called,), name = made, exp.to_identifier("element")
    alias = exp.TableAlias(this=exp.to_identifier("elements"), columns=[name])
    array = placed(exp.Unnest(expressions=[called.this.copy()], alias=alias), extent(called))
    called.replace(placed(exp.column(name.copy(), table="elements"), extent(called)))
    select.set("from_", exp.From(this=array))


_SERIES = ("GENERATE_SERIES", "RANGE")
_IDS = ("spark", "ansi", "databricks")


def _stacked(node: Any) -> list[list[Any]]:
    """Returns the rows of STACK(n, ...). The last row is filled up with NULL."""
    count, given = node.this, node.expressions
    if not isinstance(count, exp.Literal) or not count.name.isdigit() or not 0 < int(count.name) <= len(given):
        return []
    width = -(-len(given) // int(count.name))
    missing = int(count.name) * width - len(given)
    given = [*given, *(_null_like(value) for value in given[width - missing : width])]
    return [
        [_named(f"col{i}", value) for i, value in enumerate(given[at : at + width])]
        for at in range(0, len(given), width)
    ]


def _null_like(value: Any) -> Any:
    return exp.Anonymous(this="NULLIF", expressions=[value.copy(), value.copy()])


def _of_json(node: Any) -> list[list[Any]]:
    """Returns the one row of JSON_TUPLE(text, names): the values of these names in an object."""
    if str(node.this).upper() != "JSON_TUPLE":
        return []
    text, *names = node.expressions or [None]
    if not names or not all(isinstance(name, exp.Literal) and name.is_string for name in names):
        return []
    paths = [exp.Literal.string(f"$['{name.name}']") for name in names]
    found = [exp.Anonymous(this="GET_JSON_OBJECT", expressions=[text.copy(), path]) for path in paths]
    return [[_named(f"c{i}", one) for i, one in enumerate(found)]]


def _named(name: str, value: Any) -> Any:
    return exp.PropertyEQ(this=exp.to_identifier(name), expression=value)
