"""Errors that a user of the planner can cause, and the line of the user's code to which a warning belongs.

A `PlanError` says what is wrong, where (line, column and a caret under the text), why (the witness: a cycle, a path, a
pair of attributes) and what to do about it (the hint). No other error reaches a user: neither a traceback of a parser
nor one of Python.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Position:
    """A place in the text of a query. `line` and `column` count from 1; `length` characters are underlined."""

    line: int
    column: int
    length: int = 1

    @staticmethod
    def of(text: str, start: int, end: int) -> Position:
        """Returns the position of `text[start:end]`."""
        line = text.count("\n", 0, start) + 1
        line_start = text.rfind("\n", 0, start) + 1
        line_end = text.find("\n", start)
        stop = min(end, line_end if line_end >= 0 else len(text))
        return Position(line, start - line_start + 1, max(1, stop - start))


class CrownError(Exception):
    """Base class of every error that crown raises on purpose, in the planner, the engine, and the layers above."""


class PlanError(CrownError):
    """A query, a schema or a plan that cannot be used.

    Attributes: `message` (one sentence), `hint` (what to do), `witness` (the part of the query that proves the point),
    `position` and `text` (where in which query). `str(error)` combines them.
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
        """Returns the same error with a position, unless it has one already."""
        if self.position is not None or position is None:
            return self
        return PlanError(self.message, hint=self.hint, witness=self.witness, position=position, text=text)

    def __str__(self) -> str:
        return pointed(self.message, self.text, self.position, self.witness, self.hint)


class FunctionError(CrownError):
    """A registered function of a user fails, returns a wrong type, or is not the one with which the state was made. A
    batch that it stops is not applied."""


class FileError(CrownError):
    """A file of rows cannot be read, or its rows do not fit the table."""


class QueryWarning(UserWarning):
    """A query is planned literally, but may be meant differently."""


def pointed(message: str, text: str, position: Position | None, witness: str = "", hint: str = "") -> str:
    """Returns a message with the line of the text that it is about, a caret under the place, the reason and the
    hint."""
    lines = [message]
    if position is not None:
        lines[0] += f" (line {position.line}, column {position.column})"
        rows = text.split("\n")
        if position.line <= len(rows):
            lines += _shown(rows[position.line - 1], position.column - 1, position.length)
    if witness:
        lines.append("because: " + witness)
    if hint:
        lines.append("hint: " + hint)
    return "\n".join(lines)


_LONG = 200


def _shown(row: str, start: int, length: int) -> list[str]:
    """Returns the line with carets under the place. A long line is cut to the part around it."""
    if len(row) > _LONG:
        first = max(0, start - _LONG // 4)
        row, start = "…" * (first > 0) + row[first : first + _LONG], start - first + (first > 0)
        length = min(length, len(row) - start)
    return ["  | " + row, "  | " + " " * start + "^" * length]


_HERE = Path(__file__).parent
_OURS = tuple(str(_HERE.with_name(name)) + os.sep for name in ("plans", "crown", "ivm_triangle", "spark_jobs", "bench"))


def levels_to_caller() -> int:
    """Returns the `stacklevel` with which a warning of the calling function points at the user's line: the first line
    that is in none of these packages."""
    frame, levels = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame, levels = frame.f_back, levels + 1
    return levels
