"""docs/expressions.md: `python -m tests.plans.expression_page` writes its table and the errors of what it refuses."""

from __future__ import annotations

import re

from plans.expressions.functions.function import Function, Macro
from plans.expressions.names import FAMILIES
from tests.plans import limits
from tests.plans.expressions.expression_cases import GROUPS

PAGE = limits.PAGE.with_name("expressions.md")
_TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.DOTALL)

_OF = re.compile(r"(?:(?P<of>\w+)'s (?P<name>\w+)|(?P<called>\w+) of (?P<systems>[^:]+)): (?P<note>.*)")
"""A note of what a dialect means by a name."""


def table() -> str:
    """The list of expressions, as Markdown: what has a form of its own, and the functions by family."""
    lines = ["| expression | types | NULL for | |", "|---|---|---|---|"]
    for group in GROUPS:
        if group.construct:
            lines.append(f"| {_cell(group.construct)} | {group.types} | {group.null} | {group.note} |")
    for title, entries in FAMILIES.items():
        lines += ["", f"### {title}", "", "| function | also | result | NULL for | |", "|---|---|---|---|---|"]
        shown = [entry for entry in entries if not entry.internal]
        lines += [_line(entry) for entry in shown if isinstance(entry, Macro) or not entry.hidden]
    lines += ["", "### The same names, other meanings", "", "| function | of | |", "|---|---|---|"]
    internal = [entry for entries in FAMILIES.values() for entry in entries if entry.internal]
    for found in filter(None, (_OF.match(entry.note) for entry in internal)):
        name, of = found["name"] or found["called"], found["of"] or found["systems"]
        lines.append(f"| `{name}` | {of} | {_cell(found['note'])} |")
    return "\n".join(lines) + "\n"


def _line(entry: Function | Macro) -> str:
    also = " ".join(f"`{name.upper()}`" for name in entry.also)
    return f"| `{_cell(entry.shown())}` | {also} | {entry.result} | {entry.null} | {_cell(entry.note)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def filled(page: str) -> str:
    """The page with its table and the errors as they are."""
    return limits.filled(_TABLE.sub(lambda found: found[1] + table() + found[2], page))


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
