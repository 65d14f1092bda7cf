"""The examples in docstrings of public names run, and show what really comes out."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MODULES = (
    "crown",
    "crown.changes",
    "crown.changing",
    "crown.databases",
    "crown.functions",
    "crown.durable.database",
    "crown.durable.opening",
    "crown.durable.view",
    "crown.graph",
    "crown.graph.motifs",
    "crown.ml.linear",
    "crown.results.factorized",
    "crown.results.subscribers",
    "crown.opening",
    "crown.planning",
    "crown.reading",
    "crown.ml.monomials",
    "crown.spark",
    "crown.views",
    "ivm_triangle.triangle",
    "plans.frontends.motif",
    "plans.frontends.motif.find",
    "plans.frontends.sql.text.statements",
    "plans.lowering.groups.copies",
    "plans.lowering.groups.narrowing",
    "plans.lowering.groups.numbers",
    "plans.lowering.ranks",
    "plans.lowering.ties",
    "plans.lowering.comparisons.slices",
    "plans.planner",
    "plans.queries.single",
    "plans.time.windows",
    "tests.models.rings.laws",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert not results.failed


def test_every_module_with_examples_is_on_the_list() -> None:
    files = [
        file
        for package in ("plans", "crown", "ivm_triangle", "tests/models")
        for file in (ROOT / package).rglob("*.py")
    ]
    shown = {file for file in files if re.search(r"^\s*>>> ", file.read_text(), re.MULTILINE)}
    listed = {Path(str(importlib.import_module(name).__file__)) for name in MODULES}
    assert shown == listed
