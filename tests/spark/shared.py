"""What a test can leave in the session that all tests of a process share: the next test would depend on the order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

Content = Mapping[str, frozenset[str]]
"""Names by kind; settings with their values, as ``name -> value``."""


@contextmanager
def restored(session: SparkSession) -> Iterator[None]:
    """Takes back the settings, temporary views and functions of one test. Takes some 2 ms."""
    state = session._jsparkSession.sessionState()
    before = _of_tests(state)
    yield
    after = _of_tests(state)
    if after == before:
        return
    given = dict(line.split(" -> ", 1) for line in before["settings"])
    for line in after["settings"] ^ before["settings"]:
        name = line.split(" -> ", 1)[0]
        if name in given:
            state.conf().setConfString(name, given[name])
        else:
            state.conf().unsetConf(name)
    for view in after["temporary views"] - before["temporary views"]:
        session.sql(f"DROP VIEW {view}")
    for function in after["temporary functions"] - before["temporary functions"]:
        session.sql(f"DROP TEMPORARY FUNCTION {function}")


def content(session: SparkSession) -> Content:
    """Returns all that a session has, except rows that it keeps: placements in cells are kept."""
    state = session._jsparkSession.sessionState()
    catalog, manager = state.catalog(), state.catalogManager()
    database = f"{manager.currentCatalog().name()}.{'.'.join(manager.currentNamespace())}"
    others = {
        "global temporary views": catalog.listTables(catalog.globalTempDatabase(), "*", False),
        "tables": catalog.listTables("default", "*", False),
        "databases": catalog.listDatabases(),
    }
    return (
        _of_tests(state)
        | {kind: _lines(names) for kind, names in others.items()}
        | {
            "current database": frozenset([database]),
            "running streams": frozenset(str(stream.id) for stream in session.streams.active),
        }
    )


def difference(before: Content, after: Content) -> list[str]:
    """Returns a line for each name that only one of two contents has."""
    lines = []
    for kind in before:
        lines += [f"{kind}: {name} is new" for name in sorted(after[kind] - before[kind])]
        lines += [f"{kind}: {name} is gone" for name in sorted(before[kind] - after[kind])]
    return lines


def _of_tests(state: Any) -> dict[str, frozenset[str]]:
    """Returns the part of the content of a session that is taken back after every test."""
    found = {
        "settings": state.conf().getAllConfs(),
        "temporary views": state.catalog().listLocalTempViews("*"),
        "temporary functions": state.catalog().listTemporaryFunctions(),
    }
    return {kind: _lines(names) for kind, names in found.items()}


def _lines(names: Any) -> frozenset[str]:
    """Returns the elements of a collection of Scala, in one call."""
    return frozenset(names.mkString("\n").split("\n")) - {""}
