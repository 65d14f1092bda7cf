"""Rejects frames that are not changes: rows that replace others, or that differ each time they are read.

Every row of a frame is a change, and Spark reads a frame once per relation that is made of it. If later rows of a
stream replaced earlier ones, both would be added. If two relations are made of one frame with an expression such as
``rand()``, they receive different rows. Both are visible in the frame's plan. A session of Spark Connect has no plan
here, so nothing is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame

from spark_jobs.errors import SourceError

_BY_GROUP = re.compile(r"FlatMapGroups\w*State|TransformWithState\w*")
_VIEW = re.compile(r"View \((.+?), \[")
_REWRITES = "ignorechanges"
"""An option of Delta's own source: it reads rewritten files as a whole, including rows that existed before."""


def check_plans(changes: Mapping[str, DataFrame]) -> None:
    """Raises :class:`SourceError` if a streaming frame is not append-only, or if two frames share an expression that is
    not deterministic.

    Cost: O(nodes of the plans), a call to the JVM each.
    """
    plans = {name: plan for name, frame in changes.items() if (plan := plan_of(frame)) is not None}
    for name, plan in plans.items():
        for node in nodes_of(plan):
            wrong = _replacing(name, node) if node.isStreaming() else None
            if wrong is not None:
                raise wrong
    drawn: dict[str, str] = {}
    for name, plan in plans.items():
        for drawing in {} if plan.deterministic() else _drawn(plan):
            if drawn.setdefault(drawing, name) != name:
                raise SourceError(
                    f"relations {drawn[drawing]!r} and {name!r} are made of one frame with {drawing}, which is not "
                    "deterministic: Spark reads the frame once for each of them, with other values. Compute the values "
                    "from the row (xxhash64 of its columns, for one), or write the frame to a table and read that"
                )


def plan_of(frame: DataFrame) -> Any:
    """Returns the plan of a frame in the JVM, with cached data for batches; None without a JVM."""
    if getattr(frame, "_jdf", None) is None:
        return None
    execution = frame.select("*")._jdf.queryExecution()  # a new execution, since the frame's may precede its cache
    return execution.analyzed() if frame.isStreaming else execution.withCachedData()


def nodes_of(plan: Any) -> Iterator[Any]:
    """Yields the nodes of a plan in the JVM."""
    yield plan
    for child in _each(plan.children()):
        yield from nodes_of(child)


def _each(sequence: Any) -> Iterator[Any]:
    """Yields the members of a Scala sequence."""
    return (sequence.apply(i) for i in range(sequence.length()))


def _replacing(relation: str, node: Any) -> SourceError | None:
    """Returns the error for a streaming node whose later rows replace earlier ones, or None."""
    kind = node.nodeName()
    if kind in ("Aggregate", "Distinct"):
        return SourceError(
            f"relation {relation!r}: the frame is a streaming aggregation, whose later rows replace earlier ones in "
            "update and complete mode; here every row is an insert. Give the rows before the aggregation, and let the "
            "query have the GROUP BY or DISTINCT; or write the aggregate in append mode to a table, and read that as a "
            "stream"
        )
    if _BY_GROUP.fullmatch(kind) and node.outputMode().toString() != "Append":
        return SourceError(
            f"relation {relation!r}: the frame is made by a function with state in "
            f"{node.outputMode().toString().lower()} mode, whose later rows replace earlier ones; here every row is an "
            "insert. Have the function return the old row with _weight -1 and the new one with 1, in output mode "
            '"append"'
        )
    if kind == "StreamingRelation":
        given = {name.lower(): value for name, value in pairs(node.dataSource().options())}
        if given.get(_REWRITES, "").lower() == "true":
            return SourceError(
                f"relation {relation!r}: the frame is read with ignoreChanges, which returns unchanged rows again; "
                "here every row is an insert. Read the table's change data feed: readChangeFeed=true, or "
                "crown.spark.delta_changes"
            )
    return None


def pairs(options: Any) -> list[tuple[str, str]]:
    """Returns the options of a source, a Scala map, as pairs."""
    return [(str(pair._1()), str(pair._2())) for pair in _each(options.toSeq())]


def _drawn(plan: Any) -> Iterator[str]:
    """Yields the nondeterministic parts of a plan: expressions, and views that contain some.

    An expression is identified by its number in the plan (``rand(7) AS k#12``), which frames made of one frame share. A
    view is analyzed again, with other numbers, each time it is named.
    """
    if plan.deterministic():
        return
    view = _VIEW.match(plan.toString()) if plan.nodeName() == "View" else None
    if view is not None:
        yield f"the view {view[1]}"
    yield from (str(each.toString()) for each in _each(plan.expressions()) if not each.deterministic())
    for child in _each(plan.children()):
        yield from _drawn(child)
