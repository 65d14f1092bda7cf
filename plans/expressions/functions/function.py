"""The description of a function: its arguments, its result, its evaluation, and its SQL text.

A `Function` is an operator of expressions. A `Macro` is a name in SQL for an expression of other functions. Both are
entries of a table, from which docs/expressions.md is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from plans.expressions.columns.arrays import on_arrays

KINDS = {
    "string": "STRING", "int32": "INT", "int64": "BIGINT", "float64": "DOUBLE", "bool": "BOOLEAN", "date": "DATE",
    "binary": "BINARY", "timestamp": "TIMESTAMP", "timestamp_ntz": "TIMESTAMP_NTZ",
    "duration": "INTERVAL DAY TO SECOND", "months": "INTERVAL YEAR TO MONTH",
    "number": "number", "integer": "INT or BIGINT", "moment": "TIMESTAMP", "calendar": "DATE or TIMESTAMP",
    "bytes": "STRING or BINARY", "bits": "whole number, STRING or BINARY", "same": "value", "any": "value",
    "element": "element", "key": "element or key", "unit": "unit",
}  # fmt: skip
"""The kind of an argument: a planner type, to which it is cast by Spark's implicit casts, or one of

- `number`: any numeric type is kept; `integer`: INT and BIGINT are kept;
- `moment`: a DATE becomes a TIMESTAMP; `calendar`: dates and timestamps are kept;
- `bytes`: text or bytes; `bits`: integers, too; `any`: any type;
- `element`: an element of the array, or a key of the map, in the first argument; `key`: a key, or the index of an
  array;
- `same`: the common type of all such arguments;
- `unit`: the name of a unit of time, which may be written without quotes.

With the prefix `=`, and for a unit, the argument must be a constant.
"""


def constant(kind: str) -> bool:
    """Returns whether an argument must be a constant."""
    return kind[0] == "=" or kind == "unit"


@dataclass(frozen=True, kw_only=True)
class Signature:
    """A name in SQL. `takes` are the kinds of the arguments (`KINDS`). The last `optional` of them may be omitted; with
    `repeated` the last may be repeated. `also` are other names. `null` says where Spark would fail and the value is
    NULL here, `note` has other remarks; docs/expressions.md shows both. An `internal` name stands for another dialect's
    meaning of a name that Spark has, too; users do not write it."""

    name: str
    takes: tuple[str, ...]
    optional: int = 0
    repeated: bool = False
    also: tuple[str, ...] = ()
    null: str = ""
    note: str = ""
    internal: bool = False

    def kinds(self, count: int) -> tuple[str, ...] | None:
        """Returns the kinds of `count` arguments, or None if the function does not take that many."""
        if self.repeated and count > len(self.takes):
            return (*self.takes, *([self.takes[-1]] * (count - len(self.takes))))
        least = len(self.takes) - self.optional
        return self.takes[:count] if least <= count <= len(self.takes) else None

    @property
    def result(self) -> str:
        """Returns the type of the result for the documentation, or '' if it depends on the arguments."""
        return ""

    @property
    def counts(self) -> str:
        """Returns the number of arguments in words."""
        least, most = len(self.takes) - self.optional, len(self.takes)
        return f"{least} or more" if self.repeated else f"{least}" if least == most else f"{least} to {most}"

    def shown(self) -> str:
        """Returns the call for the documentation: `LPAD(STRING, constant INT [, STRING])`."""
        least, text = len(self.takes) - self.optional, ""
        for place, kind in enumerate(self.takes):
            wanted = kind.removeprefix("=")
            word = ("constant " if kind != wanted else "") + KINDS.get(wanted, wanted.upper())
            text += (" [" if place else "[") * (place >= least) + (", " if place else "") + word
        return f"{self.name.upper()}({text}{', ...' * self.repeated}{']' * self.optional})"


@dataclass(frozen=True, kw_only=True)
class Function(Signature):
    """A function whose name is an operator of expressions.

    `gives` is the planner type of the result, or computes it from the types and values of the arguments (None for an
    argument that is not a constant); it raises PlanError to reject them. `evaluate` takes the Arrow type of the result
    and the arguments, arrays and scalars; constants are scalars. A `hidden` function has no name in SQL.
    """

    gives: str | Callable[[Sequence[str], Sequence[Any]], str]
    evaluate: Callable[..., Any]
    sql: Callable[[Sequence[str]], str] | None = None
    hidden: bool = False

    @property
    def result(self) -> str:
        """Returns the type of the result for the documentation, or '' if it depends on the arguments."""
        return KINDS.get(self.gives, self.gives.upper()) if isinstance(self.gives, str) else ""

    def text(self, arguments: Sequence[str]) -> str:
        """Returns the call as SQL text."""
        return self.sql(arguments) if self.sql else f"{self.name.upper()}({', '.join(arguments)})"


@dataclass(frozen=True, kw_only=True)
class HigherOrder(Function):
    """A function whose last argument is a lambda over elements, written `x -> x + 1` in SQL.

    The `value` of its expression is the body: an expression over columns named by position. `$0`, `$1` and so on are
    first the parameters, then the values of the row that the body reads. The latter are arguments of the expression,
    after those of `takes`. So an expression with lambdas reads its columns like any other expression.

    `names` are the usual names of the parameters, of which a query must have at least `least`. `parameters` computes
    their types from those of the arguments. The body of a `condition` is a BOOLEAN. `gives` takes the types of the
    arguments and that of the body; `evaluate` takes the body after the type of the result.
    """

    names: tuple[str, ...]
    least: int
    parameters: Callable[[Sequence[str]], Sequence[str]]
    condition: bool = False

    def kinds(self, count: int) -> tuple[str, ...] | None:
        """Returns the kinds of `count` arguments, or None if the function does not take that many."""
        return (*self.takes, "function") if count == len(self.takes) + 1 else None

    @property
    def counts(self) -> str:
        """Returns the number of arguments in words."""
        return str(len(self.takes) + 1)

    def shown(self) -> str:
        """Returns the call for the documentation: `TRANSFORM(value, x -> value)`."""
        plain = super().shown().removesuffix(")")
        return f"{plain}, {listing(self.names[: self.least])} -> {'BOOLEAN' if self.condition else 'value'})"


def listing(names: Sequence[str]) -> str:
    """Returns the parameters of a lambda in SQL: `x`, or `(x, y)`."""
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def place(number: int) -> str:
    """Returns the column of a lambda's body for a parameter, or, after the parameters, for a value of the row."""
    return f"${number}"


@dataclass(frozen=True, kw_only=True)
class Macro(Signature):
    """A name in SQL for an expression, which `make` builds from the expressions of the arguments."""

    make: Callable[..., Any]


def function(
    name: str,
    takes: str,
    gives: str | Callable[[Sequence[str], Sequence[Any]], str],
    evaluate: Callable[..., Any],
    **more: Any,
) -> Function:
    """Returns a function; `takes` lists the kinds of its arguments: "string int32 [=string]", "string ..."."""
    return Function(name=name, gives=gives, evaluate=evaluate, **_arguments(takes), **more)


def macro(name: str, takes: str, make: Callable[..., Any], **more: Any) -> Macro:
    """Returns a macro; `takes` as in `function`."""
    return Macro(name=name, make=make, **_arguments(takes), **more)


def meaning(name: str, takes: str, make: Callable[..., Any], note: str, **more: Any) -> Macro:
    """Returns a macro for another dialect's meaning of a name; `takes` as in `function`."""
    return macro(name, takes, make, note=note, internal=True, **more)


def _arguments(takes: str) -> dict[str, Any]:
    words = takes.split()
    repeated = words[-1:] == ["..."]
    words = words[:-1] if repeated else words
    return {
        "takes": tuple(word.strip("[]") for word in words),
        "optional": sum(word.startswith("[") for word in words),
        "repeated": repeated,
    }


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator from a function that does not need the type of the result."""
    return lambda type_, *values: function(*values)


def arrays(function: Callable[..., pa.Array]) -> Callable[..., Any]:
    """Returns an evaluator whose arguments are all arrays."""
    return lambda type_, *values: on_arrays(lambda *given: function(type_, *given), *values)


def same_type(types: Sequence[str], values: Sequence[Any]) -> str:
    """Returns the type of the first argument, which is that of the result."""
    return types[0]


def cast_to(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator whose result is cast to the type of the result."""

    def evaluate(type_: pa.DataType, *values: Any) -> Any:
        return function(*values).cast(type_)

    return evaluate
