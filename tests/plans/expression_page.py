"""docs/expressions.md: `python -m tests.plans.expression_page` writes its table and the errors of what it refuses."""

from __future__ import annotations

import re

from tests.plans import limits
from tests.plans.expressions.expression_cases import GROUPS

PAGE = limits.PAGE.with_name("expressions.md")
_TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    """The list of expressions, as Markdown."""
    lines = ["| expression | types | NULL for | |", "|---|---|---|---|"]
    for group in GROUPS:
        lines.append(f"| {group.construct.replace('|', chr(92) + '|')} | {group.types} | {group.null} | {group.note} |")
    return "\n".join(lines) + "\n"


def filled(page: str) -> str:
    """The page with its table and the errors as they are."""
    return limits.filled(_TABLE.sub(lambda found: found[1] + table() + found[2], page))


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
