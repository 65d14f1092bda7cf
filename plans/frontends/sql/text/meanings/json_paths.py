"""JSON paths of other dialects: `js -> 'a'`, `js #> '{a,0}'`, JSONB_EXTRACT_PATH(js, 'a', '0').

A JSON value is a text here. JSON_QUERY returns the value at a path as JSON, with a string in quotes; GET_JSON_OBJECT
returns it as plain text.
"""

from __future__ import annotations

from typing import Any

from sqlglot import Dialect, exp

from plans.frontends.sql.text.nodes import rewritten
from plans.frontends.sql.text.place import extent, placed

_PARTS = {
    "JSON_EXTRACT_PATH": "JSON_QUERY",
    "JSONB_EXTRACT_PATH": "JSON_QUERY",
    "JSONB_EXTRACT_PATH_TEXT": "GET_JSON_OBJECT",
}
_PLAIN = ("spark", "ansi", "flink", "databricks", "snowflake", "redshift")
"""Dialects in which a found string has no quotes, or whose JSON values are not texts."""


_OF_FUNCTIONS = (exp.Transform, exp.ArrayFilter, exp.ArrayAny, exp.ArrayAll, exp.Reduce)


def with_arrows(tree: Any, dialect: str, text: str) -> Any:
    """Reads `js -> 'a'` inside a call as a path. sqlglot parses it as a lambda of `js`."""
    return rewritten(tree, (exp.Lambda,), lambda node: _path(node, dialect), text)


def _path(node: Any, dialect: str) -> Any:
    """Returns the path that is parsed as a function with a constant body, or None for a function of elements."""
    parent, body = node.parent, node.this.copy()
    word = str(parent.this).upper() if isinstance(parent, exp.Anonymous) else ""
    first = body
    while isinstance(first, (exp.JSONExtract, exp.JSONExtractScalar)):
        first = first.this
    takes_function = isinstance(parent, _OF_FUNCTIONS) or word.startswith(("LIST_", "ARRAY"))
    if takes_function or len(node.expressions) != 1 or not isinstance(first, exp.Literal):
        return None
    value, path = exp.column(node.expressions[0].copy()), Dialect.get_or_raise(dialect).to_json_path(first.copy())
    found = exp.JSONExtract(this=value, expression=path, only_json_types=dialect == "postgres" or None)
    if first is body:
        return found
    first.replace(found)
    return body


def with_paths(tree: Any, text: str) -> Any:
    """Rewrites each JSON path of several words as one string, as in Spark."""
    return rewritten(tree, (exp.JSONBExtract, exp.JSONBExtractScalar, exp.Anonymous), _replacement, text)


def _replacement(node: Any) -> Any:
    """Returns the call that looks up a path, or None if the node does not, or if its path is not constant."""
    if not isinstance(node, exp.Anonymous):
        function = "GET_JSON_OBJECT" if isinstance(node, exp.JSONBExtractScalar) else "JSON_QUERY"
        value, words = node.this, _words(node.expression)
    elif str(node.this).upper() in _PARTS and len(node.expressions) > 1:
        function, (value, *parts) = _PARTS[str(node.this).upper()], node.expressions
        words = _constants(parts)
    else:
        return None
    if words is None:
        return None
    path = "$" + "".join(f"[{word}]" if word.isdigit() else f"['{word}']" for word in words)
    return exp.Anonymous(this=function, expressions=[value.copy(), exp.Literal.string(path)])


def _words(path: Any) -> list[str] | None:
    """Returns the words of a path, `'{a,0}'` or an array, or None for other paths."""
    if isinstance(path, exp.Literal) and path.name[:1] == "{" and path.name[-1:] == "}":
        return [word.strip().strip('"') for word in path.name[1:-1].split(",") if word.strip()]
    return _constants(path.expressions) if isinstance(path, exp.Array) else None


def _constants(parts: list[Any]) -> list[str] | None:
    return [part.name for part in parts] if all(isinstance(part, exp.Literal) for part in parts) else None


def as_json(made: Any, node: Any, dialect: str) -> Any:
    """Returns the call to which a path is translated, with the quotes of a string if the dialect has them."""
    if type(node) is not exp.JSONExtract or dialect in _PLAIN or not isinstance(made, exp.Anonymous):
        return made
    made.set("this", "JSON_QUERY")
    if dialect != "bigquery":
        return made
    return placed(exp.Anonymous(this="NULLIF", expressions=[made, exp.Literal.string("null")]), extent(made))
