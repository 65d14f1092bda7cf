"""Functions that users write in Python over Arrow arrays, and aggregates made of them.

A plan contains the fingerprint of a function, and not its code: a process that opens a state must have registered the
same function before. `crown.functions` creates them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import pyarrow as pa

from plans.errors import FunctionError, PlanError
from plans.expressions.coercion import common
from plans.expressions.columns import intervals
from plans.expressions.columns.arrays import on_arrays
from plans.types import arrow_type

USER = "user"
"""The operator of an expression that calls a user function. Its value is the function."""


@dataclass(frozen=True, eq=False)
class UserFunction:
    """A function of arrays. `takes` are the types of its arguments, `gives` is that of its result.

    `shown`: its name in messages. Functions with the same `fingerprint` are equal.
    """

    name: str
    takes: tuple[str, ...]
    gives: str
    call: Callable[..., Any]
    fingerprint: str
    shown: str = ""
    deterministic: bool = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UserFunction) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"UserFunction({self.shown or self.name!r}, {self.fingerprint!r})"  # the same in every process

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, tuple(getattr(self, field.name) for field in fields(self))

    def to_json(self) -> dict[str, str]:
        """Returns the JSON of the function in a plan."""
        return {"function": self.name, "fingerprint": self.fingerprint}

    def fit(self, types: Sequence[str]) -> None:
        """Checks the types of arguments. Raises PlanError if the function does not take them."""
        name = self.shown or self.name
        if not self.deterministic:
            raise PlanError(
                f"function {name!r} is not deterministic: a deleted row would not find the result of its insertion",
                hint="compute it before the rows enter, and store it in a column",
            )
        if len(types) != len(self.takes):
            one = "" if len(self.takes) == 1 else "s"
            raise PlanError(f"{name} takes {len(self.takes)} argument{one}, not {len(types)}")
        for given, wanted in zip(types, self.takes, strict=True):
            if given != "null" and common(given, wanted) != wanted:
                raise PlanError(f"{name} takes a value of type {wanted}, not {given}", hint="use CAST")

    def evaluate(self, *values: Any) -> Any:
        """Returns the values of rows. Raises FunctionError if the function fails, or returns another type."""
        given = [intervals.restored(value, type_) for value, type_ in zip(values, self.takes, strict=True)]
        return intervals.carried(on_arrays(self._checked, *given), self.gives)

    def _checked(self, *arrays: pa.Array) -> pa.Array:
        wanted = arrow_type(self.gives)
        if not len(arrays[0]):
            return pa.nulls(0, wanted)
        try:
            found = self.call(*arrays)
        except Exception as error:
            raise FunctionError(f"{self._row(arrays)} failed: {type(error).__name__}: {error}") from error
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        if not isinstance(found, pa.Array):
            found = self._of_values(found, wanted)
        if len(found) != len(arrays[0]):
            raise FunctionError(
                f"{self._call} returned {len(found)} values for {len(arrays[0])} rows: return one per row"
            )
        if found.type == wanted:
            return found
        if not _named_alike(found.type, wanted):  # a cast would fill missing fields with NULL
            raise FunctionError(
                f"{self._call} returned {found.type}, not {wanted}, its declared type: give the fields these names"
            )
        try:
            return found.cast(wanted)
        except pa.ArrowException as error:
            raise FunctionError(f"{self._call} returned {found.type}, not {wanted}, its type: {error}") from None

    def _of_values(self, found: Any, type_: pa.DataType) -> pa.Array:
        try:
            made = pa.array(found, type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            kind = type(found).__name__
            raise FunctionError(
                f"{self._call} returned a value of type {kind}, not an array of {type_}: {error}"
            ) from None
        return made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made

    @property
    def _call(self) -> str:
        return f"function {self.shown or self.name!r}"

    def _row(self, arrays: Sequence[pa.Array]) -> str:
        """Returns the call of the first row for which the function alone fails. O(rows)."""
        for row in range(len(arrays[0])):
            one = [array.slice(row, 1) for array in arrays]
            try:
                self.call(*one)
            except Exception:
                return f"{self._call}, called with {', '.join(str(array[0]) for array in one)},"
        return f"{self._call}, called with {len(arrays[0])} rows,"


def _named_alike(left: pa.DataType, right: pa.DataType) -> bool:
    """Returns whether the structs in two types have the same field names."""
    if pa.types.is_struct(left) and pa.types.is_struct(right):
        fields, others = ({field.name: field.type for field in type_} for type_ in (left, right))
        return fields.keys() == others.keys() and all(_named_alike(fields[name], others[name]) for name in fields)
    if pa.types.is_map(left) and pa.types.is_map(right):
        return _named_alike(left.item_type, right.item_type)
    lists = [type_.value_type for type_ in (left, right) if hasattr(type_, "value_type")]
    return len(lists) < 2 or _named_alike(*lists)


@dataclass(frozen=True, eq=False)
class UserAggregate:
    """An aggregate that is a commutative group: `lift` makes a struct of numbers of each row, which are summed, and
    `finish` computes the result from the sums and the number of rows."""

    name: str
    lift: UserFunction
    finish: UserFunction


def _received(*given: Any) -> UserFunction:
    """Registers a function that another process sent, so that plans may refer to it."""
    return known(UserFunction(*given))


def known(function: UserFunction) -> UserFunction:
    """Registers a function, so that plans may refer to it."""
    _KNOWN[function.fingerprint] = function
    return function


def register(entry: UserFunction | UserAggregate) -> None:
    """Registers a function or an aggregate, so that queries may call it. It replaces an older one with the same
    name."""
    NAMED[entry.name.upper()] = entry
    for function in (entry,) if isinstance(entry, UserFunction) else (entry.lift, entry.finish):
        known(function)


def of_json(data: Mapping[str, str]) -> UserFunction:
    """Returns the function to which a plan refers. Raises FunctionError if it is not registered, or has changed."""
    name, found = data["function"], _KNOWN.get(data["fingerprint"])
    if found is not None:
        return found
    if any(function.name == name for function in _KNOWN.values()):
        raise FunctionError(
            f"function {name!r} differs from the one with which the state was created, or another version of Python "
            "created it: register that one, use that Python, or fill a new state; with version= of crown.function, a "
            "new state compares that text, and not the code"
        )
    raise FunctionError(f"function {name!r} is not known here: call crown.function(...) before the state is opened")


NAMED: dict[str, UserFunction | UserAggregate] = {}
"""The functions that queries may call, by name in capitals."""
_KNOWN: dict[str, UserFunction] = {}  # by fingerprint
