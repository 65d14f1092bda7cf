"""Orders the views of a project by what they read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from crown.projects.definitions import Defined
from plans.errors import PlanError
from plans.program import Program
from plans.programs import named
from plans.schema import Schema

_UNKNOWN = re.compile(r"unknown table (?P<name>\w+)")


@dataclass(frozen=True)
class Ordered:
    """A view, ordered after the views that it reads. ``digest``: of its query, and of the views that it reads."""

    name: str
    query: str
    digest: str


def in_order(definitions: list[Defined], schema: Schema) -> list[Ordered]:
    """Returns the views in an order in which each view follows those that it reads. Raises PlanError for a view that
    cannot be maintained over these tables, and for a cycle of views."""
    return _Order(definitions, schema).run()


def digest_of(value: object) -> str:
    """Returns a digest of the representation of a value."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


class _Order:
    def __init__(self, definitions: list[Defined], schema: Schema) -> None:
        self._definitions = {one.name.lower(): one for one in definitions}
        self._program: Program = named.empty(schema)
        self._found: dict[str, Ordered] = {}
        self._open: list[str] = []

    def run(self) -> list[Ordered]:
        for one in self._definitions.values():
            self._take(one)
        return list(self._found.values())

    def _take(self, one: Defined) -> None:
        if one.name in self._found:
            return
        if one.name in self._open:
            ring = " -> ".join([*self._open[self._open.index(one.name) :], one.name])
            raise PlanError(f"{one.place}: the view {one.name} reads itself ({ring})", hint="remove the cycle")
        self._open.append(one.name)
        while True:
            try:
                self._program = named.added(self._program, one.name, one.query)
                break
            except PlanError as error:
                self._take(self._missed(one, error))
        self._open.pop()
        reads = named.result_of(self._program, one.name).reads
        digest = digest_of([one.query, *(self._found[name].digest for name in reads)])
        self._found[one.name] = Ordered(one.name, one.query, digest)

    def _missed(self, one: Defined, error: PlanError) -> Defined:
        """Returns the view that a query reads and that was not added yet. Raises PlanError if the error has another
        cause."""
        missing = _UNKNOWN.fullmatch(error.message)
        name = "" if missing is None else missing["name"].lower()
        if name == one.name.lower() or (name in self._definitions and self._definitions[name].name not in self._found):
            return self._definitions[name]
        if missing is not None:
            known = ", ".join([*(table.name for table in self._program.tables), *self._found])
            raise PlanError(
                f"{one.place}: {one.name} reads {missing['name']}, which is neither a source nor a view",
                hint=f"name it with crown.source.{missing['name']} in the configuration; there are: {known}",
            ) from None
        hint = f"{error.hint}; or use crown pipelines run, under which Spark computes it" if error.hint else ""
        raise PlanError(
            f"{one.place}: the view {one.name} cannot be maintained: {error.message}",
            hint=hint or "use crown pipelines run, under which Spark computes it",
            position=error.position,
            text=error.text,
        ) from None
