"""Macros for functions of DuckDB that differ from Spark's: NULL lists, maps with common keys, bits, parts of texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from plans.errors import PlanError
from plans.expressions.build import NULL, Expr, call, cast, col, lit, typed
from plans.expressions.coercion import INTEGERS, common
from plans.expressions.functions.function import macro, meaning, place
from plans.expressions.macros.texts import formatted
from plans.nested import MAP, element_of, is_nested, parts


def _bits(number: Expr) -> Expr:
    widths = {"int8": 0xFF, "int16": 0xFFFF, "int32": 0xFFFF_FFFF}
    if number.type not in widths:
        return call("bit_count", number)
    return call("bit_count", call("bit_and", cast(number, "int64"), lit(widths[number.type], "int64")))


def _printed(pattern: Expr, *given: Expr) -> Expr:
    wide = [cast(one, "int64") if one.type in INTEGERS else one for one in given]
    missing = [call("isnull", one) for one in (pattern, *given)]
    found = formatted(pattern, *wide)
    return call("case", call("or", *missing) if len(missing) > 1 else missing[0], NULL, found)


def _encoded(text: Expr) -> Expr:
    found = call("url_encode", text)
    for sign, code in (("+", "%20"), ("%7E", "~"), ("*", "%2A")):
        found = call("replace", found, lit(sign), lit(code))
    return found


def _decoded(text: Expr) -> Expr:
    return call("url_decode", call("replace", text, lit("+"), lit("%2B")))


def _elements(text: Expr) -> Expr:
    known = call("not", call("isnull", call("get_json_object", text, lit("$"))))
    return call("coalesce", call("json_array_length", text), call("case", known, lit(0), NULL))


def _names(text: Expr) -> Expr:
    none = call("slice", call("array", lit("")), lit(1), lit(0))
    known = call("not", call("isnull", call("get_json_object", text, lit("$"))))
    return call("coalesce", call("json_object_keys", text), call("case", known, none, NULL))


def _exists(text: Expr, path: Expr) -> Expr:
    found = call("not", call("isnull", call("json_query", text, path)))
    return call("case", call("isnull", text), NULL, found)


def _scalar(text: Expr, path: Expr) -> Expr:
    found = call("json_query", text, path)
    plain = call("not", call("in", call("json_kind", found), *map(lit, ("OBJECT", "ARRAY", "NULL"))))
    return call("case", plain, found, NULL)


def _typeof(text: Expr) -> Expr:
    kind = call("json_kind", text)
    number = call("in", kind, *map(lit, ("UBIGINT", "BIGINT", "DOUBLE")))
    return call("case", number, lit("number"), call("eq", kind, lit("VARCHAR")), lit("string"), call("lower", kind))


def _side(name: str) -> Callable[[Expr, Expr], Expr]:
    """Returns a macro for LEFT or RIGHT. A negative count means all but that many characters."""

    def made(text: Expr, count: Expr) -> Expr:
        if count.op == "literal" and isinstance(count.value, int) and count.value >= 0:
            return call(name, text, count)
        but = call("greatest", call("add", call("length", text), count), lit(0))
        return call(name, text, cast(call("case", call("lt", count, lit(0)), but, count), "int32"))

    return made


_INFINITY = float("inf")


def quotient(left: Expr, right: Expr) -> Expr:
    """Returns a quotient of doubles by IEEE 754.

    A division by 0 gives an infinity, or NaN if the dividend is 0 or NaN.
    """
    found = call("div", cast(left, "float64"), cast(right, "float64"))
    if _never_zero(right):
        return found
    number = cast(left, "float64")
    parts = call("gt", number, lit(_INFINITY)), lit(float("nan"))  # NaN is the largest
    signs = *parts, call("gt", number, lit(0)), lit(_INFINITY), call("lt", number, lit(0)), lit(-_INFINITY), parts[1]
    known = call("or", call("isnull", left), call("isnull", right))
    return call("case", known, NULL, call("eq", right, lit(0)), call("case", *signs), found)


def whole_quotient(left: Expr, right: Expr) -> Expr:
    """Returns DuckDB's `//`, which truncates only for integers."""
    if {left.type, right.type} <= set(INTEGERS):
        return call("intdiv", left, right)
    return call("div", cast(left, "float64"), cast(right, "float64"))


def rest(left: Expr, right: Expr) -> Expr:
    """Returns the remainder of a division. For doubles it is NaN if the divisor is 0."""
    found = call("mod", left, right)
    if "float64" not in (left.type, right.type) or _never_zero(right):
        return found
    zero = call("and", call("not", call("isnull", left)), call("eq", right, lit(0)))
    return call("case", zero, lit(float("nan")), found)


def _sign(number: Expr) -> Expr:
    """Returns the sign of a number, which is 0 for NaN."""
    none = call("gt", cast(number, "float64"), lit(_INFINITY))
    return call("case", none, lit(0, "int32"), cast(call("sign", number), "int32"))


def _never_zero(value: Expr) -> bool:
    """Returns whether an expression is a nonzero number, or NULLIF(x, 0)."""
    if value.op == "cast":
        return _never_zero(value.args[0])
    if value.op == "literal":
        return bool(value.value)
    return value.op == "case" and value.args[0] in (call("eq", value.args[2], zero) for zero in _ZEROS)


_ZEROS = (lit(0), lit(0.0))


def _logarithm(name: str) -> Callable[[Expr], Expr]:
    """Returns a macro for a logarithm by IEEE 754: -Infinity for 0, and NaN for a negative number."""

    def made(number: Expr) -> Expr:
        plain = call(name, number)
        (double,) = plain.args
        low = call("case", call("eq", double, lit(0)), lit(-_INFINITY), lit(float("nan")))
        return call("case", call("le", double, lit(0)), low, plain)

    return made


def _log(base: Expr, number: Expr) -> Expr:
    return quotient(*(_logarithm("log10")(one) for one in (number, base)))


def _exactly(number: Expr, digits: Expr | None = None) -> Expr:
    name = "exact_round" if number.type == "float64" else "round"
    return call(name, number, *([] if digits is None else [digits]))


def as_text(value: Expr) -> Expr:
    """Returns a double or an instant as the text that DuckDB writes, and any other value as it is."""
    return call("short_text", value) if value.type == "float64" else _with_offset(value)


def _with_offset(value: Expr) -> Expr:
    return call("concat", cast(value, "string"), lit("+00")) if value.type == "timestamp" else value


def _as_decimal(value: Expr, digits: Expr) -> Expr:
    """Returns a double rounded to decimal places as DuckDB does, by a power of ten."""
    if value.type != "float64":
        return value
    scale = lit(10.0 ** int(digits.value or 0))
    return call("div", call("round", call("mul", value, scale), lit(0)), scale)


def _split_part(text: Expr, delimiter: Expr, position: Expr) -> Expr:
    """Returns the part of a text at a position. With an empty separator each character is a part; position 0 is
    empty."""
    sign = call("case", call("eq", position, lit(0)), NULL, position)
    parts = call("coalesce", call("split_part", text, delimiter, sign), lit(""))
    letters = call("coalesce", call("element_at", call("characters", text), sign), lit(""))
    missing = call("or", *(call("isnull", one) for one in (text, delimiter, position)))
    return call("case", missing, NULL, call("eq", delimiter, lit("")), letters, parts)


_WHOLE = 2.0**53
"""Doubles of at least this size are integers."""


def of_doubles(name: str, number: Expr) -> Expr:
    """Returns CEIL, FLOOR or TRUNC, which return a DOUBLE for a DOUBLE."""
    whole = cast(number, "int64") if name == "trunc" else call(name, number)
    if number.type != "float64":
        return whole
    return call("case", call("ge", call("abs", number), lit(_WHOLE)), number, cast(whole, "float64"))  # or NaN


def _merged(*maps: Expr) -> Expr:
    """Returns the entries of all maps. For a common key, the last map applies. NULL has no entries."""
    given, type_ = [one for one in maps if one.type != "null"], "null"
    for one in given:
        made, both = parts(one.type) if is_nested(one.type) else None, common(type_, one.type)
        if made is None or made.kind != MAP or both is None:
            kinds = ", ".join(one.type for one in maps)
            raise PlanError(f"MAP_CONCAT needs maps of one type, not {kinds}", hint="use CAST")
        type_ = both
    return reduce(_over, (cast(one, type_) for one in given)) if given else NULL


def _over(left: Expr, right: Expr) -> Expr:
    keys = call("map_keys", right)
    key = element_of(keys.type) or "null"
    here = call("not", call("array_contains", col(place(2), keys.type), col(place(0), key)))
    rest = typed(Expr("map_filter", left.type, (left, keys), here))
    return call("coalesce", call("map_concat", rest, right), left, right)


def _full(pattern: str) -> Callable[[Expr], Expr]:
    return lambda moment: call("date_format", cast(moment, "timestamp"), lit(pattern))


TABLE = (
    meaning("list_flatten", "any", lambda array: call("flatten", call("array_compact", array)),
            "DuckDB's FLATTEN: a NULL among the lists has no elements."),
    meaning("list_in_order", "any =bool =bool", lambda array, up, first: call("ordered_list", array, up, first),
            "DuckDB's LIST_SORT: whether it ascends, and NULLs are first; NULL is the greatest value of a field."),
    meaning("own_bit_count", "integer", _bits, "DuckDB's BIT_COUNT: counts the bits of the type."),
    meaning("long_printf", "any [any] ...", _printed, "DuckDB's PRINTF: whole numbers have 64 bits."),
    meaning("percent_encode", "string", _encoded, "DuckDB's URL_ENCODE: `%20` is a space."),
    meaning("percent_decode", "string", _decoded, "DuckDB's URL_DECODE: `+` is a plus."),
    meaning("json_elements", "string", _elements, "DuckDB's JSON_ARRAY_LENGTH: 0 for JSON that is not an array."),
    meaning("json_names", "string", _names, "DuckDB's JSON_KEYS: no elements for JSON that is not an object."),
    macro("json_exists", "string =string", _exists, note="Whether there is a value at the path; null is a value."),
    meaning("signed_left", "string integer", _side("left"),
            "DuckDB's LEFT: a negative number leaves out that many characters at the end."),
    meaning("signed_right", "string integer", _side("right"),
            "DuckDB's RIGHT: a negative number leaves out that many characters at the start."),
    meaning("ieee_ln", "float64", _logarithm("ln"), "DuckDB's LN: -Infinity for 0, NaN for negative numbers."),
    meaning("ieee_log2", "float64", _logarithm("log2"), "DuckDB's LOG2: like LN."),
    meaning("ieee_log10", "float64", _logarithm("log10"), "DuckDB's LOG10: like LN."),
    meaning("ieee_log", "float64 float64", _log, "DuckDB's LOG: like LN; the first argument is the base."),
    meaning("sign_of", "number", _sign, "DuckDB's SIGN: a whole number; 0 for NaN."),
    meaning("round_exactly", "number [=int32]", _exactly,
            "DuckDB's ROUND: a DOUBLE is rounded by its exact value: 0.145 gives 0.14."),
    meaning("as_text", "any", as_text,
            "A DOUBLE as a text with e+20, inf and nan, a TIMESTAMP by INSTANT_TEXT; anything else as it is."),
    meaning("instant_text", "any", _with_offset,
            "A TIMESTAMP as a text that ends in +00, the offset of UTC; anything else as it is."),
    meaning("as_json", "any", lambda value: value if value.type == "string" else call("plain_json", value),
            "A text as it is, anything else by PLAIN_JSON."),
    meaning("as_units", "any =int32", _as_decimal, "A DOUBLE as what DuckDB casts to a DECIMAL of so many places."),
    meaning("letters_split_part", "string string int32", _split_part, "DuckDB's SPLIT_PART: part 0 is the empty text."),
    meaning("json_scalar", "string =string", _scalar,
            "DuckDB's JSON_VALUE: a string, number or boolean as JSON, otherwise NULL."),
    macro("jsonb_typeof", "string", _typeof, also=("json_typeof",), note="The types of JSON have PostgreSQL's names."),
    meaning("double_ceil", "number", partial(of_doubles, "ceil"), "CEIL of other systems: a DOUBLE for a DOUBLE."),
    meaning("double_floor", "number", partial(of_doubles, "floor"), "FLOOR of other systems: a DOUBLE for a DOUBLE."),
    meaning("map_merge", "any ...", _merged, "DuckDB's MAP_CONCAT: a key in several maps has its last value."),
    meaning("full_dayname", "calendar", _full("EEEE"), "DAYNAME of DuckDB and MySQL: the full name."),
    meaning("full_monthname", "calendar", _full("MMMM"), "MONTHNAME of DuckDB and MySQL: the full name."),
)  # fmt: skip
