"""Reads JSON lines with members as texts, so that no digit and no row is lost.

Spark reads numbers as doubles where it makes texts of them, and of two objects in one line the first. Lines in which
that may matter are few, and are read in another way, which takes longer.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_MEMBERS = "map<string,string>"
_LONG = "[0-9][0-9.]{16}"
"""A number with more digits than a double has, or what looks like one."""
_MORE = r"\}\s*(?:[^\s},\]]|,\s*[^\"\s])"
"""Something behind an object, or what looks like it."""


def parsed_lines(lines: DataFrame) -> DataFrame:
    """Returns the lines that are not empty, ``value``, and their members as texts in ``fields``: NULL if it is no JSON
    object, or not one alone."""
    value = F.col("value")
    several = F.from_json(F.concat(F.lit("["), value, F.lit("]")), f"array<{_MEMBERS}>")
    alone = value.rlike(_MORE) & ~F.coalesce(F.size(several) == 1, F.lit(False))
    return lines.filter(F.trim("value") != "").withColumn("fields", F.when(~alone, members(value)))


def members(text: Column) -> Column:
    """Returns the members of an object, the text of a line's ``value`` or of a part of it, as texts; NULL if it is no
    object. Numbers keep the digits of a decimal."""
    exact = F.try_variant_get(F.try_parse_json(text), "$", _MEMBERS)
    return F.when(F.col("value").rlike(_LONG), exact).otherwise(F.from_json(text, _MEMBERS))
