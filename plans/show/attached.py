"""Representations of plans in Python: `str(plan)` is EXPLAIN, and a notebook draws the tree.

They themselves know nothing of how they are shown, so importing `plans` attaches it here.
"""

from __future__ import annotations

from plans.plan import Plan
from plans.program import Program
from plans.show import explain, programs


def _picture(made: Plan | Program) -> str:
    """Returns the drawing alone, without a page around it."""
    from plans.show.picture.page import html  # here, as few programs draw

    return html(made, page=False)


setattr(Plan, "__str__", explain.text)  # noqa: B010
setattr(Plan, "_repr_html_", _picture)  # noqa: B010
setattr(Program, "__str__", programs.text)  # noqa: B010
setattr(Program, "_repr_html_", _picture)  # noqa: B010
