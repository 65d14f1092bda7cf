"""Reads the specification of a pipeline project, ``spark-pipeline.yml``, as Spark's Declarative Pipelines has it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from crown.errors import ProjectError, needs
from crown.projects.locations import FORMS, Location
from crown.projects.quarantine import FAIL, ON_BAD_ROW

NAME = re.compile(r"[A-Za-z0-9_]+")
"""The names of views: each is the name of a file or a folder, too."""
SPECIFICATIONS = ("spark-pipeline.yml", "spark-pipeline.yaml")
AUTO, INCREMENTAL, STRICT, FULL = POLICIES = ("auto", "incremental", "incremental_strict", "full")
"""Refresh policies. AUTO: Spark recomputes a view in every run if it cannot be maintained. INCREMENTAL: such a view is
an error. STRICT: a source whose history was removed is an error, too. FULL: Spark recomputes every view."""
SQL, PYTHON = ".sql", ".py"
_FIELDS = {"name", "storage", "catalog", "database", "schema", "configuration", "libraries"}
OURS = "crown."
SOURCE, INTO, REFRESH = _OF_ONE = (f"{OURS}source.", f"{OURS}into.", f"{OURS}refresh.")
_KEEP, _STATIC, _BAD = _SINGLE = (f"{OURS}keep", f"{OURS}static", f"{OURS}on_bad_row")

Stamp = tuple[int, int]
"""Size and time of a file."""
Stamps = dict[str, Stamp | None]
"""Stamps of files by path; None for a file that does not exist."""


def is_project(path: Path) -> bool:
    """Returns True for a specification file, and for a folder with one."""
    return path.name in SPECIFICATIONS or any((path / name).is_file() for name in SPECIFICATIONS)


@dataclass
class Specification:
    """The contents of a specification: the folder of the state, the files that define views, and the configuration."""

    name: str
    file: Path
    folder: Path
    storage: Path
    configuration: Mapping[str, str]
    database: str | None
    includes: tuple[str, ...]
    read_with: tuple[Path, ...] = field(default=(), kw_only=True)
    """Other files that the contents were read from."""
    _defined: Stamps = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        for key in self.configuration:
            if key.startswith(OURS) and key not in _SINGLE and not key.startswith(_OF_ONE):
                there = ", ".join((*_SINGLE, *(f"{prefix}NAME" for prefix in _OF_ONE)))
                raise ProjectError(f"{self.file}: {key} is no setting: write one of {there}")

    @classmethod
    def of(cls, path: Path) -> Self:
        """Returns the contents of a specification file, given as the file or its folder. Definitions are not read."""
        file = path
        if not path.exists():
            raise ProjectError(f"{path} does not exist: name the folder or the file of a pipeline project")
        if path.is_dir():
            found = [path / name for name in SPECIFICATIONS if (path / name).is_file()]
            if not found and (path / "dbt_project.yml").is_file():
                raise ProjectError(f"{path} is a project of dbt, which needs Spark: write crown pipelines run {path}")
            if len(found) != 1:
                what = "two specifications" if found else f"neither {SPECIFICATIONS[0]} nor dbt_project.yml"
                raise ProjectError(f"{path} has {what}: name the folder or the file of a pipeline project")
            file = found[0]
        given = _read(file)
        strange = sorted(str(name) for name in set(given) - _FIELDS)
        lacking = [name for name in ("name", "storage") if not isinstance(given.get(name), str)]
        if strange or lacking:
            said = f"has the unknown field {strange[0]}" if strange else f"lacks the field {lacking[0]}"
            raise ProjectError(f"{file} {said}: a specification has {', '.join(sorted(_FIELDS))}")
        try:
            includes = tuple(str(entry["glob"]["include"]) for entry in given.get("libraries") or ())
            configuration = {str(k): str(v) for k, v in (given.get("configuration") or {}).items()}
        except (TypeError, KeyError, AttributeError):
            raise ProjectError(f"{file}: write libraries: [{{glob: {{include: transformations/**}}}}]") from None
        storage = given["storage"]
        if "://" in storage and not storage.startswith("file://"):
            raise ProjectError(f"storage {storage}: the state of a pipeline is kept in a local folder; name one")
        folder = file.parent.resolve()
        where = folder / storage.removeprefix("file://")
        return cls(
            given["name"], file, folder, where, configuration, given.get("database") or given.get("schema"), includes
        )

    @property
    def sources(self) -> dict[str, Location]:
        """Returns the sources of the configuration, in lines such as ``crown.source.NAME: delta:FOLDER``."""
        found = {}
        for key, value in self.configuration.items():
            if key.startswith(SOURCE):
                name = key.removeprefix(SOURCE)
                location = Location.of(name, value)
                if location is None:
                    raise ProjectError(
                        f"{self.file}: {key}: write the kind of the table, a colon and where it is: {FORMS}"
                    )
                found[name] = location.within(self.folder)
        return found

    @property
    def static(self) -> frozenset[str]:
        """Returns the static sources in lower case, which are read once, and again on request: ``crown.static: NAME
        NAME``. Raises ProjectError for a name that is not a source."""
        given = self.configuration.get(_STATIC, "").split()
        known = {name.lower() for name in self.sources}
        for name in given:
            if name.lower() not in known:
                raise ProjectError(f"{self.file}: {_STATIC}: there is no source {name}; name it with {SOURCE}{name}")
        return frozenset(name.lower() for name in given)

    @property
    def settings(self) -> dict[str, str]:
        """Returns the part of the configuration that is for Spark."""
        return {key: value for key, value in self.configuration.items() if not key.startswith(OURS)}

    @property
    def keep(self) -> int:
        """Returns how many older snapshots of the state are kept: ``crown.keep`` in the configuration, by default 1."""
        given = self.configuration.get(_KEEP, "1")
        if not re.fullmatch("[0-9]{1,6}", given):
            raise ProjectError(f"{self.file}: {_KEEP}: {given}: write how many snapshots are kept, 0 or more")
        return int(given)

    @property
    def on_bad_row(self) -> str:
        """Returns what happens to a row of a file that cannot be used: ``crown.on_bad_row`` in the configuration."""
        given = self.configuration.get(_BAD, FAIL)
        if given not in ON_BAD_ROW:
            raise ProjectError(f"{self.file}: {_BAD}: {given}: write one of {', '.join(ON_BAD_ROW)}")
        return given

    def of_views(self, prefix: str, views: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yields the values that the configuration has for existing views: ``PREFIX.VIEW: VALUE``."""
        known = {view.lower() for view in views}
        for key, value in self.configuration.items():
            view = key.removeprefix(prefix)
            if view != key and view.lower() not in known:
                remedy = "name one of the project's, or delete the line"
                raise ProjectError(f"{self.file}: {key}: there is no view called {view}; {remedy}")
            if view != key:
                yield view, value

    def is_current(self) -> bool:
        """Returns True while the files of the specification and the definitions are as they were when read."""
        return self._defined == self._stamps()

    def _stamps(self) -> Stamps:
        return {str(file): stamp(file) for file in (self.file, *self.read_with, *self.files())}

    def files(self) -> Iterator[Path]:
        """Yields the files of definitions. Raises ProjectError for a file that is neither SQL nor Python."""
        for include in self.includes:
            pattern = f"{include}/*" if include.endswith("/**") else include
            found = sorted(p for p in self.folder.glob(pattern) if p.is_file() and "__pycache__" not in p.parts)
            for file in found:
                if file.suffix not in (SQL, PYTHON):
                    raise ProjectError(f"{file}: definitions are in files .py and .sql; move it, or narrow the glob")
                yield file


def stamp(file: str | Path) -> Stamp | None:
    """Returns the size and time of a file; None if it does not exist."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _read(file: Path) -> dict[str, Any]:
    given = yaml_of(file)
    if not isinstance(given, dict):
        raise ProjectError(f"{file} is not a specification: write name:, storage: and libraries:")
    return given


def yaml_of(file: Path) -> Any:
    """Returns the contents of a YAML file. Raises ProjectError if it cannot be read."""
    with needs("a pipeline project"):
        import yaml
    try:
        return yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProjectError(f"{file} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ProjectError(f"{file} is not YAML: {' '.join(str(error).split())}") from None
