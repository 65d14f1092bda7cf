"""What functions and casts of other dialects mean otherwise than those of Spark with the same name.

Part of `plans.frontends.sql`. Each is written as a name that has this meaning alone, so that it keeps it where the text
is translated to Spark's words.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.place import rewritten

AS_SPARK = ("databricks", "spark2", "hive")
"""Dialects whose functions are Spark's."""
_POSTGRES = ("postgres", "redshift", "materialize", "risingwave")
_TO_EVEN = (*_POSTGRES, "duckdb")
_AWAY = ("snowflake", "bigquery", "trino", "presto", "athena", "mysql", "oracle", "singlestore", "starrocks", "doris")
_DECIMALS = {
    "duckdb": (18, 3), "snowflake": (38, 0), "bigquery": (38, 9), "redshift": (18, 0), "tsql": (18, 0),
    **dict.fromkeys(("trino", "presto", "athena"), (38, 0)),
}  # fmt: skip
"""The digits of a DECIMAL that is written without them."""
_UNBOUND = ("postgres", "materialize", "risingwave", "oracle")
"""Dialects in which it has as many as the value."""
_CUTS = (*_POSTGRES, "mysql", "tsql", "oracle", "trino", "presto", "athena")
"""Dialects in which a cast to VARCHAR(n) has the first n characters."""
_LONG = ("snowflake", "bigquery", "oracle", "sqlite")
"""Dialects whose INT has 64 bits or more."""
_INTEGERS = (exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
_TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR, exp.DataType.Type.NVARCHAR, exp.DataType.Type.NCHAR)
_TENS = (*_TO_EVEN, "sqlite")
"""Dialects whose LOG of one argument is that to the base 10."""
_STRICT = ("snowflake", "bigquery", "mysql", "trino", "presto", "athena", "oracle")
"""Dialects whose GREATEST and LEAST are NULL where an argument is."""
_OWN_HASHES = ("duckdb", "snowflake")
_FROM_SUNDAY = ("bigquery", "mysql", "tsql")
_WHOLE_SECONDS = ("duckdb", "snowflake", "bigquery", "trino", "presto", "athena", "mysql", "clickhouse", "tsql")
"""Dialects whose EXTRACT(SECOND FROM x) has no fraction."""
_KEEPS_NULLS = ("duckdb", "postgres", "materialize", "risingwave", "trino", "presto", "athena", "bigquery")
"""Dialects whose ARRAY_AGG has the NULLs, too, and is NULL of no rows."""
_COMMAS = ("duckdb", "bigquery", "sqlite")
"""Dialects whose STRING_AGG has commas, if it names nothing else."""


def with_meanings(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement of another dialect whose calls and casts mean what they mean there."""
    if dialect in AS_SPARK:
        return tree

    def made(node: Any) -> Any:
        make = _MADE.get(type(node))
        return None if make is None else make(node, dialect)

    return rewritten(tree, tuple(_MADE), made, text)


def _call(name: str, *given: Any) -> Any:
    return exp.Anonymous(this=name, expressions=[one.copy() for one in given if one is not None])


def _text(value: str) -> Any:
    return exp.Literal.string(value)


# Casts
# ----------------------------------------------------------------------------------------------------------------------


def _cast(node: Any, dialect: str) -> Any:
    """Returns a cast: to whole numbers it rounds, to a DECIMAL and a VARCHAR it has the digits of the dialect."""
    made, to = node.copy(), node.to
    if to.this in _INTEGERS and (dialect in _TO_EVEN or dialect in _AWAY):
        if dialect in _LONG:
            made.to.set("this", exp.DataType.Type.BIGINT)
        if not (isinstance(node.this, exp.Literal) and node.this.name.isdigit()):
            made.set("this", _call("NEAREST_EVEN" if dialect in _TO_EVEN else "NEAREST", node.this))
        return made
    if to.this == exp.DataType.Type.INT128 and dialect == "duckdb":
        made.set("this", _call("NEAREST_EVEN", node.this))
        made.set("to", exp.DataType.build("DECIMAL(38, 0)"))
        return made
    if to.this == exp.DataType.Type.DECIMAL and not to.expressions:
        if dialect in _UNBOUND:
            return _call("NUMERIC_OF", node.this)
        if dialect in _DECIMALS:
            made.set("to", exp.DataType.build("DECIMAL({}, {})".format(*_DECIMALS[dialect])))
            return made
    if to.this in _TEXTS and len(to.expressions) == 1 and dialect in _CUTS and to.expressions[0].name.isdigit():
        made.set("to", exp.DataType.build("TEXT"))
        return _call("LEFT", made, exp.Literal.number(to.expressions[0].name))
    return None


# Numbers
# ----------------------------------------------------------------------------------------------------------------------


def _logarithm(node: Any, dialect: str) -> Any:
    return _call("LOG10", node.this) if node.expression is None and dialect in _TENS else None


def _rounded(node: Any, dialect: str) -> Any:
    return _call("NEAREST_EVEN", node.this) if dialect in _POSTGRES and node.args.get("decimals") is None else None


def _whole(name: str) -> Callable[[Any, str], Any]:
    def made(node: Any, dialect: str) -> Any:
        return _call(name, node.this) if node.args.get("decimals") is None else None

    return made


def _truncated(node: Any, dialect: str) -> Any:
    places = node.args.get("decimals")
    return _call("DOUBLE_TRUNC", node.this) if places is None else _call("NUMBER_TRUNC", node.this, places)


def _quotient(node: Any, dialect: str) -> Any:
    """Notes that a quotient of decimals is a DOUBLE."""
    node.set("double", dialect == "duckdb" or None)


def _sum(node: Any, dialect: str) -> Any:
    """Notes that a sum of texts joins them."""
    node.set("texts", dialect == "tsql" or None)


def _extreme(node: Any, dialect: str) -> Any:
    if dialect not in _STRICT:
        return None
    given = list(node.iter_expressions())
    missing = exp.or_(*(exp.Is(this=one.copy(), expression=exp.null()) for one in given))
    plain = _call(type(node).__name__.upper(), *given)
    return exp.If(this=missing, true=exp.null(), false=plain)


# Texts
# ----------------------------------------------------------------------------------------------------------------------


def _substring(node: Any, dialect: str) -> Any:
    start = node.args.get("start")
    if start is None or (isinstance(start, exp.Literal) and start.name != "0"):
        return None
    name = "STANDARD_SUBSTRING" if dialect in (*_POSTGRES, "tsql") else "SIGNED_SUBSTRING"
    return _call(name, node.this, start, node.args.get("length")) if dialect in (*_POSTGRES, "tsql", "duckdb") else None


def _concat(node: Any, dialect: str) -> Any:
    """Returns CONCAT that passes over NULLs, of values of any type."""
    if not node.args.get("coalesce"):
        return None
    texts = [exp.cast(one.copy(), "string") for one in node.expressions]
    return _call("CONCAT", *(exp.Coalesce(this=one, expressions=[_text("")]) for one in texts))


def _length(node: Any, dialect: str) -> Any:
    return _call("OCTET_LENGTH", node.this) if node.args.get("binary") and dialect in ("mysql", "singlestore") else None


def _titled(node: Any, dialect: str) -> Any:
    """Returns INITCAP: words end at the signs that the call or the dialect names, or at all but letters and digits."""
    signs = node.args.get("expression")
    if dialect in (*_POSTGRES, "oracle") or not isinstance(signs, exp.Literal):
        return _call("INITCAP_WORDS", node.this)
    return _call("INITCAP_WORDS", node.this, _text(re.sub(r"\\(.)", r"\1", signs.name)))  # it is a class of a pattern


def _counted(node: Any, dialect: str) -> Any:
    """Notes that COUNT() counts rows."""
    if node.this is None and dialect in ("duckdb", "clickhouse"):
        node.set("this", exp.Star())


def _joined(node: Any, dialect: str) -> Any:
    """Notes what stands between the texts that an aggregate joins."""
    if node.args.get("separator") is None and dialect in _COMMAS:
        node.set("separator", _text(","))


def _gathered(node: Any, dialect: str) -> Any:
    """Notes that an aggregate keeps NULLs."""
    node.set("keeps_nulls", dialect in _KEEPS_NULLS or None)


# Moments
# ----------------------------------------------------------------------------------------------------------------------


def _moment(node: Any, dialect: str) -> Any:
    names = ("year", "month", "day", "hour", "min", "sec")
    plain = all(name in names for name, value in node.args.items() if value is not None)
    if not plain or dialect not in ("duckdb", "snowflake", *_POSTGRES):
        return None
    return _call("MAKE_TIMESTAMP_NTZ", *(node.args[name] for name in names))


def _first_day(unit: Any, dialect: str) -> str:
    """Returns the day with which weeks of a unit begin; '' if it is another unit, or ISO's week."""
    if isinstance(unit, exp.WeekStart):
        return str(unit.this.name).upper()
    word = "" if unit is None else unit.name.upper()
    if word == "ISOWEEK":
        return "MONDAY"
    return "SUNDAY" if word == "WEEK" and dialect in _FROM_SUNDAY else ""


def _extracted(node: Any, dialect: str) -> Any:
    unit = node.this
    if _part_of_age(node):
        return _months_of_age(unit.name, node.expression)
    if _is_second(unit, dialect):
        return _without_fraction(node)
    if unit.name.upper() == "ISOWEEK":
        return _call("WEEKOFYEAR", node.expression)
    first = _first_day(unit, dialect)
    if first and dialect == "tsql":
        return _call("WEEK_OF_JANUARY", node.expression)
    return _call("WEEK_FROM", _text(first), node.expression) if first else None


def _is_second(unit: Any, dialect: str) -> bool:
    """Returns whether a unit is the second, of a dialect in which it is a whole number."""
    return unit.name.upper() in ("SECOND", "SECONDS") and dialect in _WHOLE_SECONDS


def _without_fraction(node: Any) -> Any:
    return exp.cast(_call("DOUBLE_TRUNC", exp.cast(node.copy(), "double")), "bigint")


def _week(node: Any, dialect: str) -> Any:
    if dialect not in ("mysql", "singlestore"):
        return None
    if node.args.get("mode") is not None:
        raise PlanError("WEEK with a mode is not built", hint="write WEEKOFYEAR(day) for ISO's weeks, which mode 3 has")
    return _call("WEEK_FROM", _text("SUNDAY"), node.this)


def _beginning(node: Any, dialect: str) -> Any:
    first = _first_day(node.args.get("unit"), dialect) if dialect == "bigquery" else ""
    return _call("WEEK_TRUNC", _text(first), node.this) if first else None


def _difference(node: Any, dialect: str) -> Any:
    first = _first_day(node.args.get("unit"), dialect) if dialect in ("bigquery", "tsql") else ""
    ends = [one.this if isinstance(one, exp.TimeStrToTime) else one for one in (node.this, node.expression)]
    return _call("WEEKS_BETWEEN", _text(first), *ends) if first else None


# Others
# ----------------------------------------------------------------------------------------------------------------------


def _named(node: Any, dialect: str) -> Any:
    name = node.name.upper()
    if name == "AGE" and dialect in _TO_EVEN and not _part_of_age(node.parent):
        hint = "write a - b, MONTHS_BETWEEN(a, b), or EXTRACT(YEAR FROM AGE(a, b))"
        raise PlanError("AGE has both months and days, and a length of time has one of them here", hint=hint)
    if name in ("DATE_PART", "DATEPART") and _part_of_age(node):
        return _months_of_age(node.expressions[0].name, node.expressions[1])
    if name in ("DATE_PART", "DATEPART") and len(node.expressions) == 2 and _is_second(node.expressions[0], dialect):
        return _without_fraction(node)
    if name == "HASH" and dialect in _OWN_HASHES:
        raise PlanError(f"HASH of {dialect} is not built", hint="use MD5, or XXHASH64, whose values are Spark's")
    if name == "TO_TIMESTAMP" and dialect == "snowflake" and len(node.expressions) == 1:
        return exp.cast(node.expressions[0].copy(), exp.DataType.build("TIMESTAMPNTZ"))
    if name == "ELEMENT_AT" and dialect == "duckdb":
        return _call("MAP_EXTRACT", *node.expressions)
    if name == "TRUNC" and len(node.expressions) == 1:
        return _call("DOUBLE_TRUNC", *node.expressions)
    return None


def _part_of_age(node: Any) -> bool:
    """Returns whether a call is for the years or months of an AGE."""
    if isinstance(node, exp.Extract):
        part, age = node.this, node.expression
    elif isinstance(node, exp.Anonymous) and node.name.upper() in ("DATE_PART", "DATEPART"):
        part, age = [*node.expressions, None, None][:2]
    else:
        return False
    named = isinstance(age, exp.Anonymous) and age.name.upper() == "AGE" and 1 <= len(age.expressions) <= 2
    return named and part.name.upper().rstrip("S") in ("YEAR", "MONTH")


def _months_of_age(part: str, age: Any) -> Any:
    end, start = age.expressions if len(age.expressions) == 2 else (exp.CurrentDate(), *age.expressions)
    months = _call("TIMESTAMPDIFF", _text("MONTH"), start, end)
    year = part.upper().startswith("YEAR")
    return exp.paren((exp.IntDiv if year else exp.Mod)(this=months, expression=exp.Literal.number(12)))


def _like(node: Any, dialect: str) -> Any:
    """Notes that a backslash of a pattern is a plain sign."""
    node.set("plain", dialect == "duckdb" or None)


def _renamed(name: str, *dialects: str) -> Callable[[Any, str], Any]:
    def made(node: Any, dialect: str) -> Any:
        return _call(name, *node.iter_expressions()) if dialect in dialects else None

    return made


def _field(node: Any, dialect: str) -> Any:
    name = node.expression
    plain = isinstance(name, exp.Literal) and name.is_string
    return exp.Dot(this=node.this.copy(), expression=exp.to_identifier(name.name)) if plain else None


def _digest(node: Any, dialect: str) -> Any:
    return _call("UNHEX", _call("SHA2", node.this, node.args.get("length") or exp.Literal.number(256)))


def _sized_digest(node: Any, dialect: str) -> Any:
    return _call("SHA2", node.this, exp.Literal.number(256)) if node.args.get("length") is None else None


def _wall_clock(node: Any, dialect: str) -> Any:
    return exp.cast(node.this.copy(), exp.DataType.build("TIMESTAMPNTZ"))


def _in_small_letters(node: Any, dialect: str) -> Any:
    return _call("LOWER", _call("HEX", node.this)) if dialect in _POSTGRES else None


_MADE: dict[type, Callable[[Any, str], Any]] = {
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Log: _logarithm,
    exp.Round: _rounded,
    exp.Ceil: _whole("DOUBLE_CEIL"),
    exp.Floor: _whole("DOUBLE_FLOOR"),
    exp.Trunc: _truncated,
    exp.Div: _quotient,
    exp.Add: _sum,
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.Substring: _substring,
    exp.Concat: _concat,
    exp.Length: _length,
    exp.Initcap: _titled,
    exp.GroupConcat: _joined,
    exp.ArrayAgg: _gathered,
    exp.Count: _counted,
    exp.TimestampFromParts: _moment,
    exp.Extract: _extracted,
    exp.Week: _week,
    exp.DateTrunc: _beginning,
    exp.TimestampTrunc: _beginning,
    exp.DatetimeTrunc: _beginning,
    exp.DateDiff: _difference,
    exp.DatetimeDiff: _difference,
    exp.Anonymous: _named,
    exp.Like: _like,
    exp.ILike: _like,
    exp.ToBinary: _renamed("BIN", "duckdb"),
    exp.Unicode: _renamed("ORD", "duckdb"),
    exp.ByteLength: _renamed("OCTET_LENGTH", "bigquery"),
    exp.StructExtract: _field,
    exp.Base64Encode: _renamed("BASE64", "snowflake"),
    exp.SHA2: _sized_digest,
    exp.SHA2Digest: _digest,
    exp.TsOrDsToDatetime: _wall_clock,
    exp.Hex: _in_small_letters,
}
