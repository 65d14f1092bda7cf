"""Stored relations: a tuple of a relation is stored once, even if several aliases read it.

A self-join reads a relation through several aliases. Aliases with the same columns and the same predicate read the same
tuples, so they share a *stored relation*: one record per tuple, one look-up per change, and in the record one block of
counters and links per alias. Rows that an alias cannot use (NULL in one of its join attributes; rows of other cells)
are masked: bit ``i`` of a tuple's mask says that alias ``i`` of the relation reads it. The mask is a function of the
tuple: it depends on NULLs and hashes of columns that the alias reads, which are words of the tuple.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from plans.expressions.build import Expr
from plans.plan import BagAtom, Node, Plan
from plans.programs.reads import rows_of

MAX_ALIASES = 62  # bits of a mask, with room for the sign


@dataclass(frozen=True)
class Alias:
    """One reader of a stored relation: a node, and the atom of a bag node (else 0).

    ``occurrence``: its number in ``plans.programs.reads.occurrences``; ``words[j]``: the word of the tuple that is
    attribute ``j``; ``not_null``: words that must not be NULL, because they are joined on.
    """

    node: int
    atom: int
    occurrence: int
    attributes: tuple[str, ...]
    words: tuple[int, ...]
    not_null: tuple[int, ...]


@dataclass(frozen=True)
class StoredRelation:
    """The tuples of a relation as its aliases read them: the words are ``columns``."""

    name: str
    columns: tuple[str, ...]
    predicate: Expr | None
    aliases: tuple[Alias, ...]

    @property
    def width(self) -> int:
        """Returns the number of words of a tuple."""
        return len(self.columns)


def stored_relations(plan: Plan) -> tuple[StoredRelation, ...]:
    """Returns the stored relations of a plan, in the order of their first alias.

    Each atom of a bag has its own.
    """
    atoms: list[tuple[int, int, Node | BagAtom]] = []
    for i, node in enumerate(plan.nodes):
        if node.kind == "input":
            atoms.append((i, 0, node))
        elif node.bag is not None:
            atoms += [(i, j, atom) for j, atom in enumerate(node.bag.atoms)]
    uses = Counter(a for _, _, atom in atoms for a in atom.attributes)
    found: dict[tuple[object, ...], StoredRelation] = {}
    for number, (i, j, atom) in enumerate(atoms):
        names = tuple(column.lower() for column in atom.columns)
        key: tuple[object, ...] = rows_of(atom)
        if plan.nodes[i].bag is not None or len(set(names)) < len(names):
            key = (i, j)
        while key in found and len(found[key].aliases) == MAX_ALIASES:
            key = (*key, MAX_ALIASES)
        relation = found.setdefault(key, StoredRelation(atom.relation, tuple(atom.columns), atom.predicate, ()))
        columns = [column.lower() for column in relation.columns]
        words = tuple(range(len(names))) if key == (i, j) else tuple(columns.index(name) for name in names)
        joined = tuple(
            words[p] for p, a in enumerate(atom.attributes) if uses[a] > 1 and not plan.attributes[a].null_safe
        )
        alias = Alias(i, j, number, tuple(atom.attributes), words, joined)
        found[key] = replace(relation, aliases=(*relation.aliases, alias))
    return tuple(found.values())


def never_null(plan: Plan) -> frozenset[str]:
    """Returns the attributes that are NULL in no result: join attributes, and columns declared NOT NULL.

    Declarations of a padded relation do not hold for its row of NULLs.
    """
    found: set[str] = set()
    for relation in stored_relations(plan):
        table = plan.table(relation.name)
        for alias in (alias for alias in relation.aliases if not plan.nodes[alias.node].padded):
            found |= {
                attribute
                for attribute, word in zip(alias.attributes, alias.words, strict=True)
                if word in alias.not_null or table.required(relation.columns[word])
            }
    return frozenset(found)
