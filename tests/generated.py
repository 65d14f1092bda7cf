"""``python -m tests.generated`` writes every page and list that a test compares; ``git diff`` then shows what changed.

A sentence of an error stands on several pages. Pages whose code needs Spark, and pictures, have commands of their own.
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
    "tests.pages.blocks",
)

if __name__ == "__main__":
    for writer in WRITERS:
        runpy.run_module(writer, run_name="__main__", alter_sys=True)
