"""Streams are what the paper says they are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.cases import datasets, snb, streams
from bench.cases.workloads import WORKLOADS
from tests.bench.small import deletes_find_their_rows, small

EDGES = pa.table({"src": [1, 2, 3, 4, 5, 6], "dst": [2, 3, 4, 5, 6, 1]})


def net(stream: streams.Stream) -> np.ndarray:
    out = np.zeros(sum(t.num_rows for t in stream.tables.values()), np.int64)
    starts = np.cumsum([0, *(t.num_rows for t in stream.tables.values())])
    np.add.at(out, starts[stream.relation] + stream.row, stream.weight)
    return out


@pytest.mark.parametrize("workload", [name for name, w in WORKLOADS.items() if w.kind not in ("tpch", "tpcds", "job")])
def test_no_row_is_inserted_twice_or_deleted_while_absent(workload: str) -> None:
    deletes_find_their_rows(small(workload).stream)


def test_a_window_deletes_before_it_inserts_and_ends_empty() -> None:
    stream = streams.windowed("", "G", EDGES, 2)
    assert stream.weight.tolist() == [1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, -1]
    assert stream.most_alive() == 2
    assert not net(stream).any()
    assert stream.alive(4)["G"].to_pydict() == {"src": [2, 3], "dst": [3, 4]}


def test_a_window_that_goes_over_the_rows_again_begins_empty_each_time() -> None:
    once = streams.windowed("", "G", EDGES, 2)
    stream = once.again(3)
    assert len(stream) == 3 * len(once)
    assert stream.most_alive() == 2
    assert stream.batch(24, 36)["G"].equals(once.batch(0, 12)["G"])
    assert not any(net(stream.head(end)).any() for end in (12, 24, 36))


def test_batches_of_any_size_hold_the_same_updates() -> None:
    stream = streams.windowed("", "G", EDGES, 2)
    whole = stream.batch(0, 12)["G"]
    assert pa.concat_tables([batch["G"] for batch in stream.batches(5)]).equals(whole)
    assert sum(batch["G"].num_rows for batch in stream.batches(5, start=4)) == 8


def test_the_lambda_stream_runs_twenty_operations_on_each_side_per_step() -> None:
    stream = streams.enclosureness("", EDGES, 0.5)
    for relation in (0, 2):
        assert (stream.relation == relation).sum() == 20 * 6
    middle = stream.weight[stream.relation == 1]
    assert middle.tolist() == [1, 1, 1, -1, 1, -1, 1, -1, 1]


def test_edge_lists_are_read_as_published(tmp_path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("# comment\n# another\n0\t4\n0\t5\n0\t4\n7\t1\n")
    graph = datasets.graph(str(path))
    assert graph.edges.to_pydict() == {"src": [0, 0, 7], "dst": [4, 5, 1]}
    assert datasets.graph(str(tmp_path)).edges.num_rows == 3
    with pytest.raises(datasets.DataError, match="no such file"):
        datasets.graph(str(tmp_path / "absent.txt"))
    path.write_text("a\tb\n")
    with pytest.raises(datasets.DataError, match="not an edge list"):
        datasets.graph(str(path))


def test_the_same_seed_gives_the_same_social_network() -> None:
    one, two = snb.stream(None, 30), snb.stream(None, 30)
    assert all(one.tables[name].equals(two.tables[name]) for name in one.tables)
    assert np.array_equal(one.row, two.row)
