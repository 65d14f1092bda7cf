"""The types of casts in SQL.

Part of `plans.frontends.sql`; nodes are sqlglot's.
"""

from __future__ import annotations

from typing import Any

from plans.errors import PlanError
from plans.nested import array_of, map_of, struct_of
from plans.types import normal_type, whole_span

_TYPES = {
    "int": "int32", "bigint": "int64", "double": "float64",
    "text": "string", "varchar": "string", "char": "string", "bpchar": "string", "boolean": "bool", "date": "date",
    "timestampntz": "timestamp_ntz", "timestamptz": "timestamp", "timestampltz": "timestamp",
    "binary": "binary", "varbinary": "binary",
}  # fmt: skip
_OTHER_TYPES = {
    "tinyint": "whole numbers have 32 or 64 bits here: use INT",
    "smallint": "whole numbers have 32 or 64 bits here: use INT",
    "float": "floating-point numbers have double precision here: use DOUBLE",
    "timestamp": "write TIMESTAMP_NTZ for a wall clock reading, TIMESTAMP_LTZ for an instant",
    "json": "a JSON value is a text here: write STRING",
    "interval": "write INTERVAL DAY TO SECOND or INTERVAL YEAR TO MONTH",
    "datetime": "write TIMESTAMP_NTZ for a wall clock reading, TIMESTAMP_LTZ for an instant",
}


_KNOWN = "use STRING, INT, BIGINT, DOUBLE, DECIMAL(p, s), BOOLEAN, DATE, TIMESTAMP, BINARY, or a type made of them"


def type_of(node: Any) -> str:
    """Returns the planner type of a type of SQL. Raises PlanError if there is none."""
    inner = node.expressions
    span = span_of(node)
    if span is not None:
        return whole_span(span)
    if node.this.value == "ARRAY" and len(inner) == 1:
        return array_of(type_of(inner[0]))
    if node.this.value == "MAP" and len(inner) == 2:
        return normal_type(map_of(*map(type_of, inner)))
    if node.this.value == "STRUCT" and all(one.key == "columndef" for one in inner):
        return normal_type(struct_of([one.name for one in inner], [type_of(one.args["kind"]) for one in inner]))
    name = node.this.value.lower() if hasattr(node.this, "value") else str(node.this).lower()
    if name == "decimal":
        sizes = [str(size.this.this) if hasattr(size.this, "this") else str(size.this) for size in node.expressions]
        return normal_type(f"decimal({sizes[0] if sizes else 10},{sizes[1] if len(sizes) > 1 else 0})")
    if name not in _TYPES:
        word = str(node.args.get("kind") or name)  # an unknown name, of which some dialects make a type
        raise PlanError(f"type {word.upper()} is not supported in a cast", hint=_OTHER_TYPES.get(name, _KNOWN))
    return _TYPES[name]


def span_of(node: Any) -> str | None:
    """Returns the name of an interval type, such as INTERVAL DAY TO SECOND, or None for other types."""
    if not hasattr(node.this, "args"):
        return None
    unit = node.this.args["unit"]
    words = unit.args.values() if unit.key == "intervalspan" else (unit,)
    return f"interval {' to '.join(str(word) for word in words if word is not None)}"
