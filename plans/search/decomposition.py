"""Decomposes cyclic queries: chooses the atoms of each bag, which is maintained as one relation.

The cyclic core (what GYO leaves) is split at every edge that separates it, until no edge does: a hinge decomposition
(Gyssens, Jeavons, Cohen, Artificial Intelligence 1994). Each part that is still cyclic is one bag. Its width is its
fractional edge cover number. All other atoms stay ordinary nodes of the tree.

If the bags are the whole query, and every attribute is shown, the engine need not store their rows: one bag lists the
result (`plans.plan.Plan.listed`). So bags that have an edge in common are then one bag, unless the join of a change
with the rest of that bag could take more than `MOST_STEPS`. A tree of bags would store the rows of each of them, also
those that join with nothing. The bag includes *look-ups*: relations, such as the vertices of a graph, of which it
determines a declared key. A single triangle does not, since its own algorithm is better than the bound of such a bag.

A bag is never an acyclic join. Some queries have decompositions of smaller width (the 5-cycle: 2 instead of 5/2), but
only by materializing paths: Ω(number of paths) rows even where no cycle closes. The plan then has a note about this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from plans.errors import PlanError
from plans.plan import Bag, BagAtom, table_of
from plans.queries.conjunction import EXISTS, Atom
from plans.schema import Table
from plans.search.counted.fans import declared_key
from plans.theory.hypergraph import Hypergraph, acyclic, bits, components, gyo, union
from plans.theory.widths import EXACT_ATTRIBUTES, edge_covers, fhtw

MOST_STEPS = 2.0
"""The largest exponent of N in the cost of a change of a bag that replaces several bags."""


@dataclass(frozen=True)
class Decomposition:
    """The relations of the join tree.

    The relation i is `atoms[i]`, or, if that is None, `bags[i]`. Its attributes are `edges[i]`. `width` is 1 for an
    acyclic query.
    """

    atoms: tuple[Atom | None, ...]
    bags: tuple[Bag | None, ...]
    edges: tuple[int, ...]
    width: float
    notes: tuple[str, ...] = ()

    def name(self, index: int, graph: Hypergraph) -> str:
        """Returns the name of the relation in EXPLAIN: its alias, or `bag[...]`."""
        atom = self.atoms[index]
        return atom.name if atom is not None else "bag" + graph.label(self.edges[index])


def decompose(
    atoms: tuple[Atom, ...], graph: Hypergraph, free: int, tables: Sequence[Table], counted: bool = False
) -> Decomposition:
    """Returns the query itself if it is acyclic; else its bags and the remaining atoms.

    `free` are the attributes that must be kept, and `tables` those that the atoms read. With `counted`, the atoms of a
    bag also stay outside, unless the bag is the whole query: the bag only determines which of their rows join, and
    their multiplicities count at nodes of their own.
    """
    parts = cyclic_parts(graph.edges)
    if not parts:
        return Decomposition(atoms, (None,) * len(atoms), graph.edges, 1.0)
    listed = _is_listed(atoms, graph, parts, free, tables)
    if listed:
        parts = [tuple(sorted(graph.edges))]
    inside = [_members(graph.edges, part) for part in parts]
    whole = {
        i for part, members in zip(parts, inside, strict=True) for i, f in members if graph.edges[i] == f and f in part
    }
    absorbed = set() if counted and not listed else whole
    rest = [i for i in range(len(atoms)) if i not in absorbed]
    areas = [union(part, (1 << len(part)) - 1) for part in parts]
    covers = [edge_covers(part, [area])[0][0] for part, area in zip(parts, areas, strict=True)]
    bags, edges = [], []
    for k, members in enumerate(inside):
        outside = union([graph.edges[i] for i in rest], (1 << len(rest)) - 1)
        outside |= union([area for j, area in enumerate(areas) if j != k], (1 << len(areas) - 1) - 1)
        kept = areas[k] & (free | outside)
        method = "triangle" if _is_triangle(parts[k]) else "generic"
        if method == "triangle":
            kept = _whole_keys(parts[k], kept)
        bag_atoms = tuple(_bag_atom(atoms[i], graph, f, i in absorbed) for i, f in members)
        bags.append(Bag(method, graph.attributes(kept), covers[k], bag_atoms))
        edges.append(kept)
    result = Decomposition(
        (*(atoms[i] for i in rest), *(None for _ in bags)),
        (*(None for _ in rest), *bags),
        (*(graph.edges[i] for i in rest), *edges),
        max(covers),
        tuple(_width_notes(graph, parts, areas, covers)),
    )
    if not acyclic(result.edges):
        raise PlanError("the bags of this cyclic query do not form a tree", hint="please report this query")
    return result


def cyclic_parts(edges: Sequence[int]) -> list[tuple[int, ...]]:
    """Returns the cyclic minimal hinges, each as its edges restricted to its attributes. Cost O(m^3) per level."""
    core = gyo(edges)
    if not core:
        return []
    for i, edge in enumerate(core):
        others = components(core, ((1 << len(core)) - 1) & ~(1 << i), edge)
        if len(others) > 1:
            parts = [cyclic_parts([core[j] for j in bits(group | 1 << i)]) for group in others]
            return sorted({part for found in parts for part in found})
    return [tuple(sorted(core))]


def _is_listed(
    atoms: Sequence[Atom], graph: Hypergraph, parts: Sequence[tuple[int, ...]], free: int, tables: Sequence[Table]
) -> bool:
    """Returns whether a query should be one bag that lists the result (see the head of this file). `parts`: its cyclic
    parts."""
    edges, core = graph.edges, sorted({edge for part in parts for edge in part})
    areas = [union(part, (1 << len(part)) - 1) for part in parts]
    everything = union(core, (1 << len(core)) - 1)
    if union(edges, (1 << len(edges)) - 1) & ~free or len(set(edges)) < len(edges) or not set(core) <= set(edges):
        return False
    if any(atom.padded or atom.name.endswith(EXISTS) for atom in atoms):
        return False
    for atom, edge in zip(atoms, edges, strict=True):
        key = None if edge in core else declared_key(atom, table_of(tables, atom.relation))
        if edge not in core and (key is None or graph.mask(key) & ~everything):
            return False
    if len(parts) == 1:
        return len(edges) == len(core) or not _is_triangle(parts[0])
    reached, rest = areas[0], areas[1:]
    while near := [area for area in rest if (area & reached).bit_count() > 1]:
        reached, rest = union([reached, *near], (2 << len(near)) - 1), [area for area in rest if area not in near]
    if rest:
        return False
    return all(
        edge_covers([other & ~edge for other in core if other & ~edge], [everything & ~edge])[0][0] <= MOST_STEPS
        for edge in edges
    )


def _is_triangle(part: tuple[int, ...]) -> bool:
    """Returns whether a part is a triangle: three edges, each attribute in exactly two of them. A corner may be several
    attributes."""
    return len(part) == 3 and part[0] & part[1] & part[2] == 0


def _whole_keys(part: tuple[int, ...], kept: int) -> int:
    """Returns the attributes that a triangle bag outputs: each corner that has an attribute in `kept`, as a whole."""
    a, b, c = part
    return sum(corner for corner in (a & b, b & c, a & c) if corner & kept)


def _members(edges: Sequence[int], part: tuple[int, ...]) -> list[tuple[int, int]]:
    """Returns, for each edge f of a part, the atom that represents it: one equal to f if possible, else one whose
    projection is f."""
    area = union(part, (1 << len(part)) - 1)
    found = []
    for f in part:
        fitting = [i for i, edge in enumerate(edges) if edge & area == f]
        found.append((next((i for i in fitting if edges[i] == f), fitting[0]), f))
    return sorted(found)


def _bag_atom(atom: Atom, graph: Hypergraph, edge: int, whole: bool) -> BagAtom:
    kept = set(graph.attributes(edge))
    pairs = [(a, c) for a, c in zip(atom.attributes, atom.columns, strict=True) if a in kept]
    name = atom.name if whole else f"{atom.name}[{','.join(a for a, _ in pairs)}]"
    return BagAtom(name, atom.relation, tuple(a for a, _ in pairs), tuple(c for _, c in pairs), atom.predicate)


def with_projections(graph: Hypergraph, parts: Decomposition, free: int, chosen: Sequence[int]) -> Decomposition:
    """Returns the relations, with one more for each chosen relation: its projection on the `free` attributes.

    The projection of a bag is a bag of its own, unless an atom of the bag has these attributes. Then the projection of
    the atom is used, at the cost of an atom. It may hold more rows, but a row that the bag does not hold joins with
    nothing.
    """
    atoms, bags, edges = list(parts.atoms), list(parts.bags), list(parts.edges)
    taken = {atom.name for bag in parts.bags if bag is not None for atom in bag.atoms}
    for i in chosen:
        kept = edges[i] & free
        names = graph.attributes(kept)
        atom, bag = parts.atoms[i], parts.bags[i]
        if bag is not None:
            covering = next((a for a in bag.atoms if set(names) <= set(a.attributes)), None)
            if covering is not None:
                atom = Atom(covering.name, covering.relation, covering.attributes, covering.columns, covering.predicate)
        made = _projected_atom(atom, set(names), taken) if atom is not None else None
        atoms.append(made)
        bags.append(_projected_bag(bag, names, taken) if bag is not None and made is None else None)
        edges.append(kept)
    return replace(parts, atoms=tuple(atoms), bags=tuple(bags), edges=tuple(edges))


def _projected_atom(atom: Atom, kept: set[str], taken: set[str]) -> Atom:
    pairs = [(a, c) for a, c in zip(atom.attributes, atom.columns, strict=True) if a in kept]
    name = _unused(f"{atom.name.partition('[')[0]}[{','.join(a for a, _ in pairs)}]", taken)
    return replace(atom, name=name, attributes=tuple(a for a, _ in pairs), columns=tuple(c for _, c in pairs))


def _projected_bag(bag: Bag, outputs: tuple[str, ...], taken: set[str]) -> Bag:
    """Returns a copy of the bag with fewer outputs. Its atoms get names of their own."""
    atoms = []
    for atom in bag.atoms:
        name = _unused(f"{atom.name.partition('[')[0]}[{','.join(atom.attributes)}]", taken)
        atoms.append(replace(atom, name=name))
    corners = [set(one.attributes) & set(two.attributes) for one, two in combinations(bag.atoms, 2)]
    whole = all(corner <= set(outputs) or not corner & set(outputs) for corner in corners)
    return replace(bag, atoms=tuple(atoms), method=bag.method if whole else "generic", outputs=outputs)


def _unused(name: str, taken: set[str]) -> str:
    """Returns the name, with primes appended until it is unused, and adds it to `taken`."""
    while name in taken:
        name += "'"
    taken.add(name)
    return name


def _width_notes(graph: Hypergraph, parts: list[tuple[int, ...]], areas: list[int], covers: list[float]) -> list[str]:
    notes = []
    for part, area, cover in zip(parts, areas, covers, strict=True):
        if len(part) > 3 and area.bit_count() <= EXACT_ATTRIBUTES:
            least = fhtw(part)
            if least < cover - 1e-6:
                notes.append(
                    f"bag {graph.label(area)}: a decomposition of width {least:g} instead of {cover:g} exists, "
                    "but it materializes acyclic joins"
                )
    return notes
