"""Reads JSON lines with members as texts, so that no digit and no row is lost.

When Spark converts numbers to texts, it reads them as doubles, and of two objects in one line it reads only the first.
Lines for which that may matter are rare, and are read in another way, which is slower.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MEMBERS = "map<string,string>"
_LONG = "[0-9][0-9.]{16}"
"""Matches a number with more digits than a double has, or a text that looks like one."""
_MORE = r"\}\s*(?:[^\s},\]]|,\s*[^\"\s])"
"""Matches text after an object, or text that looks like it."""


def parsed_lines(lines: DataFrame) -> DataFrame:
    """Returns the nonempty lines, ``value``, and their members as texts in ``fields``, which is NULL if the line is not
    exactly one JSON object.
    """
    value = F.col("value")
    several = F.from_json(F.concat(F.lit("["), value, F.lit("]")), f"array<{_MEMBERS}>")
    alone = value.rlike(_MORE) & ~F.coalesce(F.size(several) == 1, F.lit(False))
    return lines.filter(F.trim("value") != "").withColumn("fields", F.when(~alone, members(value)))


def members(text: Column) -> Column:
    """Returns the members of an object as texts; NULL if the text is not an object. ``text``: a line's ``value`` or a
    part of it. Numbers keep the digits of a decimal.
    """
    exact = F.try_variant_get(F.try_parse_json(text), "$", _MEMBERS)
    return F.when(F.col("value").rlike(_LONG), exact).otherwise(F.from_json(text, _MEMBERS))
