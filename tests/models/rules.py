"""Datalog programs by brute force: the rules of a component derive rows from all that are there until nothing is
new."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = tuple[Any, ...]
Word = str | int
"""A variable, `_`, or a constant."""
Valuation = dict[str, Any]


@dataclass(frozen=True)
class Atom:
    name: str
    words: tuple[Word, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{'not ' * self.negated}{self.name}({', '.join(map(str, self.words))})"

    def matches(self, row: Row, known: Valuation) -> Valuation | None:
        """The valuation with the variables of the atom, if a row has their values. NULL equals nothing."""
        found = dict(known)
        for word, value in zip(self.words, row, strict=True):
            if word == "_":
                continue
            if isinstance(word, str) and word not in found:
                found[word] = value
            elif value is None or (found[word] if isinstance(word, str) else word) != value:
                return None
        return found


@dataclass(frozen=True)
class Rule:
    """`name(words, function(value)) :- atoms, left < right.`"""

    name: str
    words: tuple[Word, ...]
    atoms: tuple[Atom, ...]
    less: tuple[str, Word] | None = None
    function: str = ""
    value: str = ""

    def __str__(self) -> str:
        given = [*map(str, self.words), *([f"{self.function}({self.value})"] if self.function else [])]
        body = [*map(str, self.atoms), *([" < ".join(map(str, self.less))] if self.less is not None else [])]
        return f"{self.name}({', '.join(given)}) :- {', '.join(body)}."

    def valuations(self, rows: Mapping[str, set[Row]]) -> Iterator[Valuation]:
        """The valuations of the body."""
        found: list[Valuation] = [{}]
        for atom in self.atoms:
            if not atom.negated:
                found = [
                    made for one in found for row in rows[atom.name] if (made := atom.matches(row, one)) is not None
                ]
        for one in found:
            missing = all(
                atom.matches(row, one) is None for atom in self.atoms if atom.negated for row in rows[atom.name]
            )
            if missing and (self.less is None or _is_less(*(one.get(str(side), side) for side in self.less))):
                yield one

    def rows(self, rows: Mapping[str, set[Row]]) -> set[Row]:
        """What the rule derives."""
        found = {tuple(sorted(one.items())) for one in self.valuations(rows)}
        heads = [(tuple(dict(one).get(str(word), word) for word in self.words), dict(one)) for one in found]
        if not self.function:
            return {head for head, _ in heads}
        groups: dict[Row, list[Any]] = {head: [] for head, _ in heads} or ({} if self.words else {(): []})
        for head, one in heads:
            if one[self.value] is not None:
                groups[head].append(one[self.value])
        return {(*head, _aggregate(self.function, values)) for head, values in groups.items()}


def _is_less(left: Any, right: Any) -> bool:
    return left is not None and right is not None and left < right


def _aggregate(function: str, values: list[Any]) -> Any:
    if function == "count":
        return len(values)
    if not values:
        return None
    return sum(values) if function == "sum" else min(values) if function == "min" else max(values)


def evaluated(components: Sequence[Sequence[Rule]], tables: Mapping[str, set[Row]]) -> dict[str, set[Row]]:
    """The rows of tables and predicates. ``components``: the rules of predicates that read each other, after those
    that they read."""
    rows = dict(tables)
    for rules in components:
        rows |= {rule.name: set[Row]() for rule in rules}
        while True:
            new = [(rule.name, rule.rows(rows)) for rule in rules]
            if all(found <= rows[name] for name, found in new):
                break
            for name, found in new:
                rows[name] = rows[name] | found
    return rows


def parsed(text: str) -> list[Rule]:
    """Rules of atoms alone."""

    def atom(name: str, words: str, negated: bool) -> Atom:
        given = [word.strip() for word in words.split(",")]
        return Atom(name, tuple(int(word) if word.isdigit() else word for word in given), negated)

    rules = []
    for head, body in re.findall(r"(\w+\([^)]*\)) :- (.*?\))\.", text, re.DOTALL):
        (own, *_), atoms = (re.findall(r"(not )?(\w+)\((.*?)\)", part) for part in (head, body))
        rules.append(Rule(own[1], atom(own[1], own[2], False).words, tuple(atom(n, w, bool(no)) for no, n, w in atoms)))
    return rules
