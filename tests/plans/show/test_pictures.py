"""The pages of programs: one file each, every stage a card with its arrows, every mark explained."""

from __future__ import annotations

import argparse
import json
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import crown
from plans import PlanError, Program, program
from plans.commands import explain as command
from plans.programs.reads import sources
from plans.programs.stages import JoinStage
from plans.programs.wiring import wiring
from plans.show import explain, upkeep
from plans.show.forms import FORMS, mermaid
from plans.show.picture import flow
from plans.show.picture.page import html
from plans.show.programs import text
from plans.time.windows import last_rows
from tests.marks import every
from tests.plans import tpch
from tests.plans.lowering.program_queries import QUERIES, planned
from tests.plans.search.test_classes import CYCLE
from tests.plans.search.test_touches import LOOSE
from tests.plans.search.test_touches import QUERIES as COUNTED

VOID = {"meta", "br"}
SCHEMA = ["--schema", "r(a bigint, b bigint)", "--schema", "t(k bigint, v bigint)"]
OUTER = "SELECT r.a, COUNT(t.v) AS n FROM r LEFT JOIN t ON r.b = t.k GROUP BY r.a"


class Balance(HTMLParser):
    """Whether every element is closed in order; the text of the page, and its ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.said: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {str(given["id"])} if "id" in given else set()
        self.links |= {str(given["href"])} if "href" in given else set()
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.said.append(data)


def read(page: str) -> Balance:
    found = Balance()
    found.feed(page)
    assert found.open == []
    return found


@cache
def page_of(query: str) -> str:
    """The page of one of the queries."""
    return html(planned(query))


@every(QUERIES)
def test_every_program_has_a_page_with_its_verdict(query: str) -> None:
    made = planned(query)
    page = page_of(query)
    found = read(page)
    assert upkeep.verdict(made) in found.said
    assert page.replace("http://www.w3.org/2000/svg", "").count("http") == 0
    assert "<script" not in page
    assert "prefers-color-scheme:dark" in page
    assert made._repr_html_() in page
    if made.plan is None:
        assert found.ids == {f"stage-{i}" for i in range(len(made.stages))}
    assert {link[1:] for link in found.links} <= found.ids
    assert page.count('class="crown tree"') == sum(isinstance(stage, JoinStage) for stage in made.stages)


@every(QUERIES)
def test_no_card_is_without_an_arrow(query: str) -> None:
    made = planned(query)
    drawn = ElementTree.fromstring(flow.svg(made))
    space = "{http://www.w3.org/2000/svg}"
    arrows = sum(part.tag == f"{space}path" for part in drawn)
    assert arrows == sum(len(sources(stage)) for stage in made.stages)
    cards = [part for part in drawn if part.tag == f"{space}g"]
    assert len(cards) == len(made.tables) + len(made.stages)
    assert sum("result" in str(card.get("class")) for card in cards) == 1


def test_cards_of_a_layer_do_not_overlap() -> None:
    for query in QUERIES:
        rows: dict[str, list[tuple[float, float]]] = {}
        for rect in ElementTree.fromstring(flow.svg(planned(query))).iter("{http://www.w3.org/2000/svg}rect"):
            left = float(str(rect.get("x")))
            rows.setdefault(str(rect.get("y")), []).append((left, left + float(str(rect.get("width")))))
        for spans in rows.values():
            ordered = sorted(spans)
            assert all(a[1] <= b[0] for a, b in pairwise(ordered))


@every(COUNTED)
def test_the_legend_explains_the_marks_that_are_there(query: str) -> None:
    page = html(program(COUNTED[query], LOOSE))
    body, _, legend = page.partition("What the marks mean")
    body = body[body.index("<pre") :]
    for mark, drawn in (("fan ?", "fan ?"), ("> quiet", "edge bound quiet"), ("class='virtual'", "node virtual")):
        assert (mark in legend) == (drawn in body), mark
    assert "PVLDB 16(5), 2023" in legend


def test_no_word_in_the_margin_is_wider_than_it() -> None:
    pages = [html(program(tpch.QUERIES[number], tpch.TABLES)) for number in (1, 13, 16, 18)]
    for page in (*pages, *map(page_of, QUERIES)):
        words = re.findall(r"<dt>(\w+)</dt>", page.partition("What the marks mean")[0])
        assert "cost" in words or "class" in words
        assert all(len(word) <= 8 for word in words), words


def test_the_chosen_tree_is_marked() -> None:
    made = program(COUNTED["fork"], LOOSE)
    stage = made.stages[0]
    assert isinstance(stage, JoinStage)
    assert explain.tree_line(stage.plan) == stage.plan.candidates[0].tree
    marked = re.findall(r"<tr class=chosen><td>✓ (.*?)</td>", html(made))
    assert marked == [stage.plan.candidates[0].tree]


def test_mermaid_shows_bags_and_declared_keys() -> None:
    drawn = mermaid(program(f"SELECT DISTINCT l_linenumber, n_name {CYCLE}", tpch.TABLES))
    assert "generic bag, width 2" in drawn
    assert "supplier(l_suppkey, c_nationkey) key (l_suppkey)" in drawn
    assert "key (l_orderkey, l_linenumber)" in drawn
    assert drawn.count("subgraph") == drawn.count("\n  end")


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args([OUTER, *SCHEMA, *options]))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.html", "<!DOCTYPE html>"), ("x.HTM", "<!DOCTYPE html>"), ("x.json", "{"), ("x.mmd", "flowchart TD"),
        ("x.svg", "<svg"), ("x.txt", "query "), ("x", "query "),
    ],
)  # fmt: skip
def test_the_suffix_says_the_form(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, start: str) -> None:
    run(capsys, "--output", str(tmp_path / name))
    assert (tmp_path / name).read_text().startswith(start)


def test_the_format_goes_before_the_suffix(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run(capsys, "-o", str(tmp_path / "x.html"), "--format", "json")
    shown = json.loads((tmp_path / "x.html").read_text())
    assert shown["explained"]["verdict"].startswith("incremental: ")
    assert len(Program.from_json(shown).stages) == 4


def test_an_unknown_suffix_and_cells_of_a_picture_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match=r"the suffix \.pdf is not supported"):
        run(capsys, "-o", str(tmp_path / "x.pdf"))
    with pytest.raises(PlanError, match="--cells applies to the format text, not to html"):
        run(capsys, "--format", "html", "--cells", "4")


def test_a_bag_says_how_many_rows_it_holds_by_declared_keys() -> None:
    golden = (Path(__file__).parents[1] / "golden" / "tpch_q5.txt").read_text()
    assert "width 2, O(N) rows by keys" in golden
    schema = {name: {"columns": {"a": "int64", "b": "int64"}, "key": ["a"]} for name in ("r", "s", "t", "u")}
    cycle = "Q(a, b, c, d) :- r(a, b), s(b, c), t(c, d), u(d, a)."
    keyed, free = program(cycle, schema), program(cycle, {name: schema[name]["columns"] for name in schema})
    for form, show in FORMS.items():
        if form != "json":
            assert "rows by keys" in show(keyed, wiring(keyed)), form
            assert "rows by keys" not in show(free, wiring(free)), form


def test_a_predicate_is_over_the_names_that_its_relation_shows() -> None:
    made = program("Q(a, b, c, d) :- g(a, b), g(b, c), g(c, d), d > 10.", {"g": {"a": "int64", "b": "int64"}})
    for form, show in FORMS.items():
        if form != "json":
            said = show(made, wiring(made)).replace("#gt;", ">").replace("&gt;", ">")
            assert "where d > 10" in said, form
            assert "where b > 10" not in said, form


def test_a_hidden_column_whose_name_another_column_has_is_told_with_its_relation() -> None:
    made = program("Q(x, a) :- r(x, a, 5), r(a, x, b).", {"r": {"b": "int64", "c": "int64", "a": "int64"}})
    assert "where r.a = 5" in text(made)


@pytest.mark.parametrize("number", [2, 5, 13, 21])
def test_the_legend_has_every_kind_class_and_objective_of_the_page(number: int) -> None:
    made = program(tpch.QUERIES[number], tpch.TABLES)
    body, _, legend = html(made).partition("What the marks mean")
    said = set(re.findall(r"<dt>(.*?)</dt>", legend))
    assert said >= set(re.findall(r"<h2>stage \d+: ([^<,]+)", body))
    badges = re.findall(r"<span class='badge \w+'>(.*?)</span>", body)
    assert said >= {part for badge in badges for part in badge.split(", ")}
    assert {mark for mark in said if "Σ" in mark} == set(re.findall("Σ touches|Σ depth·rate", body))


@pytest.mark.parametrize("number", [3, 5, 9])
def test_a_narrow_page_begins_at_the_root_of_a_wide_tree(number: int) -> None:
    page = html(program(tpch.QUERIES[number], tpch.TABLES))
    assert ".root{position:absolute;top:0;height:1px;scroll-initial-target:nearest}" in page
    found = re.findall(
        r'class="crown tree".*? width="(\d+)".*?<rect x="([\d.]+)".*?</svg>'
        r"<div class='root' style='left:(\d+)px;width:(\d+)px'></div>",
        page, re.DOTALL,
    )  # fmt: skip
    assert found
    for width, _, left, span in found:
        assert int(left) + int(span) <= int(width), "it makes no page wider"
    roots = re.findall(r'<g class="node [^"]*"><rect x="([\d.]+)" y="2.0" width="([\d.]+)"', page)
    for (_, _, left, span), (at, wide) in zip(found, roots, strict=True):
        assert int(left) <= float(at) + float(wide) / 2 <= int(left) + int(span)


def test_a_page_and_a_chart_tell_windows_and_upserts() -> None:
    table = {"columns": {"k": "int64", "v": "int64", "n": "int64"}, "key": ["k"], "upserts": True, "sequence": "n"}
    made = program("SELECT v, COUNT(*) AS n FROM t GROUP BY v", {"t": table})
    assert "by key (k), by sequence n" in html(made)
    assert "upserts by key (k)" in mermaid(made)
    table = {"columns": {"k": "int64", "v": "int64"}, "key": ["k"], "enforced": True}
    made = program("SELECT v, COUNT(*) AS n FROM t GROUP BY v", {"t": table})
    assert "t: key (k); two look-ups per change" in html(made)
    assert "key (k), enforced" in mermaid(made)
    rows = {"t": {"columns": {"k": "int64", "v": "int64"}}}
    made = program("SELECT v, COUNT(*) AS n FROM t GROUP BY v", rows, windows={"t": last_rows(10)})
    assert "t: the last 10 rows" in html(made)
    assert "window: the last 10 rows" in mermaid(made)


def test_the_page_of_a_database_names_its_views_and_leaves_out_what_was_dropped() -> None:
    base = crown.database({"t": {"k": "int64", "v": "int64"}})
    base.view("sums", "SELECT k, SUM(v) AS s FROM t GROUP BY k")
    base.view("gone", "SELECT v, COUNT(*) AS n FROM t GROUP BY v")
    base.drop("gone")
    for form in ("html", "svg", "mermaid", "text"):
        said = FORMS[form](base.program, wiring(base.program))
        assert "gone" not in said, form
        assert form == "svg" or "the view sums" in said, form
    assert "sums: SELECT k" in html(base.program)


_CHAIN = {"a": {"x": "int64", "y": "int64"}, "b": {"y": "int64", "z": "int64"}, "c": {"z": "int64", "w": "int64"}}
_KEYED = {**_CHAIN, "b": {"columns": _CHAIN["b"], "key": ["y"]}, "c": {"columns": _CHAIN["c"], "key": ["z"]}}
_ADVICE = [
    ("SELECT x FROM a WHERE y > 1", _CHAIN, "good", "A changed row costs the same, however large", ""),
    (
        "SELECT DISTINCT x, a.y, b.z, w FROM a, b, c WHERE a.y = b.y AND b.z = c.z",
        _CHAIN,
        "fair",
        "inserted",
        "Nothing needs",
    ),
    (
        "SELECT x FROM a, b, c WHERE a.y = b.y AND b.z = c.z",
        _CHAIN,
        "poor",
        "along c -&gt; b -&gt; a",
        "schema of a or b or c",
    ),
    ("SELECT x FROM a, b, c WHERE a.y = b.y AND b.z = c.z", _KEYED, "good fair", "", ""),
    ("Q(x, y, z) :- a(x, y), b(y, z), c(z, x).", _CHAIN, "poor", "The query is cyclic", "No declaration"),
]


@pytest.mark.parametrize(("query", "schema", "colour", "meaning", "remedy"), _ADVICE)
def test_the_page_says_what_the_verdict_means_and_what_to_declare(
    query: str, schema: dict[str, object], colour: str, meaning: str, remedy: str
) -> None:
    page = html(program(query, schema))
    found = re.search(r"<h1>How this query .*?</h1>.*<div class='verdict (\w+)'>(.*?)</div>", page, re.DOTALL)
    assert found is not None
    assert found[1] in colour.split()
    assert meaning in found[2]
    assert remedy in found[2]
