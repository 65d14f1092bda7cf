"""Join-free change propagation: keep the result of a multi-way join up to date while its tables change.

>>> import crown
>>> schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
>>> view = crown.view("Q(a, b, c) :- R(a, b), S(b, c).", schema)
>>> view.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}]}).to_pylist()
[{'a': 1, 'b': 2, 'c': 3, '_weight': 1}]

The public API: ``view``, ``load`` and ``open`` create views. ``plan`` and ``explain`` show how a query is maintained.
``graph`` finds motifs in graphs that change. ``Triangle`` counts and lists triangles. ``changes`` converts deltas to
the formats of other systems. ``errors`` has all errors, and ``spark`` the functions that run on Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from crown import changes, errors, graph, ml, spark
    from crown.databases import Database, load_database
    from crown.durable.database import DurableDatabase
    from crown.durable.opening import open_database
    from crown.durable.opening import open_view as open
    from crown.durable.view import DurableView
    from crown.errors import (
        AmplifiedWarning,
        BadRowError,
        ChangeError,
        ConcurrentChangeError,
        CrownError,
        DamagedStateError,
        DataWarning,
        DuplicateKeyError,
        FunctionError,
        LateRowError,
        LockedStateError,
        MemoryBudgetError,
        MissingDeleteError,
        MissingPackageError,
        NotDurableError,
        PlanError,
        ProjectError,
        QueryChangedError,
        QueryWarning,
        RecoveryWarning,
        SeveralRowsError,
        SlowReaderError,
        SnapshotError,
        UnusableStateError,
    )
    from crown.functions import aggregate, function
    from crown.opening import database
    from crown.planning import explain, plan
    from crown.projects.database import ProjectDatabase
    from crown.results.factorized import unfold
    from crown.views import View, load, view
    from ivm_triangle.triangle import Triangle
    from plans.plan import Plan
    from plans.program import Program
    from plans.schema import Column, Schema, Table
    from plans.time.windows import Window, last_rows, sliding, ttl, tumbling

__version__ = "0.1.0"
__all__ = [
    "AmplifiedWarning", "BadRowError", "ChangeError", "Column", "ConcurrentChangeError", "CrownError",
    "DamagedStateError", "DataWarning", "Database", "DuplicateKeyError", "DurableDatabase", "DurableView",
    "FunctionError", "LateRowError", "LockedStateError", "MemoryBudgetError", "MissingDeleteError",
    "MissingPackageError", "NotDurableError", "Plan", "PlanError", "Program", "ProjectDatabase", "ProjectError",
    "QueryChangedError", "QueryWarning", "RecoveryWarning", "Schema", "SeveralRowsError", "SlowReaderError",
    "SnapshotError", "Table", "Triangle", "UnusableStateError", "View", "Window", "aggregate", "changes", "database",
    "errors", "explain", "function", "graph", "last_rows", "load", "load_database", "ml", "open", "open_database",
    "plan", "sliding", "spark", "ttl", "tumbling", "unfold", "view",
]  # fmt: skip

_MODULES = ("changes", "errors", "graph", "ml", "spark")
_HOMES = {
    "Column": "plans.schema", "Database": "crown.databases", "DurableDatabase": "crown.durable.database",
    "DurableView": "crown.durable.view", "Plan": "plans.plan", "Program": "plans.program",
    "ProjectDatabase": "crown.projects.database", "Schema": "plans.schema", "Table": "plans.schema",
    "Triangle": "ivm_triangle.triangle", "View": "crown.views", "Window": "plans.time.windows",
    "aggregate": "crown.functions", "database": "crown.opening", "explain": "crown.planning",
    "function": "crown.functions", "last_rows": "plans.time.windows", "load": "crown.views",
    "load_database": "crown.databases", "open": "crown.durable.opening", "open_database": "crown.durable.opening",
    "plan": "crown.planning", "sliding": "plans.time.windows", "ttl": "plans.time.windows",
    "tumbling": "plans.time.windows", "unfold": "crown.results.factorized", "view": "crown.views",
}  # fmt: skip
_CALLED = {"open": "open_view"}

if not TYPE_CHECKING:  # a checker knows the names above, and only those

    def __getattr__(name: str) -> Any:
        """Loads a public name on first use: importing crown alone stays fast."""
        if name not in __all__:
            raise AttributeError(f"module 'crown' has no attribute {name!r}")
        from importlib import import_module

        try:
            if name in _MODULES:
                return import_module(f"crown.{name}")
            return getattr(import_module(_HOMES.get(name, "crown.errors")), _CALLED.get(name, name))
        except ImportError as error:
            found = _of_another_module()
            if found is None:
                raise
            raise found from error


def _of_another_module() -> ImportError | None:
    """Returns the error for a module of the user that hides a module of this package, or None if there is none."""
    import sys
    from pathlib import Path

    for name in ("plans", "ivm_triangle", "spark_jobs"):
        found = getattr(sys.modules.get(name), "__file__", None)
        if found is not None and Path(found).parent != Path(__file__).parents[1] / name:
            message = f"crown has a module {name}, which {found} hides: rename that file, or move it into a package"
            return ImportError(message, name=name, path=found)
    return None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
