"""Every exception that leaves the public surface is a CrownError, whatever it is called with.

One argument at a time is wrong; the others are such that the call would be right. A call that does not fit the
signature at all is Python's own TypeError.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import crown
from tests.wrong_calls import ARGUMENTS, BESIDE, MORE, RIGHT, SUBJECTS, WRONG, found, is_called, parameters, public

NAMES = [name for name in public() if is_called(name)]
METHODS = [name for name in NAMES if name.rpartition(".")[0] in SUBJECTS]
FUNCTIONS = [name for name in NAMES if name not in METHODS]
EVERY = pytest.mark.parametrize(
    "values", [pytest.param(WRONG, id="some"), pytest.param(MORE, id="more", marks=pytest.mark.slow)]
)


def is_ours(error: BaseException) -> bool:
    """Whether an error may leave the public surface."""
    if isinstance(error, crown.CrownError):
        return True
    trace = error.__traceback__
    return isinstance(error, TypeError) and trace is not None and trace.tb_next is None  # no line of a function ran


def outcome(call: Callable[..., Any], arguments: dict[str, Any]) -> BaseException | None:
    """Calls, and reads the first parts of what comes back if that is an iterator; returns the error, if one comes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            returned = call(**arguments)
            if isinstance(returned, Iterator):
                list(islice(returned, 3))
            if hasattr(returned, "close"):
                returned.close()
    except Exception as error:
        return error
    return None


def wrong(
    name: str, make: Callable[[], Callable[..., Any]], right: dict[str, Any], values: dict[str, Any]
) -> list[str]:
    """Returns the wrong calls from which other errors come, with these."""
    said = []
    call = make()
    for parameter in parameters(name, call):
        for what, value in values.items():
            arguments = {each: made() for each, made in right.items()}
            error = outcome(call, {**arguments, parameter: value()})
            if error is not None and not is_ours(error):
                said.append(f"{name}({parameter}={what}): {type(error).__name__}: {error!s:.200}")
                call = make()
    return said


def arguments_of(call: Callable[..., Any]) -> dict[str, Any]:
    """Returns right arguments of a method, by the names of its parameters."""
    needed = [p.name for p in inspect.signature(call).parameters.values() if p.default is p.empty]
    return {name: ARGUMENTS[name] for name in needed if name in ARGUMENTS}


@EVERY
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = outcome(found(name), {each: made() for each, made in RIGHT[name].items()})
    assert error is None or name.startswith("crown.spark."), "the call is right, but for what a stream has written"
    assert wrong(name, lambda: found(name), RIGHT[name], values) == []


@EVERY
@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    owner, _, method = name.rpartition(".")

    def make() -> Callable[..., Any]:
        return getattr(SUBJECTS[owner](), method)

    assert wrong(name, make, arguments_of(make()), values) == []


@EVERY
@pytest.mark.parametrize("what", BESIDE)
def test_methods_of_what_functions_return(
    what: str, values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kind = type(BESIDE[what]())
    for method, value in inspect.getmembers(kind, callable):
        if method.startswith("_") or not value.__module__.startswith("crown."):
            continue

        def make(method: str = method) -> Callable[..., Any]:
            return getattr(BESIDE[what](), method)

        assert wrong(f"{what}.{method}", make, arguments_of(make()), values) == []


@EVERY
def test_sums_of_a_regression(values: dict[str, Any]) -> None:
    sums = BESIDE["model"]().sum
    for value in values.values():
        error = outcome(lambda given=value: sums(given()), {})
        assert error is None or is_ours(error)
    for names in (["z"], ["a", "b", "a"], ["a", None], [[]]):
        with pytest.raises(crown.CrownError, match=r"there is no product of .*: name at most 2 of a, b"):
            sums(*names)
