"""What the planner knows of a function: what it takes, what it gives, how it is evaluated and how it is written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Function:
    """A function of the table; its name is the operator of the expression.

    `takes` names what each argument is cast to: a planner type; `number`, which leaves numbers as they are; `moment`,
    which makes a TIMESTAMP of a DATE; `calendar`, which takes dates and timestamps; `bytes`, text or bytes; `same`, the
    one type that all of them have in common. With `=` in front the argument is a constant. The last `optional` of them
    may be left out; with `repeated` the last may come any number of times.

    `gives` is the planner type of the result, or makes it of the types and values of the arguments (None for what is
    no constant); it raises PlanError to refuse them. `evaluate` takes the Arrow type of the result and the arguments,
    arrays and scalars; constants are scalars.
    """

    name: str
    takes: tuple[str, ...]
    gives: str | Callable[[Sequence[str], Sequence[Any]], str]
    evaluate: Callable[..., Any]
    optional: int = 0
    repeated: bool = False
    sql: Callable[[Sequence[str]], str] | None = None

    def text(self, arguments: Sequence[str]) -> str:
        """Returns the call as SQL text."""
        return self.sql(arguments) if self.sql else f"{self.name.upper()}({', '.join(arguments)})"

    def kinds(self, count: int) -> tuple[str, ...] | None:
        """Returns what each of `count` arguments is cast to; None if the function does not take so many."""
        if self.repeated and count >= len(self.takes):
            return (*self.takes, *([self.takes[-1]] * (count - len(self.takes))))
        least = len(self.takes) - self.optional
        return self.takes[:count] if least <= count <= len(self.takes) else None


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator that needs no type of the result."""
    return lambda type_, *values: function(*values)


def cast_to(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns an evaluator whose result is cast to the type of the result."""

    def evaluate(type_: pa.DataType, *values: Any) -> Any:
        return function(*values).cast(type_)

    return evaluate
