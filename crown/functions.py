"""User-defined functions and aggregates: `crown.function` and `crown.aggregate`."""

from __future__ import annotations

import functools
import hashlib
import pickle
import re
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crown.errors import PlanError
from crown.guards.arguments import flag_of
from plans.expressions.coercion import numeric
from plans.expressions.functions.user import UserAggregate, UserFunction, register
from plans.frontends.aggregates import result_type
from plans.nested import struct_of
from plans.types import normal_type, type_of_python

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def function(
    name: str,
    call: Callable[..., Any],
    *,
    arguments: Sequence[Any],
    result: Any,
    deterministic: bool = True,
    version: str | None = None,
) -> UserFunction:
    """Registers a scalar function, which the queries of this process can call by its name.

    ``call`` takes one Arrow array per argument, of the types ``arguments``, and returns an array with as many values,
    of the type ``result``. It receives NULLs like other values. It is called for many rows at once, including rows for
    which CASE takes another branch. It must always return the same value for the same row, because the delete of a row
    must compute the value that its insertion has computed. With ``deterministic=False`` crown rejects queries that call
    the function.

    If ``call`` raises an error or returns something else, the batch is rejected with a FunctionError that names the
    function and its arguments. A state stores a fingerprint of the function's code and of the values that the code
    reads, and rejects another function of that name. The fingerprint also depends on the minor version of Python. If
    ``version`` is given, it replaces the fingerprint: change it whenever the results change.

    >>> import crown, pyarrow.compute as pc
    >>> def initial(names):
    ...     return pc.utf8_slice_codeunits(names, 0, 1)
    >>> _ = crown.function("initial", initial, arguments=["string"], result="string")
    >>> view = crown.view("SELECT initial(n) AS i, COUNT(*) AS c FROM t GROUP BY initial(n)", {"t": {"n": "string"}})
    >>> view.apply({"t": [{"n": "Ann"}, {"n": "Al"}]}).to_pylist()
    [{'i': 'A', 'c': 2, '_weight': 1}]
    """
    _check_name(name)
    made = _made(name, call, _types("arguments", arguments), _type("result", result), version)
    made = replace(made, deterministic=flag_of(deterministic, "deterministic"))
    register(made)
    return made


def aggregate(
    name: str,
    lift: Callable[..., Any],
    finish: Callable[..., Any],
    *,
    arguments: Sequence[Any],
    sums: Mapping[str, Any],
    result: Any,
    version: str | None = None,
) -> UserAggregate:
    """Registers an aggregate, which the queries of this process can call by its name.

    An aggregate is a commutative group. ``lift`` takes one array per argument and returns a struct array with the
    numbers ``sums`` (names and types), one struct per row. These numbers are added exactly when a row is inserted, and
    subtracted when it is deleted. ``finish`` takes one array per sum, with one value per group, and then an array with
    the number of rows of each group. It returns the values of the aggregate. A row whose struct is NULL is not counted.
    A change costs O(1), and partial sums of several cells are added. If an aggregate needs all values of a group, write
    a ``function`` of ``ARRAY_AGG(x)``.

    >>> import crown, pyarrow as pa, pyarrow.compute as pc
    >>> _ = crown.aggregate(
    ...     "geo_mean",
    ...     lambda x: pa.StructArray.from_arrays([pc.ln(x)], ["logs"]),
    ...     lambda logs, n: pc.exp(pc.divide(logs, n)),
    ...     arguments=["double"], sums={"logs": "double"}, result="double",
    ... )
    >>> view = crown.view("SELECT geo_mean(x) AS g FROM t", {"t": {"x": "double"}})
    >>> view.apply({"t": [{"x": 1.0}, {"x": 1.0}]})["g"].to_pylist()
    [1.0]
    """
    _check_name(name)
    if not isinstance(sums, Mapping) or not sums:
        raise PlanError(f"aggregate {name!r}: sums= takes names and types of numbers, like {{'total': 'double'}}")
    kinds = {str(key): _type(f"sums[{key!r}]", kind) for key, kind in sums.items()}
    for key, kind in kinds.items():
        if not numeric(kind):
            raise PlanError(f"aggregate {name!r}: the sum {key!r} is of type {kind}", hint="make it a number")
    struct = struct_of(list(kinds), list(kinds.values()))
    lifted = _made(name, lift, _types("arguments", arguments), normal_type(struct), version, "lift of ")
    given = (*(result_type("sum", kind) for kind in kinds.values()), "int64")
    finished = _made(name, finish, given, _type("result", result), version, "finish of ")
    made = UserAggregate(name, lifted, finished)
    register(made)
    return made


def _made(
    name: str, call: Any, takes: tuple[str, ...], gives: str, version: str | None, part: str = ""
) -> UserFunction:
    if not callable(call):
        raise PlanError(f"function {name!r} is given as {type(call).__name__}", hint="give a function of Arrow arrays")
    if version is not None and not isinstance(version, str):
        raise PlanError(f"function {name!r}: version= takes a text, not {type(version).__name__}")
    identity = version if version is not None else _contents(call, 0)
    mark = hashlib.blake2b(repr((name.upper(), part, takes, gives, identity)).encode(), digest_size=16).hexdigest()
    return UserFunction(name, takes, gives, call, mark, f"{part}{name}" if part else "")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise PlanError(f"{name!r} is not a name of a function", hint="use letters, digits and _")
    from plans.frontends.sql.refuse import is_free

    if not is_free(name):
        raise PlanError(f"{name.upper()} is a function or a word of SQL already", hint="choose another name")


def _types(what: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise PlanError(f"{what}= takes a list of types, at least one, like ['int64', 'string']")
    return tuple(_type(what, one) for one in given)


def _type(what: str, given: Any) -> str:
    try:
        return normal_type(given) if isinstance(given, str) else type_of_python(given)
    except PlanError as error:
        raise PlanError(f"{what}: {error.message}", hint=error.hint) from None


def _contents(value: Any, depth: int) -> Any:
    """Returns the code of a function and the values that the code reads, as far as Python exposes them. Together they
    determine its results."""
    if depth > _DEPTH or isinstance(value, (types.ModuleType, type)):
        return getattr(value, "__qualname__", getattr(value, "__name__", type(value).__qualname__))
    if isinstance(value, functools.partial):
        return "partial", *(
            _contents(one, depth + 1) for one in (value.func, *value.args, sorted(value.keywords.items()))
        )
    if isinstance(value, types.MethodType):
        return "method", _contents(value.__func__, depth + 1), _contents(vars(value.__self__), depth + 1)
    if isinstance(value, types.FunctionType):
        code, read = value.__code__, value.__globals__
        used = [(name, _contents(read[name], depth + 1)) for name in sorted(_names(code)) if name in read]
        held = [
            _contents(cell.cell_contents, depth + 1) for cell in value.__closure__ or () if cell != types.CellType()
        ]
        given = _contents((value.__defaults__, value.__kwdefaults__), depth + 1)
        return "function", _contents(code, depth), used, held, given
    if isinstance(value, types.CodeType):
        return value.co_code.hex(), value.co_names, [_contents(one, depth) for one in value.co_consts]
    if isinstance(value, (list, tuple)):
        return [_contents(one, depth + 1) for one in value]
    if isinstance(value, (dict, types.MappingProxyType)):
        return [
            (str(key), _contents(one, depth + 1)) for key, one in sorted(value.items(), key=lambda item: str(item[0]))
        ]
    if isinstance(value, (str, bytes, int, float, complex, type(None))):
        return repr(value)
    if isinstance(value, (set, frozenset)):
        return sorted(repr(_contents(one, depth + 1)) for one in value)
    if hasattr(value, "__wrapped__"):
        return _contents(value.__wrapped__, depth + 1)
    return f"{type(value).__module__}.{type(value).__qualname__}", _contents_of_object(value, depth)


def _contents_of_object(value: Any, depth: int) -> Any:
    """Returns the contents of an object: a digest of a value, or the attributes and the code of ``__call__`` of another
    object. Objects of the standard library, such as a logger or a lock, can change at any time, so only their name is
    used."""
    origin = type(value).__module__.partition(".")[0]
    if origin in _VALUES:
        try:
            return hashlib.blake2b(pickle.dumps(value, 4), digest_size=16).hexdigest()
        except Exception:  # objects of libraries raise various errors if they cannot be pickled
            return getattr(value, "__qualname__", "")
    if origin in sys.stdlib_module_names:
        return getattr(value, "__qualname__", "")
    called = type(value).__call__ if callable(value) else None
    return _contents(called, depth + 1), _contents(getattr(value, "__dict__", None), depth + 1)


_DEPTH = 6
_VALUES = ("builtins", "datetime", "decimal", "fractions", "numpy", "pandas", "polars", "pyarrow", "re", "uuid")
"""Modules whose objects are values: two objects with the same pickle are equal."""


def _names(code: types.CodeType) -> set[str]:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return {*code.co_names, *(name for one in inner for name in _names(one))}
