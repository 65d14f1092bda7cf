"""Attaches representations to plans: `str(plan)` is EXPLAIN, and a notebook draws the tree.

The classes of plans do not import their representations, so importing `plans` attaches them here.
"""

from __future__ import annotations

from plans.plan import Plan
from plans.program import Program
from plans.show import explain, programs


def _picture(made: Plan | Program) -> str:
    """Returns the drawing without a page around it."""
    from plans.show.picture.page import html  # imported here, because few programs draw

    return html(made, page=False)


setattr(Plan, "__str__", explain.text)  # noqa: B010
setattr(Plan, "_repr_html_", _picture)  # noqa: B010
setattr(Program, "__str__", programs.text)  # noqa: B010
setattr(Program, "_repr_html_", _picture)  # noqa: B010
