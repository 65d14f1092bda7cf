"""Rows and nested values that other dialects make of texts and JSON.

Part of `plans.frontends.sql`. JSON is taken apart by functions of arrays, so that each part is cast as in the dialect:

    CAST(js -> 'a' AS INT[])                  TRANSFORM(JSON_TEXTS(js -> 'a'), part -> CAST(part AS INT))
    FROM JSON_ARRAY_ELEMENTS_TEXT(js) AS e    FROM UNNEST(JSON_TEXTS(js)) AS e
    OPENJSON(js) WITH (n INT '$.n')           UNNEST(TRANSFORM(JSON_PARTS(js), part -> STRUCT(... AS n)))
    js -> '$.a[*].b'                          TRANSFORM(JSON_PARTS(js -> '$.a'), part -> part -> '$.b')
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings.json_calls import SETS, TYPES, is_json
from plans.frontends.sql.text.nodes import call, is_known, literal, nodes, rewritten
from plans.frontends.sql.text.place import place_of, replace_relation

_TYPE = exp.DataType.Type
_TEXT = (_TYPE.TEXT, _TYPE.VARCHAR, _TYPE.CHAR, _TYPE.NVARCHAR, _TYPE.NCHAR)
_NESTED = (_TYPE.ARRAY, _TYPE.LIST, _TYPE.STRUCT, _TYPE.MAP, _TYPE.OBJECT)
_Column = tuple[str, Callable[[Any, Any], Any]]
"""A column of rows: its name, and its value for an element and its position from 0 on."""


def with_json_rows(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which functions of arrays make the parts of texts and JSON. Raises PlanError for forms
    that are not supported."""
    for node in nodes(tree, exp.Table, exp.Lateral, exp.TableFromRows):
        try:
            _add_rows(node, dialect)
        except PlanError as error:
            raise error.at(text, place_of(text, node)) from None
    return rewritten(tree, tuple(_BUILDERS), lambda node: _BUILDERS[type(node)](node, dialect), text)


# Rows in FROM -------------------------------------------------------------------------------------------------------


def _add_rows(node: Any, dialect: str) -> None:
    """Replaces a function in FROM by UNNEST of the array of its rows."""
    called, alias = node.this, node.args.get("alias")
    given = list(alias.columns) if alias is not None else []
    made: tuple[Any, list[_Column]] | None = None
    name = called.name.upper() if isinstance(called, exp.Anonymous) else ""
    if name in _RECORDS and given and all(isinstance(one, exp.ColumnDef) for one in given):
        made = call("JSON_PARTS", *called.expressions), [_field(one, one.args["kind"], dialect) for one in given]
        given = []
    elif name in _SPLITS and dialect in SETS:
        array = _split(name, called.expressions)
        made = array, [((alias or called).name.lower(), lambda part, at: part)]
    elif name == "STRING_SPLIT" and dialect == "tsql" and 2 <= len(called.expressions) <= 3:
        columns = _VALUE if len(called.expressions) == 2 else [*_VALUE, ("ordinal", _from_one)]
        made = exp.Split(this=called.expressions[0].copy(), expression=called.expressions[1].copy()), columns
    elif isinstance(called, exp.SplitToTable):
        array = exp.Split(this=called.this.copy(), expression=called.expression.copy())
        made = array, [("index", _from_one), *_VALUE]
    elif isinstance(called, exp.OpenJSON):
        made = _opened(called, dialect)
    elif isinstance(called, exp.JSONTable):
        made = _table(called, dialect)
    elif name == "JSON_EACH" and dialect == "duckdb" and 1 <= len(called.expressions) <= 2:
        made = _each(*called.expressions), _EACH
    elif dialect in SETS:
        _add_json_rows(node)
    if made is None:
        return
    array, columns = made
    names = [*given, *(exp.to_identifier(name) for name, _ in columns[len(given) :])]
    known = exp.TableAlias(this=exp.to_identifier(alias.name if alias is not None else "made"), columns=names)
    rows = exp.Unnest(expressions=[_rows(array, columns)], alias=known)
    replace_relation(node, rows)


def _rows(array: Any, columns: list[_Column]) -> Any:
    """Returns the array of the rows: structs of the columns, or the elements themselves."""
    part, at = exp.to_identifier("part"), exp.to_identifier("place")
    values = [(name, make(part.copy(), at.copy())) for name, make in columns]
    if len(values) == 1 and values[0][1] == part:
        return array
    return call("TRANSFORM", array, exp.Lambda(this=_struct(values), expressions=[part, at]))


def _struct(values: list[tuple[str, Any]]) -> Any:
    return call("NAMED_STRUCT", *(one for name, value in values for one in (literal(name), value)))


def _from_one(part: Any, at: Any) -> Any:
    return exp.Add(this=at, expression=exp.Literal.number(1))


_VALUE: list[_Column] = [("value", lambda part, at: part)]
_RECORDS = ("JSON_TO_RECORDSET", "JSONB_TO_RECORDSET")
_ROWS = {
    "ARRAY_ELEMENTS": "JSON_PARTS", "ARRAY_ELEMENTS_TEXT": "JSON_TEXTS", "OBJECT_KEYS": "JSON_OBJECT_KEYS",
    "EACH": "JSON_MEMBERS", "EACH_TEXT": "JSON_TEXT_MEMBERS",
}  # fmt: skip
_MAKE_ROWS = {f"{json}_{name}": made for name, made in _ROWS.items() for json in ("JSON", "JSONB")}


_SPLITS = ("REGEXP_SPLIT_TO_TABLE", "STRING_TO_TABLE")


def _split(name: str, given: list[Any]) -> Any:
    """Returns the array of the rows of a function in `_SPLITS`."""
    if not 2 <= len(given) <= 3:
        raise PlanError(f"{name} takes 2 or 3 arguments, not {len(given)}", hint=f"write {name}(text, ',')")
    if name == "REGEXP_SPLIT_TO_TABLE":
        return call("REGEXP_SPLIT_TO_ARRAY", *given)
    text, mark, null = (one and one.copy() for one in (*given, None)[:3])
    return exp.StringToArray(this=text, expression=mark, null=null)


def _opened(node: Any, dialect: str) -> tuple[Any, list[_Column]]:
    """Returns the rows of OPENJSON of SQL Server."""
    if not node.expressions:
        raise PlanError("OPENJSON without columns is not supported", hint="write OPENJSON(js) WITH (n INT '$.n')")
    path = node.args.get("path")
    array = call("JSON_PARTS", call("JSON_QUERY", node.this, path) if path else node.this)
    columns = []
    for one in node.expressions:
        kind = exp.DataType.build("JSON") if one.args.get("as_json") else one.args["kind"]
        columns.append(_field(one, kind, dialect, one.args.get("path")))
    return array, columns


def _table(node: Any, dialect: str) -> tuple[Any, list[_Column]]:
    """Returns the rows of JSON_TABLE."""
    path, schema = node.args.get("path"), node.args["schema"]
    known = {"this", "path", "schema"}
    if not isinstance(path, exp.Literal) or any(value and name not in known for name, value in node.args.items()):
        raise PlanError(
            "JSON_TABLE of this form is not supported", hint="write JSON_TABLE(js, '$.items[*]' COLUMNS (...))"
        )
    inside = call("JSON_QUERY", node.this, literal(path.name.removesuffix("[*]")))
    array = call("JSON_PARTS", inside) if path.name.endswith("[*]") else exp.Array(expressions=[inside])
    columns: list[_Column] = []
    for one in schema.expressions:
        if one.args.get("nested_schema") or one.args.get("exists"):
            raise PlanError("JSON_TABLE of this form is not supported", hint="write COLUMNS (n INT PATH '$.n')")
        if one.args.get("ordinality"):
            columns.append((one.name.lower(), _from_one))
        else:
            kind = exp.DataType.build("JSON") if one.args.get("format_json") else one.args["kind"]
            columns.append(_field(one, kind, dialect, one.args.get("path")))
    return array, columns


def _each(value: Any, path: Any = None) -> Any:
    """Returns the rows of JSON_EACH of DuckDB: the members of an object, the elements of an array with their positions
    as keys, or another value with the key NULL."""
    inside = value if path is None else call("JSON_QUERY", value, path)
    part, at = exp.to_identifier("part"), exp.to_identifier("place")
    pair = _struct([("key", exp.cast(at.copy(), "string")), ("value", part.copy())])
    listed = call("TRANSFORM", call("JSON_PARTS", inside), exp.Lambda(this=pair, expressions=[part, at]))
    alone = _struct([("key", exp.cast(exp.Null(), "string")), ("value", call("JSON_QUERY", inside, literal("$")))])
    alone = exp.If(this=is_known(inside), true=exp.Array(expressions=[alone]), false=exp.Null())
    return exp.Coalesce(this=call("JSON_MEMBERS", inside), expressions=[listed, alone])


_EACH: list[_Column] = [
    ("key", lambda part, at: exp.Dot(this=part, expression=exp.to_identifier("key"))),
    ("value", lambda part, at: exp.Dot(this=part, expression=exp.to_identifier("value"))),
    ("type", lambda part, at: call("JSON_KIND", exp.Dot(this=part, expression=exp.to_identifier("value")))),
]


def _field(node: Any, kind: Any, dialect: str, path: Any = None) -> _Column:
    """Returns a column of the elements of JSON: the value at a path, or of the member with its name."""
    where = path.name if isinstance(path, exp.Literal) else f"$['{node.name}']"
    return node.name.lower(), lambda part, at: _part(part, where, kind, dialect, 1)


def _add_json_rows(node: Any) -> None:
    """Replaces a function in FROM that turns JSON into rows by UNNEST."""
    called = node.this
    name = str(called.this).upper() if isinstance(called, exp.Anonymous) else ""
    if name not in _MAKE_ROWS:
        return
    alias = (node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name.lower()))).copy()
    if "EACH" in name:
        own = ["key", "value", *["ordinality"] * bool(node.args.get("ordinality"))]
        alias.set("columns", [*alias.columns, *map(exp.to_identifier, own[len(alias.columns) :])])
    elif not alias.columns:
        asked = nodes(node.parent_select, exp.Column)
        named = any(one.name.lower() == "value" and one.table.lower() in ("", alias.name.lower()) for one in asked)
        alias.set("columns", [exp.to_identifier("value") if named and "KEYS" not in name else alias.this.copy()])
    made = exp.Unnest(expressions=[call(_MAKE_ROWS[name], *called.expressions)], alias=alias)
    made.set("offset", bool(node.args.get("ordinality")))
    replace_relation(node, made)


# Nested values ------------------------------------------------------------------------------------------------------


def _parsed(value: Any, type_: Any, dialect: str, depth: int = 0) -> Any:
    """Returns JSON as a value of a nested type. A part that does not fit is NULL."""
    inside = type_.expressions
    part = exp.to_identifier(f"part{depth}")
    if type_.this in (_TYPE.ARRAY, _TYPE.LIST) and len(inside) == 1:
        texts = not _is_whole(inside[0])
        array = call("JSON_TEXTS" if texts else "JSON_PARTS", value)
        made = _scalar(part.copy(), inside[0]) if texts else _parsed(part.copy(), inside[0], dialect, depth + 1)
        return array if made == part else call("TRANSFORM", array, exp.Lambda(this=made, expressions=[part]))
    if type_.this == _TYPE.MAP and len(inside) == 2:
        texts = not _is_whole(inside[1])
        key, item = (exp.Dot(this=part.copy(), expression=exp.to_identifier(name)) for name in ("key", "value"))
        item = _scalar(item, inside[1]) if texts else _parsed(item, inside[1], dialect, depth + 1)
        pair = exp.Lambda(this=_struct([("key", _scalar(key, inside[0])), ("value", item)]), expressions=[part])
        return call(
            "MAP_FROM_ENTRIES", call("TRANSFORM", call("JSON_TEXT_MEMBERS" if texts else "JSON_MEMBERS", value), pair)
        )
    if type_.this in (_TYPE.STRUCT, _TYPE.OBJECT) and inside and all(isinstance(one, exp.ColumnDef) for one in inside):
        fields = [(one.name, _part(value, f"$['{one.name}']", one.args["kind"], dialect, depth)) for one in inside]
        missing = exp.Is(this=call("JSON_MEMBERS", value), expression=exp.Null())
        return exp.If(this=missing, true=exp.Null(), false=_struct(fields))
    if type_.this in TYPES:
        return call("NULLIF", value, literal("null")) if dialect == "duckdb" else value
    raise PlanError(f"JSON cannot be cast to {type_.sql()}", hint="name the types of the elements or fields")


def _part(value: Any, path: str, type_: Any, dialect: str, depth: int) -> Any:
    """Returns the part of JSON at a path, as a value of a type."""
    if _is_whole(type_):
        return _parsed(call("JSON_QUERY", value, literal(path)), type_, dialect, depth)
    return _scalar(call("GET_JSON_OBJECT", value, literal(path)), type_)


def _is_whole(type_: Any) -> bool:
    """Returns whether a value of a type is made of JSON, and not of a text without quotes."""
    return type_.this in (*_NESTED, *TYPES)


def _scalar(text: Any, type_: Any) -> Any:
    return text if type_.this in _TEXT and not type_.expressions else exp.TryCast(this=text, to=type_.copy())


def _cast(node: Any, dialect: str) -> Any:
    return _parsed(node.this, node.to, dialect) if node.to.this in _NESTED and is_json(node.this) else None


def _from_json(node: Any, dialect: str) -> Any:
    """Returns FROM_JSON of DuckDB, whose second argument is JSON that describes the type."""
    return _described(node.this, node.expression) if dialect == "duckdb" else None


def _named(node: Any, dialect: str) -> Any:
    name = node.name.upper()
    if isinstance(node.parent, (exp.Table, exp.Lateral, exp.Unnest, exp.Explode)):  # it has become rows already
        return None
    if name in ("JSON_TRANSFORM", "FROM_JSON") and dialect == "duckdb" and len(node.expressions) == 2:
        return _described(*node.expressions)
    if name in _SPLITS and dialect in (*SETS, "duckdb"):
        return exp.Explode(this=_split(name, node.expressions))
    if name in _MAKE_ROWS and dialect in SETS:
        return exp.Explode(this=call(_MAKE_ROWS[name], *node.expressions))
    return None


def _described(value: Any, shape: Any) -> Any:
    if not isinstance(shape, exp.Literal) or shape.name.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return _parsed(value, exp.DataType.build(_type_of(json.loads(shape.name)), dialect="duckdb"), "duckdb")
    except ValueError:
        hint = """write it like '{"a": "INTEGER", "b": ["VARCHAR"]}'"""
        raise PlanError("the second argument is not the structure of JSON", hint=hint) from None


def _type_of(shape: Any) -> str:
    if isinstance(shape, dict) and shape:
        fields = (f'"{name}" {_type_of(one)}' for name, one in shape.items())
        return f"STRUCT({', '.join(fields)})"
    if isinstance(shape, list) and len(shape) == 1:
        return f"{_type_of(shape[0])}[]"
    if isinstance(shape, str):
        return shape
    raise ValueError(shape)


# Arrays of JSON -----------------------------------------------------------------------------------------------------


def _elements(node: Any, dialect: str) -> Any:
    """Returns JSON_QUERY_ARRAY or JSON_VALUE_ARRAY of BigQuery."""
    path = node.args.get("expression")
    inside = node.this.copy() if path is None else exp.JSONExtract(this=node.this.copy(), expression=path.copy())
    return call("JSON_SCALARS" if isinstance(node, exp.JSONValueArray) else "JSON_PARTS", inside)


def _spread(node: Any, dialect: str) -> Any:
    """Returns the array of all values at a path with `[*]`, in DuckDB."""
    steps = node.expression.expressions if isinstance(node.expression, exp.JSONPath) else []
    stars = [place for place, step in enumerate(steps) if isinstance(step.this, exp.JSONPathWildcard)]
    if dialect != "duckdb" or len(stars) != 1:
        return None
    before, after = ([one.copy() for one in some] for some in (steps[: stars[0]], steps[stars[0] + 1 :]))
    found = exp.JSONExtract(this=node.this.copy(), expression=exp.JSONPath(expressions=before))
    plain = isinstance(node, exp.JSONExtractScalar)
    array = call("JSON_TEXTS" if plain and not after else "JSON_PARTS", found)
    if after:
        part, path = exp.to_identifier("part"), exp.JSONPath(expressions=[exp.JSONPathRoot(), *after])
        there = call("JSON_EXISTS", part, literal(path.sql(dialect="duckdb").strip("'")))
        array = call("FILTER", array, exp.Lambda(this=there, expressions=[part.copy()]))
        made = type(node)(this=part.copy(), expression=path)
        array = call("TRANSFORM", array, exp.Lambda(this=made, expressions=[part.copy()]))
    missing = exp.Is(this=node.this.copy(), expression=exp.Null())
    return exp.If(
        this=missing, true=exp.Null(), false=exp.Coalesce(this=array, expressions=[exp.Array(expressions=[])])
    )


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.FromJson: _from_json,
    exp.Anonymous: _named,
    exp.JSONExtractArray: _elements,
    exp.JSONValueArray: _elements,
    exp.JSONExtract: _spread,
    exp.JSONExtractScalar: _spread,
}
