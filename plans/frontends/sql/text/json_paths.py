"""Paths of JSON as other dialects write them: `js -> 'a'`, `js #> '{a,0}'`, JSONB_EXTRACT_PATH(js, 'a', '0').

A JSON value is a text here. What stands at a path is JSON with JSON_QUERY, a string in its quotes, and a plain text
with GET_JSON_OBJECT.
"""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from plans.frontends.sql.text.place import extent, placed

_PARTS = {
    "JSON_EXTRACT_PATH": "JSON_QUERY",
    "JSONB_EXTRACT_PATH": "JSON_QUERY",
    "JSONB_EXTRACT_PATH_TEXT": "GET_JSON_OBJECT",
}
_PLAIN = ("spark", "ansi", "flink", "databricks", "snowflake", "redshift")
"""Dialects in which a string that is found has no quotes, or whose values are no texts."""


def with_paths(tree: Any) -> Any:
    """Returns a statement whose paths of several words are those of Spark."""
    for node in list(tree.find_all(exp.JSONBExtract, exp.JSONBExtractScalar, exp.Anonymous)):
        words, function = None, "JSON_QUERY"
        if isinstance(node, exp.Anonymous):
            given = node.expressions[1:]
            function = _PARTS.get(str(node.this).upper(), "")
            if function and given and all(isinstance(one, exp.Literal) for one in given):
                words, value = [one.name for one in given], node.expressions[0]
        else:
            path, value = node.expression, node.this
            function = "GET_JSON_OBJECT" if isinstance(node, exp.JSONBExtractScalar) else function
            if isinstance(path, exp.Literal) and path.name[:1] == "{" and path.name[-1:] == "}":
                words = [word.strip().strip('"') for word in path.name[1:-1].split(",") if word.strip()]
            elif isinstance(path, exp.Array) and all(isinstance(one, exp.Literal) for one in path.expressions):
                words = [one.name for one in path.expressions]
        if words is not None:
            made = exp.Anonymous(this=function, expressions=[value.copy(), exp.Literal.string(_path(words))])
            placed(made, extent(node))
            if node is tree:
                return made
            node.replace(made)
    return tree


def _path(words: list[str]) -> str:
    return "$" + "".join(f"[{word}]" if word.isdigit() else f"['{word}']" for word in words)


def as_json(made: Any, node: Any, dialect: str) -> Any:
    """Returns the call that a path is translated to, with the quotes of a string where the dialect has them."""
    if type(node) is not exp.JSONExtract or dialect in _PLAIN or not isinstance(made, exp.Anonymous):
        return made
    made.set("this", "JSON_QUERY")
    if dialect != "bigquery":
        return made
    return placed(exp.Anonymous(this="NULLIF", expressions=[made, exp.Literal.string("null")]), extent(made))
