"""The query of a regression, read into what a view tree takes: leaves with the columns they join by and compute."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from crown.errors import CrownError
from plans import PlanError, parse
from plans.expressions.expr import Expr
from plans.queries.algebra import Query
from plans.queries.conjunction import Atom, Conjunction, conjunction
from plans.schema import Table
from plans.types import decimal_parts

_NUMBERS = ("bool", "int32", "int64", "float64")


@dataclass(frozen=True)
class Feature:
    """An output column of the query: `variable` is its name in the view tree, `expr` its value over variables."""

    name: str
    variable: str
    expr: Expr

    @property
    def unit(self) -> int:
        """Returns the number by which its values are multiplied to be integers: all of them; of floats, all but some
        small ones."""
        parts = decimal_parts(self.expr.type)
        if parts is not None:
            return int(10 ** parts[1])
        return 1 << 112 if self.expr.type == "float64" else 1


@dataclass(frozen=True)
class Leaf:
    """An occurrence of a relation: its `joined` variables, then the `computed` features whose columns it has."""

    atom: Atom
    joined: tuple[str, ...]
    null_joins: frozenset[str]
    computed: tuple[Feature, ...]

    @property
    def name(self) -> str:
        """Returns the alias."""
        return self.atom.name

    @property
    def relation(self) -> str:
        """Returns the relation that the alias reads."""
        return self.atom.relation

    @property
    def schema(self) -> tuple[str, ...]:
        """Returns the variables of the leaf in the view tree."""
        return self.joined + tuple(feature.variable for feature in self.computed)

    def keys(self, columns: Mapping[str, pa.Array], n: int) -> list[tuple[Any, ...] | None]:
        """Returns for each of n rows its tuple over `schema`, or None for a row that can never join.

        Such rows are those that the predicate rejects, or that have NULL where NULL joins with nothing. Raises
        ValueError for a feature that is NaN or infinite. One Arrow pass per feature.
        """
        here = dict(zip(self.atom.attributes, (columns[name] for name in self.atom.columns), strict=True))
        parts = [values(here[name]) for name in self.joined]
        parts += [feature.expr.evaluate(here, n).to_pylist() for feature in self.computed]
        keep = [True] * n
        if self.atom.predicate is not None:
            keep = [value is True for value in self.atom.predicate.evaluate(columns, n).to_pylist()]
        for name, found in zip(self.joined, parts, strict=False):
            if name not in self.null_joins:
                keep = [kept and value is not None for kept, value in zip(keep, found, strict=True)]
        for feature, numbers in zip(self.computed, parts[len(self.joined) :], strict=True):
            for row, value in enumerate(numbers):
                if keep[row] and isinstance(value, float) and not math.isfinite(value):
                    raise NotFiniteError(row, f"{feature.name} is {value}: it has no place in a sum")
        rows = zip(*parts, strict=True) if parts else iter([()] * n)
        return [row if kept else None for kept, row in zip(keep, rows, strict=True)]


def values(column: pa.Array) -> list[Any]:
    """Returns the values of a column in Python; dates and times as the integers that they are stored as."""
    if pa.types.is_temporal(column.type):  # Python's end with the year 9999
        column = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return column.to_pylist()


class NotFiniteError(ValueError):
    """A feature is NaN or infinite. Attributes: `row` (position in the batch), `reason`."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row
        self.reason = reason


@dataclass(frozen=True)
class Join:
    """A query as leaves of a view tree, with its `features`, the target last."""

    leaves: tuple[Leaf, ...]
    features: tuple[Feature, ...]
    tables: tuple[Table, ...]

    def columns(self, table: Table) -> tuple[str, ...]:
        """Returns the columns of a table that some leaf reads."""
        read: set[str] = set()
        for leaf in self.leaves:
            if leaf.relation.lower() == table.name.lower():
                read |= {name.lower() for name in leaf.atom.columns}
                if leaf.atom.predicate is not None:
                    read |= {name.lower() for name in leaf.atom.predicate.columns}
        return tuple(column.name for column in table.columns if column.name.lower() in read)


def read(query: str, schema: Any, target: str, features: Sequence[str] | None) -> Join:
    """Returns the query of a regression as leaves.

    Raises PlanError for a query that a view tree of sums does not take, and CrownError for names that are none of its
    outputs.
    """
    parsed = parse(query, schema)
    if not isinstance(parsed, Query):
        raise PlanError(
            "a regression reads the rows of one join; this query groups rows, or combines several queries",
            hint="write SELECT columns FROM ... JOIN ... WHERE ...",
        )
    if parsed.distinct:
        raise PlanError(
            "a regression counts every row of the join; DISTINCT, Datalog and motifs have each row once",
            hint="write SQL without DISTINCT",
        )
    other = next((source for source in parsed.sources if source.group or source.input or source.join != "inner"), None)
    if other is not None:
        raise PlanError(
            f"a regression is over inner joins of tables; {other.alias} is in an outer join, IN, EXISTS or a subquery",
            hint="maintain that part with crown.view, and feed its deltas in as a table",
        )
    atoms = conjunction(replace(parsed, distinct=True))
    if len(atoms.atoms) < len(parsed.sources):
        raise PlanError(
            "the query joins a relation with itself in all columns that it reads",
            witness=f"it has {len(parsed.sources)} relations, of which {len(atoms.atoms)} differ",
            hint="read the relation once",
        )
    if atoms.residual:
        raise PlanError(
            f"the condition {atoms.residual[0]} is over several relations, and sums are formed before they are joined",
            hint="leave the condition out, or maintain the join with crown.view and feed its deltas in as a table",
        )
    names = _chosen([name for name, _ in atoms.outputs], target, features)
    return _placed(atoms, names)


def _chosen(outputs: list[str], target: Any, features: Any) -> list[str]:
    """Returns the outputs that are used, as the query spells them, the target last."""
    spelled = {name.lower(): name for name in outputs}
    if features is not None and (isinstance(features, str) or not isinstance(features, Sequence)):
        raise CrownError(f"features must be a list of output columns, not {features!r:.100}")
    wanted = [*([name for name in outputs if name.lower() != str(target).lower()] if features is None else features)]
    wanted.append(target)
    for name in wanted:
        if not isinstance(name, str) or name.lower() not in spelled:
            raise CrownError(f"{name!r} is not a column of the query, which has: {', '.join(outputs)}")
    twice = next((name for name, times in Counter(name.lower() for name in wanted).items() if times > 1), None)
    if twice is not None:
        raise CrownError(f"{twice!r} is named twice among features and target; name every column once")
    return [spelled[name.lower()] for name in wanted]


def _placed(query: Conjunction, names: Sequence[str]) -> Join:
    """Returns the atoms with their columns: a feature goes to the first that has its columns."""
    exprs = dict(query.outputs)
    features = tuple(Feature(name, f"={name}", exprs[name]) for name in names)
    computed: dict[str, list[Feature]] = {atom.name: [] for atom in query.atoms}
    for feature in features:
        _check_type(feature)
        home = next((atom for atom in query.atoms if feature.expr.columns <= set(atom.attributes)), None)
        if home is None:
            raise PlanError(
                f"column {feature.name} is computed from several relations: {feature.expr}",
                hint="select the columns that it is made of, and use those",
            )
        computed[home.name].append(feature)
    uses = Counter(name for atom in query.atoms for name in atom.attributes)
    null_joins = frozenset(name for name, attribute in query.attributes.items() if attribute.null_safe)
    leaves = tuple(
        Leaf(atom, tuple(name for name in atom.attributes if uses[name] > 1), null_joins, tuple(computed[atom.name]))
        for atom in query.atoms
    )
    return Join(leaves, features, query.tables)


def _check_type(feature: Feature) -> None:
    kind = feature.expr.type
    if kind not in _NUMBERS and decimal_parts(kind) is None:
        raise PlanError(
            f"column {feature.name} is of type {kind}; a regression takes numbers",
            hint="give it to features= only after turning it into a number, or leave it out of features=",
        )
