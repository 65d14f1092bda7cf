"""The public functions and methods with arguments of which the call would be right, and values that make no sense.

The names are those of ``tests/api.txt``: what is added there must be added here.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from itertools import count
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa

import crown
from crown.options import DatabaseOptions, DurableDatabaseOptions, DurableOptions, ViewOptions
from tests import api

Values = dict[str, Callable[[], Any]]

WRONG: Values = {
    "None": lambda: None,
    "1.5": lambda: 1.5,
    "text": lambda: "no such thing",
    "half a letter": lambda: "\ud800",
    "bytes": lambda: b"\xff",
    "list of numbers": lambda: [1, 2, 3],
    "dict of objects": lambda: {"r": object(), "a": object()},
    "object": object,
    "NumPy matrix": lambda: np.zeros((2, 2, 2)),
    "frame": lambda: pd.DataFrame({"a": [object()], 5: [1]}),
    "NA": lambda: pd.NA,
    "Decimal": lambda: Decimal("sNaN"),
}
MORE: Values = {
    "True": lambda: True,
    "0": lambda: 0,
    "-1": lambda: -1,
    "NaN": lambda: float("nan"),
    "10**400": lambda: 10**400,
    "empty text": lambda: "",
    "NUL": lambda: "a\0b",
    "brackets": lambda: "(" * 100_000,
    "braces": lambda: "{" * 100_000,
    "JSON": lambda: '{"a": [1, 2]}',
    "empty list": list,
    "list of None": lambda: [None],
    "list of dicts": lambda: [{"a": object()}],
    "empty dict": dict,
    "dict": lambda: {"a": 1},
    "dict of numbers": lambda: {1: 2},
    "dict of dicts": lambda: {"r": {"a": {}}},
    "set": lambda: {"a"},
    "type": lambda: int,
    "function": lambda: lambda: None,
    "generator": lambda: (i for i in range(3)),
    "path": lambda: Path("/no/such/folder/file"),
    "folder": Path,
    "NumPy scalar": lambda: np.float64("inf"),
    "Arrow table": lambda: pa.table({"z": [[1]]}),
    "Arrow schema": lambda: pa.schema([("z", pa.list_(pa.int64()))]),
    "Fraction": lambda: Fraction(1, 3),
    "time": lambda: dt.datetime(1, 1, 1),
    "length": lambda: dt.timedelta.max,
}
"""Values that are wrong almost everywhere. Where one is right, the call does something."""

SCHEMA = {"r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}
ROWS = {"r": [(1, 2), (2, 2)], "s": [(2, 3)]}
EDGES = [{"src": 1, "dst": 2}, {"src": 2, "dst": 3}]
COUNTS, JOIN, PAIRS = "SELECT a, COUNT(*) AS n FROM r GROUP BY a", "Q(a, b, c) :- r(a, b), s(b, c).", "(a)-[]->(b)"
_numbers = count()


def new() -> Path:
    """A path in the present folder at which there is nothing."""
    return Path(f"file{next(_numbers)}")


def view(query: str = COUNTS) -> crown.View:
    return crown.view(query, SCHEMA, tables=ROWS)


def database() -> crown.Database:
    made = crown.database(SCHEMA)
    made.view("v", COUNTS)
    made.update(ROWS)
    return made


def durable() -> crown.DurableView:
    made = crown.open(COUNTS, new(), SCHEMA)
    made.update(ROWS)
    return made


def durable_database() -> crown.DurableDatabase:
    made = crown.open_database(new(), SCHEMA)
    made.view("v", COUNTS)
    return made


def project() -> crown.ProjectDatabase:
    folder = new()
    (folder / "r").mkdir(parents=True)
    (folder / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    (folder / "spark-pipeline.yml").write_text(
        "{name: p, storage: s, libraries: [{glob: {include: v.sql}}],\n"
        'configuration: {crown.source.r: "csv:r?columns=a BIGINT, b BIGINT"}}'
    )
    return crown.database(folder)


def model() -> Any:
    made = crown.ml.regression("SELECT a, b FROM r", SCHEMA, target="b")
    made.apply(ROWS)
    return made


def triangle() -> crown.Triangle:
    made = crown.Triangle(memory="64 MiB")
    made.apply({"R": [{"a": 1, "b": 2}], "S": [{"b": 2, "c": 3}], "T": [{"c": 3, "a": 1}]})
    return made


def motif() -> Any:
    return crown.graph.motif(None, EDGES, PAIRS)


def saved(made: Callable[[], Any]) -> Callable[[], Path]:
    def save() -> Path:
        path = new()
        made().save(path)
        return path

    return save


def delta() -> pa.Table:
    return view().apply({"r": [(9, 9)]})


SUBJECTS: dict[str, Callable[[], Any]] = {
    "crown.View": view,
    "crown.Database": database,
    "crown.DurableView": durable,
    "crown.DurableDatabase": durable_database,
    "crown.ProjectDatabase": project,
    "crown.Triangle": triangle,
    "crown.Plan": lambda: crown.plan("Q(a) :- r(a, b).", SCHEMA),
    "crown.Program": lambda: crown.plan(COUNTS, SCHEMA),
    "crown.Schema": lambda: crown.Schema.of(SCHEMA),
    "crown.Table": lambda: crown.Schema.of(SCHEMA)["r"],
    "crown.Column": lambda: crown.Column("a", "int64"),
    "crown.Window": lambda: crown.ttl("a", 10),
}
"""Objects of the classes whose methods ``api.txt`` lists."""
BESIDE: dict[str, Callable[[], Any]] = {
    "view of a database": lambda: database()["v"],
    "motif": motif,
    "model": model,
    "coefficients": lambda: model().coefficients(),
    "monomials": lambda: crown.ml.monomials(over=["a", "b"]),
}
"""Objects that public functions return, and whose classes have no lines of their own there."""
MADE_BY_FUNCTIONS = {
    "crown.View", "crown.Database", "crown.DurableView", "crown.DurableDatabase", "crown.ProjectDatabase",
    "crown.graph.MotifView", "crown.graph.DurableMotifView", "crown.Plan", "crown.Program", "crown.Window",
    "crown.ml.Coefficients", "crown.ml.Monomials",
}  # fmt: skip
"""Classes that a user does not call."""
ARGUMENTS: Values = {
    "changes": lambda: {"r": [(5, 6)]},
    "row": lambda: {"a": 1, "n": 1},
    "key": lambda: {"a": 1},
    "path": new,
    "callback": lambda: str,
    "relation": lambda: "r",
    "table": lambda: "r",
    "rows": lambda: [(5, 6)],
    "columns": lambda: {"a": "int64"},
    "to": lambda: 5,
    "name": lambda: "a",
    "query": lambda: COUNTS,
    "data": lambda: view().plan.to_json(),
    "given": lambda: SCHEMA,
}
"""Right arguments of methods, by the names of their parameters."""
RIGHT: dict[str, Values] = {
    "crown.view": {"query": lambda: COUNTS, "schema": lambda: SCHEMA},
    "crown.open": {"query": lambda: COUNTS, "path": new, "schema": lambda: SCHEMA},
    "crown.open_database": {"path": new, "schema": lambda: SCHEMA},
    "crown.database": {"schema": lambda: SCHEMA},
    "crown.function": {
        "name": lambda: "own_value",
        "call": lambda: abs,
        "arguments": lambda: ["int64"],
        "result": lambda: "int64",
        "deterministic": lambda: True,
        "version": lambda: "1",
    },
    "crown.aggregate": {
        "name": lambda: "own_total",
        "lift": lambda: abs,
        "finish": lambda: abs,
        "arguments": lambda: ["int64"],
        "sums": lambda: {"total": "int64"},
        "result": lambda: "int64",
        "version": lambda: "1",
    },
    "crown.load": {"path": saved(view)},
    "crown.load_database": {"path": saved(database)},
    "crown.plan": {"query": lambda: COUNTS, "schema": lambda: SCHEMA},
    "crown.explain": {"query": lambda: COUNTS, "schema": lambda: SCHEMA},
    "crown.ttl": {"column": lambda: "a", "length": lambda: 10},
    "crown.tumbling": {"column": lambda: "a", "size": lambda: 10},
    "crown.sliding": {"column": lambda: "a", "size": lambda: 10, "slide": lambda: 5},
    "crown.last_rows": {"rows": lambda: 5},
    "crown.unfold": {"data": lambda: next(view(JOIN).results(factorized=True))},
    "crown.Column": {"name": lambda: "a", "type": lambda: "int64"},
    "crown.Table": {"name": lambda: "t", "columns": lambda: (crown.Column("a", "int64"),)},
    "crown.Schema": {},
    "crown.Triangle": {"memory": lambda: "64 MiB"},
    "crown.changes.as_cdf": {"delta": delta},
    "crown.changes.as_debezium": {"delta": delta},
    "crown.changes.as_rowkind": {"delta": delta},
    "crown.changes.from_debezium": {"envelopes": lambda: [{"op": "c", "after": {"a": 1}}]},
    "crown.graph.motif": {"vertices": lambda: None, "edges": lambda: EDGES, "pattern": lambda: PAIRS},
    "crown.graph.open": {"vertices": lambda: None, "edges": lambda: EDGES, "pattern": lambda: PAIRS, "path": new},
    "crown.graph.degrees": {"edges": lambda: EDGES},
    "crown.graph.degree_table": {"vertices": lambda: None, "edges": lambda: EDGES},
    "crown.graph.triangles": {"vertices": lambda: None, "edges": lambda: EDGES},
    "crown.graph.components": {"vertices": lambda: None, "edges": lambda: EDGES},
    "crown.graph.reachable": {"edges": lambda: EDGES, "sources": lambda: [1]},
    "crown.graph.shortest_paths": {"edges": lambda: EDGES, "landmarks": lambda: [1]},
    "crown.graph.load": {"path": saved(motif)},
    "crown.ml.load": {"path": saved(model)},
    "crown.ml.program": {"query": lambda: "SELECT a, b FROM r", "schema": lambda: SCHEMA, "target": lambda: "b"},
    "crown.ml.regression": {"query": lambda: "SELECT a, b FROM r", "schema": lambda: SCHEMA, "target": lambda: "b"},
    "crown.ml.Regression": {"view": lambda: model().view},
    "crown.ml.monomials": {"over": lambda: ["a", "b"]},
    "crown.spark.delta_files": {"path": new},
    "crown.spark.rollback": {"checkpoint": lambda: "checkpoint", "batch": lambda: 3},
    "crown.spark.to_table": {"target": lambda: "table", "keys": lambda: ["a"]},
    "crown.spark.view_batch": {"checkpoint": lambda: "checkpoint"},
}
"""Right arguments of functions and classes."""
OPTIONS: dict[str, type] = {
    "crown.view": ViewOptions,
    "crown.open": DurableOptions,
    "crown.open_database": DurableDatabaseOptions,
    "crown.database": DatabaseOptions,
    "crown.graph.motif": ViewOptions,
    "crown.graph.open": DurableOptions,
    "crown.graph.degrees": ViewOptions,
    "crown.graph.triangles": ViewOptions,
    "crown.ml.regression": ViewOptions,
}
"""The keywords that functions take beside those of their signatures."""
WITH_A_SESSION = {"crown.spark.local_session", "crown.spark.split", "crown.spark.DeltaFeed", "crown.spark.KafkaFeed"}
"""What begins with a session of Spark, or with a frame of it; ``tests/spark`` has what it refuses."""


def public() -> Iterator[str]:
    """Yields the names of what can be called: ``crown.view``, ``crown.View.apply``, ``crown.graph.motif``."""
    owner = ""
    for line in api.PAGE.read_text().splitlines():
        if match := re.match(r"module (\S+): (.*)", line):
            yield from (f"{match[1]}.{name}" for name in match[2].split(", "))
        elif match := re.match(r"class (\S+?)(\(|$)", line):
            owner = match[1]
            yield owner
        elif match := re.match(r"    (?:staticmethod |classmethod )?(\w+)\(", line):
            yield f"{owner}.{match[1]}"
        elif match := re.match(r"(crown\.\w+)\(", line):
            yield match[1]


def found(name: str) -> Any:
    """What a name stands for."""
    at: Any = crown
    for part in name.split(".")[1:]:
        at = getattr(at, part)
    return at


def is_called(name: str) -> bool:
    """Whether a user calls what has this name, without a session of Spark."""
    what = found(name)
    if name in MADE_BY_FUNCTIONS or name in WITH_A_SESSION or not callable(what):
        return False
    if name.startswith("crown.spark.") and "spark" in inspect.signature(what).parameters:
        return False
    return not (inspect.isclass(what) and issubclass(what, (Exception, Warning)))


def parameters(name: str, call: Callable[..., Any]) -> list[str]:
    """The names of the parameters of a call, and of the keywords that it takes beside them."""
    own = [
        p.name for p in inspect.signature(call).parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    ]
    return [*own, *(get_type_hints(OPTIONS[name]) if name in OPTIONS else ())]
