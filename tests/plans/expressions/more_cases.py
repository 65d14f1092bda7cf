"""Expressions that prove the functions of numbers, bits, digests, codes and words. Part of `expression_cases`."""

from __future__ import annotations

from tests.plans.expressions.expression_group import examples

_ANGLES = ("SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "SINH", "COSH", "TANH", "ASINH", "ACOSH", "ATANH", "COT",
         "SEC",
           "CSC", "CBRT", "EXPM1", "LOG1P", "DEGREES", "RADIANS", "RINT")  # fmt: skip

MORE_GROUPS = (
    examples(
        (*(f"{name}(dbl)" for name in _ANGLES), *(f"{name}(num / 7)" for name in _ANGLES), "ATAN2(dbl, dbl2)",
         "HYPOT(dbl, dbl2)", "ISNAN(dbl)", "ISNAN(num)", "NANVL(dbl, dbl2)", "FACTORIAL(num)", "FACTORIAL(20)",
         "WIDTH_BUCKET(dbl, 0, 10, 5)", "WIDTH_BUCKET(num, 100, -4, 7)", "WIDTH_BUCKET(dbl, dbl2, 5, 3)",
         "WIDTH_BUCKET(dec, -3, 7, num2)", "MOD(num, num2)", "TRY_ADD(num, num2)", "TRY_SUBTRACT(big, num2)",
         "TRY_MULTIPLY(dec, num2)", "TRY_DIVIDE(num, num2)", "TRY_MOD(num, num2)", "NEGATIVE(dec)", "PMOD(num, 7)",
         "PMOD(dec, 3)", "PMOD(dbl, 2.5)", "PMOD(num, 0)", "PMOD(big, -7)", "ZEROIFNULL(num)", "ZEROIFNULL(dec)",
         "NULLIFZERO(num)", "NULLIFZERO(dbl)", "PI()", "E()")
    ),
    examples(
        ("num & num2", "big | num2", "num ^ num2", "big & 255", "~ num", "~big", "num | NULL", "'7' & num",
         "SHIFTLEFT(num, 3)", "SHIFTLEFT(big, num2)", "num << 2", "SHIFTRIGHT(num, num2)", "big >> 3",
         "SHIFTRIGHTUNSIGNED(num, 3)", "SHIFTRIGHTUNSIGNED(big, 60)", "BIT_COUNT(num)", "BIT_COUNT(big)",
         ("GETBIT(num, 2)", "CAST(GETBIT(num, 2) AS INT)"), ("BIT_GET(big, num2)", "CAST(BIT_GET(big, num2) AS INT)"))
    ),
    examples(
        ("MD5(str)", "MD5(bin)", "SHA1(str)", "SHA(bin)", "SHA2(str, 256)", "SHA2(str, 0)", "SHA2(bin, 512)",
         "SHA2(str, 224)", "SHA2(str, 384)", "SHA2(str, num)", "CRC32(str)", "CRC32(bin)", "MD5(NULL)",
         "MD5('a' || num)")
    ),
    examples(
        ("ASCII(str)", "ASCII('')", "CHR(num)", "CHAR(65)", "CHR(big)", "HEX(num)", "HEX(big)", "HEX(str)",
         "HEX(bin)",
         "UNHEX(HEX(str))", "UNHEX('F')", "UNHEX(txt)", "UNHEX('abc')", "BASE64(str)", "BASE64(bin)",
         "UNBASE64(BASE64(str))",
         "UNBASE64('YQ==')", "UNBASE64('YWJj')", "UNBASE64('YQ')", "UNBASE64('Y Q = =')", "UNBASE64(pad)",
         "ENCODE(str, 'UTF-8')", "ENCODE(str, 'UTF-16')", "ENCODE(str, 'utf-16be')", "ENCODE('abc', 'US-ASCII')",
         "ENCODE(str, 'ISO-8859-1')", "ENCODE(str, 'UTF-16LE')", "ENCODE(str, 'UTF-32')", "DECODE(bin, 'UTF-8')",
         "DECODE(ENCODE(str, 'UTF-16'), 'UTF-16')", "DECODE(bin, 'ISO-8859-1')", "DECODE(bin, 'US-ASCII')",
         "CONV(num, 10, 16)", "CONV(txt, 10, 2)", "CONV(odd, 16, 10)", "CONV(big, 10, -16)", "CONV('-1', 10, 16)",
         "CONV('zz', 36, -10)", "CONV(txt, 16, num2)", "BIN(num)", "BIN(big)", "URL_ENCODE(str)", "URL_ENCODE(mail)",
         "URL_DECODE(str)", "URL_DECODE('a%20b+c%C3%A9')",
         *(f"PARSE_URL(url, '{part}')" for part in ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY",
                                                    "USERINFO", "host")),
         "PARSE_URL(url, 'QUERY', 'a')", "PARSE_URL(url, 'QUERY', 'b')", "PARSE_URL(url, 'HOST', 'a')")
    ),
    examples(
        ("SOUNDEX(str)", "SOUNDEX(mail)", "SOUNDEX('Ashcraft')", "SOUNDEX('Tymczak')", "LEVENSHTEIN(str, str2)",
         "LEVENSHTEIN(str, pad2)", "LEVENSHTEIN(str, str2, 2)", "LEVENSHTEIN(str, str2, -1)", "INITCAP(str)",
         "INITCAP('hello wORLD o''neil a-b')",
         "INITCAP(pad)", "INITCAP(mail)", "OVERLAY(str PLACING 'xy' FROM 2)",
         "OVERLAY(str PLACING 'xy' FROM 2 FOR 0)",
         "OVERLAY(str, str2, num2)", "OVERLAY(str, 'q', num, 3)", "SUBSTRING_INDEX(mail, '.', 1)",
         "SUBSTRING_INDEX(mail, '@', -1)", "SUBSTRING_INDEX(str, 'a', num2)", "SUBSTRING_INDEX(str, '', 1)",
         "FIND_IN_SET(str, 'x,a,ab')", "FIND_IN_SET('', str)", "FIND_IN_SET(str, str2)", "BIT_LENGTH(str)",
         "BIT_LENGTH(bin)", "LUHN_CHECK('79927398713')", "LUHN_CHECK(txt)", "ELT(num, str, str2)", "ELT(1, num, 'a')",
         "SPACE(3)", "REPEAT('ab', 2)", ("STRPOS(str, 'b')", "INSTR(str, 'b')"),
         "DECODE(num, 1, 'one', 5, 'five', 'other')", "DECODE(num, 1, 'one', NULL, 'none')", "DECODE(str, 'a', num)",
         "EQUAL_NULL(num, num2)", "EQUAL_NULL(str, NULL)",
         ("SPLIT_INDEX(pad, 'x', 0)", "TRY_ELEMENT_AT(SPLIT(pad, 'x', -1), 1)"),
         ("SPLIT_INDEX(pad, 'x', 2)", "TRY_ELEMENT_AT(SPLIT(pad, 'x', -1), 3)"))
    ),
    examples(
        ("ARRAY(num, 7, NULL)", "ARRAY(str, 'a')", "ARRAY(words, ARRAY('q'))", "SIZE(arr)", "CARDINALITY(map)",
         "ARRAY_SIZE(deep)", "ELEMENT_AT(arr, 1)", "ELEMENT_AT(words, -1)", "ELEMENT_AT(map, 'a')",
         "ELEMENT_AT(map, str)", "ELEMENT_AT(arr, num)", "GET(arr, 0)", "GET(words, num2)", "arr[0]", "map['x']",
         "recs[0].n", "rec.a", "rec.b[0]", "rec.c.d", ("t.rec.c", "rec.c"), "NAMED_STRUCT('x', num, 'y', words)",
         "STRUCT(num, str AS s)", "MAP('k', num, 'a', 1)", "MAP(num, str)", "MAP_KEYS(map)", "MAP_VALUES(map)",
         "MAP_ENTRIES(map)", "ARRAY_CONTAINS(arr, 1)", "ARRAY_CONTAINS(arr, big)", "ARRAY_CONTAINS(words, str)",
         "ARRAY_CONTAINS(reals, dbl)", "ARRAY_CONTAINS(deep, words)", "ARRAY_POSITION(arr, 3)",
         "ARRAY_POSITION(words, str)", "ARRAY_REMOVE(arr, 3)", "ARRAY_REMOVE(words, str)", "ARRAY_COMPACT(arr)",
         "ARRAY_DISTINCT(arr)", "ARRAY_DISTINCT(deep)", "ARRAY_DISTINCT(reals)", "SORT_ARRAY(arr)",
         "SORT_ARRAY(ARRAY(NAMED_STRUCT('a', num, 'b', str), NAMED_STRUCT('a', 1, 'b', 'm'), NULL))", "recs.n",
         "SORT_ARRAY(ARRAY(NAMED_STRUCT('a', str, 'b', num), NAMED_STRUCT('a', 'm', 'b', 2), NULL), false)",
         "ARRAY_SORT(ARRAY(NAMED_STRUCT('a', str, 'b', num), NAMED_STRUCT('a', 'm', 'b', 2), NULL))",
         "SORT_ARRAY(words, false)", "SORT_ARRAY(reals)", "SORT_ARRAY(reals, false)", "ARRAY_MIN(arr)",
         "ARRAY_MAX(words)", "ARRAY_MIN(reals)", "ARRAY_MAX(reals)", "SLICE(arr, 2, 2)", "SLICE(words, -2, 1)",
         "SLICE(arr, num, 2)", "FLATTEN(deep)", "ARRAY_JOIN(words, '-')", "ARRAY_JOIN(words, ',', '?')",
         "arr = arr2", "words <> words2", "rec <=> rec2", "arr IS NULL", "arr = ARRAY(1)",
         "CASE WHEN flag THEN arr ELSE ARRAY(9) END", "COALESCE(arr, arr2)", "CAST(arr AS ARRAY<DOUBLE>)",
         "CAST(arr AS ARRAY<STRING>)", "SPLIT(pad, 'x')", "SPLIT(str, '[ab]')", "SPLIT(pad, ' +', 2)",
         "SPLIT(pad, 'x', 1)", "SPLIT(pad, 'x', -1)", "SPLIT(mail, '[.]', 0)", "SPLIT(mail, '(a|b)+', 3)",
         "CAST(STRUCT(num, str) AS STRUCT<x: STRING, y: STRING>)", "CAST(recs AS ARRAY<STRUCT<x: STRING, y: STRING>>)",
         "CAST(rec AS STRUCT<a: STRING, b: ARRAY<STRING>, c: STRUCT<d: INT>>)", "COALESCE(arr, ARRAY())",
         "IF(flag, ARRAY(), words)", "CONCAT(arr, arr2)", "CONCAT(words, ARRAY(str))", "CONCAT_WS('-', words, str)",
         "CONCAT_WS(str, words)")
    ),
    examples(
        ("TRANSFORM(arr, x -> x + 1)", ("TRANSFORM(arr, x -> x * num)", "TRANSFORM(arr, x -> TRY_MULTIPLY(x, num))"),
         "TRANSFORM(words, (x, i) -> CONCAT(x, i, str))", "TRANSFORM(deep, x -> SIZE(x))",
         "TRANSFORM(deep, x -> TRANSFORM(x, (y, i) -> CONCAT(y, SIZE(x), i, num)))", "TRANSFORM(recs, r -> r.n)",
         "TRANSFORM(reals, x -> x > dbl)", "TRANSFORM(arr, x -> num2)", "TRANSFORM(arr, x -> STRUCT(x AS x, str AS s))",
         "TRANSFORM(arr, x -> CASE WHEN x > 1 THEN str END)", "FILTER(arr, x -> x > 1)",
         "FILTER(words, (x, i) -> i < num)", "FILTER(arr, x -> x IS NULL OR x = num2)", "FILTER(recs, r -> r.n > 1)",
         "FILTER(deep, x -> ARRAY_CONTAINS(x, str))", "EXISTS(arr, x -> x > 1)", "EXISTS(words, x -> x = str)",
         "EXISTS(arr, x -> x IN (1, 3))", "EXISTS(deep, x -> EXISTS(x, y -> y = 'a'))", "FORALL(arr, x -> x > 0)",
         "FORALL(words, x -> x LIKE 'a%')", "REDUCE(arr, CAST(num AS BIGINT), (s, x) -> s + x)",
         "REDUCE(arr, 0L, (s, x) -> s + COALESCE(x, 0), s -> s - 2)",
         "AGGREGATE(words, str, (s, x) -> CONCAT(s, COALESCE(x, '?'), num))",
         "REDUCE(words, CAST(ARRAY() AS ARRAY<STRING>), (s, x) -> SLICE(ARRAY(x, str), 1, SIZE(s) + 1))",
         "ZIP_WITH(arr, arr2, (x, y) -> x - y)", "ZIP_WITH(words, arr, (w, n) -> STRUCT(w AS w, n + num AS n))",
         "TRANSFORM_KEYS(map, (k, v) -> CONCAT(k, k))", "TRANSFORM_VALUES(map, (k, v) -> v + num)",
         "TRANSFORM_VALUES(map, (k, v) -> CONCAT(k, v, str))", "MAP_FILTER(map, (k, v) -> v > 1)",
         "MAP_FILTER(map, (k, v) -> k <> str)",
         "MAP('a', num, 'b', big, 'c', NULL)",
         "MAP_ZIP_WITH(map, map, (k, x, y) -> x + y)",
         "MAP_ZIP_WITH(map, MAP('a', str, 'q', 'r'), (k, x, y) -> CONCAT(k, x, y))",
         "MAP_ZIP_WITH(map, MAP('a', 1, 'q', 2), (k, x, y) -> COALESCE(x, 7) - COALESCE(y, num))",
         "MAP_ZIP_WITH(MAP('zz', num), map, (k, x, y) -> IF(y IS NULL, k, str))",
         "FROM_JSON(str, 'a INT')", "TO_JSON(rec)", "TO_JSON(recs)",
         "TO_JSON(map)", "TO_JSON(deep)", "TO_JSON(STRUCT(num, dbl, dec, str, flag))",
         "ARRAY(num, num2)[1]", "CAST(arr AS ARRAY<STRING>)[0]",
         "ARRAY(arr, arr)[1][0]", "TO_JSON(ARRAY(STRUCT(big AS b, arr AS `a\"c`)))",
         *((f"{name}(arr, x -> x + 1)", "TRANSFORM(arr, x -> x + 1)")
           for name in ("LIST_TRANSFORM", "LIST_APPLY", "ARRAY_TRANSFORM")),
         *((f"{name}(arr, x -> x > 1)", f"{meant}(arr, x -> x > 1)")
           for name, meant in (("LIST_FILTER", "FILTER"), ("ARRAY_FILTER", "FILTER"), ("ANY_MATCH", "EXISTS"),
                               ("ALL_MATCH", "FORALL"))))
    ),
)  # fmt: skip
