"""Reads a project of Spark's Declarative Pipelines: its specification, Python files and SQL files.

It is the same folder that ``spark-pipelines run`` recomputes. Definitions register themselves with a registry of crown,
so no pipeline server is needed.
"""

from __future__ import annotations

import importlib.util
import json
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
from crown.projects.flows import CHANGES, Changes, demand_type, flow_of, plain
from crown.projects.specification import INTO, NAME, POLICIES, PYTHON, REFRESH, Specification, Stamps, stamp
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.sessions import Session, following

Views = list[list[Any]]
"""The definition in a text: name, query, kind, and the line in which its statement begins."""
Texts = dict[str, Views]
"""The definitions of the SQL files of a project, by text."""
_VIEW, _TEMPORARY, _STREAM, _EMPTY, _FLOW = "view", "temporary", "stream", "streaming table", "flow"
"""Suffix of the name of a table: the streaming table of the changes that an AUTO CDC flow applies to the table."""
_TEXTS = ("_expr", "_unparsed_identifier")
"""The fields of an expression of Spark Connect that contain its text: SQL text, and the name of a column."""
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
        if not isinstance(self.name, str) or NAME.fullmatch(self.name) is None:
            raise SourceError(f"{self.place}: {self.name!r:.100} is not a name of a view: use letters, digits and _")


@dataclass
class Project(Specification):
    """The contents of a specification, the views that its files define, and the flows of its streaming tables by
    name."""

    definitions: list[Definition] = field(default_factory=list)
    streams: dict[str, list[Definition]] = field(default_factory=dict)
    _imported: Stamps = field(default_factory=dict, init=False)
    _changes: dict[str, tuple[Changes, str]] = field(default_factory=dict, init=False)

    @property
    def places(self) -> dict[str, list[str]]:
        """Returns further places to which the rows of a view are written, by view: ``crown.into.VIEW: PLACE PLACE``."""
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
        """Returns True while the files that ``load`` has read have not changed: the specification, the definitions, and
        the modules of the project that they import."""
        return super().is_current() and all(stamp(file) == at for file, at in self._imported.items())

    def load(self, session: Session, known: Texts) -> Texts:
        """Reads the definitions: imports the Python files and parses the SQL files of the project.

        ``known``: texts that Spark has parsed before. Returns the texts of the project.
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
                            at = f"{place}:{line}"
                            if kind == _FLOW:
                                flow = flow_of(query, at)
                                assert flow is not None, "it was read before"
                                self._flow(flow.name, flow.table, flow.does, at)
                            else:
                                self._define(name, query, kind, at)
                except (SourceError, ProjectError):
                    raise
                except Exception as error:  # of code of the user's, anything may come
                    raise SourceError(f"{file}: {raised(error)}") from error
        self._apply_changes()
        for table, flows in self.streams.items():
            if not flows:
                raise SourceError(f"the streaming table {table} has no flow: write CREATE FLOW or @dp.append_flow")
        defined = [*self.definitions, *(replace(flows[0], name=table) for table, flows in self.streams.items())]
        names = [of.name.lower() for of in defined]
        for of in defined:
            if names.count(of.name.lower()) > 1:
                raise SourceError(f"{of.place}: there are two views called {of.name}; rename one")
        self._take_policies()
        return found

    def _define(self, name: str, query: str | Callable[[], DataFrame], kind: str, place: str) -> None:
        if kind in (_STREAM, _EMPTY):
            if name in self.streams:
                raise SourceError(f"{place}: there are two streaming tables called {name}; write CREATE FLOW for one")
            self.streams[name] = []
            if kind == _STREAM:
                self._flow(name, name, query, place)
        else:
            self.definitions.append(Definition(name, query, kind == _TEMPORARY, place))

    def _flow(self, name: str, table: str, does: str | Callable[[], DataFrame] | Changes, place: str) -> None:
        """Adds a flow to the streaming table that it writes to."""
        if table not in self.streams:
            raise SourceError(f"{place}: the flow {name} writes to {table}, which is not a table of the project")
        flows = self.streams[table]
        if any(flow.name == name for flow in flows):
            raise SourceError(f"{place}: {table} has two flows called {name}; rename one")
        if table in self._changes or (flows and isinstance(does, Changes)):
            raise SourceError(f"{place}: {table} has another flow, and an AUTO CDC flow is the only one of its table")
        if isinstance(does, Changes):
            self._changes[table] = does, place
        else:
            flows.append(Definition(name, does, False, place))

    def _apply_changes(self) -> None:
        """Creates the views of tables with AUTO CDC flows, and streaming tables of their changes."""
        for table, (changes, place) in self._changes.items():
            del self.streams[table]
            source = changes.source
            if source not in self.streams:
                feed = next((of for of in self.definitions if of.temporary and of.name == source), None)
                if feed is not None:
                    self.definitions.remove(feed)
                source = f"{table}{CHANGES}"
                query = f"SELECT * FROM STREAM({changes.source})" if feed is None else feed.query
                self.streams[source] = [Definition(source, query, False, place)]
            self.definitions.append(Definition(table, changes.query(source), False, place))


def _views(session: Session, text: str, file: Path) -> Views:
    """Returns the views that a text defines. Raises SourceError for a statement that does not define a view."""
    from plans.frontends.sql.text.statements import statements  # a text that is known needs no parser

    found = []
    for statement in statements(text):
        said = _parsed(session.spark, statement.text, f"{file}:{statement.line}")
        if said:
            found.append([*said, statement.line])
    return found


def _parsed(spark: SparkSession, text: str, place: str) -> list[Any]:
    """Returns name, query and kind of a definition, as Spark reads it; nothing for a setting."""
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
    if kind == "CreateStreamingTable":
        return [plain(nodes[1]["nameParts"].strip("[]").replace(", ", ".")), "", _EMPTY]
    if kind == "CreateFlowCommand" and flow_of(text, place) is not None:
        return ["", text, _FLOW]
    if kind != "SetCommand":
        raise SourceError(
            f"{place}: a project has CREATE MATERIALIZED VIEW, CREATE STREAMING TABLE, CREATE FLOW ... INSERT INTO ... "
            "BY NAME and CREATE TEMPORARY VIEW; move this statement"
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
                    f"{place}: {output.name} is a sink: write the rows of a view elsewhere with {INTO}VIEW in the "
                    "configuration"
                )
            outputs[output.name] = output
            if isinstance(output, StreamingTable):
                project._define(output.name.split(".")[-1], "", _EMPTY, _place(output.source_code_location))

        def register_flow(self, flow: Flow) -> None:
            output = outputs.get(flow.target)
            place, table = _place(flow.source_code_location), flow.target.split(".")[-1]
            if isinstance(output, StreamingTable):
                project._flow(flow.name.split(".")[-1], table, flow.func, place)
            elif output is None:
                raise SourceError(
                    f"{place}: the flow {flow.name} writes to {flow.target}, which is not a table of the project"
                )
            else:
                project._define(table, flow.func, _TEMPORARY if isinstance(output, TemporaryView) else _VIEW, place)

        def register_auto_cdc_flow(self, flow: AutoCdcFlow) -> None:
            place, name = _place(flow.source_code_location), flow.name or flow.target
            demand_type(flow.stored_as_scd_type, f"{place}: the flow {name}")
            columns = None if flow.column_list is None else [sql_of(column) for column in flow.column_list]
            changes = Changes(
                flow.source.split(".")[-1],
                [sql_of(column) for column in flow.keys],
                sql_of(flow.sequence_by),
                None if flow.apply_as_deletes is None else sql_of(flow.apply_as_deletes),
                columns or None,
                [sql_of(column) for column in flow.except_column_list or ()],
            )
            project._flow(name.split(".")[-1], flow.target.split(".")[-1], changes, place)

        def register_sql(self, sql_text: str, file_path: Path) -> None:
            raise AssertionError("SQL files are read by the project")

    return Registry()


def sql_of(column: Any) -> str:
    """Returns the SQL text of a Column that names a column, or was created from a text, by Spark or by Spark
    Connect."""
    known = vars(column)  # any attribute of a Column is a field of it
    if "_jc" in known:
        node = known["_jc"].node()
        text = node.sql() if node.getClass().getSimpleName() in ("UnresolvedAttribute", "SqlExpression") else None
    else:
        text = next((vars(known["_expr"])[name] for name in _TEXTS if name in vars(known["_expr"])), None)
    if not isinstance(text, str):
        raise SourceError(f"an AUTO CDC flow has the expression {column}: write it as a text of SQL, or with expr()")
    return text


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
    """Finds the modules in the folder of a project, as if it were first in ``sys.path``.

    ``stamps``: of the files of the modules, from before they were read.
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
        """Yields a context in which modules of the project are found. Modules that a project has imported before are
        read again."""
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
    """Returns the error of a file or a function of the user in one line."""
    spoken = isinstance(error, (PySparkException, SyntaxError, ImportError, OSError))
    return line_of(error) if spoken else f"{type(error).__name__}: {line_of(error)}"


def line_of(error: BaseException) -> str:
    """Returns the first line of the message of an error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
