"""The output formats of EXPLAIN by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from plans.program import Program
from plans.show import programs
from plans.show.mermaid import mermaid
from plans.show.picture import flow, tree
from plans.show.picture.page import html


def svg(program: Program) -> str:
    """Returns the drawing of a join tree, or of the flow between several stages."""
    return flow.svg(program) if program.plan is None else tree.svg(program.plan)


FORMS: Mapping[str, Callable[..., str]] = {
    "text": programs.text,
    "json": programs.explained,
    "mermaid": lambda program, *_: mermaid(program),
    "html": lambda program, wires, *_: html(program, wires),
    "svg": lambda program, *_: svg(program),
}
"""Each function takes the program and the wires of the engine that maintains it, and optionally an `IsNative`, which
tells what the engine evaluates itself, and how the engine runs each part of the stages. Drawings ignore the last
three."""
