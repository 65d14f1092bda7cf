"""All workloads: the paper's queries, TPC-H joins and aggregates, each with the stream that drives it.

The planner reads a workload's SQL, and so does DuckDB to check results. ``{n}`` is the filter constant of the data.
Definitions: "Change Propagation Without Joins", full version, Appendix D; the SNB queries are those of its experiments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import crown.ml
from bench.cases import cofactors, datasets, job, nexmark, ordered, recursion, shop, snb, streams, tpcds
from bench.cases.aggregates import AGGREGATES
from bench.cases.integers import as_integers
from bench.cases.job import JOB
from bench.cases.motifs import MOTIFS
from bench.cases.nexmark import NEXMARK
from bench.cases.ordered import ORDERED
from bench.cases.recursion import RECURSIONS
from bench.cases.streams import Stream
from bench.cases.tpcds import TPCDS
from bench.cases.tpch import tables as tpch
from bench.cases.workload import GRAPH, HOP3, Workload
from bench.spent import spent
from plans import Program
from plans import program as make_program
from plans.expressions.build import col
from plans.frontends.motif.find import find
from plans.plan import Output

WINDOW = 0.2

_EDGES = GRAPH["G"]
_COMB = {"G": _EDGES, "V1": {"v": "int64"}, "V2": {"v": "int64"}}
_SPLIT = {"G1": _EDGES, "G2": _EDGES, "G3": _EDGES}

_HOP4 = "FROM G G1, G G2, G G3, G G4 WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G4.src"
_DUMBBELL = (
    "FROM G G1, G G2, G G3, G G4, G G5, G G6, G G7 "
    "WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G1.src "
    "AND G5.dst = G6.src AND G6.dst = G7.src AND G7.dst = G5.src AND G4.src = G3.dst AND G4.dst = G5.src"
)
_SNB_TAGS = (
    "FROM tag, message, message_tag, knows k1, knows k2 "
    "WHERE m_messageid = mt_messageid AND mt_tagid = t_tagid AND k1.k_person2id = k2.k_person1id "
    "AND m_creatorid = k2.k_person2id AND m_c_replyof IS NULL AND k1.k_person1id < {n}"
)


WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (
        Workload(
            "3-hop", "3-Hop", f"SELECT DISTINCT G1.src A, G2.src B, G3.src C, G3.dst D {HOP3} AND G3.dst > {{n}}",
            GRAPH, "graph", 3,
        ),
        Workload(
            "3-hop-all", "3-Hop, unfiltered", f"SELECT DISTINCT G1.src A, G2.src B, G3.src C, G3.dst D {HOP3}",
            GRAPH, "graph", 3, prefix=120_000, checked=15_000,
        ),
        Workload("3-hop-jp", "3-Hop join-project", f"SELECT DISTINCT G2.src B, G3.src C {HOP3}", GRAPH, "graph", 3),
        Workload(
            "4-hop", "4-Hop",
            f"SELECT DISTINCT G1.src A, G2.src B, G3.src C, G3.dst D, G4.dst E {_HOP4} AND G4.dst > {{n}}",
            GRAPH, "graph", 4, prefix=115_000, checked=12_000,
        ),
        Workload(
            "4-hop-jp", "4-Hop join-project",
            f"SELECT DISTINCT G2.src B, G3.src C, G3.dst D {_HOP4} AND G4.dst > {{n}}", GRAPH, "graph", 4,
        ),
        Workload(
            "2-comb", "2-Comb",
            "SELECT DISTINCT G1.src A, G2.src B, G3.src C, G3.dst D FROM G G1, G G2, G G3, V1, V2 "
            "WHERE G1.dst = G2.src AND G2.dst = G3.src AND V1.v = G1.src AND V2.v = G3.dst",
            _COMB, "comb", 3, prefix=400_000,
        ),
        Workload(
            "star", "Star, full join",
            "SELECT DISTINCT G1.src A, G1.dst B, G2.dst C, G3.dst D, G4.dst E FROM G G1, G G2, G G3, G G4 "
            "WHERE G1.src = G2.src AND G1.src = G3.src AND G1.src = G4.src",
            GRAPH, "graph", 4, prefix=500, checked=60,
        ),
        Workload(
            "dumbbell", "Dumbbell",
            f"SELECT DISTINCT G1.src A, G2.src B, G3.src C, G4.dst D, G6.src E, G7.src F {_DUMBBELL} AND "
            + " AND ".join(f"G{i}.src > {{n}} AND G{i}.dst > {{n}}" for i in (1, 2, 3, 5, 6, 7)),
            GRAPH, "graph", 7, checked=3_000, check_options={"keep": 1.0},
        ),
        Workload(
            "dumbbell-jp", "Dumbbell join-project", f"SELECT DISTINCT G4.src C, G4.dst D {_DUMBBELL}", GRAPH, "graph",
            7, prefix=120_000, checked=20_000,
        ),
        Workload(
            "triangle", "Triangle",
            "SELECT DISTINCT G1.src A, G2.src B, G3.src C FROM G G1, G G2, G G3 "
            "WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst = G1.src",
            GRAPH, "graph", 3, prefix=300_000,
        ),
        Workload(
            "4-cycle", "4-Cycle",
            f"SELECT DISTINCT G1.src A, G2.src B, G3.src C, G4.src D {_HOP4} AND G4.dst = G1.src AND G3.dst > {{n}}",
            GRAPH, "graph", 4, prefix=300_000, check_options={"keep": 0.5, "shuffled": True},
        ),
        Workload(
            "snb-q1", "SNB Q1",
            "SELECT DISTINCT p_personid, p_firstname, p_lastname, m_messageid, k_person1id FROM person, message, knows "
            "WHERE p_personid = m_creatorid AND k_person2id = p_personid",
            snb.SCHEMA, "snb", tables=("person", "message", "knows"),
        ),
        Workload(
            "snb-q2", "SNB Q2 (tags)",
            "SELECT DISTINCT k1.k_person1id, k1.k_person2id, k2.k_person2id AS k2_person2id, t_tagid, m_messageid "
            + _SNB_TAGS,
            snb.SCHEMA, "snb", tables=("tag", "message", "message_tag", "knows"),
        ),
        Workload(
            "snb-q3", "SNB Q3 (persons)",
            "SELECT DISTINCT p_personid, p_firstname, p_lastname, m_messageid, k1.k_person1id, k1.k_person2id "
            "FROM person, message, knows k1, knows k2 WHERE k1.k_person1id < {n} AND k1.k_person2id = k2.k_person1id "
            "AND k2.k_person2id <> k1.k_person1id AND p_personid = m_creatorid AND p_personid = k2.k_person2id",
            snb.SCHEMA, "snb", tables=("person", "message", "knows"),
        ),
        Workload(
            "snb-q4", "SNB Q4, before its COUNT",
            "SELECT DISTINCT t_name, t_tagid, m_messageid FROM tag, message, message_tag, knows "
            "WHERE m_messageid = mt_messageid AND mt_tagid = t_tagid AND m_creatorid = k_person2id "
            "AND m_c_replyof IS NULL AND k_person1id < {n}",
            snb.SCHEMA, "snb", tables=("tag", "message", "message_tag", "knows"),
        ),
        Workload(
            "tpch-q3", "TPC-H Q3, its join",
            "SELECT DISTINCT o_orderkey, o_orderdate, c_custkey, l_linenumber FROM customer, orders, lineitem "
            "WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
            "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'",
            tpch.SCHEMA, "tpch", tables=("customer", "orders", "lineitem"),
        ),
        Workload(
            "tpch-q5", "TPC-H Q5, its cyclic join",
            "SELECT DISTINCT c_custkey, o_orderkey, l_linenumber, s_suppkey, n_nationkey "
            "FROM customer, orders, lineitem, supplier, nation, region "
            "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey "
            "AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey "
            "AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'",
            tpch.SCHEMA, "tpch", tables=("customer", "supplier", "nation", "region", "orders", "lineitem"),
        ),
        Workload(
            "tpch-q9", "TPC-H Q9, its join",
            "SELECT DISTINCT n_nationkey, s_suppkey, p_partkey, o_orderkey, l_linenumber "
            "FROM part, supplier, lineitem, partsupp, orders, nation "
            "WHERE s_suppkey = l_suppkey AND ps_suppkey = l_suppkey AND ps_partkey = l_partkey "
            "AND p_partkey = l_partkey AND o_orderkey = l_orderkey AND s_nationkey = n_nationkey AND p_size < 10",
            tpch.SCHEMA, "tpch", tables=("part", "supplier", "partsupp", "nation", "orders", "lineitem"),
        ),
        Workload(
            "tpch-q10", "TPC-H Q10, its join",
            "SELECT DISTINCT c_custkey, n_nationkey, o_orderkey, l_linenumber FROM customer, orders, lineitem, nation "
            "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01' "
            "AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' AND c_nationkey = n_nationkey",
            tpch.SCHEMA, "tpch", tables=("customer", "nation", "orders", "lineitem"),
        ),
        Workload(
            "tpch-q18", "TPC-H Q18, join, no HAVING",
            "SELECT DISTINCT c_custkey, o_orderkey, o_orderdate, l_linenumber FROM customer, orders, lineitem "
            "WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey",
            tpch.SCHEMA, "tpch", tables=("customer", "orders", "lineitem"),
        ),
        Workload(
            "enclosureness", "3-Hop on the λ stream",
            "SELECT DISTINCT G1.src A, G2.src B, G3.src C, G3.dst D FROM G1, G2, G3 "
            "WHERE G1.dst = G2.src AND G2.dst = G3.src AND G3.dst > 0",
            _SPLIT, "lambda",
        ),
    )
} | AGGREGATES | MOTIFS | NEXMARK | ORDERED | TPCDS | JOB | RECURSIONS  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """A workload with its data: the SQL with its constant filled in, the schema of the tables used, the stream."""

    workload: Workload
    sql: str
    where: str | None
    schema: dict[str, dict[str, str]]
    stream: Stream
    first: int = 0
    """The number of updates at the beginning of the stream that are loaded and not measured."""

    def head(self, position: int) -> Loaded:
        """Returns the workload with the first ``position`` updates of its stream, and the rows of its tables up to the
        last that these name.
        """
        stream, tables = self.stream.head(position), {}
        for number, (name, table) in enumerate(stream.tables.items()):
            tables[name] = table.slice(0, 1 + int(stream.row[stream.relation == number].max(initial=-1)))
        return replace(self, stream=replace(stream, tables=tables))

    @property
    def declared(self) -> dict[str, dict[str, Any]]:
        """Returns the schema for the planner, with the keys."""
        keys = self.workload.keys
        return {name: {"columns": columns, "key": list(keys.get(name, ()))} for name, columns in self.schema.items()}

    @cached_property
    def program(self) -> Program:
        """Returns the program of the query. Raises PlanError if the query cannot be maintained."""
        if self.workload.regression is not None:
            query, target = self.workload.regression
            return crown.ml.program(query, self.declared, target=target)
        if self.workload.motif:
            return make_program(find(self.workload.motif, self.declared, self.where)[0])
        return make_program(self.workload.view or self.sql, self.declared, dialect=self.workload.dialect)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """Returns the columns of ``sql``."""
        if self.workload.regression is None:
            return self.program.output
        return tuple(Output(name, cofactors.SUM, col(name, cofactors.SUM)) for name, _ in cofactors.SUMS)


def load(name: str, data: str | None, options: Mapping[str, Any] | None = None) -> Loaded:
    """Returns the workload over ``data`` (see ``datasets``).

    ``options``: ``vertices``, ``edges``, ``seed`` of a generated graph; ``shuffled`` edges, not in file order;
    ``window``, a share of the graph, of the orders or of the titles; ``laps`` (how often the window passes over
    the graph); ``keep`` (share of the edges that the filter keeps, instead of its published constant); ``span`` and
    ``steps`` of the λ stream; ``arrived`` (share of the edges that are inserted, none of which is deleted, instead of
    a window); ``persons`` of generated SNB data, and ``generated`` to take these even if there is a data set;
    ``events`` of the shop and of Nexmark; ``rows`` of each relation of the star of six, and of the window of rows in
    order, or of all tables of JOB together;
    ``nodes`` of the graph of a recursion, those with the most edges, and ``rows`` of its tree;
    ``integers``: TPC-H with dates, decimals and texts as integers;
    ``prefix`` (updates; by default the workload's, 0 for all).

    Deterministic. The last two are kept: those of a cell and of its check.
    """
    return _load(name, data, json.dumps(dict(options or {}), sort_keys=True, default=str))


@lru_cache(maxsize=2)
@spent("load")
def _load(name: str, data: str | None, written: str) -> Loaded:
    options = json.loads(written)
    workload = WORKLOADS[name]
    schema = {t: dict(workload.schema[t]) for t in workload.tables or workload.schema}
    threshold = 0
    if workload.kind in ("graph", "comb", "lambda"):
        sizes = {k: options[k] for k in ("vertices", "edges", "seed") if k in options}
        graph = datasets.graph(data if datasets.has_graph(data) else None, **sizes)
        if options.get("shuffled"):
            graph = datasets.shuffled(graph)
        threshold = graph.threshold
        if "keep" in options:
            threshold = _keeping(graph, float(options["keep"]))
        window = options.get("window", WINDOW)
        if "arrived" in options:
            window = graph.edges.num_rows
        if workload.kind == "graph":
            stream = streams.windowed(graph.title, "G", graph.edges, window).again(int(options.get("laps", 1)))
            if "arrived" in options:
                stream = stream.head(int(float(options["arrived"]) * graph.edges.num_rows))
        elif workload.kind == "comb":
            stream = streams.comb(graph.title, graph.edges, window)
        else:
            stream = streams.enclosureness(graph.title, graph.edges, options["span"], options.get("steps"))
    elif workload.kind == "snb":
        whole = snb.stream(None if options.get("generated") else data, options.get("persons", 2_000))
        threshold = snb.near_persons(whole)
        stream = _only(whole, workload.tables)
    elif workload.kind == "shop":
        stream = shop.stream(options.get("events", 60_000), options.get("seed", 7))
    elif workload.kind == "ordered":
        stream = ordered.stream(options.get("rows", 20_000), workload.tables, options.get("seed", 7))
    elif workload.kind == "nexmark":
        events, window = int(options.get("events", 100_000)), int(options.get("window", 0))
        stream = nexmark.stream(events, workload.tables, window, options.get("seed", 7))
        first = int((stream.relation == list(stream.tables).index("side")).sum()) if "side" in stream.tables else 0
        prefix = int(options.get("prefix", 0))
        return Loaded(workload, workload.sql, None, schema, stream.head(first + prefix) if prefix else stream, first)
    elif workload.kind == "tpcds":
        return _tpcds(workload, Path(options["tpcds"]) / str(options["tpcds_scale"]), int(options.get("prefix", 0)))
    elif workload.kind == "job":
        return _job(workload, options)
    elif workload.kind == "recursion":
        stream, first = recursion.stream(name, data, options)
        prefix = int(options.get("prefix", 0))
        return Loaded(workload, workload.sql, None, schema, stream.head(first + prefix) if prefix else stream, first)
    elif workload.kind == "cofactors":
        stream = cofactors.stream(options.get("rows", 20_000), options.get("seed", 7))
    else:
        stream = tpch.stream(Path(options["tpch"]), schema, float(options.get("window", WINDOW)))
    prefix = int(options.get("prefix", workload.prefix))
    if prefix:
        stream = stream.head(prefix)
    where = None if workload.where is None else workload.where.replace("{n}", str(threshold))
    sql = workload.sql.replace("{n}", str(threshold))
    if options.get("integers"):
        sql, tables = as_integers(sql, stream.tables)
        schema = {name: dict.fromkeys(columns, "int64") for name, columns in schema.items()}
        stream = replace(stream, tables=tables)
    return Loaded(workload, sql, where, schema, stream)


def _tpcds(workload: Workload, folder: Path, prefix: int) -> Loaded:
    text = tpcds.query(folder, workload.name)
    named = tpcds.schema(folder, text)
    read = {table.name for table in make_program(text, named, dialect=workload.dialect).tables}
    schema = {name: columns for name, columns in named.items() if name in read}
    stream, first = tpcds.stream(folder, schema)
    keyed = replace(workload, keys=tpcds.keys(schema))
    return Loaded(keyed, text, None, schema, stream.head(prefix) if prefix else stream, first)


def _job(workload: Workload, options: Mapping[str, Any]) -> Loaded:
    schema = job.schema(workload.name)
    rows, window, seed = options.get("rows", job.ROWS), options.get("window", job.WINDOW), options.get("seed", 7)
    stream, first = job.stream(schema, rows, window, seed)
    prefix = int(options.get("prefix", 0))
    kept = stream.head(first + prefix) if prefix else stream
    return Loaded(workload, job.query(workload.name), None, schema, kept, first)


def _keeping(graph: datasets.Graph, share: float) -> int:
    targets = graph.edges.column("dst").to_numpy()
    return int(np.quantile(targets, 1 - share, method="lower")) if share < 1 else int(targets.min()) - 1


def _only(stream: Stream, names: tuple[str, ...]) -> Stream:
    """Returns the updates of the tables ``names``."""
    numbers = [i for i, name in enumerate(stream.tables) if name in names]
    place = np.full(len(stream.tables), -1, np.int16)
    place[numbers] = np.arange(len(numbers))
    keep = place[stream.relation] >= 0
    tables = {name: table for name, table in stream.tables.items() if name in names}
    return replace(
        stream,
        tables=tables,
        relation=place[stream.relation[keep]],
        row=stream.row[keep],
        weight=stream.weight[keep],
    )
