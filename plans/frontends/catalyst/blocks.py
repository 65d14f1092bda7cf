"""A block: the translated part of a plan, as one join core (`plans.queries.algebra.Query`).

Projections, filters and inner joins only change the parts of a block. An operator that must be a relation of its own
(an aggregate, a union, the right side of an outer join that is more than a table) closes the block and begins a new
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from plans.expressions.build import Expr
from plans.frontends.catalyst.tree import Node
from plans.programs.stages import Function
from plans.queries.algebra import Query, Relation, SetOperation, Source, unused
from plans.schema import WEIGHT, Column, Table


@dataclass(frozen=True)
class Named:
    """A column of a block: its number in Spark's plan, its name, and its value over qualified columns."""

    id: int
    name: str
    value: Expr


@dataclass(frozen=True)
class Block:
    """Sources, conditions and columns."""

    sources: tuple[Source, ...]
    columns: tuple[Named, ...]
    conditions: tuple[Expr, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def plain(self) -> bool:
        """Returns True if all sources are inner joined and count their rows."""
        return all(source.join == "inner" and source.group == 0 for source in self.sources)

    @property
    def one(self) -> bool:
        """Returns True if the block is one source with all of its rows, and its columns are columns of the source."""
        alone = len(self.sources) == 1 and not self.conditions and self.plain
        return alone and all(column.value.op == "col" for column in self.columns)


@dataclass
class Reading:
    """The shared state of the translation of a plan: the text, the tables by name, the used names, and by number the
    gaps of session columns, the plans of CTEs and the rows of recursions. `read` is a table that the plan reads, if
    there is one."""

    text: str
    tables: dict[str, Table]
    zone: str
    read: Table | None = None
    warnings: list[str] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)
    groups: int = 0
    gaps: dict[int, int] = field(default_factory=dict)
    ctes: dict[int, Node] = field(default_factory=dict)
    loops: dict[int, Table] = field(default_factory=dict)

    def alias(self, preferred: str) -> str:
        """Returns an unused name for a source."""
        found = unused("".join(c if c.isalnum() else "_" for c in preferred) or "t", self.aliases)
        self.aliases.add(found)
        return found

    def group(self) -> int:
        """Returns the number of a new existential group."""
        self.groups += 1
        return self.groups

    def query(self, block: Block, names: tuple[str, ...], distinct: bool = False) -> Query:
        """Returns the join core of a block. `names` are those of its columns."""
        outputs = tuple((name, column.value) for name, column in zip(names, block.columns, strict=True))
        return Query(self.text, block.sources, block.conditions, outputs, distinct)

    def closed(self, block: Block) -> tuple[Query, Block]:
        """Returns a block as a relation of its own, and the block that reads the columns of the relation."""
        names = distinct_names(block)
        query = self.query(block, names)
        return query, self.derived(query, block.columns, names, "rows")

    def derived(self, relation: Relation, columns: tuple[Named, ...], names: tuple[str, ...], preferred: str) -> Block:
        """Returns the block that reads a relation, whose columns `names` have the numbers of `columns`."""
        alias = self.alias(preferred)
        table = Table(alias, tuple(Column(column.name, column.type) for column in relation.columns))
        source = Source(alias, table, 0, relation)
        made = [replace(c, value=source.qualified(name)) for c, name in zip(columns, names, strict=True)]
        return Block((source,), tuple(made))

    def as_source(self, block: Block) -> Block:
        """Returns a block of one source: the block itself if it has this form."""
        return block if block.one else self.closed(block)[1]


def distinct_names(block: Block) -> tuple[str, ...]:
    """Returns a name for each column of a block. The names differ without regard to case."""
    return unused_names([column.name for column in block.columns])


def unused_names(preferred_names: Iterable[str]) -> tuple[str, ...]:
    """Returns the names with numbers appended to repeated ones, without regard to case."""
    found: list[str] = []
    for preferred in preferred_names:
        found.append(unused(preferred or "c", [*found, WEIGHT]))
    return tuple(found)


def conjuncts(conditions: tuple[Expr, ...]) -> Iterator[Expr]:
    """Yields the parts of a conjunction of conditions."""
    for condition in conditions:
        yield from condition.conjuncts()


def united(parts: Sequence[Relation]) -> Relation:
    """Returns the union (ALL) of relations."""
    function: Function = 0
    for number in range(1, len(parts)):
        function = ("union_all", function, number)
    return SetOperation(tuple(parts), function) if len(parts) > 1 else parts[0]
