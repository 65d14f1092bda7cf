"""Reads a dbt project: the models that it has compiled, from its ``manifest.json``.

Models that are materialized as ``materialized_view``, or that have ``crown: true`` in their ``meta``, are the views of
the pipeline; ``crown: full`` or another policy is their refresh policy. Models that are views and that these read are
its temporary views. Everything else that they read (tables, seeds, snapshots, sources) is read from the catalog, or
from the table that its ``meta`` names. The ``vars`` of ``dbt_project.yml`` that begin with ``crown.`` or ``spark.`` are
the configuration.

A compiled query contains the ``relation_name`` of each relation that it reads, as it is in the manifest. This text
identifies the view that is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crown.projects.locations import KINDS
from crown.projects.specification import OURS, REFRESH, SOURCE, yaml_of
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.project import Definition, Project

MANIFEST, PROJECT = "manifest.json", "dbt_project.yml"
_KEPT, _META = "materialized_view", "crown"


def manifest_of(path: Path) -> Path | None:
    """Returns the manifest of a dbt project, given as the file, its folder, or ``dbt_project.yml`` or its folder; None
    if the path is not one of these."""
    if path.name == MANIFEST:
        return path
    if path.name == PROJECT:
        return path.parent / "target" / MANIFEST
    if (path / PROJECT).is_file():
        return path / "target" / MANIFEST
    return path / MANIFEST if (path / MANIFEST).is_file() else None


def project_of(manifest: Path) -> Project:
    """Returns the project of a manifest. Its state and tables are in the folder ``crown`` next to ``target``.

    Raises SourceError if the manifest cannot be read, has no view, or if a view was not compiled or is not SQL.
    """
    given = _read(manifest)
    nodes, sources = given["nodes"], given["sources"]
    views = _views(nodes)
    if not any(_is_kept(nodes[key]) for key in views):
        raise SourceError(
            f"{manifest}: no model is to be maintained; materialize one as {_KEPT}, or give it meta: {{{_META}: true}}"
        )
    metas = {nodes[key]["name"]: _meta(nodes[key]) for key in views}
    folder = manifest.resolve().parent
    folder = folder.parent if folder.name == "target" else folder
    own = folder / PROJECT
    configuration = _variables(own) if own.is_file() else {}
    configuration |= {REFRESH + name: meta for name, meta in metas.items() if isinstance(meta, str)}
    names = {nodes[key]["relation_name"]: nodes[key]["name"] for key in views}
    for key in {key for view in views for key in _reads(nodes, view)}.difference(views):
        node = sources.get(key) or nodes.get(key, {})
        where = (node.get("meta") or {}).get(_META)
        if isinstance(where, str) and where.partition(":")[0] in KINDS:
            names[node["relation_name"]] = node["name"]
            configuration[SOURCE + node["name"]] = where
    made = [
        Definition(
            node["name"],
            _renamed(_compiled(node), names),
            not _is_kept(node),
            node["original_file_path"],
        )
        for node in (nodes[key] for key in views)
    ]
    name = str(given["metadata"].get("project_name") or folder.name)
    file = own if own.is_file() else manifest
    return Project(name, file, folder, folder / "crown", configuration, None, (), made, read_with=(manifest,))


def _variables(file: Path) -> dict[str, str]:
    """Returns the configuration in the ``vars`` of ``dbt_project.yml``."""
    given = yaml_of(file)
    variables = given.get("vars") if isinstance(given, dict) else None
    found = {str(k): str(v) for k, v in (variables if isinstance(variables, dict) else {}).items()}
    for key in found:
        if key.startswith((SOURCE, REFRESH)):
            what = "source" if key.startswith(SOURCE) else "model"
            raise SourceError(f"{file}: vars: {key}: write it into the meta of the {what} instead, under {_META}")
    return {key: value for key, value in found.items() if key.startswith((OURS, "spark."))}


def _read(manifest: Path) -> dict[str, Any]:
    try:
        given = json.loads(manifest.read_bytes())
        if not all(isinstance(given[part], dict) for part in ("metadata", "nodes", "sources")):
            raise ValueError("parts of it are missing")
    except FileNotFoundError:
        raise SourceError(f"{manifest} does not exist: run dbt compile in the project first") from None
    except OSError as error:
        raise SourceError(f"{manifest} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise SourceError(f"{manifest} is not a manifest of dbt: run dbt compile in the project") from None
    return dict(given)


def _is_kept(node: Mapping[str, Any]) -> bool:
    return _materialized(node) == _KEPT or bool(_meta(node))


def _meta(node: Mapping[str, Any]) -> Any:
    return ((node.get("config") or {}).get("meta") or node.get("meta") or {}).get(_META)


def _views(nodes: Mapping[str, Any]) -> list[str]:
    """Returns the models that are maintained, and the views that they read, in an order in which each model follows
    what it reads."""
    found: dict[str, None] = {}
    models = {key: node for key, node in nodes.items() if node.get("resource_type") == "model"}

    def take(key: str) -> None:
        if key in found:
            return
        for read in _reads(nodes, key):
            if read in models and (_is_kept(models[read]) or _materialized(models[read]) == "view"):
                take(read)
        found[key] = None

    for key, node in models.items():
        if _is_kept(node):
            take(key)
    return list(found)


def _reads(nodes: Mapping[str, Any], key: str) -> Iterator[str]:
    """Yields what a model reads. The query of an ephemeral model is part of the query that reads it, so its inputs
    count as well."""
    for read in (nodes[key].get("depends_on") or {}).get("nodes") or ():
        if read in nodes and _materialized(nodes[read]) == "ephemeral":
            yield from _reads(nodes, read)
        else:
            yield read


def _materialized(node: Mapping[str, Any]) -> str:
    return str((node.get("config") or {}).get("materialized"))


def _compiled(node: Mapping[str, Any]) -> str:
    place = node["original_file_path"]
    if node.get("language", "sql") != "sql":
        raise SourceError(f"{place}: the model {node['name']} is not SQL; let dbt build it as a table")
    compiled = node.get("compiled_code")
    if not compiled:
        raise SourceError(f"{place}: the model {node['name']} was not compiled: run dbt compile in the project")
    return str(compiled)


def _renamed(query: str, names: Mapping[str, str]) -> str:
    """Returns a query that reads the views and Delta tables by their names in the pipeline."""
    texts = sorted((text for text in names if text), key=len, reverse=True)
    if not texts:
        return query
    one = "|".join(map(re.escape, texts))
    return re.sub(rf"(?<![\w`.])(?:{one})(?![\w`])", lambda match: f"`{names[match[0]]}`", query)
