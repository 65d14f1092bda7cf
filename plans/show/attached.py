"""What a plan looks like where Python asks it: `str(plan)` is EXPLAIN as text, a notebook draws the tree.

The plan itself knows nothing of how it is shown, so importing `plans` attaches it here.
"""

from __future__ import annotations

from plans.plan import Plan
from plans.show import explain, picture


def _picture(plan: Plan) -> str:
    """The drawing alone, without a page around it."""
    return picture.html(plan, page=False)


setattr(Plan, "__str__", explain.text)  # noqa: B010
setattr(Plan, "_repr_html_", _picture)  # noqa: B010
