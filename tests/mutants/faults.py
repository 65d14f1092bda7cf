"""All faults of a source: one small change each, of a line inside a function.

A comparison takes its edge or leaves it, a sum becomes a difference, a number is one more, a condition is turned
round, one of two conditions is enough, a statement is left out. What only words an error, declares or asserts is left
alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
_OPERATORS = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "+", ast.FloorDiv: "*", ast.Mod: "//", ast.LShift: ">>", ast.RShift: "<<",
    ast.BitAnd: "|", ast.BitOr: "&", ast.BitXor: "&",
}  # fmt: skip
_LIKE_LISTS = (ast.List, ast.Tuple, ast.JoinedStr, ast.Dict, ast.ListComp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Fault:
    """One change of a source: the text between two offsets of its bytes becomes another.

    ``function``: the outermost function around it, by its qualified name, and ``first``, the line where that begins.
    ``name``: tells it from others, as long as the code of its function stays as it is: its docstring and its comments
    may change.
    """

    function: str
    first: int
    line: int
    start: int
    end: int
    before: str
    after: str
    name: str

    def applied(self, source: str) -> str:
        """Returns the source with this fault."""
        text = source.encode()
        return (text[: self.start] + self.after.encode() + text[self.end :]).decode()


def faults(file: str, source: str) -> list[Fault]:
    """Returns all faults of the source of a file, from top to bottom."""
    return sorted(_Finder(file, source).found(), key=lambda fault: (fault.start, fault.end, fault.after))


class _Finder:
    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.tree = ast.parse(source)
        self.text = source.encode()
        self.starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def found(self) -> Iterator[Fault]:
        for name, function in self._functions(self.tree.body, ""):
            first = min([function.lineno, *(one.lineno for one in function.decorator_list)])
            whole = f"{self.file} {name} {_code(function)}"
            changes = (change for statement in function.body for change in self._changes(statement))
            for number, (start, end, after) in enumerate(changes):
                line = self.text.count(b"\n", 0, start) + 1
                before = self.text[start:end].decode()
                key = f"{whole} {number} {before} {after}".encode()
                yield Fault(name, first, line, start, end, before, after, hashlib.sha256(key).hexdigest()[:12])

    def _functions(self, body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, Function]]:
        for node in body:
            if isinstance(node, Function):
                yield prefix + node.name, node
            elif isinstance(node, ast.ClassDef):
                yield from self._functions(node.body, f"{prefix}{node.name}.")

    def _changes(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        """Yields the changes of a statement or an expression, and of all that it holds."""
        if isinstance(node, (ast.Raise, ast.Assert)) or (isinstance(node, ast.keyword) and node.arg == "strict"):
            return
        yield from self._own(node)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list", "args"} and not isinstance(node, ast.Call):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self._changes(child)

    def _own(self, node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield from self._between(node.left, node.comparators[0], _COMPARISONS[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            lists = any(isinstance(side, _LIKE_LISTS) or _is_text(side) for side in (node.left, node.right))
            if not lists:
                yield from self._between(node.left, node.right, _OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            other = "or" if isinstance(node.op, ast.And) else "and"
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._between(left, right, other)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            start, _ = self._span(node)
            yield start, self._span(node.operand)[0], ""
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            yield *self._span(node), str(not node.value if isinstance(node.value, bool) else node.value + 1)
        elif isinstance(node, (ast.If, ast.IfExp)) and not isinstance(node.test, (ast.Compare, ast.UnaryOp)):
            start, end = self._span(node.test)
            yield start, end, f"not ({self.text[start:end].decode()})"
        elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            yield *self._span(node), "pass"
        elif isinstance(node, ast.Continue):
            yield *self._span(node), "break"

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at = node.lineno, node.col_offset, node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self.starts[at[0] - 1] + at[1], self.starts[at[2] - 1] + at[3]

    def _between(self, left: ast.AST, right: ast.AST, after: str) -> Iterator[tuple[int, int, str]]:
        """Yields the change of the operator between two operands; brackets around them stay."""
        start, end = self._span(left)[1], self._span(right)[0]
        text = self.text[start:end]
        bare = text.strip(b" ()\n\t\\")
        if bare and b"#" not in bare and b"\n" not in bare:
            start += text.index(bare)
            yield start, start + len(bare), after


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))


def _code(function: Function) -> str:
    """Returns the code of a function, without its docstring."""
    documented = ast.get_docstring(function, clean=False) is not None
    return "".join(ast.unparse(statement) for statement in function.body[int(documented) :])
