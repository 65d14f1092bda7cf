"""Join-free change propagation: keep the result of a multi-way join up to date while its tables change.

>>> import crown
>>> schema = {"R": {"a": "int64", "b": "int64"}, "S": {"b": "int64", "c": "int64"}}
>>> view = crown.view("Q(a, b, c) :- R(a, b), S(b, c).", schema)
>>> view.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}]}).to_pylist()
[{'a': 1, 'b': 2, 'c': 3, '_weight': 1}]
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Database", "View", "database", "load", "load_database", "open", "view"]
_DATABASES = ("Database", "database", "load_database")


def __getattr__(name: str) -> Any:
    # Loaded on first use: importing crown alone stays fast.
    if name in _DATABASES:
        from crown import databases

        return getattr(databases, name)
    if name == "open":
        from crown.durable.opening import open_view

        return open_view
    if name in __all__:
        from crown import views

        return getattr(views, name)
    raise AttributeError(f"module 'crown' has no attribute {name!r}")
