"""How many cells are worth having, by what each of them gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

import plans
from plans.plan import passed
from plans.programs.stages import Feed, LinearStage, PointwiseStage
from plans.search.cells.count import portion, worthwhile
from plans.search.cells.cuts import by_output
from plans.show import programs
from tests.marks import every

SCHEMA = {"g": {"src": "int64", "dst": "int64"}, "r": {"a": "int64", "b": "int64"}, "s": {"b": "int64", "c": "int64"}}
STAR = "SELECT DISTINCT x.src a, x.dst b, y.dst c FROM g x, g y WHERE x.src = y.src"
HOPS = "SELECT DISTINCT x.src a, y.src b, z.src c, z.dst d FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src"
ENDS = "SELECT DISTINCT r.a FROM r, s WHERE r.b = s.b"
GROUPS = "SELECT r.a, COUNT(*) n FROM r, s WHERE r.b = s.b GROUP BY r.a"
TOTAL = "SELECT COUNT(*) n FROM r, s WHERE r.b = s.b"


def of(sql):
    return plans.program(sql, SCHEMA)


@every(
    [
        (STAR, 1, 1),
        (STAR, 2, 1 / 2),
        (STAR, 4, 1 / 4),
        (HOPS, 2, 2 / 3),
        (HOPS, 4, 5 / 12),
        (ENDS, 2, 3 / 4),
        (TOTAL, 2, 1),
    ]
)
def test_a_cell_gets_what_the_cut_sends_it(sql, cells, part):
    assert portion(of(sql), cells) == pytest.approx(part)


@pytest.mark.parametrize("sql", [ENDS, GROUPS])
def test_cells_that_get_almost_all_rows_are_not_worth_having(sql):
    """S has no column of the result: every cell has all of it."""
    assert worthwhile(of(sql), 4) == 3  # the fourth takes 6% off what each gets
    assert worthwhile(of(sql), 4, {"r": 100, "s": 1}) == 4
    assert worthwhile(of(sql), 4, {"r": 1, "S": 100}) == 1
    assert worthwhile(of(sql), 1) == 1
    assert portion(of(sql), 4, {"r": 100, "s": 0}) == pytest.approx(1 / 4)


def test_what_cannot_be_cut_in_one_round_has_one_cell():
    assert worthwhile(of(TOTAL), 4) == 1


@pytest.mark.parametrize(("sql", "part"), [(HOPS, "67%"), (GROUPS, "75%")])
def test_explain_says_how_much_a_cell_gets(sql, part):
    said = " ".join(programs.text(plans.program(sql, SCHEMA), cells=2).split())
    assert f"; a cell gets {part} of the rows" in said


@pytest.mark.parametrize("relation", ["r", "g"])
def test_a_stage_that_nothing_reads_changes_no_cut(relation):
    """A program that comes from JSON may have one, of a relation that the others read, or of another one."""
    made = of("SELECT r.a, COUNT(*) n FROM r GROUP BY r.a")
    (group,) = made.stages
    (table,) = plans.program(f"SELECT * FROM {relation}", SCHEMA).tables
    spare = PointwiseStage((Feed(relation, passed(table.columns)),), ("distinct", 0))
    more = replace(made, tables=tuple(dict.fromkeys([*made.tables, table])), stages=(spare, group))
    mine, theirs = by_output(more), by_output(made)
    assert (mine.name, mine.roles) == (theirs.name, theirs.roles)
    assert mine.program.stages == (LinearStage(()), group)
    assert mine.program.tables == theirs.program.tables
    assert "any number, by r (a)" in programs.text(more)
