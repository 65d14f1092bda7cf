"""All functions by name."""

from __future__ import annotations

from plans.expressions.functions import jsonpath, numbers, patterns, rounding, strings, times
from plans.expressions.functions.function import Function

FUNCTIONS: dict[str, Function] = {
    function.name: function
    for module in (numbers, rounding, strings, patterns, jsonpath, times)
    for function in module.TABLE
}
"""The functions of expressions; the name of each is its operator."""
