"""Functions and casts of other dialects whose meaning differs from that of Spark's with the same name.

Part of `plans.frontends.sql`. Each is renamed to a name with only this meaning, so that it keeps the meaning when the
text is translated into Spark's SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from plans.errors import PlanError
from plans.frontends.sql.text.meanings import aggregates, moments, strings
from plans.frontends.sql.text.meanings.aggregates import marked
from plans.frontends.sql.text.meanings.moments import POSTGRES, TO_EVEN
from plans.frontends.sql.text.meanings.strings import as_text
from plans.frontends.sql.text.nodes import call, is_known, literal, rewritten
from plans.frontends.sql.text.place import NO_TYPES

AS_SPARK = ("databricks", "spark2", "hive")
"""Dialects with the functions of Spark."""
_AWAY = ("snowflake", "bigquery", "trino", "presto", "athena", "mysql", "oracle", "singlestore", "starrocks", "doris")
_DECIMALS = {
    "duckdb": (18, 3), "snowflake": (38, 0), "bigquery": (38, 9), "redshift": (18, 0), "tsql": (18, 0),
    **dict.fromkeys(("trino", "presto", "athena"), (38, 0)),
}  # fmt: skip
"""The precision and scale of a DECIMAL without arguments."""
_UNBOUND = ("postgres", "materialize", "risingwave", "oracle")
"""Dialects in which a DECIMAL without arguments has as many digits as the value."""
_CUTS = (*POSTGRES, "mysql", "tsql", "oracle", "trino", "presto", "athena")
"""Dialects in which a cast to VARCHAR(n) keeps the first n characters. In SQL Server, VARCHAR alone has 30."""
_LONG = ("snowflake", "bigquery", "oracle", "sqlite")
"""Dialects in which INT has 64 bits or more."""
_INTEGERS = (exp.DataType.Type.INT, exp.DataType.Type.BIGINT)
_TEXT_TYPES = (exp.DataType.Type.TEXT, exp.DataType.Type.VARCHAR)
_TEXTS = (exp.DataType.Type.VARCHAR, exp.DataType.Type.CHAR, exp.DataType.Type.NVARCHAR, exp.DataType.Type.NCHAR)
_TENS = (*TO_EVEN, "sqlite")
"""Dialects in which LOG of one argument has the base 10."""
_LONG_FLOATS = ("tsql", "oracle", "teradata")
"""Dialects in which FLOAT has double precision, and the parser does not know it."""
_STRICT = ("snowflake", "bigquery", "mysql", "trino", "presto", "athena", "oracle")
"""Dialects in which GREATEST and LEAST are NULL if any argument is NULL."""
_OWN_HASHES = ("duckdb", "snowflake")
_OFFSETS = (*POSTGRES, "bigquery")
"""Dialects in which a TIMESTAMP as a text has the offset of its zone. So it does in DuckDB."""


def with_meanings(tree: Any, dialect: str, text: str) -> Any:
    """Returns a statement in which calls and casts have the meaning of the dialect."""
    if dialect in AS_SPARK:
        return tree

    def made(node: Any) -> Any:
        make = _BUILDERS.get(type(node))
        return None if make is None else make(node, dialect)

    return rewritten(tree, tuple(_BUILDERS), made, text)


# -- casts -------------------------------------------------------------------------------------------------------------


def _cast(node: Any, dialect: str) -> Any:
    """Returns a cast. A cast to an integer rounds. A DECIMAL or VARCHAR has the digits of the dialect."""
    made, to = node.copy(), node.to
    if dialect == "duckdb" and (to.this in _TEXT_TYPES or to.this in _INTEGERS or to.this == exp.DataType.Type.INT128):
        made.set("this", call("AS_TEXT" if to.this in _TEXT_TYPES else "WHOLE_OF", node.this))
        if to.this == exp.DataType.Type.INT128:
            made.set("to", exp.DataType.build("DECIMAL(38, 0)"))
        return made
    if dialect == "duckdb" and to.this == exp.DataType.Type.JSON:
        made.set("this", call("AS_JSON", node.this))
        return made
    if to.this == exp.DataType.Type.FLOAT and dialect in _LONG_FLOATS:
        made.set("to", exp.DataType.build("DOUBLE"))
        return made
    if to.this == exp.DataType.Type.VARIANT and dialect == "snowflake":
        return node.this.copy()  # its type is that of the value
    if to.this in _INTEGERS and (dialect in TO_EVEN or dialect in _AWAY):
        if dialect in _LONG:
            made.to.set("this", exp.DataType.Type.BIGINT)
        if not (isinstance(node.this, exp.Literal) and node.this.name.isdigit()):
            made.set("this", call("NEAREST_EVEN" if dialect in TO_EVEN else "NEAREST", node.this))
        return made
    if to.this in (*_TEXT_TYPES, *_TEXTS) and dialect in _OFFSETS:
        made.set("this", call("INSTANT_TEXT", node.this))
    if to.this == exp.DataType.Type.DECIMAL:
        if not to.expressions and dialect in _UNBOUND:
            return call("NUMERIC_OF", node.this)
        if not to.expressions and dialect in _DECIMALS:
            made.set("to", exp.DataType.build("DECIMAL({}, {})".format(*_DECIMALS[dialect])))
        if dialect == "duckdb":
            places = made.to.expressions[1].this if len(made.to.expressions) > 1 else exp.Literal.number(0)
            made.set("this", call("AS_UNITS", node.this, places))
        return made
    if to.this in _TEXTS:
        length = to.expressions[0].name if to.expressions else "30" if dialect == "tsql" else ""
        made.set("to", exp.DataType.build("TEXT"))
        return call("LEFT", made, exp.Literal.number(length)) if dialect in _CUTS and length.isdigit() else made
    return None if made == node else made


# -- numbers -----------------------------------------------------------------------------------------------------------


def _logarithm(node: Any, dialect: str) -> Any:
    if node.expression is not None:
        name = {"2": "LOG2", "10": "LOG10"}.get(node.this.name) if isinstance(node.this, exp.Literal) else None
        given = [node.expression] if name else [node.this, node.expression]
        return call(f"IEEE_{name or 'LOG'}", *given) if dialect == "duckdb" else None
    ieee = "IEEE_" if dialect == "duckdb" else ""
    return call(f"{ieee}LOG10", node.this) if dialect in _TENS else None


def _rounded(node: Any, dialect: str) -> Any:
    if dialect == "duckdb":
        return call("ROUND_EXACTLY", *node.iter_expressions())
    return call("NEAREST_EVEN", node.this) if dialect in POSTGRES and node.args.get("decimals") is None else None


def _with_one_argument(name: str) -> Callable[[Any, str], Any]:
    def made(node: Any, dialect: str) -> Any:
        return call(name, node.this) if len(list(node.iter_expressions())) == 1 else None

    return made


def _truncated(node: Any, dialect: str) -> Any:
    given = list(node.iter_expressions())
    return call("DOUBLE_TRUNC" if len(given) == 1 else "NUMBER_TRUNC", *given)


def _sum(node: Any, dialect: str) -> Any:
    """Marks that `+` joins texts, and that a date plus an INTERVAL is a moment."""
    node.set("texts", dialect == "tsql" or None)
    moments.moved(node, dialect)


def _extreme(node: Any, dialect: str) -> Any:
    if dialect not in _STRICT:
        return None
    given = list(node.iter_expressions())
    missing = exp.or_(*(exp.Is(this=one.copy(), expression=exp.null()) for one in given))
    plain = call(type(node).__name__.upper(), *given)
    if node.args.get("ignore_nulls") and dialect == "snowflake":
        return plain
    return exp.If(this=missing, true=exp.null(), false=plain)


# -- texts -------------------------------------------------------------------------------------------------------------


def _substring(node: Any, dialect: str) -> Any:
    start = node.args.get("start")
    if dialect in POSTGRES and isinstance(start, exp.Literal) and start.is_string and node.args.get("length") is None:
        group = exp.Literal.number(int(bool(re.search(r"(?<!\\)\((?!\?)", start.name))))
        return exp.RegexpSubstr(this=node.this.copy(), expression=start.copy(), group=group)
    backwards = dialect == "duckdb" and not isinstance(node.args.get("length"), (exp.Literal, type(None)))
    if start is None or (isinstance(start, exp.Literal) and start.name != "0" and not backwards):
        return None
    name = "STANDARD_SUBSTRING" if dialect in (*POSTGRES, "tsql") else "SIGNED_SUBSTRING"
    return call(name, node.this, start, node.args.get("length")) if dialect in (*POSTGRES, "tsql", "duckdb") else None


def _concat(node: Any, dialect: str) -> Any:
    """Returns CONCAT, which skips NULLs and takes values of any type."""
    if not node.args.get("coalesce"):
        return None
    given = [_text(one, dialect) for one in node.expressions]
    texts = [exp.cast(one.copy(), "string") for one in given]
    return call("CONCAT", *(exp.Coalesce(this=one, expressions=[literal("")]) for one in texts))


def _concatenated(node: Any, dialect: str) -> Any:
    """Returns texts joined by || or CONCAT_WS, with values as the dialect writes them."""
    if dialect != "duckdb" and dialect not in _OFFSETS:
        return None
    made = node.copy()
    for part in list(made.iter_expressions()):
        part.replace(_text(part, dialect))
    return made


def _text(value: Any, dialect: str) -> Any:
    if dialect in _OFFSETS:
        return value if isinstance(value, exp.Literal) else call("INSTANT_TEXT", value)
    return as_text(value) if dialect == "duckdb" else value


def _split_part(node: Any, dialect: str) -> Any:
    if dialect in ("trino", "presto", "athena"):  # NULL where there is no such part
        parts = exp.Split(this=node.this.copy(), expression=node.args["delimiter"].copy())
        return exp.Anonymous(this="ELEMENT_AT", expressions=[parts, node.args["part_index"].copy()])
    if dialect == "snowflake":  # part 0 is the first one
        text, delimiter, place = node.this, node.args["delimiter"], node.args["part_index"]
        first = exp.EQ(this=place.copy(), expression=exp.Literal.number(0))
        return call("SPLIT_PART", text, delimiter, exp.If(this=first, true=exp.Literal.number(1), false=place.copy()))
    return call("LETTERS_SPLIT_PART", *node.iter_expressions()) if dialect == "duckdb" else None


def _length(node: Any, dialect: str) -> Any:
    return call("OCTET_LENGTH", node.this) if node.args.get("binary") and dialect in ("mysql", "singlestore") else None


def _titled(node: Any, dialect: str) -> Any:
    """Returns INITCAP.

    The call or the dialect specifies the characters at which words end. By default, words end at all characters except
    letters and digits.
    """
    if node.this is None:
        raise PlanError("INITCAP needs another argument", hint="name the text: INITCAP(name)")
    signs = node.args.get("expression")
    if dialect in (*POSTGRES, "oracle") or not isinstance(signs, exp.Literal):
        return call("INITCAP_WORDS", node.this)
    return call("INITCAP_WORDS", node.this, literal(re.sub(r"\\(.)", r"\1", signs.name)))  # it is a class of a pattern


# -- others ------------------------------------------------------------------------------------------------------------


def _named(node: Any, dialect: str) -> Any:
    name = node.name.upper()
    if name == "JSON_VALUE" and dialect == "duckdb" and len(node.expressions) == 2:
        return call("JSON_SCALAR", *node.expressions)
    if dialect in _MYSQL and name in _OF_MYSQL:
        least, most, make = _OF_MYSQL[name]
        if not least <= len(node.expressions) <= most:
            wanted = f"{least} argument{'s'[: least - 1]}" if least == most else f"{least} to {most} arguments"
            raise PlanError(f"{name} takes {wanted}, not {len(node.expressions)}")
        return make(*node.expressions)
    if name == "HASH" and dialect in _OWN_HASHES:
        raise PlanError(f"HASH of {dialect} is not supported", hint="use MD5, or XXHASH64, whose values are Spark's")
    if name == "CHOOSE" and dialect == "tsql" and len(node.expressions) > 1:
        return _chosen(*node.expressions)
    if name == "MEAN" and dialect == "duckdb":
        return exp.Avg(this=node.expressions[0].copy(), own=True) if len(node.expressions) == 1 else None
    if name == "ELEMENT_AT" and dialect == "duckdb":
        return call("MAP_EXTRACT", *node.expressions)
    if name == "IS_VALID_JSON" and dialect == "redshift":
        return call("JSON_VALID", *node.expressions)
    if name == "TRUNC" and len(node.expressions) == 1:
        return call("DOUBLE_TRUNC", *node.expressions)
    return moments.named(node, dialect)


def _json_kind(node: Any, dialect: str) -> Any:
    if dialect == "bigquery":
        return call("JSONB_TYPEOF", node.this)
    path = node.expression
    found = node.this if path is None else call("JSON_QUERY", node.this, path)
    return call("JSON_KIND", found) if dialect == "duckdb" else None


def _parsed(node: Any, dialect: str) -> Any:
    plain = dialect == "duckdb" and not node.args.get("is_literal")
    return call("JSON_QUERY", node.this, literal("$")) if plain else None


def _typeof(node: Any, dialect: str) -> Any:
    raise PlanError(f"TYPEOF of {dialect} is not supported", hint=NO_TYPES)


def _chosen(number: Any, *values: Any) -> Any:
    """Returns the value at a position, or NULL if there is none."""
    made = exp.Case(this=number.copy())
    for place, value in enumerate(values, 1):
        made = made.when(exp.Literal.number(place), value.copy(), copy=False)
    return made


def _unquoted(value: Any) -> Any:
    if isinstance(value, exp.JSONExtract):
        return exp.JSONExtractScalar(this=value.this.copy(), expression=value.expression.copy())
    return exp.Coalesce(this=call("GET_JSON_OBJECT", value, literal("$")), expressions=[value.copy()])


def _json_length(value: Any, path: Any = None) -> Any:
    """Returns the number of elements of an array, or of keys of an object. Any other value has the length 1."""
    inside = value if path is None else call("JSON_QUERY", value, path)
    names, kind = call("SIZE", call("JSON_OBJECT_KEYS", inside)), call("JSON_KIND", inside)
    one = exp.If(this=is_known(kind), true=exp.Literal.number(1), false=exp.null())
    return exp.Coalesce(this=call("JSON_ARRAY_LENGTH", inside), expressions=[names, one])


def _contains(value: Any, part: Any, path: Any = None) -> Any:
    inside = value if path is None else call("JSON_QUERY", value, path)
    return exp.cast(call("JSONB_CONTAINS", inside, part), "int")


def _stuffed(node: Any, dialect: str) -> Any:
    """Returns STUFF of SQL Server and INSERT of Snowflake and MySQL."""
    start, length = (node.args[name].copy() for name in ("start", "length"))
    return exp.Overlay(this=node.this.copy(), expression=node.expression.copy(), from_=start, for_=length)


def _place(value: Any, *others: Any) -> Any:
    """Returns FIELD of MySQL: the position of a value among others, or 0."""
    branches = [exp.If(this=one.copy(), true=exp.Literal.number(at)) for at, one in enumerate(others, 1)]
    return exp.Case(this=value.copy(), ifs=branches, default=exp.Literal.number(0))


_MYSQL = ("mysql", "singlestore")
_OF_MYSQL: dict[str, tuple[int, int, Callable[..., Any]]] = {
    "JSON_UNQUOTE": (1, 1, _unquoted),
    "JSON_CONTAINS": (2, 3, _contains),
    "JSON_LENGTH": (1, 2, _json_length),
    "YEARWEEK": (1, 2, moments.year_and_week),
    "FIELD": (2, 1_000, _place),
}
"""Functions of MySQL, with the least and the greatest number of their arguments."""


def _renamed(name: str, *dialects: str) -> Callable[[Any, str], Any]:
    def made(node: Any, dialect: str) -> Any:
        return call(name, *node.iter_expressions()) if dialect in dialects else None

    return made


def _field(node: Any, dialect: str) -> Any:
    name = node.expression
    plain = isinstance(name, exp.Literal) and name.is_string
    return exp.Dot(this=node.this.copy(), expression=exp.to_identifier(name.name)) if plain else None


def _digest(node: Any, dialect: str) -> Any:
    return call("UNHEX", call("SHA2", node.this, node.args.get("length") or exp.Literal.number(256)))


def _escaped(node: Any, dialect: str) -> None:
    """Marks whether a backslash in a pattern is a plain character, or escapes the next one."""
    node.set("plain", dialect == "duckdb" or None)
    node.set("escaped", dialect in POSTGRES or None)


def _sized_digest(node: Any, dialect: str) -> Any:
    return call("SHA2", node.this, exp.Literal.number(256)) if node.args.get("length") is None else None


_BUILDERS: dict[type, Callable[[Any, str], Any]] = {
    **moments.BUILDERS,
    **strings.BUILDERS,
    **aggregates.BUILDERS,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Log: _logarithm,
    exp.Round: _rounded,
    exp.Neg: marked("exact"),
    exp.Abs: lambda node, dialect: call("EXACT_ABS", node.this),
    exp.Ceil: _with_one_argument("DOUBLE_CEIL"),
    exp.Floor: _with_one_argument("DOUBLE_FLOOR"),
    exp.Trunc: _truncated,
    # A quotient of decimals is a DOUBLE, and a remainder follows the rules of doubles.
    **dict.fromkeys((exp.Div, exp.Mod, exp.IntDiv), marked("double", "duckdb")),
    exp.TimeSlice: moments.sliced,
    exp.AddMonths: moments.months_later,
    exp.Sign: _renamed("SIGN_OF", "duckdb"),
    exp.Add: _sum,
    exp.JSONType: _json_kind,
    exp.Typeof: _typeof,
    exp.ParseJSON: _parsed,
    exp.DPipe: _concatenated,
    exp.ConcatWs: _concatenated,
    exp.SplitPart: _split_part,
    exp.Ln: _renamed("IEEE_LN", "duckdb"),
    exp.Greatest: _extreme,
    exp.Least: _extreme,
    exp.Substring: _substring,
    exp.Stuff: _stuffed,
    exp.Try: lambda node, dialect: exp.paren(node.this.copy()),  # what fails is NULL anyway
    exp.Concat: _concat,
    exp.Length: _length,
    exp.Initcap: _titled,
    exp.Bracket: marked("json", "snowflake"),
    exp.Anonymous: _named,
    **dict.fromkeys((exp.Like, exp.ILike), _escaped),
    exp.ToBinary: _renamed("BIN", "duckdb"),
    exp.Unicode: _renamed("ORD", "duckdb"),
    exp.ByteLength: _renamed("OCTET_LENGTH", "bigquery"),
    exp.StructExtract: _field,
    exp.Base64Encode: _renamed("BASE64", "snowflake"),
    exp.SHA2: _sized_digest,
    exp.SHA2Digest: _digest,
    exp.Hex: lambda node, dialect: call("LOWER", call("HEX", node.this)) if dialect in POSTGRES else None,
}
