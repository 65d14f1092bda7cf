"""Writes expressions as SQL text in Spark's syntax (4.0 and later).

DuckDB reads the operators and the casts of numbers with the same meaning. Functions that only Spark has keep their
names.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from plans.expressions import literals
from plans.expressions.columns.intervals import text_of
from plans.expressions.functions.function import HigherOrder, listing, place
from plans.expressions.functions.table import FUNCTIONS
from plans.expressions.functions.user import USER
from plans.nested import is_nested, parts
from plans.types import INTERVALS, decimal_parts

if TYPE_CHECKING:
    from plans.expressions.expr import Expr

COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "nseq": "IS NOT DISTINCT FROM"}
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "mod": "%"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = """
    all and any as between by case cast cross desc distinct else end except exists false for from full group having in
    inner intersect into is join left like limit natural not null on or order outer right select table then to true
    union unique user using when where with
"""
_RESERVED = frozenset(_WORDS.split())
_TYPES = {
    "bool": "BOOLEAN",
    "int32": "INT",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "duration": "INTERVAL DAY TO SECOND",
    "months": "INTERVAL YEAR TO MONTH",
}


def identifier(name: str) -> str:
    """Returns a name in SQL, quoted only if necessary."""
    parts = name.split(".")
    if all(_PLAIN.fullmatch(part) and part.lower() not in _RESERVED for part in parts):
        return name
    return '"' + name.replace('"', '""') + '"'


def type_name(type_: str) -> str:
    """Returns the SQL name of a planner type."""
    inside = parts(type_) if is_nested(type_) else None
    if inside is not None:
        return inside.with_types([type_name(part) for part in inside.types])
    digits = decimal_parts(type_)
    return f"DECIMAL({digits[0]},{digits[1]})" if digits else _TYPES.get(type_, type_.upper())


def sql_of(expr: Expr) -> str:
    """Returns the SQL text of an expression."""
    found: str = expr.fold(_sql_of)
    return found


def spark_sql(expr: Expr) -> str:
    """Returns the SQL text of an expression for Spark only: it returns NULL where Spark would fail, and quotes names in
    backticks."""
    found: str = expr.fold(_spark_sql)
    return found


def _typed(expr: Expr) -> str:
    """Returns a literal that has its type in Spark."""
    found = _sql_of(expr, [])
    if expr.value is not None and expr.type in INTERVALS:
        return found
    if expr.value is None or literals.checked(expr.value, None)[1] not in (expr.type, "int32"):
        return f"CAST({found} AS {type_name(expr.type)})"
    if expr.type == "timestamp_ntz":
        return found.replace("TIMESTAMP", "TIMESTAMP_NTZ", 1)
    if decimal_parts(expr.type) and "." not in found:
        return f"{found}BD"
    return f"{found}L" if expr.type == "int64" else found


_TRIED = {"add": "TRY_ADD", "sub": "TRY_SUBTRACT", "mul": "TRY_MULTIPLY", "div": "TRY_DIVIDE", "mod": "TRY_MOD"}


def _spark_sql(expr: Expr, texts: list[str]) -> str:
    if expr.body is not None:
        return _with_body(expr, expr.body, texts, _spark_sql)
    if expr.op == "col":
        return "`" + expr.value.replace("`", "``") + "`"
    if expr.op == "literal" and expr.type != "null":
        return _typed(expr)
    if expr.op in _TRIED:
        return f"{_TRIED[expr.op]}({texts[0]}, {texts[1]})"
    if expr.op == "cast":
        name = "TIMESTAMP_NTZ" if expr.type == "timestamp_ntz" else type_name(expr.type)
        return f"TRY_CAST({texts[0]} AS {name})"
    if not expr.args and is_nested(expr.type):  # ARRAY(), whose elements have no type there
        return f"CAST({_sql_of(expr, texts)} AS {type_name(expr.type)})"
    if expr.op == "size":  # of NULL it is -1 without ANSI mode
        return f"NULLIF({_sql_of(expr, texts)}, -1)"
    if expr.op == "like_of":
        return _spark_like(expr, *(f"({part})" for part in texts[:2]))
    return _sql_of(expr, texts)


def _like(expr: Expr, value: str, pattern: str) -> str:
    """Returns LIKE. A backslash is Spark's escape character where none is named, and the only one that cannot be
    written as a single literal."""
    escape = expr.value if expr.op == "like" else expr.args[2].value
    return f"{value} LIKE {pattern}" + (f" ESCAPE {text(escape)}" if escape and escape != "\\" else "")


def _spark_like(expr: Expr, value: str, pattern: str) -> str:
    """Returns LIKE with a pattern that is not constant. Spark has no LIKE without an escape character."""
    escape = expr.args[2].value
    if not escape:
        one, two = text("\\"), text("\\\\")
        return _like(expr, value, f"REPLACE({pattern}, {one}, {two})")
    pairs = text(f"\\Q{escape}\\E([%_]|\\Q{escape}\\E)")
    fits = f"INSTR(REGEXP_REPLACE({pattern}, {pairs}, ''), {text(escape)}) = 0"
    return f"CASE WHEN {fits} THEN {_like(expr, value, pattern)} END"


def _sql_of(expr: Expr, texts: list[str]) -> str:
    """Returns the text of one operator, given the texts of its operands."""
    op, args = expr.op, expr.args

    def operand(index: int) -> str:
        return texts[index] if _is_simple(args[index]) else f"({texts[index]})"

    if expr.body is not None:
        return _with_body(expr, expr.body, texts, _sql_of)
    if op == "col":
        return identifier(expr.value)
    if op == "literal":
        return (
            text_of(expr.value, expr.type) if expr.type in INTERVALS and expr.value is not None else literal(expr.value)
        )
    if op in COMPARISONS:
        return f"{operand(0)} {COMPARISONS[op]} {operand(1)}"
    if op in ARITHMETIC:
        return f"{operand(0)} {ARITHMETIC[op]} {operand(1)}"
    if op in ("and", "or"):
        first = texts[0] if args[0].op == op else _bracketed(args[0], texts[0])  # left-associative
        rest = [_bracketed(arg, part) for arg, part in zip(args[1:], texts[1:], strict=True)]
        return f" {op.upper()} ".join([first, *rest])
    if op == "not":
        if args[0].op == "isnull":
            return f"{texts[0].removesuffix('NULL')}NOT NULL"
        return f"NOT ({texts[0]})"
    if op == "isnull":
        return f"{operand(0)} IS NULL"
    if op == "in":
        return f"{operand(0)} IN ({', '.join(texts[1:])})"
    if op in ("like", "like_of"):
        return _like(expr, operand(0), operand(1))
    if op == "cast":
        wall = expr.type == "timestamp_ntz" and args[0].type == "string"  # only this form ignores a zone in the text
        return f"CAST({texts[0]} AS {'TIMESTAMP_NTZ' if wall else type_name(expr.type)})"
    if op == "case":
        whens = (f"WHEN {c} THEN {v}" for c, v in zip(texts[:-1:2], texts[1:-1:2], strict=True))
        return f"CASE {' '.join(whens)} ELSE {texts[-1]} END"
    if op == USER:
        return f"{expr.value.shown or expr.value.name}({', '.join(texts)})"
    if op == "concat":
        return " || ".join(operand(i) for i in range(len(args)))
    function = FUNCTIONS.get(op)
    if function is not None and function.sql is not None:
        return function.text([operand(i) for i in range(len(args))])
    return f"{op.upper()}({', '.join(texts)})"


def _with_body(expr: Expr, body: Expr, texts: list[str], write: Callable[[Expr, list[str]], str]) -> str:
    """Returns the call of a higher-order function. Parameters of nested lambdas are numbered."""
    function = FUNCTIONS[expr.op]
    assert isinstance(function, HigherOrder), "only these have bodies"
    values, height = len(function.takes), _height(body)
    names = [f"{name}{height or ''}" for name in function.names]
    outer = [text if _is_simple(arg) else f"({text})" for arg, text in zip(expr.args, texts, strict=True)][values:]
    columns = {place(number): text for number, text in enumerate([*names, *outer])}
    shown = [name for i, name in enumerate(names) if i < function.least or place(i) in body.columns]
    made = body.fold(lambda node, args: columns[node.value] if node.op == "col" else write(node, args))
    return f"{expr.op.upper()}({', '.join([*texts[:values], f'{listing(shown)} -> {made}'])})"


def _height(body: Expr) -> int:
    """Returns the nesting depth of lambdas in a body."""
    return max((1 + _height(node.body) for node in body.postorder() if node.body is not None), default=0)


def _bracketed(expr: Expr, sql: str) -> str:
    return f"({sql})" if expr.op in ("and", "or") else sql


def text(value: str) -> str:
    """Returns a string literal. Backslashes, which only Spark reads as escapes, are written by their character
    number."""
    return " || CHR(92) || ".join("'" + part.replace("'", "''") + "'" for part in value.split("\\"))


def literal(value: Any) -> str:
    """Returns a literal in SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return text(value) if "\\" not in value else f"({text(value)})"
    if isinstance(value, bytes):
        return f"UNHEX('{value.hex()}')"
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        if value != value or abs(value) == float("inf"):
            return f"CAST('{value}' AS DOUBLE)"
        return f"{value!r}" if "e" in repr(value) else f"{value!r}e0"
    return str(value)


def _is_simple(expr: Expr) -> bool:
    """Returns whether the text of the expression is a single operand without parentheses."""
    if expr.op == "literal" and expr.type in INTERVALS:
        return True
    if expr.op == "literal" and isinstance(expr.value, (int, float, decimal.Decimal)) and expr.value < 0:
        return False
    return expr.op in ("col", "literal", "cast", "case", "substring") or not expr.args
