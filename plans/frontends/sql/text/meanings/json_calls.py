"""JSON of PostgreSQL, DuckDB, MySQL and standard SQL: constructors, aggregates and operators.

A JSON value is a text here. An argument of a JSON constructor is JSON, or a value that becomes JSON, such as a text
that gets quotes. Its syntax decides which, even through a subquery in FROM or a CTE that names it:

    JSON_OBJECT('a': x, 'b': js -> 'c')       JSON_OBJECT('a', x, 'b', AS_JSON(js -> 'c'))
    JSON_AGG(x ORDER BY y)                    '[' || STRING_AGG(COALESCE(WRITE_JSON(x), 'null'), ',' ORDER BY y) || ']'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.nodes import call, literal, nodes, rewritten
from plans.frontends.sql.text.place import extent, placed, spelling

_MADE_JSON = "json"
"""The mark of a node that was created here and is JSON."""
TYPES = (exp.DataType.Type.JSON, exp.DataType.Type.JSONB, exp.DataType.Type.VARIANT, exp.DataType.Type.SUPER)
_OBJECTS = ("JSON_BUILD_OBJECT", "JSONB_BUILD_OBJECT")
_ARRAYS = ("JSON_ARRAY", "JSON_BUILD_ARRAY", "JSONB_BUILD_ARRAY")
_WRITERS = ("TO_JSON", "TO_JSONB", "ROW_TO_JSON", "ARRAY_TO_JSON")
_NAMES = ("JSON_QUERY", "JSON_EXTRACT_PATH", "JSONB_EXTRACT_PATH")
_NODES = (exp.JSONExtract, exp.JSONBExtract, exp.ParseJSON)
_GROUPED = (
    "JSON_AGG", "JSONB_AGG", "JSON_GROUP_ARRAY", "JSON_GROUP_OBJECT", "JSON_ARRAYAGG", "JSON_OBJECTAGG",
)  # fmt: skip
_AGGREGATES = (exp.JSONArrayAgg, exp.JSONObjectAgg, exp.JSONBObjectAgg, exp.ObjectAgg)
SETS = ("postgres", "redshift", "materialize", "risingwave")
"""Dialects with functions that turn JSON into rows, and with the operators of jsonb."""
_WRITING = (*SETS, "duckdb", "bigquery", "trino", "presto", "athena", "mysql")
"""Dialects in which TO_JSON and similar functions accept any value, and write NULL inside of it as null."""
_ABSENT = ("postgres", "tsql", "oracle", "trino")
"""Dialects in which JSON_ARRAY omits NULL without NULL ON NULL."""


_NULLED = ("mysql", "singlestore", "starrocks", "doris")
"""Dialects in which JSON_ARRAYAGG writes NULL as null. In others it omits NULL without NULL ON NULL."""


def with_json(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement with JSON in supported functions. Raises PlanError for unsupported forms."""
    made = rewritten(tree, (*_BUILDERS, exp.Anonymous), lambda node: _replacement(node, dialect), text)
    for node in reversed(nodes(made, *_AGGREGATES, exp.Anonymous)):
        if isinstance(node, _AGGREGATES) or _name(node) in _GROUPED:
            _aggregate(node, dialect, text)
    for node in nodes(made, exp.Anonymous) if dialect == "duckdb" else ():
        if _name(node) == "WRITE_JSON":
            node.set("this", "PLAIN_JSON")
    return made


# Which values are JSON ----------------------------------------------------------------------------------------------


def is_json(node: Any) -> bool:
    """Returns whether a value is JSON, by its syntax."""
    if isinstance(node, (exp.Paren, exp.Alias, exp.Filter, exp.Window)):
        return is_json(node.this)
    if isinstance(node, (exp.Cast, exp.TryCast)):
        return node.to.this in TYPES
    if isinstance(node, exp.Case):
        return any(is_json(one.args["true"]) for one in node.args["ifs"])
    if isinstance(node, exp.Coalesce):
        return is_json(node.this)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        return len(node.this.expressions) == 1 and is_json(node.this.expressions[0])
    if isinstance(node, exp.Column):
        return _is_json_column(node.parent_select, node.name.lower(), node.table.lower())
    return isinstance(node, _NODES) or _name(node) in _NAMES or bool(node.meta.get(_MADE_JSON))


def _is_json_column(select: Any, name: str, table: str) -> bool:
    """Returns whether a query in FROM, a CTE or the elements of an array define a column of JSON."""
    inside: Any = None
    while select is not None:
        start = select.args.get("from_") or select.args.get("from")
        joined = [join.this for join in select.args.get("joins") or ()]
        for source in [*([start.this] if start is not None else []), *joined]:
            if (table and source.alias_or_name.lower() != table) or _has(source, inside):
                continue
            if isinstance(source, exp.Unnest):
                array, alias = _name(source.expressions[0]), source.args.get("alias")
                columns = [one.name.lower() for one in alias.columns[:1]] if alias is not None else []
                if (array == "JSON_PARTS" and name in columns) or (array == "JSON_MEMBERS" and name == "value"):
                    return True
            query = source.this if isinstance(source, exp.Subquery) else _cte(source)
            if query is not None and _selects_json(query, name):
                return True
        inside, outer = select, select.find_ancestor(exp.CTE, exp.Select)
        select = outer if isinstance(outer, exp.Select) else None
    return False


def _has(source: Any, query: Any) -> bool:
    """Returns whether a node of FROM contains a query."""
    while query is not None and query is not source:
        query = query.parent
    return query is not None


def _cte(source: Any) -> Any:
    """Returns the query to which the name of a table refers, or None if it is not a CTE."""
    select = source.parent_select if isinstance(source, exp.Table) else None
    while select is not None:
        clause = select.args.get("with_") or select.args.get("with")
        for one in clause.expressions if clause is not None else ():
            if one.alias.lower() == source.name.lower() and not _has(one, source):
                return one.this
        select = select.parent_select
    return None


def _selects_json(query: Any, name: str) -> bool:
    """Returns whether a query defines a column of JSON with that name."""
    while isinstance(query, (exp.Subquery, exp.Paren, exp.SetOperation)):
        query = query.this
    for item in query.expressions if isinstance(query, exp.Select) else ():
        if item.alias_or_name.lower() == name:
            return is_json(item)
        if item.is_star:
            table = item.table.lower() if isinstance(item, exp.Column) else ""
            if _is_json_column(query, name, table):
                return True
    return False


# Constructors of JSON -----------------------------------------------------------------------------------------------


def _name(node: Any) -> str:
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


def _json(node: Any) -> Any:
    """Marks a value as JSON."""
    node.meta[_MADE_JSON] = True
    return node


def _json_text(value: Any) -> Any:
    """Returns a value as JSON. NULL stays NULL."""
    return call("JSON_QUERY", value, literal("$")) if is_json(value) else call("WRITE_JSON", value)


def _present(value: Any) -> Any:
    """Returns a value as JSON. NULL becomes null."""
    return literal("null") if isinstance(value, exp.Null) else call("NVL", _json_text(value), literal("null"))


def _member(key: Any, value: Any) -> Any:
    """Returns a member of an object: its name and value, or NULL if either is NULL."""
    return call("CONCAT", call("WRITE_JSON", exp.cast(key.copy(), "string")), literal(":"), value)


def _object(pairs: list[tuple[Any, Any]], absent: bool = False) -> Any:
    if not pairs:
        return _json(literal("{}"))
    members = [_member(key, _json_text(value) if absent else _present(value)) for key, value in pairs]
    return _json(call("CONCAT", literal("{"), call("CONCAT_WS", literal(","), *members), literal("}")))


def _array(values: list[Any], absent: bool = False) -> Any:
    if not values:
        return _json(literal("[]"))
    texts = [_json_text(value) if absent else _present(value) for value in values]
    return _json(call("CONCAT", literal("["), call("CONCAT_WS", literal(","), *texts), literal("]")))


def _standard(node: Any, dialect: str) -> Any:
    """Returns JSON_OBJECT or JSON_ARRAY.

    NULL becomes null in an object. In an array it becomes null if the dialect or the call says so.
    """
    handling = str(node.args.get("null_handling") or "").upper()
    if isinstance(node, exp.JSONArray):
        return _array(node.expressions, "ABSENT" in handling or (not handling and dialect in _ABSENT))
    if any(not isinstance(one, exp.JSONKeyValue) for one in node.expressions) or node.args.get("unique_keys"):
        raise PlanError("JSON_OBJECT of this form is not supported", hint="write JSON_OBJECT('a', x, 'b', y)")
    return _object([(one.this, one.expression) for one in node.expressions], "ABSENT" in handling)


def _written(node: Any, dialect: str) -> Any:
    if dialect not in _WRITING:
        return None
    return _json(_json_text(node.this))


def _operator(node: Any, dialect: str) -> Any:
    """Returns the function of an operator of jsonb."""
    left, right = node.this, node.expression
    if isinstance(node, exp.ArrayContainedBy):
        left, right = right, left
    if isinstance(node, (exp.ArrayContainsAll, exp.ArrayContainedBy)):
        texts = [one for one in (left, right) if isinstance(one, exp.Literal) and one.name.lstrip()[:1] in ("{", "[")]
        json = dialect in SETS and (texts or is_json(left) or is_json(right))
        return call("JSONB_CONTAINS", left, right) if json else None
    if isinstance(node, exp.JSONBContainsTopKey):
        return call("JSON_HAS_KEY", left, right)
    right = right.this if isinstance(right, exp.Cast) else right
    if not isinstance(right, exp.Array) or not right.expressions:
        raise PlanError("the names to look for in JSON must be a constant list", hint="write ARRAY['a', 'b']")
    asked = [call("JSON_HAS_KEY", left, one) for one in right.expressions]
    every = isinstance(node, exp.JSONBContainsAllTopKeys)
    return exp.paren((exp.and_ if every else exp.or_)(*asked, copy=False))


def _is_null(node: Any, dialect: str) -> Any:
    """Returns IS_NULL_VALUE: whether JSON is null."""
    value = node.this
    if isinstance(value, exp.JSONExtract):  # whose value is a text without quotes
        value = call("JSON_QUERY", value.this, literal(value.expression.sql(dialect="duckdb").strip("'")))
    return exp.EQ(this=call("JSON_KIND", value), expression=literal("NULL"))


def _replacement(node: Any, dialect: str) -> Any:
    """Returns the replacement of a node, or None if the node stays."""
    made = _BUILDERS.get(type(node))
    return made(node, dialect) if made is not None else _named(node, dialect)


def _named(node: Any, dialect: str) -> Any:
    """Returns the replacement of a function without a node type of its own."""
    name, given = _name(node), node.expressions
    if name in _OBJECTS:
        if len(given) % 2:
            raise PlanError(f"{name} takes names and values in turn", hint=f"write {name}('a', x, 'b', y)")
        return _object(list(zip(given[::2], given[1::2], strict=True)))
    if name in _ARRAYS:
        return _array(given, name == "JSON_ARRAY" and dialect in _ABSENT)
    if name in _WRITERS and len(given) == 1 and dialect in _WRITING:
        return _json(_json_text(given[0]))
    return None


def _size(node: Any, dialect: str) -> Any:
    """Returns the number of elements of JSON; NULL if it is not an array."""
    return call("JSON_ARRAY_LENGTH", node.this) if dialect == "snowflake" and is_json(node.this) else None


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.JSONObject: _standard,
    exp.JSONArray: _standard,
    exp.JSONFormat: _written,
    exp.IsNullValue: _is_null,
    exp.ArraySize: _size,
    **dict.fromkeys(
        (
            exp.ArrayContainsAll,
            exp.ArrayContainedBy,
            exp.JSONBContainsTopKey,
            exp.JSONBContainsAnyTopKeys,
            exp.JSONBContainsAllTopKeys,
        ),
        _operator,
    ),
}

# Aggregates -------------------------------------------------------------------------------------------------------


def _aggregate(node: Any, dialect: str, source: str) -> None:
    """Replaces a JSON aggregate by STRING_AGG of JSON texts, with its FILTER and OVER."""
    values = [*node.expressions] or [one for one in (node.this, node.args.get("expression")) if one is not None]
    if len(values) == 1 and isinstance(values[0], exp.JSONKeyValue):
        values = [values[0].this, values[0].expression]
    *keys, value = values
    order = value if isinstance(value, exp.Order) else node.args.get("order")
    value = value.this if value is order else value
    distinct = isinstance(value, exp.Distinct)
    value = value.expressions[0] if distinct else value
    nulls = "NULL ON" in str(node.args.get("null_handling")).upper()
    standard = spelling(source, node) == "JSON_ARRAYAGG" and dialect not in _NULLED and not nulls
    skipped = isinstance(node, exp.ObjectAgg) or standard
    text = _json_text(value) if skipped else _present(value)
    text = _member(keys[0], text) if keys else text
    text = exp.Distinct(expressions=[text]) if distinct else text
    if order is not None:
        text = exp.Order(this=text, expressions=[one.copy() for one in order.expressions])
    outermost = node
    while isinstance(outermost.parent, (exp.Filter, exp.Window)) and outermost.parent.this is outermost:
        outermost = outermost.parent
    place = extent(outermost)
    joined = exp.GroupConcat(this=text, separator=literal(","))
    if outermost is not node:
        node.replace(placed(joined, extent(node)))
        joined = outermost.copy()
    joined = call("NVL", joined, literal("")) if skipped else joined
    first, last = ("{", "}") if keys else ("[", "]")
    outermost.replace(placed(_json(call("CONCAT", literal(first), joined, literal(last))), place))
