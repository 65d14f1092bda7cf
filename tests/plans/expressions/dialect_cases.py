"""Expressions that prove the names for what other dialects than Spark mean. Part of `expression_cases`."""

from __future__ import annotations

from tests.plans.expressions.expression_group import examples

_KNOWN = "ARRAY_COMPACT(arr)"
_DAY = "CAST(ntz AS DATE)"
_SUNDAY = f"CAST((DAYOFYEAR({_DAY}) + 7 - DAYOFWEEK({_DAY})) DIV 7 AS INT)"
_FIRST = f"EXTRACT(DAYOFWEEK FROM TRUNC({_DAY}, 'YEAR'))"
_TIME = "PMOD(UNIX_MICROS(inst), 86400000000) / 86400000000D"
_ALL_AT_ONE = "REDUCE(ARRAY_COMPACT(arr), CAST({} AS BIGINT), (t, x) -> t {} x)"

DIALECT_GROUPS = (
    examples(
        (
            ("LIST_IN_ORDER(arr, TRUE, FALSE)", "ARRAY_SORT(arr)"),
            ("LIST_IN_ORDER(arr, FALSE, FALSE)", "SORT_ARRAY(arr, FALSE)"),
            ("LIST_IN_ORDER(words, TRUE, TRUE)", "SORT_ARRAY(words)"),
            ("NEAREST(dbl)", "ROUND(dbl, 0)"),
            ("NEAREST(dec)", "ROUND(dec, 0)"),
            ("NEAREST(num)", "num"),
            ("NEAREST(str)", "str"),
            ("NEAREST_EVEN(dbl)", "RINT(dbl)"),
            ("NEAREST_EVEN(dec)", "ROUND(dec, 0)"),
            ("CAST(NEAREST_EVEN(dbl) AS INT)", "TRY_CAST(RINT(dbl) AS INT)"),
            ("NUMERIC_OF(num)", "CAST(num AS DECIMAL(10,0))"),
            ("NUMERIC_OF(big)", "CAST(big AS DECIMAL(20,0))"),
            ("NUMERIC_OF(dec)", "dec"),
            ("NUMERIC_OF(dbl)", "TRY_CAST(dbl AS DECIMAL(38,15))"),
            ("NUMBER_TRUNC(dec, 1)", "CAST(dec - dec % 0.1 AS DECIMAL(10,2))"),
            ("NUMBER_TRUNC(dec, 2)", "dec"),
            ("EXACT_ABS(CAST(dec AS DECIMAL(38,2)))", "CAST(ABS(dec) AS DECIMAL(38,2))"),
            ("EXACT_ABS(big)", "ABS(big)"),
            ("MOMENT_OF(num)", "CAST(TIMESTAMP_SECONDS(num) AS TIMESTAMP_NTZ)"),
            ("MOMENT_OF(ntz)", "ntz"),
            ("NUMBER_TRUNC(big, -3)", "big - big % 1000"),
            ("NUMBER_TRUNC(-2.567D, 2)", "-2.56D"),
            ("NUMBER_TRUNC(1234.5D, -2)", "1200D"),
            ("DOUBLE_TRUNC(ntz)", "CAST(ntz AS DATE)"),
            ("STANDARD_SUBSTRING(str, 0, 2)", "SUBSTRING(str, 1, 1)"),
            ("STANDARD_SUBSTRING(str, -1, 2)", "SUBSTRING(str, 1, 0)"),
            ("STANDARD_SUBSTRING(str, 2)", "SUBSTRING(str, 2)"),
            (
                "STANDARD_SUBSTRING(str, num2, 3)",
                "IF(num2 IS NOT NULL, "
                "SUBSTRING(str, GREATEST(num2, 1), GREATEST(CAST(num2 AS BIGINT) + 3 - GREATEST(num2, 1), 0L)), NULL)",
            ),
            ("SIGNED_SUBSTRING(str, -2, 1)", "SUBSTRING(str, -2, 1)"),
            ("SIGNED_SUBSTRING(str, 0, 2)", "SUBSTRING(str, 1, 1)"),
            ("SIGNED_SUBSTRING(str, NULLIF(big, big), 2)", "CAST(NULL AS STRING)"),
            ("STANDARD_SUBSTRING(str, 1, NULLIF(big, big))", "CAST(NULL AS STRING)"),
            (f"WEEK_FROM('SUNDAY', {_DAY})", _SUNDAY),
            ("WEEK_FROM('monday', DATE '2024-01-07')", "1"),
            ("WEEK_FROM('MONDAY', DATE '2023-01-01')", "0"),
            (f"WEEK_OF_JANUARY({_DAY})", f"{_SUNDAY} + IF({_FIRST} = 1, 0, 1)"),
            (f"WEEK_TRUNC('MONDAY', {_DAY})", f"TRUNC({_DAY}, 'WEEK')"),
            (f"WEEK_TRUNC('SUNDAY', {_DAY})", f"DATE_SUB({_DAY}, DAYOFWEEK({_DAY}) - 1)"),
            ("WEEK_TRUNC('SATURDAY', DATE '2024-03-01')", "DATE '2024-02-24'"),
            ("WEEK_TRUNC('MONDAY', ntz)", "CAST(DATE_TRUNC('WEEK', ntz) AS TIMESTAMP_NTZ)"),
            ("WEEKS_BETWEEN('SUNDAY', DATE '2024-03-03', DATE '2024-03-02')", "1L"),
            ("WEEKS_BETWEEN('MONDAY', DATE '2024-03-03', DATE '2024-03-18')", "-3L"),
            (f"JULIAN({_DAY})", f"UNIX_DATE({_DAY}) + 2440588D"),
            ("JULIAN(inst)", f"{_TIME} + (UNIX_DATE(CAST(inst AS DATE)) + 2440588)"),
            ("JULIANDAY(inst)", "(UNIX_MILLIS(inst) + 210866760000000) / 86400000D"),
            ("PERIODS_OVERLAP(inst, inst, inst, inst)", "inst = inst"),
            ("AS_TEXT(inst)", "CONCAT(CAST(inst AS STRING), '+00')"),
            ("INSTANT_TEXT(inst)", "CONCAT(CAST(inst AS STRING), '+00')"),
        ),
        utc=True,
    ),
    examples(
        (
            ("INITCAP_WORDS('hello wORLD o''neil a-b_c')", "'Hello World O''Neil A-B_C'"),
            ("INITCAP_WORDS('ab-cD eF', '-')", "'Ab-Cd ef'"),
            ("GCD(num, 12)", "CASE WHEN num IS NULL THEN NULL ELSE REDUCE(SEQUENCE(1, 12), 1L, (t, x) -> "
             "IF(num % x = 0 AND 12 % x = 0, CAST(x AS BIGINT), t)) END"),
            ("GREATEST_COMMON_DIVISOR(-6, 4)", "2L"),
            ("GCD(0, 0)", "0L"),
            ("LCM(num, 0)", "CAST(num AS BIGINT) * 0"),
            ("LCM(6, 4)", "12L"),
            ("LEAST_COMMON_MULTIPLE(4000000000, 3999999999)", "CAST(NULL AS BIGINT)"),
            ("FARM_FINGERPRINT('1footrue')", "-1541654101129638711L"),
            ("FARM_FINGERPRINT(CAST('3true' AS BINARY))", "-4880158226897771312L"),
            ("NUMBER_OF('1,234.5', '9,999.9')", "TO_NUMBER('1,234.5', '9,999.9')"),
            ("NUMBER_OF('454', '999')", "TO_NUMBER('454', '999')"),
            ("NUMBER_OF('$78.12', '$99.99')", "TO_NUMBER('$78.12', '$99.99')"),
            ("NUMBER_OF('12,454.8-', '99,999.9S')", "TO_NUMBER('12,454.8-', '99,999.9S')"),
            ("NUMBER_OF('<7>', '9PR')", "CAST(-7 AS DECIMAL(1,0))"),
            ("NUMBER_OF(txt, '999S')", "IF(TRIM(txt) IN ('0', '12'), CAST(txt AS DECIMAL(3,0)), NULL)"),
            ("CHARACTERS('aé😀')", "ARRAY('a', 'é', '😀')"),
            ("CHARACTERS('')", "SLICE(ARRAY(''), 1, 0)"),
            ("MAP_EXTRACT(map, 'a')", "IF(MAP_CONTAINS_KEY(map, 'a'), ARRAY(map['a']), SLICE(ARRAY(1L), 1, 0))"),
            ("MAP_EXTRACT_VALUE(map, 'a')", "map['a']"),
            ("LIST_EXTRACT('abc', -1)", "'c'"),
            "str LIKE str2",
            ("str LIKE CONCAT('%', mail)", "str LIKE CONCAT('%', mail)"),
            ("'a_b' ILIKE CONCAT(UPPER(pad2), '_B')", "'a_b' ILIKE CONCAT(UPPER(pad2), '_B')"),
            ("EXTRACT(CENTURY FROM day)", "CASE WHEN YEAR(day) > 0 THEN (YEAR(day) - 1) DIV 100 + 1 "
             "ELSE YEAR(day) DIV 100 - 1 END"),
            ("EXTRACT(DECADE FROM day)", "CAST(FLOOR(YEAR(day) / 10) AS BIGINT)"),
            ("EXTRACT(MICROSECONDS FROM ntz)", "CAST(EXTRACT(SECOND FROM ntz) * 1000000 AS BIGINT)"),
        )
    ),
    examples(
        (
            ("LIST_MODE(ARRAY(3, 1, NULL, 1, 3))", "3"),
            ("LIST_MODE(words)", "GET(ARRAY_SORT(ARRAY_COMPACT(TRANSFORM(words, (x, i) -> IF(x IS NULL, NULL, STRUCT("
             "-SIZE(FILTER(words, y -> y = x)) AS n, i AS i, x AS x)))), (p, q) -> CASE WHEN p.n < q.n OR (p.n = q.n "
             "AND p.i < q.i) THEN -1 ELSE 1 END), 0).x"),
            ("MAP_ENTRIES(LIST_HISTOGRAM(ARRAY('b', 'a', NULL, 'b')))", "MAP_ENTRIES(MAP('a', 1L, 'b', 2L))"),
            ("LIST_HISTOGRAM(ARRAY(CAST(NULL AS INT)))", "CAST(NULL AS MAP<INT, BIGINT>)"),
            ("LIST_VAR_SAMP(ARRAY(1, NULL, 3))", "2D"),
            ("LIST_VAR_POP(ARRAY(1, 3))", "1D"),
            ("LIST_VAR_SAMP(ARRAY(1))", "CAST(NULL AS DOUBLE)"),
            ("LIST_STDDEV_POP(ARRAY(1, 3))", "1D"),
            ("LIST_STDDEV_SAMP(ARRAY(2, 2))", "0D"),
            ("LIST_STDDEV_SAMP(SLICE(ARRAY(2, 2), 1, 0))", "CAST(NULL AS DOUBLE)"),
            ("LIST_AGGREGATE(ARRAY(2, 2), 'stddev')", "0D"),
            ("LIST_SEM(ARRAY(1, 3, 1, 3))", "0.5D"),
            ("LIST_MAD(ARRAY(1, 2, 4, 9))", "1.5D"),
            ("LIST_BIT_AND(arr)", f"IF(SIZE({_KNOWN}) > 0, {_ALL_AT_ONE.format(-1, '&')}, NULL)"),
            ("LIST_BIT_OR(arr)", f"IF(SIZE({_KNOWN}) > 0, {_ALL_AT_ONE.format(0, '|')}, NULL)"),
            ("LIST_BIT_XOR(arr)", f"IF(SIZE({_KNOWN}) > 0, {_ALL_AT_ONE.format(0, '^')}, NULL)"),
            ("LIST_APPROX_COUNT_DISTINCT(arr)", f"CAST(SIZE(ARRAY_DISTINCT({_KNOWN})) AS BIGINT)"),
        )
    ),
    examples(
        (
            ("AS_TEXT(1e20D)", "'1e+20'"),
            ("AS_TEXT(CAST('-Infinity' AS DOUBLE))", "'-inf'"),
            ("AS_TEXT(num)", "num"),
            ("INSTANT_TEXT(ntz)", "ntz"),
            ("ROUND_EXACTLY(0.145D, 2)", "0.14D"),
            ("ROUND_EXACTLY(2.5D)", "3D"),
            ("ROUND_EXACTLY(dec, 1)", "ROUND(dec, 1)"),
            ("AS_UNITS(0.145D, 2)", "0.14D"),
            ("AS_UNITS(dec, 2)", "dec"),
            ("WHOLE_OF('-2.5')", "CAST(-3 AS DECIMAL(38,0))"),
            ("WHOLE_OF(dbl)", "RINT(dbl)"),
            ("SIGN_OF(CAST('NaN' AS DOUBLE))", "0"),
            ("SIGN_OF(num)", "CAST(SIGN(num) AS INT)"),
            ("IEEE_LN(0D)", "CAST('-Infinity' AS DOUBLE)"),
            ("IEEE_LOG2(-1D)", "CAST('NaN' AS DOUBLE)"),
            ("IEEE_LOG10(dbl)", "IF(dbl > 0, LOG10(dbl), IF(dbl = 0, CAST('-Infinity' AS DOUBLE), "
             "IF(dbl < 0, CAST('NaN' AS DOUBLE), NULL)))"),
            ("IEEE_LOG(10D, 1000D)", "3D"),
            ("IEEE_LOG(1D, 8D)", "CAST('Infinity' AS DOUBLE)"),
            ("LETTERS_SPLIT_PART('ab', '', 2)", "'b'"),
            ("LETTERS_SPLIT_PART(str, '-', 0)", "IF(str IS NULL, NULL, '')"),
            ("LETTERS_SPLIT_PART('a-b', '-', -1)", "'b'"),
            ("JSON_VALID('{} x')", "false"),
            ("JSON_KIND('[1]')", "'ARRAY'"),
            ("JSON_KIND('-1')", "'BIGINT'"),
            ("JSON_KIND('x')", "CAST(NULL AS STRING)"),
            ("JSONB_TYPEOF('1.5')", "'number'"),
            ("JSON_TYPEOF('null')", "'null'"),
            ("JSON_SCALAR('{\"a\":\"b\"}', '$.a')", "'\"b\"'"),
            ("JSON_SCALAR('{\"a\":[1]}', '$.a')", "CAST(NULL AS STRING)"),
            ("PLAIN_JSON(NAMED_STRUCT('a', 1.50, 'b', 1e-7D, 'c', TIMESTAMP_NTZ '2024-01-01 10:00:00', 'd', num))",
             "CONCAT('{\"a\":1.5,\"b\":1e-7,\"c\":\"2024-01-01 10:00:00\",\"d\":', "
             "NVL(CAST(num AS STRING), 'null'), '}')"),
            ("AS_JSON(str)", "str"),
            ("JSON_FLAT('[1,\"x\"]')", "ARRAY(NAMED_STRUCT('key', CAST(NULL AS STRING), 'index', 0, 'value', '1'), "
             "NAMED_STRUCT('key', CAST(NULL AS STRING), 'index', 1, 'value', 'x'))"),
            ("JSONB_ARRAY_LENGTH('[1, 2]')", "2"),
            ("AS_JSON(2D)", "'2.0'"),
        ),
    ),
)  # fmt: skip
