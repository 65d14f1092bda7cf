"""Names of columns as Spark reads them: within backticks, where a backtick that is part of the name stands twice."""

from __future__ import annotations

from pyspark.sql import DataFrame


def quoted(name: str) -> str:
    """Returns the text by which Spark finds the column of that name, whatever characters the name has."""
    return "`" + name.replace("`", "``") + "`"


def plainly_named(frame: DataFrame) -> DataFrame:
    """Returns the frame with names that ``mapInArrow`` finds its columns by, for a function that goes by position.

    It looks every column up by its bare name: one with a dot is a field of another column to it, and of two that differ
    in case only it does not know which. A frame that has no such name comes back as it is, without one more projection.
    """
    names = frame.columns
    if all(name.isidentifier() for name in names) and len({name.lower() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"c{i}" for i in range(len(names))))
