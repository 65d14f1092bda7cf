"""Column names: quoted for Spark with backticks, and in the keys of tables."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from spark_jobs.errors import SourceError


def quoted(name: str) -> str:
    """Returns the text by which Spark finds the column ``name``, which may have any characters.

    A backtick in the name is doubled.
    """
    return "`" + name.replace("`", "``") + "`"


def key_of(text: str, where: str) -> tuple[str, ...]:
    """Returns the columns that ``?key=a,b`` names; ``where``: the table, for the error."""
    if "&key=" in text:
        raise SourceError(f"{where}: it names its key twice; name all of its columns in one, key=a,b")
    return key_columns(text.split(","), where)


def key_columns(names: Sequence[str], where: str) -> tuple[str, ...]:
    """Returns the columns of a key. Raises SourceError if one has no name, or is named twice."""
    known: set[str] = set()
    for name in names:
        if not name:
            raise SourceError(f"{where}: its key has a column without a name; name its columns, or give no key")
        if name.lower() in known:
            raise SourceError(f"{where}: its key names {name!r} twice; name each column once")
        known.add(name.lower())
    return tuple(names)


def plainly_named(frame: DataFrame) -> DataFrame:
    """Returns the frame with names that ``mapInArrow`` can resolve, for a function that reads columns by position.

    ``mapInArrow`` looks every column up by its bare name: a name with a dot looks like a field of another column, and
    two names that differ only in case are ambiguous. A frame without such names is returned unchanged, which saves a
    projection.
    """
    names = frame.columns
    if all(name.isidentifier() for name in names) and len({name.lower() for name in names}) == len(names):
        return frame
    return frame.toDF(*(f"c{i}" for i in range(len(names))))
