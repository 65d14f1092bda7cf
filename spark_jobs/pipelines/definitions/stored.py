"""Stores an analysis, and reads it again while its inputs have not changed: the texts of the definitions, the columns
of the sources, the settings of the session, the versions. An analysis that depends on other inputs, such as a Python
function or a view of the catalog, is not stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import crown
from crown.durable.files import write_durably
from crown.projects.specification import FULL
from plans.expressions.functions.user import NAMED
from plans.schema import Table
from plans.serial import canonical, from_json, to_json
from spark_jobs.ingest.types import supported_table
from spark_jobs.pipelines.definitions.analysis import UNANALYZED, Analysis, Analyzed, CatalogTable, Source
from spark_jobs.pipelines.definitions.project import Definition, Texts
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.inputs.declared import DeclaredSource


def store(session: Session, analysis: Analysis, texts: Texts, file: Path) -> None:
    """Writes an analysis, with the texts of its definitions, to a file. Deletes the file if the analysis must not be
    reused. Of an analysis that was read from the file, updates only the texts."""
    if analysis.views and all(view.relation is None for view in analysis.views):
        given = json.loads(file.read_bytes())
        if given["files"] != texts:
            write_durably(file, json.dumps({**given, "files": texts}).encode())
        return
    if not analysis.lasting or _functions(session.spark):
        file.unlink(missing_ok=True)
        return
    views = [
        [v.definition.name, canonical(to_json(v.table)), list(v.reads), v.digest, v.refused] for v in analysis.views
    ]
    sources = [
        [n, s.path, s.given.digest if s.given is not None else None, canonical(to_json(s.table))]
        for n, s in analysis.sources.items()
    ]
    known = {
        "settings": _settings(session),
        "texts": _texts([view.definition for view in analysis.views]),
        "files": texts,
        "views": views,
        "sources": sources,
    }
    write_durably(file, json.dumps(known).encode())


def stored_analysis(
    session: Session, definitions: list[Definition], named: Mapping[str, DeclaredSource], file: Path
) -> Analysis | None:
    """Returns the analysis in a file; None if the file has none of these definitions, sources and settings.

    Spark is started only for sources of its catalog, and for sources whose columns cannot be found without it. A
    session that is started later has only the functions of its catalog, which never precede Spark's own.
    """
    given = _kept(session, file)
    if given is None or given["texts"] != _texts(definitions) or (session.started and _functions(session.spark)):
        return None
    by_name = {definition.name: definition for definition in definitions}
    if any(said != (named[name].digest if name in named else None) for name, _, said, _ in given["sources"]):
        return None
    sources = {}
    for name, path, said, table in given["sources"]:
        read = CatalogTable(session, path) if said is None else named[name].read
        try:
            found = (
                supported_table(name, read().schema) if said is None else named[name].table(name, named[name].columns())
            )
        except UNANALYZED:
            return None
        if canonical(to_json(found)) != table:
            return None
        sources[name] = Source(found, read, path, named.get(name))
    views = [
        Analyzed(by_name[name], from_json(Table, json.loads(table)), tuple(reads), digest, refused, None)
        for name, table, reads, digest, refused in given["views"]
    ]
    return Analysis(tuple(views), sources, True)


def stored_texts(session: Session, file: Path) -> Texts:
    """Returns the texts in a file with their definitions as Spark reads them; {} if the file was written under other
    settings."""
    given = _kept(session, file)
    return {} if given is None else given["files"]


def _kept(session: Session, file: Path) -> dict[str, Any] | None:
    """Returns the contents of a file; None if there is no file, or if it was written under other settings."""
    try:
        given = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return None
    return given if given.get("settings") == _settings(session) else None


def _settings(session: Session) -> str:
    """Returns a digest of the inputs that every analysis has, except the functions of Spark's users."""
    return hashlib.sha256(json.dumps([crown.__version__, session.settings()]).encode()).hexdigest()


def _texts(definitions: list[Definition]) -> str:
    """Returns a digest of the definitions, and of the functions registered here, which definitions may call."""
    texts = sorted((of.name, str(of.query), of.temporary, of.refresh == FULL) for of in definitions)
    own = sorted(repr(entry) for entry in NAMED.values())
    return hashlib.sha256(json.dumps([texts, own]).encode()).hexdigest()


def _functions(spark: SparkSession) -> bool:
    """Returns True if there are functions that are not Spark's own."""
    session: Any = spark._jsparkSession
    catalog = session.sessionState().catalog()
    names = [str(one) for one in catalog.listDatabases().mkString("\n").split("\n")]
    kept = any(catalog.externalCatalog().listFunctions(name, "*").nonEmpty() for name in names)
    return bool(kept or ",USER)" in catalog.listFunctions(catalog.getCurrentDatabase()).toString())
