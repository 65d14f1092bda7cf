"""Random Datalog programs of several predicates: some read each other, others negate and aggregate them."""

from __future__ import annotations

from random import Random

from tests.models.rules import Atom, Rule, Word

TABLES: dict[str, dict[str, str]] = {
    "e": {"x": "int64", "y": "int64"},
    "f": {"x": "int64", "y": "int64"},
    "n": {"x": "int64"},
}
_VARIABLES = ("x", "y", "z", "w")


class Predicates:
    """A program, by components: those that are read first; and a goal."""

    def __init__(self, seed: int) -> None:
        self.random = pick = Random(seed)
        self.arity = {name: len(columns) for name, columns in TABLES.items()}
        self.components: list[list[Rule]] = []
        for level in range(pick.choice((1, 2, 2, 3))):
            self.components.append(self._component(level))
        last = self.components[-1][-1].name
        words = [pick.choice((*_VARIABLES[:2] * 4, "_", 1)) for _ in range(self.arity[last])]
        if not any(isinstance(word, str) and word != "_" for word in words):
            words[0] = "x"
        atoms = [Atom(last, tuple(words))]
        if pick.random() < 0.3:
            atoms.append(Atom("n", (next(word for word in words if word not in ("_", 1)),), pick.random() < 0.5))
        shown = [word for word in dict.fromkeys(words) if isinstance(word, str) and word != "_"]
        self.goal = Rule("goal", tuple(shown), tuple(atoms))
        rules = [str(rule) for rules in self.components for rule in rules]
        pick.shuffle(rules)
        self.text = " ".join((*rules, f"?- {', '.join(map(str, atoms))}."))

    def _component(self, level: int) -> list[Rule]:
        pick, below = self.random, list(self.arity)
        kind = pick.choice(("one", "self", "mutual", "mutual", "aggregate"))
        names = [f"p{level}{letter}" for letter in "abc"[: pick.choice((2, 2, 3)) if kind == "mutual" else 1]]
        if kind == "aggregate":
            width = pick.choice((0, 1, 1))
            self.arity[names[0]] = width + 1
            atoms = self._atoms(below, [])
            bound = _bound(atoms)
            words = tuple(pick.choice(bound) for _ in range(width))
            function = pick.choice(("count", "sum", "min", "max"))
            return [Rule(names[0], words, tuple(atoms), None, function, pick.choice(bound))]
        self.arity |= {name: pick.choice((1, 2, 2)) for name in names}
        rules = [self._rule(names[0], below, [])]
        if kind == "one":
            return [*rules, *(self._rule(names[0], below, []) for _ in range(pick.choice((0, 1))))]
        for i, name in enumerate(names):  # in a circle
            rules.append(self._rule(name, below, [names[i - 1]]))
            rules += [self._rule(name, below, []) for _ in range(pick.choice((0, 0, 1)))]
            rules += [self._rule(name, below, pick.choices(names, k=2)) for _ in range(pick.choice((0, 0, 1)))]
        return rules

    def _atoms(self, below: list[str], own: list[str]) -> list[Atom]:
        pick = self.random
        names = [
            *own,
            *pick.choices(below, k=max(0 if own and pick.random() < 0.2 else 1, pick.choice((0, 1, 2)) - len(own))),
        ]
        pick.shuffle(names)
        atoms = []
        for i, name in enumerate(names):
            words: list[Word] = [pick.choice((*_VARIABLES * 3, "_", "_", 1)) for _ in range(self.arity[name])]
            words[0] = pick.choice(("x", "y", words[0])) if i else "x"
            atoms.append(Atom(name, tuple(words)))
        bound = _bound(atoms)
        if pick.random() < 0.2:
            name = pick.choice(below)
            words = [pick.choice((*bound, *bound, *bound, "_", 2)) for _ in range(self.arity[name])]
            atoms.append(Atom(name, tuple(words), negated=True))
        return atoms

    def _rule(self, name: str, below: list[str], own: list[str]) -> Rule:
        pick = self.random
        atoms = self._atoms(below, own)
        bound = _bound(atoms)
        words = tuple(pick.choice((*bound * 4, 1)) for _ in range(self.arity[name]))
        less = (pick.choice(bound), pick.choice((*bound, 3))) if pick.random() < 0.2 else None
        return Rule(name, words, tuple(atoms), less)


def _bound(atoms: list[Atom]) -> list[str]:
    found = dict.fromkeys(word for atom in atoms if not atom.negated for word in atom.words)
    return [word for word in found if isinstance(word, str) and word != "_"]


def sql(program: Predicates, declared: bool) -> str:
    """The program in SQL. ``declared``: as WITH MUTUALLY RECURSIVE, with the types of columns."""
    ctes = []
    for rules in program.components:
        for name in dict.fromkeys(rule.name for rule in rules):
            branches = [_select(rule, program.arity) for rule in rules if rule.name == name]
            plain = len(branches) == 1 and program.random.random() < 0.5  # then it has duplicates
            body = branches[0] if plain else " UNION ".join(branches)
            if len(branches) == 1 and not plain:
                body = body.replace("SELECT", "SELECT DISTINCT", 1)
            types = " bigint" * declared
            ctes.append(f"{name} ({', '.join(f'c{i}{types}' for i in range(program.arity[name]))}) AS ({body})")
    program.random.shuffle(ctes)
    goal = _select(program.goal, program.arity).replace("SELECT", "SELECT DISTINCT", 1)
    return f"WITH {'MUTUALLY ' * declared}RECURSIVE {', '.join(ctes)} {goal}"


def _select(rule: Rule, arity: dict[str, int]) -> str:
    bound, tables, where = dict[str, str](), [], []
    for i, atom in enumerate(atom for atom in rule.atoms if not atom.negated):
        tables.append(f"{atom.name} t{i}")
        for column, word in zip(_columns(atom.name, arity), atom.words, strict=True):
            if word in bound or not isinstance(word, str):
                where.append(f"t{i}.{column} = {bound.get(str(word), word)}")
            elif word != "_":
                bound[word] = f"t{i}.{column}"
    for atom in rule.atoms:
        if atom.negated:
            pairs = zip(_columns(atom.name, arity), atom.words, strict=True)
            ties = [f"n.{column} = {bound.get(str(word), word)}" for column, word in pairs if word != "_"]
            where.append(f"NOT EXISTS (SELECT * FROM {atom.name} n WHERE {' AND '.join(ties or ['TRUE'])})")
    if rule.less is not None:
        where.append(" < ".join(bound.get(str(side), str(side)) for side in rule.less))
    rows = f"FROM {', '.join(tables)}" + (f" WHERE {' AND '.join(where)}" if where else "")
    if not rule.function:
        return (
            f"SELECT {', '.join(f'{bound.get(str(word), word)} AS c{i}' for i, word in enumerate(rule.words))} {rows}"
        )
    inner = f"SELECT DISTINCT {', '.join(f'{column} AS {word}' for word, column in bound.items())} {rows}"
    call = f"{rule.function}({rule.value})"
    group = f" GROUP BY {', '.join(map(str, rule.words))}" if rule.words else ""
    return f"SELECT {', '.join((*map(str, rule.words), call))} FROM ({inner}) v{group}"


def _columns(name: str, arity: dict[str, int]) -> list[str]:
    return list(TABLES[name]) if name in TABLES else [f"c{i}" for i in range(arity[name])]
