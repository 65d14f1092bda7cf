"""Errors a user of the planner can cause.

A `PlanError` says what is wrong, where (line, column and a caret under the text), why (the witness: a cycle, a path,
a pair of attributes) and what to do about it (the hint). Nothing else may reach a user: no parser's or Python's
traceback.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """A place in the text of a query: `line` and `column` count from 1, `length` characters are underlined."""

    line: int
    column: int
    length: int = 1

    @staticmethod
    def of(text: str, start: int, end: int) -> Position:
        """The position of `text[start:end]`."""
        line = text.count("\n", 0, start) + 1
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        stop = min(end, line_end if line_end >= 0 else len(text))
        return Position(line, start - line_start + 1, max(1, stop - start))


class PlanError(Exception):
    """A query, a schema or a plan that cannot be used as it stands.

    Attributes: `message` (one sentence), `hint` (what to do), `witness` (the part of the query that proves the point),
    `position` and `text` (where in which query). `str(error)` puts them together.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str = "",
        witness: str = "",
        position: Position | None = None,
        text: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.witness = witness
        self.position = position
        self.text = text

    def at(self, text: str, position: Position | None) -> PlanError:
        """The same error with a place, unless it has one already."""
        if self.position is not None or position is None:
            return self
        return PlanError(self.message, hint=self.hint, witness=self.witness, position=position, text=text)

    def __str__(self) -> str:
        lines = [self.message]
        if self.position is not None:
            lines[0] += f" (line {self.position.line}, column {self.position.column})"
            rows = self.text.split("\n")
            if self.position.line <= len(rows):
                lines.append("  | " + rows[self.position.line - 1])
                lines.append("  | " + " " * (self.position.column - 1) + "^" * self.position.length)
        if self.witness:
            lines.append("because: " + self.witness)
        if self.hint:
            lines.append("hint: " + self.hint)
        return "\n".join(lines)
