"""``python -m tests.generated`` writes every page and list that a test compares; ``git diff`` then shows what changed.

A sentence of an error stands on several pages. The results of code that needs Spark are written page by page:
``python -m tests.pages.blocks PAGE``.
"""

from __future__ import annotations

import runpy

WRITERS = (
    "tests.architecture",
    "tests.api",
    "tests.spark.operations",
    "tests.plans.limits",
    "tests.plans.expression_page",
    "tests.plans.generate",
    "tests.pages.commands",
    "tests.pages.nav",
    "tests.pages.pictures",
    "tests.pages.blocks",
)

if __name__ == "__main__":
    for writer in WRITERS:
        runpy.run_module(writer, run_name="__main__", alter_sys=True)
