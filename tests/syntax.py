"""The statements of a source, without its expressions, of which a tree of syntax has ten times as many."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_PARTS = ("body", "orelse", "handlers", "finalbody", "cases")


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yields all statements at any depth, and the branches of ``try`` and ``match``."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for part in _PARTS:
            todo += getattr(node, part, ())
