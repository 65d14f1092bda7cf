"""``crown.database``: makes a database of tables, or opens that of a project."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Unpack, overload

from crown.databases import Database
from crown.errors import CrownError
from crown.guards.arguments import path_of
from crown.options import Checks, DatabaseOptions, Keywords, Planning, Resources
from crown.programs.database_engine import DatabaseEngine
from crown.views import demand_quarantine
from plans.programs import named
from plans.schema import Schema

if TYPE_CHECKING:
    from crown.projects.database import ProjectDatabase


@overload
def database(schema: str | os.PathLike[str], **options: Unpack[DatabaseOptions]) -> ProjectDatabase: ...


@overload
def database(schema: Any, **options: Unpack[DatabaseOptions]) -> Database: ...


def database(schema: Any, **options: Unpack[DatabaseOptions]) -> Database:
    """Returns a database of the tables of ``schema``, without views; or that of a pipeline project, by its folder.

    ``schema``: table -> {column: type}, as for ``crown.view``. The rows of all tables are kept whole, once per distinct
    row, so that views can come later. ``options``, for tables and all views together: ``memory_budget``,
    ``on_missing``, ``on_bad_row``, ``quarantine`` and ``windows``, as for ``crown.view``; rows that are kept cannot be
    taken on trust.

    >>> import crown
    >>> crown.database({"r": {"a": "int64"}})
    <crown.Database of 1 tables and the views (none)>

    The path of a folder with ``spark-pipeline.yml`` opens the project in it: its views are registered, ``run()`` reads
    what has changed in its sources, and the state is in the project's storage. ``memory_budget`` is its only option.
    """
    if isinstance(schema, (str, os.PathLike)):
        return _of_project(schema, options)
    given = Keywords("crown.database", DatabaseOptions, options)
    planning, checks, resources = given.of(Planning), given.of(Checks), given.of(Resources)
    checks.demand_rows()
    folder = checks.folder()
    program = named.empty(Schema.of(schema), planning.windows)
    demand_quarantine(program, folder)
    engine = DatabaseEngine.create(program, resources.budget, checks.missing)
    return Database(engine, resources.budget, folder, quiet=checks.on_missing is not None)


def _of_project(path: str | os.PathLike[str], options: DatabaseOptions) -> ProjectDatabase:
    """Returns the database of the project at a path."""
    from crown.projects.database import open_project  # only a project needs it, and what reads its files

    strange = sorted(set(options) - {"memory_budget"})
    if strange:
        raise CrownError(f"crown.database of a project takes no {strange[0]}=: its tables have the rows of its sources")
    return open_project(path_of(path, "schema"), options.get("memory_budget"))
