"""Reads a project of Spark's Declarative Pipelines: its specification, Python files and SQL files.

The same folder that ``spark-pipelines run`` computes anew. Definitions register themselves with a registry of our own,
so no pipeline server is needed.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import invalidate_caches
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from typing_extensions import override

from crown.errors import ProjectError
from crown.projects.specification import INTO, POLICIES, PYTHON, REFRESH, Specification, Stamps, stamp
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.sessions import Session, following

_FLOWS = "a streaming table has one flow, which appends; unite several in one query, or use crown submit"


Views = list[list[Any]]
"""What a text defines: name, query, kind, and the line in which its statement begins."""
Texts = dict[str, Views]
"""What the SQL files of a project define, by their texts."""
_VIEW, _TEMPORARY, _STREAM = "view", "temporary", "stream"
_NAME = re.compile(r"[A-Za-z0-9_]+")
_modules: set[str] = set()
"""The modules of projects that this process has imported."""


@dataclass(frozen=True)
class Definition:
    """A view of a project: SQL, or a function that returns a DataFrame. ``temporary``: it has no table of its own.
    ``refresh``: its policy; None for that of the pipeline."""

    name: str
    query: str | Callable[[], DataFrame]
    temporary: bool
    place: str
    refresh: str | None = None

    def __post_init__(self) -> None:
        if self.refresh is not None and self.refresh not in POLICIES:
            raise SourceError(f"{self.place}: refresh={self.refresh!r:.100}: give one of {', '.join(POLICIES)}")
        if not isinstance(self.name, str) or _NAME.fullmatch(self.name) is None:
            raise SourceError(f"{self.place}: {self.name!r:.100} is no name of a view: give letters, digits and _")


@dataclass
class Project(Specification):
    """What a specification says, and the views and streaming tables that its files define."""

    definitions: list[Definition] = field(default_factory=list)
    streams: list[Definition] = field(default_factory=list)
    _imported: Stamps = field(default_factory=dict, init=False)

    @property
    def places(self) -> dict[str, list[str]]:
        """Returns where else the rows of a view go, by its name: ``crown.into.VIEW: PLACE PLACE``."""
        return {
            view: [one if "://" in one else str(self.folder / one) for one in value.split()]
            for view, value in self._of_views(INTO)
        }

    def _of_views(self, prefix: str) -> Iterator[tuple[str, str]]:
        return self.of_views(prefix, [definition.name for definition in self.definitions])

    def _take_policies(self) -> None:
        """Gives the definitions their refresh policies: ``crown.refresh.VIEW: POLICY``."""
        given = {view.lower(): value for view, value in self._of_views(REFRESH)}
        self.definitions = [replace(of, refresh=given.get(of.name.lower())) for of in self.definitions]

    @override
    def is_current(self) -> bool:
        """Returns True while the files that ``load`` has read are as they were then: the specification, the
        definitions, and the modules of the project that they import."""
        return super().is_current() and all(stamp(file) == at for file, at in self._imported.items())

    def load(self, session: Session, known: Texts) -> Texts:
        """Reads the definitions: imports the Python files and parses the SQL files of the project.

        ``known``: texts that Spark has parsed before; returns those that there are.
        """
        found: Texts = {}
        from pyspark.pipelines.graph_element_registry import graph_element_registration_context

        registry, imports = _registry(self), _Imports(self.folder)
        self._defined, self._imported = self._stamps(), imports.stamps
        with graph_element_registration_context(registry), imports.found(), following() as spark:
            for file in self.files():
                try:
                    if file.suffix == PYTHON:
                        _ = session.spark  # it is started: the file may ask it at once
                        _import(file, spark)
                    else:
                        text = file.read_text(encoding="utf-8")
                        place = file.relative_to(self.folder)
                        found[text] = known[text] if text in known else _views(session, text, place)
                        for name, query, kind, line in found[text]:
                            self._define(name, query, kind, f"{place}:{line}")
                except (SourceError, ProjectError):
                    raise
                except Exception as error:  # of code of the user's, anything may come
                    raise SourceError(f"{file}: {raised(error)}") from error
        defined = [*self.definitions, *self.streams]
        names = [definition.name.lower() for definition in defined]
        for definition in defined:
            if names.count(definition.name.lower()) > 1:
                raise SourceError(f"{definition.place}: there are two views called {definition.name}; rename one")
        self._take_policies()
        return found

    def _define(self, name: str, query: str | Callable[[], DataFrame], kind: str, place: str) -> None:
        if kind == _STREAM and any(of.name == name for of in self.streams):
            raise SourceError(f"{place}: {name} has two flows: {_FLOWS}")
        made = Definition(name, query, kind == _TEMPORARY, place)
        (self.streams if kind == _STREAM else self.definitions).append(made)


def _views(session: Session, text: str, file: Path) -> Views:
    """Returns the views that a text defines. Raises SourceError for a statement that defines no view."""
    from plans.frontends.sql.text.statements import statements  # a text that is known needs no parser

    found = []
    for statement in statements(text):
        said = _parsed(session.spark, statement.text, f"{file}:{statement.line}")
        if said:
            found.append([*said, statement.line])
    return found


def _parsed(spark: SparkSession, text: str, place: str) -> list[Any]:
    """Returns name, query and kind of what a statement defines, as Spark reads it; nothing for a setting."""
    parser: Any = spark._jsparkSession.sessionState().sqlParser()
    try:
        plan = parser.parsePlan(text)
    except ParseException as error:
        raise SourceError(f"{place}: {line_of(error)}") from None
    kind, nodes = plan.getClass().getSimpleName(), json.loads(plan.toJSON())
    if kind in ("CreateMaterializedViewAsSelect", "CreateStreamingTableAsSelect"):
        parts = json.loads(plan.name().toJSON())[0]["nameParts"]
        name = (parts.strip("[]").split(", ") if isinstance(parts, str) else parts)[-1]
        return [name, nodes[0]["originalText"], _VIEW if kind == "CreateMaterializedViewAsSelect" else _STREAM]
    if kind == "CreateViewCommand":
        return [str(nodes[0]["name"]["table"]), nodes[0]["originalText"], _TEMPORARY]
    if kind in ("CreateStreamingTable", "CreateFlowCommand"):
        raise SourceError(f"{place}: write CREATE STREAMING TABLE ... AS SELECT: {_FLOWS}")
    if kind != "SetCommand":
        raise SourceError(
            f"{place}: a project has CREATE MATERIALIZED VIEW, CREATE STREAMING TABLE and CREATE TEMPORARY VIEW; move "
            "this statement"
        )
    return []


def _registry(project: Project) -> Any:
    """Returns what the decorators of ``pyspark.pipelines`` register with."""
    from pyspark.pipelines.flow import AutoCdcFlow, Flow
    from pyspark.pipelines.graph_element_registry import GraphElementRegistry
    from pyspark.pipelines.output import MaterializedView, Output, StreamingTable, TemporaryView

    outputs: dict[str, Output] = {}

    class Registry(GraphElementRegistry):
        def register_output(self, output: Output) -> None:
            if not isinstance(output, (MaterializedView, TemporaryView, StreamingTable)):
                place = _place(output.source_code_location)
                raise SourceError(
                    f"{place}: {output.name} is a sink: name where else a view's rows go with {INTO}VIEW in the "
                    "configuration"
                )
            outputs[output.name] = output

        def register_flow(self, flow: Flow) -> None:
            output = outputs.get(flow.target)
            place = _place(flow.source_code_location)
            if output is None:
                raise SourceError(f"{place}: the flow {flow.name} writes to {flow.target}, which is no table of it")
            kinds = {TemporaryView: _TEMPORARY, StreamingTable: _STREAM}
            project._define(output.name.split(".")[-1], flow.func, kinds.get(type(output), _VIEW), place)

        def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
            raise SourceError(f"the flow to {flow.target} is an AUTO CDC flow: {_FLOWS}")

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            raise AssertionError("SQL files are read by the project")

    return Registry()


def _place(location: Any) -> str:
    file, line = getattr(location, "filename", None), getattr(location, "line_number", None)
    return f"{file}:{line}" if file else "a definition"


def _import(file: Path, spark: SparkSession) -> None:
    found = importlib.util.spec_from_file_location(file.stem, file)
    assert found is not None, f"{file} is a Python file"
    assert found.loader is not None, f"{file} is a Python file"
    module = importlib.util.module_from_spec(found)
    module.__dict__["spark"] = spark
    found.loader.exec_module(module)


class _Imports(MetaPathFinder):
    """Finds the modules in the folder of a project, as if it stood first in ``sys.path``.

    ``stamps``: of their files, before they were read.
    """

    def __init__(self, folder: Path) -> None:
        self.stamps: Stamps = {}
        self._folder = str(folder)

    @override
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if path is not None and name.rpartition(".")[0] not in _modules:
            return None
        found = PathFinder.find_spec(name, [self._folder] if path is None else path)
        if found is None or (found.loader is None and path is None and PathFinder.find_spec(name) is not None):
            return None  # a folder without __init__.py is a package only where no other is found
        _modules.add(name)
        if found.origin is not None:
            self.stamps[found.origin] = stamp(found.origin)
        return found

    @contextmanager
    def found(self) -> Iterator[None]:
        """Yields a context in which modules are found. Those that a project has imported before are read again."""
        invalidate_caches()
        for name in _modules:
            sys.modules.pop(name, None)
        _modules.clear()
        written, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # its time is one of whole seconds
        sys.meta_path.insert(sys.meta_path.index(PathFinder), self)
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            sys.dont_write_bytecode = written


def raised(error: Exception) -> str:
    """Returns what a file or a function of the user's has raised, in a line."""
    spoken = isinstance(error, (PySparkException, SyntaxError, ImportError, OSError))
    return line_of(error) if spoken else f"{type(error).__name__}: {line_of(error)}"


def line_of(error: BaseException) -> str:
    """Returns the first line of what an error says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
