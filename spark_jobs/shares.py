"""HyperCube shares: cutting a query into cells that never talk to one another.

A grid gives some attributes a number of *shares*; a cell is one point of the grid. A row of an atom goes to the cells
whose coordinates agree with the hashes of the attributes it has, and to all coordinates of those it lacks (it is
*broadcast* along that axis). Every combination of joining rows meets in exactly one cell.

Only attributes that the query outputs as they are may be hashed. Were a projected-away attribute hashed, one projected
result could come out of two cells. Source: F. Afrati, J. Ullman, "Optimizing joins in a map-reduce environment", 2010;
P. Beame, P. Koutris, D. Suciu, "Communication steps for parallel query processing", 2013.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from plans.expressions import Expr
from plans.plan import Plan
from spark_jobs.errors import SparkJobError

SELECTIVITY = 0.3
"""What share of its rows an atom with a predicate is taken to keep, for want of statistics."""

_HASHABLE = ("int32", "int64", "string", "date", "timestamp", "timestamp_ntz", "binary")


@dataclass(frozen=True)
class Atom:
    """An occurrence of a relation in the query: an input node, or an atom of a cyclic bag."""

    name: str
    relation: str
    attributes: tuple[str, ...]
    columns: tuple[str, ...]
    predicate: Expr | None


@dataclass(frozen=True)
class Grid:
    """``shares[i]`` coordinates along ``attributes[i]``; the cell of a point is its mixed-radix number, last axis
    fastest.
    """

    attributes: tuple[str, ...]
    shares: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of cells."""
        product = 1
        for share in self.shares:
            product *= share
        return product

    def stride(self, axis: int) -> int:
        """How far apart in cell numbers neighbours along an axis are."""
        product = 1
        for share in self.shares[axis + 1 :]:
            product *= share
        return product

    def copies(self, atom: Atom) -> int:
        """To how many cells each row of an atom goes."""
        product = 1
        for attribute, share in zip(self.attributes, self.shares, strict=True):
            product *= 1 if attribute in atom.attributes else share
        return product

    def to_json(self) -> dict[str, Any]:
        """JSON-able form; ``of`` is its inverse."""
        return {"attributes": list(self.attributes), "shares": list(self.shares)}

    @staticmethod
    def of(data: Mapping[str, Any]) -> Grid:
        """The grid of a JSON form."""
        return Grid(tuple(data["attributes"]), tuple(data["shares"]))

    def __str__(self) -> str:
        if self.cells == 1:
            return "1 cell"
        axes = " × ".join(f"{a}: {s}" for a, s in zip(self.attributes, self.shares, strict=True))
        return f"{self.cells} cells ({axes})"


def atoms_of(plan: Plan) -> tuple[Atom, ...]:
    """Every occurrence of a relation in the plan, in node order."""
    found: list[Atom] = []
    for node in plan.nodes:
        if node.kind == "input":
            found.append(Atom(node.name, node.relation, node.attributes, node.columns, node.predicate))
        elif node.bag is not None:
            found += [Atom(a.name, a.relation, a.attributes, a.columns, a.predicate) for a in node.bag.atoms]
    return tuple(found)


def hashable(plan: Plan) -> tuple[str, ...]:
    """Attributes that may be hashed: free, output as they are, and of a type whose equality is that of its bits."""
    out = {output.expr.value for output in plan.output if output.expr.op == "col"}
    return tuple(a for a in plan.free if a in out and plan.attributes[a].type in _HASHABLE)


def solve(plan: Plan, cells: int) -> Grid:
    """The grid of exactly ``cells`` cells with the smallest load per cell (rows of all atoms), then the fewest copies.

    The rates are those the plan was made for. All ways to factor ``cells`` over the attributes are tried. Raises
    :class:`SparkJobError` if the query cannot be cut at all.
    """
    if cells < 1:
        raise SparkJobError(f"cells={cells}: give 1 or more")
    if cells == 1:
        return Grid((), ())
    candidates = hashable(plan)
    if not candidates:
        raise SparkJobError(
            f"this query cannot be cut into {cells} cells: no output column is a plain join column that could be "
            "hashed without splitting a result; run it with cells=1"
        )
    atoms = [(a, plan.rates.get(a.name, 1.0) * (SELECTIVITY if a.predicate else 1.0)) for a in atoms_of(plan)]

    def load(grid: Grid) -> tuple[float, float, int]:
        copies = [(rate, grid.copies(atom)) for atom, rate in atoms]
        total = sum(rate * n for rate, n in copies)
        return total / grid.cells, max(n for _, n in copies), len(grid.attributes)

    return min((_grid(candidates, shares) for shares in _factorings(cells, len(candidates))), key=load)


def default_cells(plan: Plan, cores: int) -> int:
    """One cell per core, up to four; one if the query cannot be cut."""
    return min(cores, 4) if hashable(plan) else 1


def replication(plan: Plan, grid: Grid) -> float:
    """Mean number of cells that a row of an atom goes to."""
    atoms = atoms_of(plan)
    return sum(grid.copies(atom) for atom in atoms) / len(atoms)


def _grid(attributes: tuple[str, ...], shares: tuple[int, ...]) -> Grid:
    used = [(a, s) for a, s in zip(attributes, shares, strict=True) if s > 1]
    return Grid(tuple(a for a, _ in used), tuple(s for _, s in used))


def _factorings(cells: int, axes: int) -> Iterator[tuple[int, ...]]:
    """All tuples of ``axes`` factors whose product is ``cells``."""
    if axes == 1:
        yield (cells,)
        return
    for share in range(1, cells + 1):
        if cells % share == 0:
            for rest in _factorings(cells // share, axes - 1):
                yield (share, *rest)
