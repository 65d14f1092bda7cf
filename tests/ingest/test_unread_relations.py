"""A relation that the schema declares and the query does not read is ignored, as columns are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import crown
from crown.errors import BadRowError, ChangeError

SCHEMA = {"r": {"a": "int64"}, "S": {"b": "int64"}}
QUERIES = ["Q(a) :- r(a).", "SELECT a FROM r", "SELECT COUNT(*) AS n FROM r GROUP BY a"]
WHATEVER = [{"b": object()}, 5]


def made(query: str, folder: Path) -> Any:
    return crown.view(query, SCHEMA)


def from_frames(query: str, folder: Path) -> Any:
    view = crown.view(query, tables={"r": [{"a": 1}], "s": [{"b": 2}]})
    assert view.count() == 1
    view.update({"r": [{"a": 1, "_weight": -1}]})
    return view


def of_a_plan(query: str, folder: Path) -> Any:
    return crown.view(crown.plan(query, SCHEMA), SCHEMA)


def loaded(query: str, folder: Path) -> Any:
    crown.view(query, SCHEMA).save(folder / "view")
    return crown.load(folder / "view")


def durable(query: str, folder: Path) -> Any:
    return crown.open(query, folder / "view", SCHEMA)


def reopened(query: str, folder: Path) -> Any:
    crown.open(query, folder / "view", SCHEMA).close()
    return crown.open(None, folder / "view")


def reopened_with_its_query(query: str, folder: Path) -> Any:
    crown.open(query, folder / "view", {"r": SCHEMA["r"]}).close()
    return crown.open(query, folder / "view", SCHEMA)


@pytest.mark.parametrize("make", [made, from_frames, of_a_plan, loaded, durable, reopened, reopened_with_its_query])
@pytest.mark.parametrize("query", QUERIES)
def test_a_declared_relation_that_is_not_read_is_ignored(
    query: str, make: Callable[[str, Path], Any], tmp_path: Path
) -> None:
    view = make(query, tmp_path)
    assert view.apply({"s": WHATEVER, "r": [{"a": 1}]}).num_rows == 1
    assert view.apply({"S": pa.table({"b": [1]})}).num_rows == 0
    view.update({"s": None})
    assert sum(part.num_rows for part in view.apply_batches({"s": WHATEVER, "r": [{"a": 2}]})) > 0
    with pytest.raises(ChangeError, match="relation 't' is not part of this query, which reads: r"):
        view.apply({"s": WHATEVER, "t": []})
    with pytest.raises(BadRowError):
        view.apply({"s": WHATEVER, "r": [{"a": "x"}]})
    with pytest.raises(ChangeError, match="changes must be a dict"):
        view.apply([1])


def test_a_graph_keeps_only_what_its_motif_reads() -> None:
    edges = [{"src": 1, "dst": 2}]
    view = crown.graph.motif([{"id": 1, "name": "Ann"}], edges, "()-[e]->()")
    assert view.apply({"vertices": [{"id": 5, "name": "Bo"}], "edges": [{"src": 2, "dst": 3}]}).num_rows == 1


def test_a_regression_ignores_the_tables_of_others() -> None:
    schema = {"r": {"x": "int64", "y": "int64"}, "s": {"b": "int64"}}
    model = crown.ml.regression("SELECT x, y FROM r", schema, target="y")
    model.apply({"r": [(1, 2)], "s": WHATEVER})
    assert model.rows == 1
