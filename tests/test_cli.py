"""The command line of the embedded engine, as a user meets it: output, exit codes, one sentence per mistake."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from crown.cli import main

QUERY = "Q(a,b,c) :- g(a,b), g(b,c)."
SCHEMA = ["--schema", "g(src int64, dst int64)"]


@pytest.fixture
def changes(tmp_path: Path) -> Path:
    file = tmp_path / "g.csv"
    file.write_text("src,dst,_weight\n1,2,1\n2,3,1\n2,4,1\n1,2,-1\n")
    return file


def test_run_prints_deltas_and_result(changes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--batch-rows", "3", "--output", "-", "--results", "5"]
    )
    out, err = capsys.readouterr()
    assert code == 0
    assert out.splitlines() == [
        "+ a=1, b=2, c=3",
        "+ a=1, b=2, c=4",
        "- a=1, b=2, c=3",
        "- a=1, b=2, c=4",
        "result: 0 rows",
    ]
    assert "4 rows in, 4 deltas out" in err


def test_a_saved_run_is_checked_and_goes_on(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "state.crown")
    inserts = tmp_path / "first.csv"
    inserts.write_text("src,dst\n1,2\n2,3\n")
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={inserts}", "--save", state, "--quiet"]) == 0
    assert main(["check", state]) == 0
    assert "sound; 1 batches, 1 results" in capsys.readouterr().out
    more = tmp_path / "more.csv"
    more.write_text("src,dst\n2,5\n")
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={more}", "--load", state, "--output", "-", "--quiet"]) == 0
    assert capsys.readouterr().out == "+ a=1, b=2, c=5\n"


def test_a_window_over_a_packed_edge_list_ends_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = tmp_path / "edges.txt.gz"
    with gzip.open(edges, "wt") as file:
        file.write("# a graph\n" + "".join(f"{i}\t{i + 1}\n" for i in range(20)))
    deltas = tmp_path / "deltas.parquet"
    arguments = ["--window", "0.2", "--batch-rows", "1", "--output", str(deltas), "--results", "3"]
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={edges}", *arguments]) == 0
    assert capsys.readouterr().out == "result: 0 rows\n"
    weights = pq.read_table(deltas).column("_weight").to_pylist()
    assert sum(weights) == 0
    assert len(weights) == 2 * 19


def test_bad_rows_stop_or_are_put_aside(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with changes.open("a") as file:
        file.write("x,3,1\n")
    run = ["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--quiet"]
    assert main(run) == 2
    assert capsys.readouterr().err == "crown: relation 'g', row 4: column 'src': 'x' does not fit int64\n"
    assert main([*run, "--quarantine", str(tmp_path / "aside")]) == 0
    [aside] = pq.read_table(tmp_path / "aside").to_pylist()
    assert aside["reason"] == "column 'src': 'x' does not fit int64"
    assert '"src": "x"' in aside["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "g"], "crown: --input 'g': write NAME=FILE"),
        (["--input", "g=nowhere.csv"], "crown: cannot read nowhere.csv"),
        (["--input", "h=x.csv"], "crown: the query does not use a relation called h"),
        (["--input", "g=nowhere.txt"], "crown: cannot read nowhere.txt"),
    ],
)
def test_mistakes_are_said_in_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", QUERY, *SCHEMA, *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(message)
    assert "Traceback" not in err


def test_a_damaged_state_is_an_error_message(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.crown"
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--save", str(state), "--quiet"]) == 0
    data = bytearray(state.read_bytes())
    data[-100] ^= 0xFF
    state.write_bytes(bytes(data))
    capsys.readouterr()
    assert main(["check", str(state)]) == 2
    assert "is damaged: its checksum does not match" in capsys.readouterr().err
