"""Every scalar expression that the planner takes, over the extremes of its types.

docs/expressions.md lists them, real Spark is asked for them (tests/spark/dispatch/test_expressions.py), and none ever
fails (tests/plans/expressions/test_totality.py).
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa

from plans import Expr, arrow_type
from plans.expressions.build import col, substitute
from plans.planner import parse
from plans.schema import Schema
from tests.plans.expressions.clock_cases import CLOCK_GROUPS
from tests.plans.expressions.dialect_cases import DIALECT_GROUPS
from tests.plans.expressions.expression_group import Group, examples
from tests.plans.expressions.function_cases import FUNCTION_GROUPS
from tests.plans.expressions.gathered_cases import GATHERED_GROUPS
from tests.plans.expressions.more_cases import MORE_GROUPS

NAN, INF = float("nan"), float("inf")
ROWS = 144
_DAYS = (0, 18321, 10956, -25510, -719162, 2932896, -141428, 2932897, -800000, -(2**31), 2**31 - 1, None)
_MOMENTS = (
    *(0, -1, 1582934400_000001, 1583650800_000000, 1604210400_000000, 1711852200_000000),
    *(-62135596800_000000, 253402300799_999999, None),
)


def _decimals(*values: str) -> tuple[Decimal | None, ...]:
    return (*map(Decimal, values), None)


_POOLS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "big": ("int64", (0, 1, -1, 7, -3, 2**31, 10**17, 2**53 + 1, -(2**62), 2**63 - 1, -(2**63) + 1, None)),
    "num": ("int32", (0, 1, -1, 5, -4, 100, 46341, 2**31 - 1, -(2**31), None)),
    "dbl": ("float64", (0.0, -0.0, 0.1, 3.0, -2.25, 5e-324, 1e17, 1.7e308, NAN, INF, -INF, None)),
    "dec": (
        "decimal(10,2)",
        _decimals("0.00", "0.05", "-0.05", "1.50", "-2.25", "7.00", "99999999.99", "-99999999.99"),
    ),
    "cent": ("decimal(18,4)", _decimals("0", "0.0001", "-3.3333", "12345.6789", "99999999999999.9999", "-0.5")),
    "wide": (
        "decimal(38,10)",
        _decimals("0", "1.0000000001", "-7.5", "9" * 28 + ".9999999999", "-" + "9" * 28 + ".5", "0.0000000005"),
    ),
    "whole": (
        "decimal(38,0)",
        _decimals("0", "1", "-3", "7", "9" * 38, "-" + "9" * 38, "12345675" + "0" * 25 + "25779"),
    ),
    "frac": ("decimal(38,38)", _decimals("0", "0." + "9" * 38, "-0." + "3" * 38, "0." + "0" * 37 + "7", "0.5")),
    "flag": ("bool", (True, False, None)),
    "str": (
        "string",
        ("", "a", "ab", "straße", "ΑΣ ΑΣ. Α'Σ", "İıŉǅ", "😀é", "a%b", "A_b", "a\nb", "it's\\", None),
    ),
    "bin": ("binary", (b"", b"\x00", b"a\xff", b"a", None)),
    "day": ("date", _DAYS),
    "pad": ("string", ("", " a ", "xxa", "a  xéé", "  ", "\ta\n", "x", "axbxc", "yx é", "\u00a0a", "axx", None)),
    "txt": ("string", ("0", " 12 ", "+7", "-0", "1.5", "1e3", "abc", "", "2147483648", "9" * 20, "-.5e-2", None)),
    "odd": (
        "string",
        ("inf", " -Infinity", "NaN", "nan", "0x1p3", "1d", "1.", "\x0012\x7f", "1 2", "yes", "F", "\n5.005\t"),
    ),
    "born": (
        "string",
        (
            "2020-02-29",
            "2019-02-29",
            " 2020-1-5 ",
            "2020-01-05T12",
            "2020",
            "2020-3",
            "0001-01-01",
            "-0044-03-15",
            "+12345-06-07",
            "2020-13-01",
            "20-01-01",
            None,
        ),
    ),
    "late": (
        "string",
        (
            "9999-12-31 x",
            "9999999-01-01",
            "5881580-07-11",
            "5881580-07-12",
            "2020-1-1-1",
            "2020-01-",
            "0000-01-01",
            "T",
            "2020/01/01",
            "20200101",
            "2020-01-05 ",
            "+2020-02-30",
        ),
    ),
    "moment": (
        "string",
        (
            "2020-02-29 12:34:56",
            "2020-2-9 1:2:3.5",
            "2020-02-29T12:34:56.123456789Z",
            "2020-02-29 12:34",
            "2020-02-29 12",
            "2020-02-29 12:34:56+05:30",
            "2020-02-29 12:34:56 UTC",
            "2020-02-29 24:00:00",
            "2020-02-29 12:34:56.",
            "2020-02-29 12:34:56-8:00",
            "294247-01-10 04:00:54.775807",
            "1969-12-31 23:59:59.9Z",
        ),
    ),
    "mail": (
        "string",
        (
            "ann@x.org",
            "bob.1@y.co.uk",
            "",
            "a12b345c",
            "aab",
            "no mail",
            "x@y",
            "a.b@c.de\n",
            "ünï@cödé.fr",
            "a\rb",
            "7",
            None,
        ),
    ),
    "js": (
        "string",
        (
            '{"a":1}',
            '{"a":{"b":"x\\n\\u00e9\\u001f/"}, "b":null}',
            '{"a":[1.50,{"c":true}]} rest',
            "[1,2]",
            '{"a":1e3,"a":2}',
            "null",
            "{",
            '"text"',
            '{"a":"é\\"q", "b": 01}',
            ' {"a" : {"b" : [ ] , "c" : -0.0 } }',
            '{"a":null,"a":5}',
            None,
        ),
    ),
    "url": (
        "string",
        (
            "http://u:p@x.org:80/a/b?a=1&b=2#r",
            "https://spark.apache.org/path?query=1",
            "ftp://x",
            "/a/b?a=&c",
            "mailto:ann@x.org",
            "http://x/a b",
            "",
            "http://x?b=1&ab=2&a=3&a=4",
            "http://[::1]:8080/p",
            "x%zz",
            "http://é.fr/ü",
            None,
        ),
    ),
    "ntz": ("timestamp_ntz", _MOMENTS),
    "inst": ("timestamp", _MOMENTS),
    "arr": ("array<int64>", ([], [1], [3, None, 1, 3], [None], [5, -1, 2], [2**62], None)),
    "words": ("array<string>", ([], ["a"], ["b", None, "a", "b"], [None], ["é", ""], ["a", "ab", "x"], None)),
    "reals": ("array<float64>", ([], [0.0, NAN, -0.0], [1.5, None, INF], [None], [NAN, NAN, 2.0], None)),
    "deep": ("array<array<string>>", ([], [["a"], []], [["b", None], ["a"], ["b", None]], [None, ["x"]], None)),
    "rec": (
        "struct<a:int64,b:array<string>,c:struct<d:float64>>",
        (
            {"a": 1, "b": ["x"], "c": {"d": 0.5}},
            {"a": None, "b": None, "c": None},
            {"a": 2, "b": [], "c": {"d": None}},
            None,
        ),
    ),
    "recs": ("array<struct<k:string,n:int64>>", ([], [{"k": "a", "n": 1}, None], [{"k": None, "n": 2}], None)),
    "map": ("map<string,int64>", ([], [("a", 1), ("b", None)], [("x", 7)], None)),
}


@cache
def tables() -> dict[str, dict[str, str]]:
    """The schema: `t` has each column twice, `big` and `big2`, so that its rows have all pairs of values."""
    columns = {name + end: type_ for name, (type_, _) in _POOLS.items() for end in ("", "2")}
    return {"t": {"row": "int64", **columns}}


@cache
def columns() -> dict[str, pa.Array]:
    """The rows of `t`."""
    out = {"row": pa.array(range(ROWS), pa.int64())}
    for name, (type_, pool) in _POOLS.items():
        for end, index in (("", lambda r: r % 12), ("2", lambda r: r // 12)):
            values = [pool[index(r) % len(pool)] for r in range(ROWS)]
            out[name + end] = _array(values, arrow_type(type_))
    return out


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).view(type_)
    return pa.array(values, pa.int64()).view(type_) if pa.types.is_timestamp(type_) else pa.array(values, type_)


@cache
def expression(sql: str) -> Expr:
    """The expression that the planner makes of SQL text over `t`."""
    _, found = parse(f"SELECT DISTINCT row, {sql} AS v FROM t", _schema()).outputs[1]
    return substitute(found, lambda name: col(name.removeprefix("t."), _type(name.removeprefix("t."))))


@cache
def _schema() -> Schema:
    return Schema.of(tables())


def _type(name: str) -> str:
    return tables()["t"][name]


_PAIRS = ("big", "num", "dbl", "dec", "cent", "wide", "flag", "str", "bin", "day", "ntz", "inst")
_COMPARED = tuple(f"{name} {op} {name}2" for name in _PAIRS for op in ("=", "<", ">=", "<=>"))
_MIXED = ("big {} num", "num {} big2", "num {} dbl", "big {} dbl", "dec {} num", "big {} dec", "dec {} cent",
"dec {} wide2",
          "wide {} dbl", "dec {} dbl2")  # fmt: skip
_ARITHMETIC = tuple(pair.format(op) for pair in _MIXED for op in ("+", "-", "*", "/"))
_SAME = ("big {} big2", "num {} num2", "dbl {} dbl2", "dec {} dec2", "cent {} cent2", "wide {} wide2", "frac {} frac2")

GROUPS = (
    Group(
        "`+` `-` `*`",
        "INT, BIGINT, DOUBLE, DECIMAL, mixed",
        "overflow of INT, BIGINT or DECIMAL",
        "A BIGINT result of exactly -2^63 is NULL too: the engine uses it for NULL. Decimals of more than 38 digits "
        "are rounded half up to the scale that Spark gives the result.",
        (
            *_ARITHMETIC,
            *(pair.format(op) for pair in (*_SAME, "whole {} whole2", "wide {} frac2") for op in ("+", "-", "*")),
            "whole + frac2", "whole * frac2", "frac * frac2", "big + 1", "1 - num", "num + 2147483647",
            "num * 46341", "dec * 2",
            "2 * dec", "wide * 100", "wide * -7", "dec + 1.005", "dec * 0.10", "1 - dec", "cent * (1 - dec2)",
            "dec + 1e0",
            "1 + 1", "2147483647 + 1", "1L + 1", "1.5 * 2", "wide * wide2 * dec", "NULL + num", "NULL * dec",
            "big + CAST(NULL AS BIGINT)",
            "whole * 9223372036854775808", ".5 * num", "1. * num",
        ),
    ),
    Group(
        "`/`",
        "as above; whole numbers give a DOUBLE",
        "division by zero; overflow of DECIMAL",
        "",
        (
            *(pair.format("/") for pair in _SAME), "whole / whole2", "whole / wide2", "big / 0", "big / 3",
            "3 / num", "dbl / 0e0", "dec / 3",
            "1 / dec", "1 / 3.0", "dec / 0", "NULL / 2", "NULL / NULL", "1 / 2", "0.1 / num", "whole / 7",
            "dec / 0.07",
        ),
    ),
    Group(
        "`%`, `MOD`",
        "as above",
        "a divisor of zero",
        "The result has the sign of the dividend.",
        (
            *(pair.format("%") for pair in _SAME), *(pair.format("%") for pair in _MIXED), "whole % whole2",
            "dbl % 0.1e0", "6e0 % 0.1e0",
            "1e17 % 3e0", "1.5e0 % CAST('inf' AS DOUBLE)", "dbl % 3", "big % 7", "big % -1", "big % 0", "num % -1",
            "num % 3", "dec % 2",
            "5 % dec", "1.5 % 0.7", "whole % 0.7", "MOD(big, 5)", "NULL % 1",
        ),
    ),
    Group(
        "unary `-`",
        "INT, BIGINT, DOUBLE, DECIMAL",
        "the smallest INT",
        "A DECIMAL may have at most 34 digits.",
        (
            *(f.format(name) for name in ("big", "num", "dbl", "dec", "cent") for f in ("-{}", "ABS({})")),
            "- -5", "-(2147483648)", "-2147483648", "-1.50", "-1e0", "-NULL", "ABS(-2.5)",
            "-CAST(dec AS DECIMAL(34,20))",
        ),
    ),
    Group(
        "`=` `==` `<>` `!=` `<` `<=` `>` `>=` `<=>`, `IS [NOT] DISTINCT FROM`",
        "numbers with numbers, other types with themselves, DATE with TIMESTAMP_NTZ; with a string literal of the type",
        "a DATE that no TIMESTAMP_NTZ holds",
        "NaN equals NaN and is the largest number; -0.0 equals 0.0. Strings compare byte by byte.",
        (
            *_COMPARED, *(pair.format(op) for pair in _MIXED if pair != "big {} dbl" for op in ("=", "<", "<=>")),
            "big = dbl", "big < dbl2",
            "big > 32684", "num > 2147483648", "big = '7'", "dbl < '1.5'", "dec = '1.50'", "day = '2020-02-29'",
            "day > DATE '1999-12-31'",
            "day < '2020-2-9'", "day = ntz2", "day <= ntz2", "ntz > '2020-02-29 00:00:00'",
            "ntz = TIMESTAMP_NTZ '1970-01-01 00:00:00'",
            "inst > TIMESTAMP '2020-03-08 07:00:00Z'", "inst <= TIMESTAMP '2020-11-01 06:00:00.000001 +01:00'",
            "inst = '1970-01-01T00:00:00 UTC'",
            "flag = 'true'", "flag <> FALSE", "str = 'a'", "str > 'a''b'", "str <> \"ab\"", "str == str2",
            "str != str2", "str IS DISTINCT FROM str2",
            "num IS NOT DISTINCT FROM NULL", "num <=> NULL", "NULL = NULL", "dec > 1", "dec < 1e0", "wide > 5",
            "frac > 0", "whole = 7", "dbl = 0",
            "'\\u00e9' = 'é'", "'a\\nb' = str", "2 = 2.0", "1e-400 = 0",
        ),
    ),
    Group(
        "`AND` `OR` `NOT`",
        "BOOLEAN",
        "",
        "Kleene's logic. Both sides are always evaluated.",
        ("flag AND flag2", "flag OR flag2", "NOT flag", "flag AND NULL", "NULL OR flag", "NOT NULL",
         "flag AND num > 1 OR NOT flag2"),
    ),
    Group(
        "`IS [NOT] NULL`, `IS [NOT] TRUE`, `IS [NOT] FALSE`",
        "any type; BOOLEAN",
        "",
        "",
        ("big IS NULL", "str IS NOT NULL", "dbl IS NULL", "flag IS TRUE", "flag IS NOT TRUE", "flag IS FALSE",
         "NULL IS NULL"),
    ),
    Group(
        "`[NOT] IN` a list",
        "as `=`",
        "",
        "If the list has a DOUBLE, all of it is compared in doubles.",
        (
            "big IN (1, 7, 2147483648)", "num IN (1, NULL)", "num NOT IN (5, 100)", "num NOT IN (5, NULL)",
            "dbl IN (0.0e0, 3e0)",
            "dbl IN (CAST('nan' AS DOUBLE), CAST('-inf' AS DOUBLE))", "big IN (9007199254740992, 1e0)",
            "dec IN (1.5, 7)", "num IN (1, 2.5)",
            "str IN ('a', 'straße', '')", "day IN ('2020-02-29', DATE '1999-12-31')", "flag IN (TRUE)",
            "num IN ('5', 1)", "num IN (num2, 5)",
            "NULL IN (1)", "5 IN (num, num2)", "bin IN (bin2)", "ntz IN ('1970-01-01 00:00:00')",
        ),
    ),
    Group(
        "`[NOT] BETWEEN`",
        "as `=`",
        "",
        "",
        ("num BETWEEN -4 AND 5", "num NOT BETWEEN num2 AND 100", "dbl BETWEEN 0 AND 1e17", "str BETWEEN 'a' AND 'b'",
         "day BETWEEN '1970-01-01' AND '2020-12-31'"),
    ),
    Group(
        "`[NOT] LIKE` a constant pattern, `ESCAPE`",
        "STRING",
        "",
        "Bytes that are not UTF-8 give NULL, here and in all functions of characters.",
        ("str LIKE 'a%'", "str LIKE '_'", "str LIKE '%b'", "str NOT LIKE '%'", "str LIKE ''",
         "str LIKE 'a!%%' ESCAPE '!'", "str LIKE '%!_%' ESCAPE '!'",
         "str LIKE '__'", "str LIKE '%ß%'", "str LIKE 'a_b'", "str LIKE '%''s%'", "str NOT LIKE 'A!_b' ESCAPE '!'",
         "'a!b' LIKE 'a!!b' ESCAPE '!'",
         "str LIKE '%%%'", "str LIKE '(.*)'"),
    ),
    Group(
        "`CASE`, `IF`",
        "branches as `=`, of one type; whole numbers with decimals give a DECIMAL (of at most 38 digits, with fewer "
        "decimals if necessary), numbers with a DOUBLE give a DOUBLE",
        "",
        "All branches that a row can choose are evaluated. A NULL of a branch that is not selected has no effect.",
        (
            "CASE WHEN flag THEN 1 ELSE 2 END", "CASE WHEN num > 1 THEN 'x' WHEN flag THEN str END",
            "CASE num WHEN 1 THEN 10 ELSE big END",
            "CASE str WHEN 'a' THEN 1 END", "IF(flag, num, dec)", "IF(flag, big, dec)",
            "IF(num = 0, 0, num / num2)", "CASE WHEN flag THEN 1 ELSE 2e0 END",
            "IF(flag, day, ntz)", "IF(NULL, 1, 2)", "CASE 1 WHEN NULL THEN 2 ELSE 3 END", "IF(flag, bin, bin2)",
            "IF(flag, inst, NULL)", "IF(flag, dec, cent)",
        ),
    ),
    examples(
        ("COALESCE(num, 0)", "COALESCE(num, num2, -1)", "COALESCE(str, 'none')",
         ("COALESCE('1970-01-02', day)", "DATE '1970-01-02'"),
         ("NVL(day, '9999-12-31')", "NVL(day, DATE '9999-12-31')"),
         ("GREATEST(ntz, '2020-01-01')", "GREATEST(ntz, TIMESTAMP_NTZ '2020-01-01 00:00:00')"),
         ("IF(flag, day, '2020-01-01')", "IF(flag, day, DATE '2020-01-01')"), "NVL(dec, 0)", "IFNULL(big, dec)",
         "COALESCE(NULL, num)",
         "COALESCE(dbl, num)", ("COALESCE(num / num2, 0e0)", "COALESCE(try_divide(num, num2), 0e0)"),
         ("COALESCE(big + big2, 0)", "COALESCE(NULLIF(try_add(big, big2), -9223372036854775808), 0)"),
         ("COALESCE(CAST(big AS INT), -1)", "COALESCE(TRY_CAST(big AS INT), -1)"), "COALESCE(flag, flag2, TRUE)",
          "COALESCE(day, day2)"),
    ),
    *FUNCTION_GROUPS,
    *MORE_GROUPS,
    *CLOCK_GROUPS,
    *GATHERED_GROUPS,
    *DIALECT_GROUPS,
)  # fmt: skip


def cases() -> list[tuple[str, str, bool]]:
    """(SQL here, SQL in Spark, whether its session must be in UTC) of all cases."""
    pairs = [(case if isinstance(case, tuple) else (case, case), group.utc) for group in GROUPS for case in group.cases]
    return [(ours, theirs, utc) for (ours, theirs), utc in pairs]


def pairs() -> list[tuple[str, str]]:
    """(SQL here, SQL in Spark) of all cases."""
    return [(ours, theirs) for ours, theirs, _ in cases()]
