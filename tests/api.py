"""The public surface, as text: ``python -m tests.api`` writes it to ``tests/api.txt``; read the diff, users will."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Unpack, get_args, get_origin, get_type_hints

import crown

OURS = ("crown", "plans", "ivm_triangle")
PAGE = Path(__file__).with_name("api.txt")


def surface() -> str:
    """Every public name with its signature, and the public methods and properties of classes."""
    return "\n".join(line for name in crown.__all__ for line in _lines(f"crown.{name}", getattr(crown, name))) + "\n"


def _lines(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, ModuleType):
        yield f"module {name}: {', '.join(sorted(getattr(value, '__all__', [])))}"
    elif not inspect.isclass(value):
        yield f"{name}{inspect.signature(value)}"
        yield from _keywords(value)
    elif issubclass(value, (Exception, Warning)):
        bases = ", ".join(base.__name__ for base in value.__bases__)
        yield f"class {name}({bases})"
    else:
        yield f"class {name}"
        others = {getattr(crown, other) for other in crown.__all__} - {value}
        bases = [base for base in value.__mro__ if base not in others and base.__module__.split(".")[0] in OURS]
        for member in sorted({member for base in bases for member in vars(base) if not member.startswith("_")}):
            yield f"    {_member(member, inspect.getattr_static(value, member))}"


def _keywords(function: Any) -> Iterator[str]:
    """The keywords of a function that takes the fields of records."""
    for taken in (get_args(hint) for hint in get_type_hints(function).values() if get_origin(hint) is Unpack):
        for name, kind in inspect.get_annotations(taken[0]).items():
            yield f"    {name}: {getattr(kind, '__forward_arg__', kind)!r}"


def _member(name: str, value: Any) -> str:
    if isinstance(value, (classmethod, staticmethod)):
        return f"{type(value).__name__} {name}{inspect.signature(value.__func__)}"
    if isinstance(value, property):
        assert value.fget is not None
        return f"{name} -> {inspect.signature(value.fget).return_annotation}"
    return f"{name}{inspect.signature(value)}" if callable(value) else name


if __name__ == "__main__":
    PAGE.write_text(surface())
