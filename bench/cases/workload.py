"""A workload: a query and the stream that drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

GRAPH = {"G": {"src": "int64", "dst": "int64"}}
"""The schema of an edge list."""
HOP3 = "FROM G G1, G G2, G G3 WHERE G1.dst = G2.src AND G2.dst = G3.src"


@dataclass(frozen=True)
class Workload:
    """A query and its stream.

    ``kind`` selects the source of the rows. ``prefix``: updates measured in a normal run (0: all), because some results
    grow without bound; ``checked``: length of the stream on which results are compared with DuckDB, and
    ``check_options`` the other options that differ there. ``copies``: inputs of the query that one update reaches on
    average, for the paper's relation updates. ``tables``: the tables of the schema in the stream, in this order
    (default all); ``keys``: the keys that are declared to the planner. ``motif``, ``where``: the view's query, if it is
    a motif; ``view``: the view's query, if other systems need another text. ``sql`` is then the equivalent for the
    others. ``regression``: the query behind a model whose sums are in ``sql``, and the column that it explains.
    ``dialect``: of ``sql``.
    """

    name: str
    title: str
    sql: str
    schema: Mapping[str, Mapping[str, str]]
    kind: str  # graph, comb, snb, tpch, lambda, shop, cofactors, ordered, nexmark, tpcds, job, recursion
    copies: int = 1
    prefix: int = 0
    checked: int = 60_000
    check_options: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    motif: str = ""
    where: str | None = None
    regression: tuple[str, str] | None = None
    view: str = ""
    dialect: str = "spark"
