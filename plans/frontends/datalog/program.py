"""Datalog: `Q(a, b) :- R(a, c), S(c, b), not T(b, _), c > 3.`

A program is one or more rules, in any order. The rules with the same head are a *predicate*: their union. Body: atoms
over the tables of the schema and the predicates, arguments by position (a variable, a constant, or `_`), negated atoms
(`not` or `!`), and comparisons over variables with `=`, `!=`, `<>`, `<`, `<=`, `>`, `>=`, arithmetic, parentheses,
`and`, `or`, `not`, `is [not] null`. Head: a name, and variables, constants or aggregates (`count()`, and `count`,
`sum`, `min`, `max`, `avg` of a value or of `distinct` values), each with an optional name: `sum(x) as total`. `%` and
`#` start a comment at the beginning of a line or after a space.

The result is that of the *goal*, `?- Q(1, b), b > 2.`, whose columns are its variables; without a goal, it is the
predicate that no other one reads. It is a set. Aggregates range over the distinct *valuations* of the named variables
of the positive atoms, grouped by the variables of the head: a tuple that occurs twice in a table counts once, and the
values of a `_` do not count. As in SQL, NULLs are not aggregated, and a head without variables has one row even if
there is no valuation. A negated atom holds if no tuple matches; its variables that no other atom has match any value.

Predicates that read themselves or each other are a recursion: they have the least sets that satisfy all of their rules.
They are then read by positive atoms only, and their rules have no aggregates, except that an argument may be `min` or
`max` in all rules of a head: the predicate then has, for the values of the other arguments, only the least or the
greatest derived value.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from typing_extensions import override

from plans.errors import PlanError
from plans.expressions.coercion import common
from plans.frontends.branches import balanced, shaped
from plans.frontends.datalog.head import PICKED
from plans.frontends.datalog.rules import GOAL, Rule, Rules
from plans.frontends.datalog.tokens import Token
from plans.frontends.recursive import circle, components, rows_of
from plans.frontends.steps import Best, Steps
from plans.queries.algebra import Relation, SetOperation
from plans.schema import Column, Schema, Table


def parse(text: str, schema: Schema) -> Relation:
    """Returns the relation of a Datalog program: a query, a group, a union or a recursion. Raises PlanError, with the
    position, for other texts."""
    return _Program(text, schema).result()


class _Program:
    """The predicates of a program, by name in lower case."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.reader = Rules(text, schema)
        self.rules: dict[str, list[Rule]] = {}
        for rule in self.reader.rules():
            self.rules.setdefault(rule.head.text.lower(), []).append(rule)
        self._goals = self.rules.pop(GOAL, [])
        heads = [rules[0].head for rules in self.rules.values()]
        tables = [head for head in heads if head.text in schema]
        if tables and len(heads) + len(self._goals) > 1:
            kind = "view" if tables[0].text.lower() in schema.derived else "table"
            what = f"Datalog: {tables[0].text} is the name of a {kind}, so no rule can read this predicate"
            raise self.reader.error(what, tables[0], "give the head another name")
        read = set() if tables else set(self.rules)
        self.reads = {name: set().union(*(rule.reads for rule in rules)) & read for name, rules in self.rules.items()}

    def result(self) -> Relation:
        """Returns the relation of the goal, or of the predicate that no other one reads."""
        for names in components(self.reads):
            recursive = len(names) > 1 or names[0] in self.reads[names[0]]
            made = self._recursion(names) if recursive else {names[0]: self._union(self.rules[names[0]])}
            self.reader.inputs |= made
            self.show([Table(self.spelled(name), made[name].columns, distinct=True) for name in names])
        if len(self._goals) > 1:
            raise self.reader.error("Datalog: a program has one goal", self._goals[1].head, "leave the others out")
        if self._goals:
            return self.reader.read(self._goals[0])
        read = {other for name, others in self.reads.items() for other in others - {name}}
        found = [name for name in self.reads if name not in read]
        if len(found) != 1:
            names = [self.spelled(name) for name in found or self.reads]
            what = f"Datalog: the result can be {', '.join(names[:-1])} or {names[-1]}"
            last = self.rules[names[-1].lower()][0].head
            raise self.reader.error(what, last, f"end the program with a goal, such as ?- {last.text}(...).")
        return self.reader.inputs[found[0]]

    def spelled(self, name: str) -> str:
        """Returns the name of a predicate as its first rule spells it."""
        return self.rules[name][0].head.text

    def show(self, tables: Collection[Table], stamped: Collection[Table] = ()) -> None:
        """Lets rules read tables with the rows of predicates. `stamped`: those whose last column is a stamp."""
        schema, names = self.reader.schema, {table.name.lower() for table in tables}
        kept = (table for table in schema.values() if table.name.lower() not in names)
        self.reader.schema = Schema((*kept, *tables), schema.derived)
        self.reader.stamped = list(stamped)

    def _union(self, rules: Sequence[Rule], valued: bool = False) -> Relation:
        """Returns the union of rules of a predicate."""
        relations = [self.reader.read(rule, valued) for rule in rules]
        types = [column.type for column in relations[0].columns]
        for relation, rule in zip(relations[1:], rules[1:], strict=True):
            self.fit(relation, rule, types)
        names = [column.name for column in relations[0].columns]
        inputs = tuple(shaped(relation, names, types) for relation in relations)
        return SetOperation(inputs, balanced("union", range(len(inputs)))) if len(inputs) > 1 else inputs[0]

    def fit(self, relation: Relation, rule: Rule, types: list[str]) -> None:
        """Widens the types of a predicate to those of one more rule. Raises PlanError if the rule has other columns."""
        if len(relation.columns) != len(types):
            raise self.reader.error(
                f"Datalog: this head has {len(relation.columns)} arguments, the first one has {len(types)}", rule.head,
                "give all rules of a predicate the same number of arguments",
            )  # fmt: skip
        for i, column in enumerate(relation.columns):
            both = self.reader.guard(rule.head, partial(common, types[i], column.type))
            if both is None:
                raise self.unlike(i, column.type, types[i], rule)
            types[i] = both

    def unlike(self, place: int, here: str, before: str, rule: Rule) -> PlanError:
        what = f"Datalog: argument {place + 1} has the type {here} here and {before} in other rules of {rule.head.text}"
        return self.reader.error(what, rule.head, "give all rules of a predicate the same types")

    def _recursion(self, names: Sequence[str]) -> dict[str, Relation]:
        """Returns the relations of predicates that read each other, or of one that reads itself."""
        first, steps = dict[str, Relation](), dict[str, list[Rule]]()
        best = {name: found for name in names if (found := self._best(name)) is not None}
        for name in names:
            begins = [rule for rule in self.rules[name] if not rule.reads & set(names)]
            steps[name] = [rule for rule in self.rules[name] if rule.reads & set(names)]
            if begins:
                first[name] = self._union(begins, name in best)
        return _Recursion(self, first, steps, best).relations()

    def _best(self, name: str) -> Best | None:
        """Returns the argument that is MIN or MAX in the heads of all rules of a predicate, those that are MIN_BY or
        MAX_BY, and the function; None if there are no aggregates, or others."""
        found = set()
        for rule in self.rules[name]:
            self.reader.index = rule.start + 1
            called = [(i, one.function) for i, one in enumerate(self.reader.arguments()) if one.function]
            values = [(i, function) for i, function in called if function in PICKED]
            picked = [i for i, function in called if values and function == PICKED[values[0][1]]]
            one = len(values) == 1 and len(called) == 1 + len(picked)
            found.add(((values[0][0], *picked), values[0][1]) if one else None)
        return found.pop() if len(found) == 1 else None


class _Recursion(Steps[Rule]):
    """Predicates that read each other, or one that reads itself."""

    PART = "rule"

    def __init__(
        self,
        program: _Program,
        first: Mapping[str, Relation],
        steps: Mapping[str, Sequence[Rule]],
        best: Mapping[str, Best],
    ) -> None:
        super().__init__(first, {name: relation.columns for name, relation in first.items()}, steps, best)
        self._program = program

    @override
    def spelled(self, name: str) -> str:
        return self._program.spelled(name)

    @override
    def needs(self, step: Rule) -> set[str]:
        return step.reads & set(self.steps)

    @override
    def shown(self, columns: Mapping[str, Sequence[Column]]) -> dict[str, Table]:
        rows = {name: rows_of(self._program.spelled(name), columns[name], distinct=True) for name in columns}
        self._program.show(rows.values(), list(rows.values()))
        return rows

    @override
    def read(self, name: str, step: Rule) -> Relation:
        for token, negated in step.atoms:
            if negated and token.text.lower() in self.steps:
                raise self._circular("negates", token, step, token)
        made = self._program.reader.read(step, name in self.best)
        if name in self.columns:
            self._program.fit(made, step, [column.type for column in self.columns[name]])
        return made

    @override
    def error(self, name: str, step: Rule | None, what: str, hint: str) -> PlanError:
        rule = step or self._program.rules[name][0]
        return self._program.reader.error(f"Datalog: {what}", rule.head, hint)

    @override
    def no_step(self, name: str, step: Rule, why: str, hint: str) -> PlanError:
        read = next(token for token, _ in step.atoms if token.text.lower() in self.steps)
        hint = f"; or give all rules of {step.head.text} the same one min(...) or max(...)"
        return self._circular("aggregates", read, step, step.head, hint)

    def _circular(self, does: str, read: Token, step: Rule, place: Token, hint: str = "") -> PlanError:
        """Returns the error that a rule negates or aggregates a predicate that reads its head."""
        reads = self._program.reads
        way = [self._program.spelled(name) for name in circle(read.text.lower(), step.head.text.lower(), reads)]
        what = f"Datalog: {step.head.text} {does} {', which reads '.join(way) if len(way) > 1 else 'itself'}"
        do = f"{does.removesuffix('s')} {way[0]} in a predicate that {way[0]} does not read"
        return self._program.reader.error(what, place, do + hint)

    @override
    def check_type(self, name: str, step: Rule, place: int, type_: str) -> None:
        wanted = self.columns[name][place].type
        if common(wanted, type_) != wanted:
            raise self._program.unlike(place, type_, wanted, step)
