"""Macros for functions of texts with another order of arguments."""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, lit
from plans.expressions.functions.function import Macro, macro
from plans.expressions.functions.nested.jsonpath import members
from plans.expressions.functions.texts.forms import SPEC


def _signs_first(name: str) -> Macro:
    return macro(
        name,
        "string string",
        lambda signs, text: call(name, text, signs),
        note="The first argument has the characters to remove.",
    )


def _substring(text: Expr, pattern: Expr, group: Expr | None = None) -> Expr:
    found = call("regexp_extract", text, pattern, group or lit(0))
    return call("case", call("regexp_like", text, pattern), found, NULL)


def formatted(pattern: Expr, *values: Expr) -> Expr:
    """Returns FORMAT_STRING as a concatenation of plain text and values. NULL is written as null."""
    if pattern.op != "literal" or not isinstance(pattern.value, str):
        raise PlanError("FORMAT_STRING takes a constant pattern", hint="write the text itself, such as '%s: %d'")
    parts, given, at = [lit("")], list(values), 0
    for found in _MARKS.finditer(pattern.value):
        parts.append(lit(pattern.value[at : found.start()]))
        at = found.end()
        if found[0] in _PLAIN:
            parts.append(lit(_PLAIN[found[0]]))
            continue
        if not given:
            raise PlanError(f"FORMAT_STRING has no value for {found[0]}", hint="give one value for each mark")
        value = given.pop(0)
        value = cast(value, "string") if value.type == "null" else value
        empty = lit(_null_as(found[0]))
        parts.append(call("coalesce", call("format_piece", lit(found[0]), value), empty))
    parts.append(lit(pattern.value[at:]))
    return call("concat", *(part for part in parts if part.op != "literal" or part.value))


def _null_as(spelling: str) -> str:
    """Returns the text that Java writes for null with a format specifier."""
    found = SPEC.fullmatch(spelling)
    text = "null" if found is None or found[3] is None else "null"[: int(found[3])]
    width = int(found[2] or 0) if found is not None else 0
    return text.ljust(width) if "-" in spelling else text.rjust(width)


_MARKS = re.compile(r"%(?:[^%a-zA-Z]*[a-zA-Z]|%)|%")
_PLAIN = {"%%": "%", "%n": "\n"}
_BYTES = {"hex": "unhex", "base64": "unbase64", "utf-8": "encode", "utf8": "encode"}


def _to_binary(text: Expr, form: Expr | None = None) -> Expr:
    name = "hex" if form is None else str(form.value).lower()
    if name not in _BYTES:
        raise PlanError(f"TO_BINARY does not know the form {name!r}", hint="use 'hex', 'utf-8' or 'base64'")
    return call(_BYTES[name], text, *([lit("UTF-8")] if _BYTES[name] == "encode" else []))


def _schema(text: Expr) -> Expr:
    """Returns SCHEMA_OF_JSON: the type of a constant JSON text."""
    try:
        return lit(_type_of(members(text.value if isinstance(text.value, str) else "")))
    except ValueError:
        raise PlanError("SCHEMA_OF_JSON takes a text of JSON", hint="write the text itself: '{\"a\": 1}'") from None


def _type_of(value: Any) -> str:
    if isinstance(value, tuple):
        fields = {name: _type_of(one) for name, one in value}
        return "STRUCT<" + ", ".join(f"{_spelled(name)}: {fields[name]}" for name in sorted(fields)) + ">"
    if isinstance(value, list):
        return f"ARRAY<{reduce(_either, [_type_of(one) for one in value if one is not None] or ['STRING'])}>"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return f"DECIMAL({len(str(abs(value)))},0)"
    return {bool: "BOOLEAN", int: "BIGINT", float: "DOUBLE"}.get(type(value), "STRING")


def _either(left: str, right: str) -> str:
    """Returns the common type of two types of JSON."""
    if left == right:
        return left
    if any(kind in left + right for kind in "<("):
        raise PlanError(
            f"SCHEMA_OF_JSON: elements of one array have the types {left} and {right}", hint="use elements of one type"
        )
    return "DOUBLE" if {left, right} == {"BIGINT", "DOUBLE"} else "STRING"


def _spelled(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"


def _masked(text: Expr, *signs: Expr) -> Expr:
    for sign in signs:
        if sign.op != "literal" or not isinstance(sign.value, (str, type(None))):
            raise PlanError(f"MASK needs a constant instead of {sign}", hint="write the character itself, or NULL")
    return call("masked", text, *(lit(sign.value or "") for sign in signs))


TABLE = (
    macro("mask", "string [=string] [=string] [=string] [=string]", _masked,
          note="Replaces upper-case letters by `X`, lower-case letters by `x` and digits by `n`, or by the given "
               "characters."),
    macro("schema_of_json", "=string", _schema, note="The argument is a literal."),
    macro("regexp_substr", "string =string [=int32]", _substring, note="NULL if nothing matches."),
    macro("format_string", "any [any] ...", formatted, also=("printf",),
          note="The pattern is Java's, with `%s`, `%d`, `%f`, `%x`, `%o`, and their widths and flags."),
    macro("to_binary", "string [=string]", _to_binary, also=("try_to_binary",)),
    macro("try_parse_url", "string string [string]", lambda *given: call("parse_url", *given)),
    macro("try_url_decode", "string", lambda text: call("url_decode", text)),
    macro("instr", "string string", lambda text, wanted: call("locate", wanted, text), also=("strpos",)),
    macro("space", "int32", lambda count: call("repeat", lit(" "), count)),
    *map(_signs_first, ("trim", "ltrim", "rtrim")),
)  # fmt: skip
