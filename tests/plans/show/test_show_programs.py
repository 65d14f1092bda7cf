"""EXPLAIN of programs: as text in order of stages, as JSON that reads back, as a mermaid diagram of what reads what."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from plans import PlanError, Program, program
from plans.commands import explain as command
from plans.show import explain, programs
from tests.plans.program_queries import QUERIES, TABLES

OUTER = "SELECT r.a, COUNT(t.v) AS n FROM r LEFT JOIN t ON r.b = t.k GROUP BY r.a"
SCHEMA = ["--schema", "r(a bigint, b bigint)", "--schema", "t(k bigint, v bigint)"]


@pytest.mark.parametrize("query", QUERIES)
def test_every_program_is_shown(query: str) -> None:
    made = program(query, TABLES)
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
        made = program(query, TABLES)
        names = {table.name for table in made.tables}
        for number, stage in enumerate(made.stages):
            for source in programs.sources(stage):
                assert source in names if isinstance(source, str) else source < number
        read = {source for stage in made.stages for source in programs.sources(stage)}
        assert read == names | set(range(len(made.stages) - 1)), "every table and every stage is read"


def test_the_diagram_has_an_arrow_per_input() -> None:
    drawn = programs.mermaid(program(OUTER, TABLES))
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


@pytest.mark.parametrize("options", [("--format", "svg"), ("--cells", "4")])
def test_what_is_drawn_of_a_tree_is_refused_for_several_stages(
    capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    with pytest.raises(PlanError, match="this one has 4 stages"):
        run(capsys, *options)
