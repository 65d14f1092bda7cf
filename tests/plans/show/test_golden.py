"""EXPLAIN of the catalogue, against the golden files and the generated page."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from plans import Plan
from plans.show.picture.page import html
from plans.show.picture.tree import svg
from tests.marks import every
from tests.plans.catalogue import CASES, Case
from tests.plans.generate import DOCUMENT, GOLDEN, document, golden_files


def test_every_explanation_is_the_golden_one() -> None:
    made = golden_files()
    assert {path.name for path in GOLDEN.iterdir()} == set(made)
    others = [name for name, text in made.items() if (GOLDEN / name).read_text(encoding="utf-8") != text]
    assert not others, "run python -m tests.plans.generate, read the diff"


def test_the_page_of_plans_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == document()


@every([case for case in CASES if case.published])
def test_no_tree_is_higher_than_the_published_one(case: Case) -> None:
    assert case.plan().height <= case.published


@every(CASES)
def test_a_plan_survives_json(case: Case) -> None:
    plan = case.plan()
    again = Plan.from_json(json.loads(json.dumps(plan.to_json())))
    assert again == plan
    assert again.fingerprint == plan.fingerprint


@every(CASES)
def test_the_picture_is_one_self_contained_page(case: Case) -> None:
    plan = case.plan()
    page = html(plan)
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<g class=") == len(plan.nodes)
    assert "http://www.w3.org/2000/svg" in page
    assert page.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "<script" not in page
    assert plan._repr_html_() in page


@every(CASES)
def test_the_drawing_is_well_formed_and_has_its_style(case: Case) -> None:
    drawing = ElementTree.fromstring(svg(case.plan()))
    assert drawing.tag.endswith("svg")
    assert "stroke" in str(drawing[0].text)
