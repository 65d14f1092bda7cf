"""``Location``: where the rows of a source are, as a text such as ``parquet:FOLDER``.

- ``delta:FOLDER`` or ``delta:s3://...``, ``iceberg:CATALOG.NAMESPACE.TABLE``: tables that keep versions
- ``parquet:FOLDER``, ``orc:FOLDER``: all files of a folder
- ``csv:FOLDER?columns=a STRING, b BIGINT``, ``json:FOLDER?columns=...``: files of text, which have no types
- ``jdbc:URL TABLE``, ``jdbc:URL TABLE?key=a,b``: a table of a database, with a unique key
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from crown.errors import ProjectError
from plans.commands.declare import table_of
from plans.errors import PlanError
from plans.schema import Table

DELTA, ICEBERG, JDBC, PARQUET, ORC, CSV, JSON = KINDS = ("delta", "iceberg", "jdbc", "parquet", "orc", "csv", "json")
VERSIONS, TEXTS, FILES = (DELTA, ICEBERG), (CSV, JSON), (PARQUET, ORC, CSV, JSON)
FORMS = (
    "delta:FOLDER, iceberg:CATALOG.NAMESPACE.TABLE, parquet:FOLDER, orc:FOLDER, csv:FOLDER?columns=a STRING, "
    "json:FOLDER?columns=a STRING, or jdbc:URL TABLE"
)


@dataclass(frozen=True)
class Location:
    """The kind of a source, its place, and the values of ``?columns=`` and ``?key=``."""

    kind: str
    where: str
    columns: str | None = None
    key: str | None = None

    @classmethod
    def of(cls, name: str, text: str) -> Location | None:
        """Returns the location of the source ``name``; None if the text has no kind. Raises ProjectError for text files
        whose columns are not declared."""
        kind, _, where = text.partition(":")
        if kind not in KINDS or not where:
            return None
        option = {JDBC: "key", CSV: "columns", JSON: "columns"}.get(kind)
        place, asked, value = where.partition(f"?{option}=")
        made = cls(kind, place, **{option: value}) if option and asked else cls(kind, where)
        if kind in TEXTS and made.columns is None:
            raise ProjectError(
                f"source {name}: files of {kind} have no types: declare them, {kind}:FOLDER?columns=a STRING, b BIGINT"
            )
        return made

    @property
    def text(self) -> str:
        """Returns the location as a text."""
        options = [
            f"?{name}={said}" for name, said in (("columns", self.columns), ("key", self.key)) if said is not None
        ]
        return f"{self.kind}:{self.where}{''.join(options)}"

    def table(self, name: str) -> Table | None:
        """Returns the relation with the declared columns; None if no columns are declared. Raises ProjectError for
        columns that cannot be read."""
        if self.columns is None:
            return None
        try:
            return table_of(f"{name}({self.columns})")
        except PlanError as error:
            raise ProjectError(
                f"source {name}: ?columns={self.columns}: {error.message}; write a name and a type for each"
            ) from None

    def within(self, folder: Path) -> Location:
        """Returns the location with a path relative to a folder, if it is a path of files without a scheme."""
        local = self.kind in (DELTA, *FILES) and "://" not in self.where
        return replace(self, where=str(folder / self.where)) if local else self
