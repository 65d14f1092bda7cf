"""The wires of a program: which columns and rows of a relation are taken, what is known of them, what may repeat."""

from __future__ import annotations

import plans
from plans.programs import named
from plans.programs.reads import sources
from plans.programs.wiring import Wire, wiring

TABLES = {"r": {"a": "int64", "b": "int64", "x": "int64"}, "s": {"b": "int64", "c": "int64", "y": "string"}}
GROUPED = "SELECT r.a, SUM(s.c) AS t FROM r JOIN s ON r.b = s.b WHERE r.a > 1 GROUP BY r.a"


def names(wire: Wire) -> list[str]:
    return [column.name for column in wire.columns]


def test_only_columns_and_rows_that_are_read_are_taken() -> None:
    wires = wiring(plans.program(GROUPED, TABLES))
    assert (names(wires["r"]), names(wires["s"])) == (["a", "b"], ["b", "c"])
    (asked,) = wires["r"].conditions
    assert [str(part) for part in asked] == ["a > 1"]
    assert wires["r"].known == asked, "what is taken is known to meet it, so nobody looks again"
    assert not wires["s"].conditions


def test_every_row_and_column_is_taken_where_all_deletes_are_looked_at() -> None:
    for options in ({"on_missing": "raise"}, {"whole": True}):
        wires = wiring(plans.program(GROUPED, TABLES), **options)
        assert (names(wires["r"]), names(wires["s"])) == (["a", "b", "x"], ["b", "c", "y"])
        assert not wires["r"].conditions
        assert not wires["r"].known


def test_rows_repeat_where_their_only_reader_nets_them_and_deletes_are_trusted() -> None:
    program = plans.program(GROUPED, TABLES)
    assert not any(wiring(program)[name].may_repeat for name in ("r", "s"))
    assert all(wiring(program, "trust")[name].may_repeat for name in ("r", "s"))
    assert not any(wiring(program, "trust", cells=True)[name].may_repeat for name in ("r", "s"))
    (join,) = (number for number, stage in enumerate(program.stages) if type(stage).__name__ == "JoinStage")
    assert wiring(program)[join].may_repeat, "the group adds its rows up"


def test_rows_of_a_result_are_net_though_its_only_reader_would_net_them() -> None:
    joined = named.added(named.empty(TABLES), "joined", "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b")
    both = named.added(joined, "sums", "SELECT a, SUM(c) AS t FROM joined GROUP BY a")
    number = named.result_of(both, "joined").stage
    assert any(number in sources(stage) for stage in both.stages)
    assert not wiring(both)[number].may_repeat


def test_a_relation_is_read_again_where_the_last_stage_keeps_nothing() -> None:
    wires = wiring(plans.program("SELECT a FROM r UNION ALL SELECT c AS a FROM s", TABLES), "trust")
    assert wires["r"].read_again
    assert wires["s"].read_again
    assert not wiring(plans.program(GROUPED, TABLES))["r"].read_again
