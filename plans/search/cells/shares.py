"""HyperCube shares: cut a query into cells that do not communicate.

A grid assigns numbers of shares to some attributes. A cell is a point of the grid. A row of an atom is sent to the
cells whose coordinates equal the hashes of the attributes that the row has, and to every coordinate of the attributes
that it lacks: it is copied along these axes. Rows that join meet in exactly one cell.

Only attributes that are output unchanged may be hashed; otherwise two cells could produce one result. Sources: Afrati
and Ullman (EDBT 2010); Beame, Koutris, Suciu (PODS 2013).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from plans.errors import PlanError
from plans.plan import BagAtom, Plan
from plans.program import Program
from plans.programs.reads import occurrences
from plans.programs.stages import JoinStage

# Types whose equality is equality of bits. A float has two zeros and many NaNs.
HASHABLE = ("int32", "int64", "string", "date", "timestamp", "timestamp_ntz", "duration", "binary", "bool")


@dataclass(frozen=True)
class Grid:
    """`shares[i]` coordinates along `attributes[i]`. The cell of a point is its mixed-radix number, the last axis
    fastest."""

    attributes: tuple[str, ...] = ()
    shares: tuple[int, ...] = ()

    @property
    def cells(self) -> int:
        """Returns the number of cells."""
        return prod(self.shares)

    def stride(self, axis: int) -> int:
        """Returns the difference between the numbers of neighboring cells along an axis."""
        return prod(self.shares[axis + 1 :])

    def copies(self, attributes: tuple[str, ...]) -> int:
        """Returns the replication factor of an atom with these attributes: the number of cells that receive each of its
        rows."""
        return prod(s for a, s in zip(self.attributes, self.shares, strict=True) if a not in attributes)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON-able form. `from_json` is its inverse."""
        return {"attributes": list(self.attributes), "shares": list(self.shares)}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Grid:
        """Returns the grid of a JSON-able form that `to_json` returned."""
        return Grid(tuple(data["attributes"]), tuple(data["shares"]))

    def __str__(self) -> str:
        if self.cells == 1:
            return "1 cell"
        return f"{self.cells} cells: " + " × ".join(
            f"{share} of {name}" for name, share in zip(self.attributes, self.shares, strict=True)
        )


def hashable(plan: Plan) -> tuple[str, ...]:
    """Returns the attributes that may be hashed: output unchanged, of a type whose equality is equality of bits."""
    plain = {out.expr.value for out in plan.output if out.expr.op == "col"} - padded_attributes(plan)
    return tuple(name for name in plan.free if name in plain and plan.attributes[name].type in HASHABLE)


def counted(plan: Plan) -> tuple[str, ...]:
    """Returns the attributes of those atoms of a bag that count, if their type can be hashed.

    Every valuation has one value of each attribute. So where rows are added up, each part of a row is produced in one
    cell.
    """
    nodes = [node for node in plan.nodes if node.kind == "input" and not node.name.endswith("]")]
    bag = plan.nodes[0].bag if plan.listed else plan.count
    atoms = nodes if bag is None else bag.atoms
    names = dict.fromkeys(name for atom in atoms for name in atom.attributes)
    private = padded_attributes(plan)
    return tuple(name for name in names if plan.attributes[name].type in HASHABLE and name not in private)


def padded_attributes(plan: Plan) -> frozenset[str]:
    """Returns the attributes that only padded nodes have. They cannot cut: a cell without a row for a key would pad,
    although another cell has rows for it."""
    return frozenset(name for node in plan.nodes if node.padded for name in set(node.attributes) - set(node.key))


def separating(stage: JoinStage) -> tuple[str, ...]:
    """Returns the attributes by which a join stage may be cut: every row is produced in one cell.

    For a stage whose rows may be equal, these are the attributes that distinguish the rows from which it produces them.
    """
    plan = stage.plan
    if stage.mode != "set":
        return counted(plan)
    if not plan.support:
        return hashable(plan)
    private = padded_attributes(plan)
    return tuple(name for name in plan.free if plan.attributes[name].type in HASHABLE and name not in private)


def load(plan: Plan, grid: Grid, rates: Mapping[str, float] | None = None) -> float:
    """Returns the expected number of rows that a cell receives per unit of rate."""
    return sum(_rate(plan, atom, rates) * grid.copies(atom.attributes) for atom in occurrences(plan)) / grid.cells


def grid_of(stage: JoinStage, cells: int) -> Grid:
    """Returns how a join stage is cut into cells: one cell if it cannot be cut, or counts triangles."""
    names = separating(stage)
    return Grid() if stage.plan.count is not None or not names else solve(stage.plan, cells, names=names)


def grids_of(program: Program, threads: int) -> list[Grid]:
    """Returns how each stage of a program is cut inside one engine of this number of threads.

    Only a program that is one join is cut so: most of its time goes into the rows of its deltas. A native call applies
    the stages of any other program in less time than cells of its joins and the steps behind them.
    """
    only = program.only_join
    return [Grid() if only is None or stage is not only else grid_of(only, threads) for stage in program.stages]


def solve(plan: Plan, cells: int, rates: Mapping[str, float] | None = None, names: Sequence[str] | None = None) -> Grid:
    """Returns the grid of exactly `cells` cells with the least load per cell, then the fewest copies of a row, then the
    fewest axes.

    `rates` (per alias or relation) default to the plan's. `names`, the attributes that may be hashed, default to those
    that are output unchanged. Every factorization of `cells` over the attributes is tried. Raises PlanError if `cells`
    < 1, or if no attribute may be hashed.
    """
    if cells < 1:
        raise PlanError(f"cells={cells} is not a number of cells", hint="give 1 or more")
    if cells == 1:
        return Grid()
    names = hashable(plan) if names is None else names
    if not names:
        raise PlanError(
            f"the query cannot be cut into {cells} cells",
            witness="no output column is a plain column that could be hashed without splitting a result",
            hint="run it in one cell",
        )
    atoms = occurrences(plan)
    # Attributes of the same atoms are equivalent, so the first represents all: hashing another one moves no row
    # elsewhere.
    held = {name: tuple(i for i, atom in enumerate(atoms) if name in atom.attributes) for name in names}
    axes = list({held[name]: name for name in reversed(names)}.values())[::-1]

    def rank(grid: Grid) -> tuple[float, int, int, tuple[int, ...], tuple[int, ...]]:
        most = max(grid.copies(atom.attributes) for atom in atoms)
        order = tuple(axes.index(name) for name in grid.attributes)
        return round(load(plan, grid, rates), 9), most, len(grid.shares), order, tuple(-s for s in grid.shares)

    return min((_grid(axes, shares) for shares in _factorizations(cells, len(axes))), key=rank)


def _rate(plan: Plan, atom: BagAtom, rates: Mapping[str, float] | None) -> float:
    given = {name.lower(): rate for name, rate in (rates or {}).items()}
    default = plan.rates.get(atom.name, 1.0)
    return given.get(atom.name.lower(), given.get(atom.relation.lower(), default))


def _grid(names: list[str], shares: tuple[int, ...]) -> Grid:
    used = [(name, share) for name, share in zip(names, shares, strict=True) if share > 1]
    return Grid(tuple(name for name, _ in used), tuple(share for _, share in used))


def _factorizations(cells: int, axes: int) -> Iterator[tuple[int, ...]]:
    """Yields every tuple of `axes` factors whose product is `cells`."""
    if axes == 1:
        yield (cells,)
        return
    for share in range(1, cells + 1):
        if cells % share == 0:
            for rest in _factorizations(cells // share, axes - 1):
                yield (share, *rest)
