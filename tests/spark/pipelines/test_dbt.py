"""A dbt project as a pipeline: what its manifest says is maintained, and what cannot be is said with the place."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from crown.errors import ProjectError
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.dbt import manifest_of, project_of
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.pipeline import Pipeline
from tests.spark.pipelines.shop import table

SCHEMA = "default"


def model(name: str, code: str, reads: list[str], materialized: str, **more: Any) -> dict[str, Any]:
    """A model as manifests of version 12 have it, with what a pipeline looks at."""
    return {
        "resource_type": "model",
        "name": name,
        "relation_name": f"{SCHEMA}.{name}",
        "original_file_path": f"models/{name}.sql",
        "language": "sql",
        "compiled_code": code,
        "depends_on": {"macros": [], "nodes": reads},
        "config": {"materialized": materialized, "meta": {}},
        "meta": {},
        **more,
    }


def manifest(folder: Path, models: list[dict[str, Any]], sources: dict[str, Any] | None = None) -> Path:
    (folder / "target").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text("name: shop\n")
    nodes = {f"model.shop.{node['name']}": node for node in models}
    nodes["test.shop.unique"] = {"resource_type": "test", "name": "unique"}
    given = {"metadata": {"project_name": "shop"}, "nodes": nodes, "sources": sources or {}}
    file = folder / "target" / "manifest.json"
    file.write_text(json.dumps(given))
    return file


def test_models_are_views_and_what_they_read_is_found(spark, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE dbt_orders (id INT, shop STRING, amount INT) USING parquet")
    (tmp_path / "towns").mkdir()
    write_deltalake(tmp_path / "towns", pa.table({"shop": ["a", "b"], "town": ["X", "Y"]}))
    towns = {"name": "towns", "relation_name": f"{SCHEMA}.towns", "meta": {"crown": f"delta:{tmp_path / 'towns'}"}}
    orders = {"name": "dbt_orders", "relation_name": f"{SCHEMA}.dbt_orders", "meta": {}}
    models = [  # before what it reads; a comment and a longer name have a name of another model in them
        model(
            "by_town",
            f"-- from {SCHEMA}.totals\nSELECT town, SUM({SCHEMA}.totals.total) AS total FROM {SCHEMA}.totals\n"
            f"JOIN {SCHEMA}.towns t ON t.shop = {SCHEMA}.totals.shop GROUP BY town",
            ["model.shop.totals", "source.shop.raw.towns"],
            "table",
            config={"materialized": "table", "meta": {"crown": True}},
        ),
        model(
            "totals",
            f"WITH __dbt__cte__o AS (SELECT * FROM {SCHEMA}.orders) SELECT shop, SUM(amount) AS total \n"
            "FROM __dbt__cte__o GROUP BY shop",
            ["model.shop.o"],
            "materialized_view",
        ),
        model("o", f"SELECT * FROM {SCHEMA}.orders", ["model.shop.orders"], "ephemeral", relation_name=None),
        model("orders", f"SELECT * FROM {SCHEMA}.dbt_orders WHERE amount > 0", ["source.shop.raw.dbt_orders"], "view"),
        model("other", f"SELECT * FROM {SCHEMA}.nowhere", [], "table"),
    ]
    file = manifest(tmp_path / "shop", models, {"source.shop.raw.towns": towns, "source.shop.raw.dbt_orders": orders})
    found = manifest_of(tmp_path / "shop")
    assert found == file == manifest_of(file) == manifest_of(file.parent)
    assert manifest_of(tmp_path) is None

    def run() -> dict[str, tuple[int, int]]:
        return Pipeline.of(spark, project_of(file)).run().changed

    try:
        spark.sql("INSERT INTO dbt_orders VALUES (1, 'a', 5), (2, 'b', 7), (3, 'b', -1)")
        assert run() == {"totals": (2, 0), "by_town": (2, 0)}
        spark.sql("INSERT INTO dbt_orders VALUES (4, 'a', 1)")
        assert run() == {"totals": (1, 1), "by_town": (1, 1)}
        assert table(tmp_path / "shop" / "crown" / "tables" / "by_town") == Counter([("X", 6), ("Y", 7)])
        assert not (tmp_path / "shop" / "crown" / "tables" / "orders").exists(), "it is a temporary view"
    finally:
        spark.sql("DROP TABLE dbt_orders")


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ([model("a", "SELECT 1 AS x", [], "table")], "no model is to be maintained; materialize one as"),
        (
            [model("a", "", [], "materialized_view")],
            r"models/a\.sql: the model a was not compiled: run dbt compile in the project",
        ),
        (
            [model("a", "def model(dbt, session): ...", [], "materialized_view", language="python")],
            r"models/a\.sql: the model a is not SQL; let dbt build it as a table",
        ),
    ],
)
def test_what_cannot_be_a_view_is_said_with_its_place(models: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=said):
        project_of(manifest(tmp_path / "shop", models))


def test_a_manifest_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    file = tmp_path / "target" / "manifest.json"
    with pytest.raises(SourceError, match=r"manifest\.json does not exist: run dbt compile in the project first"):
        project_of(file)
    file.parent.mkdir()
    for text in ("{", "[]", '{"nodes": {}}', '{"nodes": [], "sources": {}, "metadata": {}}'):
        file.write_text(text)
        with pytest.raises(SourceError, match=r"manifest\.json is not a manifest of dbt"):
            project_of(file)


def test_variables_of_dbt_are_the_configuration(tmp_path: Path) -> None:
    file = manifest(
        tmp_path,
        [model("a", f"SELECT * FROM {SCHEMA}.r", ["source.shop.raw.r"], "materialized_view")],
        {"source.shop.raw.r": {"name": "r", "relation_name": f"{SCHEMA}.r", "meta": {"crown": "csv:r?columns=k INT"}}},
    )
    assert manifest_of(tmp_path / "dbt_project.yml") == file
    settings = "crown.keep: 5, crown.on_bad_row: quarantine, crown.static: r, crown.into.a: out, spark.jars: x.jar"

    def write(variables: str) -> None:
        (tmp_path / "dbt_project.yml").write_text(f"name: shop\nvars: {variables}\n")

    write(f"{{{settings}, country: NL, shop: {{country: PT}}}}")
    found = project_of(file)
    assert (found.keep, found.on_bad_row, found.static) == (5, "quarantine", {"r"})
    assert found.places == {"a": [str(tmp_path / "out")]}
    assert found.settings == {"spark.jars": "x.jar"}
    found.load(Session.later(lambda: pytest.fail("Spark is not needed"), {}, None), {})
    assert found.is_current()
    file.write_text(file.read_text() + " ")
    assert not found.is_current(), "dbt has compiled the models again"
    found.load(Session.later(lambda: pytest.fail("Spark is not needed"), {}, None), {})
    write("{crown.keep: many}")
    assert not found.is_current()
    with pytest.raises(ProjectError, match=r"dbt_project\.yml: crown\.keep: many: write how many snapshots are kept"):
        assert project_of(file).keep
    for key, of in (("crown.source.r", "source"), ("crown.refresh.a", "model")):
        write(f"{{{key}: full}}")
        with pytest.raises(SourceError, match=rf"dbt_project\.yml: vars: {key}: write it into the meta of the {of}"):
            project_of(file)
    for text in ("", "vars:", "- x"):
        (tmp_path / "dbt_project.yml").write_text(text)
        assert project_of(file).keep == 1
    (tmp_path / "dbt_project.yml").write_text("{")
    with pytest.raises(ProjectError, match=r"dbt_project\.yml is not YAML"):
        project_of(file)
