"""A conjunctive query as the front-ends hand it over: sources, conditions, outputs.

SQL, Datalog and motifs all end in this one form. Columns are *qualified*: the column `dst` of the source `g1` is a
`col` expression named `g1.dst`. `plans.conjunction` turns it into atoms over variables.
"""

from __future__ import annotations

from dataclasses import dataclass

from plans.errors import PlanError
from plans.expressions.build import Expr, col
from plans.schema import WEIGHT, Table


@dataclass(frozen=True)
class Source:
    """One occurrence of a table in FROM.

    `group` ties together the sources of a subquery whose multiplicity does not reach the result: 0 for the outermost
    query, whose rows are counted; any other number for an existential group (IN, EXISTS, a DISTINCT subquery).
    """

    alias: str
    table: Table
    group: int = 0

    def qualified(self, column: str) -> Expr:
        """The column as an expression over qualified names."""
        found = self.table.column(column)
        assert found is not None
        return col(f"{self.alias}.{found.name}", found.type)


@dataclass(frozen=True)
class Query:
    """`SELECT [DISTINCT] outputs FROM sources WHERE conditions`, all columns qualified.

    `keys` lists, for existential groups that are DISTINCT subqueries, the expressions of their select list: whoever
    fixes those fixes the one row that the group contributes. `names` are pairs (qualified column, name that its
    variable should have), for languages that name variables. `warnings` are for the user: the query is read as it
    stands, but may mean something else.
    """

    text: str
    sources: tuple[Source, ...]
    conditions: tuple[Expr, ...]
    outputs: tuple[tuple[str, Expr], ...]
    distinct: bool
    keys: tuple[tuple[Expr, ...], ...] = ()
    notes: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, _ in self.outputs:
            check_output_name(name)

    def source(self, alias: str) -> Source:
        """The source of that alias."""
        return next(source for source in self.sources if source.alias == alias)


def check_output_name(name: str) -> None:
    """PlanError if the deltas could not have a column of this name."""
    if name.lower() == WEIGHT:
        raise PlanError(
            f"an output column must not be called {name}: every delta carries its weight under this name",
            hint="give it another name: AS ...",
        )


def split(name: str) -> tuple[str, str]:
    """Alias and column of a qualified name."""
    alias, _, column = name.partition(".")
    return alias, column
