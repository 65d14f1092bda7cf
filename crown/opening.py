"""``crown.database``: creates a database of tables, or opens the database of a project."""

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
    """Returns a database with the tables of ``schema`` and without views, or the database of a pipeline project.

    ``schema``: a mapping from table to ``{column: type}``, as for ``crown.view``. All columns of all tables are stored,
    once per distinct row, so that views can be added later. ``options``, for all tables and views together:
    ``memory_budget``, ``on_missing``, ``on_bad_row``, ``quarantine`` and ``windows``, as for ``crown.view``, except
    ``on_missing="trust"``.

    >>> import crown
    >>> crown.database({"r": {"a": "int64"}})
    <crown.Database of 1 tables and the views (none)>

    If ``schema`` is the path of a folder with ``spark-pipeline.yml``, the project in it is opened: its views are
    registered, ``run()`` reads the changes of its sources, and the state is in the project's storage. The only option
    is ``memory_budget``.
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
    from crown.projects.database import open_project  # imported here because only projects need it

    strange = sorted(set(options) - {"memory_budget"})
    if strange:
        raise CrownError(f"crown.database of a project has no option {strange[0]}: leave it out")
    return open_project(path_of(path, "schema"), options.get("memory_budget"))
