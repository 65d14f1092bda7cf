"""The names that a SELECT sees, and those that it gives to what it selects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from plans.expressions.expr import Expr


def output_name(item: Any, index: int) -> str:
    """Returns what an item of a SELECT list is called: its alias, its column, or else its number."""
    named = item.key in ("alias", "column")
    return str(item.alias_or_name) if named else f"c{index}"


@dataclass
class Relation:
    """A name in FROM and its columns: name in lower case to (spelling, expression over qualified columns)."""

    alias: str
    columns: dict[str, tuple[str, Expr]]
    hidden: set[str] = field(default_factory=set)  # USING columns that another relation shows
    shown: dict[str, Expr] = field(default_factory=dict)  # USING columns that it shows for both sides
    number: str = ""  # a column, in lower case, that is a ROW_NUMBER(), whose value is not maintained

    def visible(self) -> Iterator[tuple[str, str, Expr]]:
        """Yields the columns as a name without a table finds them, those of USING once: key, spelling, expression."""
        for key, (spelling, expr) in self.columns.items():
            if key not in self.hidden:
                yield key, spelling, self.shown.get(key, expr)


@dataclass
class Scope:
    """The names that a SELECT, or one side of a join, sees; `outer` is the scope around a correlated subquery."""

    outer: Scope | None
    relations: list[Relation] = field(default_factory=list)
    order: list[tuple[str, str]] = field(default_factory=list)  # of the columns: table and column in lower case

    def add(self, relation: Relation) -> None:
        """Adds a relation."""
        self.relations.append(relation)
        self.order += [(relation.alias.lower(), key) for key in relation.columns]

    def join(self, other: Scope, merged: list[tuple[str, str]]) -> None:
        """Adds the other side of a join; its merged columns, those of USING, come first from now on, as in Spark."""
        self.relations += other.relations
        self.order = [*merged, *(one for one in self.order if one not in merged), *other.order]

    def remove(self, other: Scope) -> None:
        """Takes back what a join has added that shows no columns."""
        self.relations = [one for one in self.relations if all(one is not gone for gone in other.relations)]
        self.order = [one for one in self.order if one not in other.order]

    def visible(self) -> list[tuple[Relation, str, Expr]]:
        """Returns the columns that * stands for: relation, spelling, expression."""
        shown = {
            (relation.alias.lower(), key): (relation, spelling, expr)
            for relation in self.relations
            for key, spelling, expr in relation.visible()
        }
        return [shown[one] for one in self.order if one in shown]

    def relation(self, alias: str) -> Relation | None:
        """Returns the relation of that name, of the nearest scope that has one."""
        wanted = alias.lower()
        found = next((r for r in self.relations if r.alias.lower() == wanted), None)
        return found or (self.outer.relation(alias) if self.outer else None)

    def lookup(self, name: str) -> list[Expr]:
        """Returns the columns of that name, of the nearest scope that has one."""
        found = [expr for _, expr in self.having(name)]
        return found or (self.outer.lookup(name) if self.outer else [])

    def having(self, name: str) -> list[tuple[Relation, Expr]]:
        """Returns the columns of that name of this scope, each with the relation that shows it."""
        wanted = name.lower()
        return [(one, expr) for one in self.relations for key, _, expr in one.visible() if key == wanted]

    def meaning(self, name: str) -> str:
        """Returns what the name could mean here: a column or a table; nothing if neither is called so."""
        if self.lookup(name):
            return f"the column {name}"
        return f"the table {name}" if self.relation(name) is not None else ""

    def names(self) -> Iterator[str]:
        """Yields every column, with and without its table."""
        for relation in self.relations:
            for spelling, _ in relation.columns.values():
                yield from (spelling, f"{relation.alias}.{spelling}")
