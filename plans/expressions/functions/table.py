"""All functions by name."""

from __future__ import annotations

from plans.expressions.functions import (
    bits,
    codes,
    collections,
    digests,
    duckdb,
    forms,
    gathered,
    hashes,
    json,
    jsonparts,
    jsonpath,
    lambdas,
    maths,
    numbers,
    patterns,
    pictures,
    rounding,
    strings,
    words,
)
from plans.expressions.functions.clock import formats, lengths, parsing, spans, times, zones
from plans.expressions.functions.function import Function

NUMBERS, TEXTS = (
    (numbers, rounding, maths, bits),
    (strings, words, codes, digests, hashes, forms, pictures, patterns, jsonpath),
)
COLLECTIONS = (collections, gathered, lambdas, json, jsonparts, duckdb)
TIMES = (times, spans, lengths, formats, parsing, zones)
FUNCTIONS: dict[str, Function] = {
    function.name: function for module in (*NUMBERS, *TEXTS, *TIMES, *COLLECTIONS) for function in module.TABLE
}
"""The functions of expressions; the name of each is its operator."""
