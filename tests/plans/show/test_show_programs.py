"""EXPLAIN of programs: as text in order of stages, as JSON that reads back, as a mermaid diagram of what reads what."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from plans import PlanError, Program, program
from plans.commands import explain as command
from plans.programs.reads import sources
from plans.show import explain, programs
from plans.show.forms import mermaid
from tests.marks import every
from tests.plans.lowering.program_queries import QUERIES, TABLES, planned

OUTER = "SELECT r.a, COUNT(t.v) AS n FROM r LEFT JOIN t ON r.b = t.k GROUP BY r.a"
SCHEMA = ["--schema", "r(a bigint, b bigint)", "--schema", "t(k bigint, v bigint)"]


@every(QUERIES)
def test_every_program_is_shown(query: str) -> None:
    made = planned(query)
    text = programs.text(made)
    assert str(made) == text
    if made.plan is not None:
        assert text == explain.text(made.plan)
        return
    heads = [line for line in text.splitlines() if line.startswith("stage ")]
    assert len(heads) == len(made.stages)
    assert heads[-1].endswith(", the result")
    assert sum(line.startswith("  cost ") for line in text.splitlines()) == len(made.stages)


def test_stages_read_only_what_comes_before_them() -> None:
    for query in QUERIES:
        made = planned(query)
        names = {table.name for table in made.tables}
        for number, stage in enumerate(made.stages):
            for source in sources(stage):
                assert source in names if isinstance(source, str) else source < number
        read = {source for stage in made.stages for source in sources(stage)}
        assert read == names | set(range(len(made.stages) - 1)), "every table and every stage is read"


def test_the_diagram_has_an_arrow_per_input() -> None:
    drawn = mermaid(program(OUTER, TABLES))
    assert [line.strip() for line in drawn.splitlines() if "-->" in line] == [
        "t0 --> s0", "t1 --> s0", "t1 --> s1", "s0 --> s1", "t0 --> s2", "s1 --> s2", "s2 --> s3",
    ]  # fmt: skip


def run(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Returns what `crown explain` prints."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    command.run(parser.parse_args([OUTER, *SCHEMA, *options]))
    return capsys.readouterr().out


def test_the_command_explains_a_program(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "stage 3   group, the result" in run(capsys)
    assert len(Program.from_json(run(capsys, "--format", "json")).stages) == 4
    assert run(capsys, "--format", "mermaid").startswith("flowchart TD")
    run(capsys, "--output", str(tmp_path / "explained"))
    assert (tmp_path / "explained").read_text() == run(capsys)


CUT = {
    "SELECT a, SUM(b) AS s FROM r GROUP BY a": "any number, by r (a)",
    "SELECT SUM(a) AS s FROM r": "any number, by r (a); their groups are merged in one cell, by a second operator",
    "SELECT x.a + y.b AS c, COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a GROUP BY x.a + y.b": (
        "any number, up to stage 0 by r (b), r (a); their groups are merged in cells, by c, by a second operator"
    ),
    "SELECT x.a, COUNT(*) AS n FROM r x JOIN r y ON x.b = y.a GROUP BY x.a": (
        "any number, by r (a); every cell has all of r"
    ),
    "SELECT COUNT(DISTINCT y.b) AS n FROM r x JOIN r y ON x.b = y.a": (
        "any number, up to stage 0 by r (b); every cell has all of r; their groups are merged in one cell, by a second "
        "operator"
    ),
    "SELECT x.a + y.b AS c FROM r x JOIN r y ON x.b = y.a": "one: no column of the result is a plain column",
    "SELECT a, SUM(x) AS s FROM u GROUP BY a": "any number, by u (a)",
    "SELECT SUM(x) AS s FROM u": "any number, by u (x); their groups are merged in one cell, by a second operator",
    "SELECT COUNT(DISTINCT x) AS n FROM u": (
        "any number, by u (x), which only add up rows; all stages run in one cell, by a second operator"
    ),
    "WITH RECURSIVE t(b) AS (SELECT a FROM r UNION SELECT r.b FROM r JOIN t ON r.a = t.b) SELECT b FROM t": (
        "any number, by r (a), which only add up rows; all stages run in one cell, by a second operator"
    ),
}


@every(CUT)
def test_how_a_program_is_cut_is_said(query: str) -> None:
    made = planned(query)
    said = " ".join(programs.text(made).split())
    assert f"cells {CUT[query]}" in said
    rounds = json.loads(programs.to_json(made))["cells"]["rounds"]
    assert len(rounds) == (0 if CUT[query].startswith("one") else 2 if "second operator" in CUT[query] else 1)
    if rounds:
        assert f"cells {CUT[query].replace('any number', '4')}" in " ".join(programs.text(made, cells=4).split())
    else:
        with pytest.raises(PlanError, match="cannot be cut into 4 cells"):
            programs.text(made, cells=4)
    with pytest.raises(PlanError, match="cells=0 is not a number of cells"):
        programs.text(made, cells=0)
