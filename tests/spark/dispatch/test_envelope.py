"""What travels from the sources to the cells: columns in shared slots, only those that the query reads, and masks."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

import plans
from plans.programs.reads import occurrences
from spark_jobs.dispatch.envelope import MASK, cell_program, envelope_of
from spark_jobs.errors import SparkJobError


@pytest.mark.parametrize("cells", [1, 2])
def test_slots_are_shared_by_relations_and_types_keep_apart(cells):
    schema = {"p": {"x": "int64", "n": "string"}, "q": {"n": "string", "y": "int64", "z": "int64"}}
    plan = plans.program("Q(x,n,y) :- p(x,n), q(n,y,z), z > 3.", schema)
    envelope = envelope_of(plan, cells=cells, quarantine=False)
    assert sorted(envelope.slots) == ["int64", "int64", "string"]
    assert len(set(envelope.placed[0].values())) == 2


def test_the_plan_of_a_cell_is_the_query_s_however_many_cells_there_are():
    schema = {"g": {"a": "int64", "b": "int64"}}
    plan = plans.program("Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d), g(d,a), g(a,c).", schema)
    one, four = (cell_program(plan, envelope_of(plan, cells=cells, quarantine=False)) for cells in (1, 4))
    assert one.fingerprint == plan.fingerprint
    assert four.stages[0].plan.fingerprint == plan.stages[0].plan.fingerprint
    assert four.stages[0].masks == four.tables[0].columns[-1].name == MASK
    assert [table.name for table in four.tables] == ["g"]


def test_a_row_is_given_to_its_relation_once_with_its_mask():
    schema = {"g": {"a": "int64", "_Mask": "int64"}, "h": {"b": "int64"}}
    plan = plans.program("Q(a,b,c,d) :- g(a,b), g(b,c), g(c,d), h(d).", schema)
    envelope = envelope_of(plan, cells=2, quarantine=False)
    sent = pa.record_batch(
        {
            "_cell": pa.array([0, 0, 0], pa.int32()),
            "_tag": pa.array([0, envelope.relations.index("h"), 0], pa.int32()),
            "_mask": [5, 8, 7],
            "_weight": [1, -1, 2],
            "s0": [10, 11, 12],
            "s1": [20, None, 22],
        }
    )
    changes, bad = envelope.split([sent, sent.slice(2)])
    assert (list(changes), bad) == (["g", "h"], [])
    assert changes["g"].drop_columns([MASK + "_"]).to_pydict() == {
        "a": [10, 12, 12],
        "_Mask": [20, 22, 22],
        "_weight": [1, 2, 2],
    }
    assert envelope.masks == MASK + "_"
    for name, masks in {"g": [5, 7, 7], "h": [8]}.items():
        assert changes[name].column(envelope.masks).to_pylist() == masks


def test_a_batch_of_one_relation_is_taken_apart_without_a_copy():
    plan = plans.program(
        "Q(a,b,c) :- g(a,b), h(b,c).", {"g": {"a": "int64", "b": "int64"}, "h": {"b": "int64", "c": "int64"}}
    )
    envelope = envelope_of(plan, cells=1, quarantine=False)

    def sent(*tags):
        n = len(tags)
        words = {"_cell": pa.array([0] * n, pa.int32()), "_tag": pa.array(tags, pa.int32()), "_weight": [1] * n}
        return pa.record_batch(words | {"s0": [*range(n)], "s1": [*range(n, 2 * n)]})

    batches = [sent(1, 1, 1), sent(0, 1, 0), sent(), sent(0)]
    changes, _ = envelope.split(batches)
    of = {name: changes[name].column("b") for name in ("g", "h")}
    addresses = {chunk.buffers()[1].address for column in of.values() for chunk in column.chunks}
    whole = [column.buffers()[1].address for batch in (batches[0], batches[3]) for column in batch.columns[-2:]]
    assert sum(address in addresses for address in whole) == 2
    assert [len(changes[name]) for name in ("g", "h")] == [3, 4]


def test_a_query_with_more_relations_than_a_mask_has_bits_runs_in_one_cell():
    plan = plans.program("Q(a,b) :- g(a,b).", {"g": {"a": "int64", "b": "int64"}})
    join = plan.stages[0]
    nodes = dataclasses.replace(join.plan, nodes=join.plan.nodes * 63)
    wide = dataclasses.replace(plan, stages=(dataclasses.replace(join, plan=nodes),))
    assert len(occurrences(wide)) == 63
    assert not envelope_of(wide, cells=1, quarantine=False).masked
    with pytest.raises(
        SparkJobError, match=r"63 relations runs in one cell, because at most 62 relations can be cut: give cells=1"
    ):
        envelope_of(wide, cells=2, quarantine=False)


def test_columns_that_no_atom_reads_do_not_travel():
    schema = {"p": {"x": "int64", "unused": "string", "y": "int64"}}
    plan = plans.program("SELECT DISTINCT x FROM p WHERE y > 1", schema)
    envelope = envelope_of(plan, cells=1, quarantine=False)
    assert set(envelope.placed[0]) == {"x", "y"}
    assert [column.name for column in cell_program(plan, envelope).tables[0].columns] == ["x", "y"]
