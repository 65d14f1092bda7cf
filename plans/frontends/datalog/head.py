"""The head of a Datalog rule: outputs, and aggregates over the valuations of the rule. Part of
`plans.frontends.datalog`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from plans.expressions.build import TRUE, Expr, col
from plans.frontends.aggregates import GroupColumns
from plans.frontends.datalog.terms import WORDS, Terms
from plans.frontends.datalog.tokens import Token
from plans.frontends.rewrites import AggregateCall, rewritten
from plans.payloads.sums import ONCE
from plans.queries.algebra import Group, Query, Source, check_output_name
from plans.queries.conjunction import is_set

PICKED = {"min": "min_by", "max": "max_by"}
"""Aggregates of two values: the first one of the row with the least, or the greatest, second one."""
_AGGREGATES = ("count", "sum", "min", "max", "avg", *PICKED.values())
_TAKES = f"the head takes variables, constants and {', '.join(f'{name}(...)' for name in _AGGREGATES)}"


@dataclass(frozen=True)
class Argument:
    """An argument of the head: a variable or a constant, or the aggregate `function` of the value that begins at token
    `start`.

    `alias` is the name given by `as`. `preferred` is the name without `as`.
    """

    token: Token
    preferred: str
    function: str = ""
    distinct: bool = False
    start: int = 0
    empty: bool = False
    alias: Token | None = None


class Head(Terms):
    """Reads heads. Their values are computed after the body has bound the variables."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.sources: list[Source] = []
        self.conditions: list[Expr] = []
        self.valued = False  # MIN and MAX in the head stand for their values: a recursion has the best of them

    def arguments(self) -> list[Argument]:
        """Returns the arguments of the head at the current token."""
        self.want("(")
        found: list[Argument] = []
        while not self.take(")"):
            if found:
                self.want(",")
            found.append(self.argument(f"c{len(found)}"))
        return found

    def argument(self, preferred: str) -> Argument:
        """Returns the argument of a head at the current token."""
        token = self.here
        if token.kind not in ("name", "number", "string"):
            raise self.error("Datalog: the head takes variables, constants and aggregates", token)
        self.index += 1
        function, distinct, start, empty = "", False, 0, False
        if token.kind == "name":
            preferred = token.text
        if token.kind == "name" and self.take("("):
            function = token.text.lower()
            if function not in _AGGREGATES:
                raise self.error(f"Datalog: {token.text} is not an aggregate", token, hint=_TAKES)
            distinct = self.tokens[self.index + 1].text != ")" and self.take("distinct") is not None
            if function == "count":
                self.take("*")
            start = self.skip()
            empty = start == self.index
            single = self.tokens[start]
            alone = self.index == start + 1 and single.kind == "name"
            preferred = f"{function}_{single.text}" if alone else function
            if function in PICKED.values():
                if not self.take(","):
                    what = f"Datalog: {function} takes two values, and the result is the first one"
                    raise self.error(what, token, hint=f"{function}(value, by)")
                self.skip()
            self.want(")")
        alias = self.name("a name") if self.take("as") else None
        return Argument(token, preferred, function, distinct, start, empty, alias)

    def named(self, arguments: list[Argument]) -> list[str]:
        """Returns the names of the output columns, which differ without regard to case."""
        names: list[str] = []
        for argument in arguments:
            name, known = argument.preferred, [other.lower() for other in names]
            if argument.alias is not None:
                name = argument.alias.text
                if name.lower() in known:
                    raise self.error(f"two output columns are called {name}", argument.alias, hint="rename one: as ...")
            while name.lower() in known:
                name += "_"
            self.guard(argument.alias or argument.token, partial(check_output_name, name))
            names.append(name)
        return names

    def value(self, token: Token) -> Expr:
        """Returns the value of a variable or constant in the head."""
        if token.text.lower() == "null":
            raise self.error("Datalog: NULL in the head has no type", token, hint="output a variable")
        if token.kind != "name" or token.text.lower() in WORDS:
            return self.literal(token)
        return self.variable(token, " of the head")

    def relation(self, arguments: list[Argument]) -> Query | Group:
        """Returns the relation of a rule whose body has been read."""
        names = self.named(arguments)
        if not self.valued and any(argument.function for argument in arguments):
            return self.grouped(arguments, names)
        called = [self.aggregated(argument) if argument.function else () for argument in arguments]
        best = next((values for values, one in zip(called, arguments, strict=True) if one.function in PICKED), ())
        for argument, (_, *by) in zip(arguments, (values or (None,) for values in called), strict=True):
            if by and tuple(by) != best:
                which = next(function for function, picked in PICKED.items() if picked == argument.function)
                what = f"Datalog: in a recursion, {argument.function} is by the value of {which}(...)"
                raise self.error(what, argument.token, hint=f"write the same value in {which}(...) and here")
        shown = [values[0] if values else self.value(a.token) for a, values in zip(arguments, called, strict=True)]
        return self.rows(tuple(zip(names, shown, strict=True)))

    def rows(self, outputs: tuple[tuple[str, Expr], ...]) -> Query:
        """Returns the set of rows of the body's valuations."""
        names = tuple((column.value, name) for name, column in self.variables.items())
        sources, conditions = tuple(self.sources), tuple(self.conditions)
        made = Query(self.text, sources, conditions, outputs, False, names=names)
        selects = len(sources) == 1 and sources[0].input is not None  # from a predicate, whose rows are a set
        return made if selects and is_set(made) else replace(made, distinct=True)

    def grouped(self, arguments: list[Argument], names: list[str]) -> Group:
        """Returns the groups of the distinct valuations by the variables of the head."""
        group = GroupColumns()
        columns, calls, column = group.columns, group.calls, group.column
        outputs: list[tuple[str, Expr]] = []
        keys: list[str] = []
        for name, argument in zip(names, arguments, strict=True):
            if argument.function:
                aggregate = AggregateCall(argument.function, self.aggregated(argument), argument.distinct)
                outputs.append((name, self.guard(argument.token, partial(rewritten, aggregate, group.added))))
                continue
            shown = self.value(argument.token)
            if shown.op == "col":
                keys.append(column(shown, argument.token.text))
                shown = col(keys[-1], shown.type)
            outputs.append((name, shown))
        if not all(call.distinct or call.function in ONCE for call in calls.values()):
            for name, variable in self.variables.items():
                column(variable, name)
        rows = self.rows(tuple(columns.items()) or (("one", TRUE),))
        return Group(rows, tuple(dict.fromkeys(keys)), tuple(calls.values()), tuple(outputs), None, not keys)

    def aggregated(self, argument: Argument) -> tuple[Expr, ...]:
        """Returns the arguments of an aggregate: none for count()."""
        if argument.empty and (argument.function != "count" or argument.distinct):
            raise self.error(f"Datalog: {argument.function} takes one value", argument.token, hint="name a variable")
        if argument.empty:
            return ()
        self.index = argument.start
        values = [self.sum()]
        if argument.function in PICKED.values():
            self.want(",")
            values.append(self.sum())
        self.want(")")
        if any(value.type == "null" for value in values):
            raise self.error("Datalog: an aggregate of NULL has no type", argument.token, hint="name a variable")
        return tuple(values)
