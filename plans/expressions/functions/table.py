"""All functions by name."""

from __future__ import annotations

from plans.expressions.functions.clock import formats, parsing, spans, times, zones
from plans.expressions.functions.function import Function
from plans.expressions.functions.nested import collections, gathered, json, jsonparts, jsonpath, lambdas
from plans.expressions.functions.numbers import hashes, numbers, rounding
from plans.expressions.functions.texts import codes, duckdb, forms, patterns, pictures, strings, words

NUMBERS, TEXTS = (
    (numbers, rounding),
    (strings, words, codes, hashes, forms, pictures, patterns, jsonpath),
)
COLLECTIONS = (collections, gathered, lambdas, json, jsonparts, duckdb)
TIMES = (times, spans, formats, parsing, zones)
FUNCTIONS: dict[str, Function] = {
    function.name: function for module in (*NUMBERS, *TEXTS, *TIMES, *COLLECTIONS) for function in module.TABLE
}
"""The functions of expressions; the name of each is its operator."""
