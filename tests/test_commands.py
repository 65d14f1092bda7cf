"""``crown`` on the command line: guessed schemas, standard input, JSON, the doctor and the first example."""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import crown
from crown.commands import check, doctor, init, run
from plans.commands import plan
from plans.commands.declare import completed, declaration, query_text, schema_of
from plans.errors import CrownError, PlanError
from plans.schema import Schema

ROOT = Path(__file__).parent.parent


def command(module: Any, *words: str) -> int:
    parser = argparse.ArgumentParser()
    module.add_arguments(parser)
    return int(module.run(parser.parse_args(words)))


@pytest.mark.parametrize(
    ("query", "declared"),
    [
        ("Q(a,c) :- g(a,b), g(b,c).", ["g(a int64, b int64)"]),
        ("Q(a) :- r(a, 5), not s(a, _), a > 3.\nQ(b) :- t(b, b).", [f"{name}(c1 int64, c2 int64)" for name in "rst"]),
        ("Q(x, count()) :- R(x, Y, y), (x > 1 or not (x < 0)).", ["R(c1 int64, c2 int64, c3 int64)"]),
        ("Q(x) :- R(x), S(x, 'a,b)', -1.5).", ["R(x int64)", "S(c1 int64, c2 int64, c3 int64)"]),
        ("(a)-[e]->(b); !(b)-[]->(a)", ["edges(src int64, dst int64)"]),
        ("SELECT a FROM r", []),
    ],
)
def test_datalog_and_motifs_get_a_schema(query: str, declared: list[str]) -> None:
    made = completed(query, Schema())
    assert [declaration(made[name]) for name in made] == declared
    if "'a" not in query and declared:
        crown.view(query, made)


def test_what_is_declared_stays_as_declared() -> None:
    given = schema_of(["g(x string, y decimal(10, 2))"])
    made = completed("Q(a, c) :- G(a, b), h(b, c).", given)
    assert [declaration(made[name]) for name in made] == ["g(x string, y decimal(10,2))", "h(b int64, c int64)"]


def test_types_with_parts_are_declared_as_they_are_written() -> None:
    made = schema_of(
        ["t(a array< int >, p struct<a int64, b: text> not null, m map<string, decimal(9, 2)[]>, z int64 key)"]
    )
    assert [(column.name, column.type, column.required) for column in made["t"].columns] == [
        ("a", "array<int32>", False),
        ("p", "struct<a:int64,b:string>", True),
        ("m", "map<string,array<decimal(9,2)>>", False),
        ("z", "int64", False),
    ]
    assert made["t"].key == ("z",)


def test_one_option_may_declare_several_relations() -> None:
    made = schema_of(["r(a int64 key, d decimal(10,2)), s(b string) distinct; t(c date)", "u(x int64)"])
    assert list(made) == ["r", "s", "t", "u"]
    assert made["s"].distinct
    assert made["r"].key == ("a",)
    assert made["r"].columns[1].type == "decimal(10,2)"
    for wrong in ("", "r", "r(a int64", "r(a int64),, nonsense"):
        with pytest.raises(PlanError):
            schema_of([wrong])


def test_a_file_tells_the_columns_that_nobody_declared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "people.csv").write_text("name,born,_weight\nann,1990,1\nbob,1985,1\nann,1990,-1\n")
    (tmp_path / "likes.jsonl").write_text('{"who": "bob", "what": "tea"}\n')
    query = "SELECT name, what FROM people JOIN likes ON name = who"
    given = ["--input", f"people={tmp_path / 'people.csv'}", "--input", f"likes={tmp_path / 'likes.jsonl'}"]
    assert command(run, query, *given, "--output", "-", "--json") == 0
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"name": "bob", "what": "tea", "_weight": 1}]
    assert (
        "no --schema for these, so they are read as: people(name string, born int64), likes(who string, what string)"
        in err
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot read .*r.csv: there is no such file"),
        ("", r"columns cannot be read from .*r.csv: it has no rows (.|\n)*hint: declare it: --schema 'r\(a int64"),
        ("1,2\n", r"from .*r.csv: its first line does not name them (.|\n)*hint: declare it: --schema 'r\(a int64"),
        ("a,b\n", r"column a has no type (.|\n)*hint: .*r.csv has no value of it; declare the columns: --schema 'r\(a"),
        ("a,b\n,1\n", r"column a has no type (.|\n)*hint: .*r.csv has no value of it; declare the columns: --schema"),
        ("a,b,_Weight\n1,2,-1\n", "the batch has a column '_Weight'; rename it to '_weight'"),
    ],
    ids=["no file", "empty", "no header", "no rows", "no value", "weights in another case"],
)
def test_a_file_that_tells_no_columns_is_named(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "r.csv").write_text(text)
    with pytest.raises(CrownError, match=said):
        command(run, "SELECT a FROM r", "--input", f"r={tmp_path / 'r.csv'}", "--output", "-")


def test_a_column_without_values_need_not_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in (("r.csv", "a,b\n1,\n"), ("r.jsonl", '{"a": 1, "b": null}\n')):
        (tmp_path / name).write_text(text)
        assert command(run, "SELECT a FROM r", "--input", f"r={tmp_path / name}", "--output", "-") == 0
        out, err = capsys.readouterr()
        assert out == "+ a=1\n"
        assert "so they are read as: r(a int64)\n" in err


@pytest.mark.parametrize("text", ['{"a": 1, "b": 2}\n{"a": 2, "b": 3}\n', "a,b\n1,2\n2,3\n"], ids=["json", "csv"])
def test_changes_may_come_from_standard_input(
    text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    command(run, "Q(a, c) :- g(a, b), g(b, c).", "--input", "g=-", "--json", "--results", "5", "--quiet")
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"a": 1, "c": 3}]
    summary = json.loads(err.splitlines()[-1])
    assert (summary["rows"], summary["deltas"]) == (2, 1)


def test_standard_input_goes_on_and_every_batch_is_told_when_it_is_done() -> None:
    words = ["run", "Q(a, c) :- g(a, b), g(b, c).", "--input", "g=-", "--output", "-", "--batch-rows", "1", "--quiet"]
    path = os.pathsep.join([str(ROOT), *sys.path[1:]])
    with subprocess.Popen(
        [sys.executable, "-m", "crown", *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
    ) as running:  # fmt: skip
        assert running.stdin is not None
        assert running.stdout is not None
        for line, told in (
            ("a,b,_weight\n1,2,1\n2,3,1\n", "+ a=1, c=3\n"), ("2,4,1\n", "+ a=1, c=4\n"), ("1,2,-1\n", "- a=1, c="),
        ):  # fmt: skip
            running.stdin.write(line)
            running.stdin.flush()
            assert running.stdout.readline().startswith(told)
        running.stdin.close()
        assert running.stdout.readline().startswith("- a=1, c=")
        assert running.wait(60) == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
def test_batches_of_standard_input_are_those_of_a_file(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a,b\n" + "".join(f"{i},{i + 1}\n" for i in range(7))
    (tmp_path / "g.csv").write_text(text)
    words = ["Q(a, c) :- g(a, b), g(b, c).", "--output", "-", "--json", "--batch-rows", str(rows)]
    command(run, *words, "--input", f"g={tmp_path / 'g.csv'}")
    told = [re.sub(r', "seconds": [^,}]*', "", part) for part in capsys.readouterr()]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    command(run, *words, "--input", "g=-")
    assert [re.sub(r', "seconds": [^,}]*', "", part) for part in capsys.readouterr()] == told


def test_a_line_of_standard_input_that_cannot_be_read_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = '{"a": 1, "b": 2}\n{"a": 2, "b": 3}\n\n{"a": oops}\n'
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    with pytest.raises(CrownError, match="cannot read standard input: line 4 is not JSON"):
        command(run, "Q(a, c) :- g(a, b), g(b, c).", "--input", "g=-", "--batch-rows", "2", "--quiet")


def test_a_plan_is_json_however_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    command(plan, "Q(a, c) :- g(a, b), g(b, c).")
    told = capsys.readouterr().out
    command(plan, "Q(a, c) :- g(a, b), g(b, c).", "--json")
    assert capsys.readouterr().out == told
    assert json.loads(told)["query"] == "Q(a, c) :- g(a, b), g(b, c)."


def test_standard_input_is_read_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CrownError, match="standard input is one stream, and r and s would read it"):
        command(run, "Q(a) :- r(a), s(a).", "--input", "r=-", "--input", "s=-")
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT 1"))
    assert query_text("-") == "SELECT 1"


def test_values_without_a_form_in_json_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.csv").write_text("d,m,b\n2024-02-03,1.50,xyz\n")
    words = ["--schema", "r(d date, m decimal(5,2), b binary)", "--input", f"r={tmp_path / 'r.csv'}", "--output", "-"]
    command(run, "SELECT d, m, b FROM r", *words, "--json", "--quiet")
    line = capsys.readouterr().out.splitlines()[0]
    assert json.loads(line) == {"d": "2024-02-03", "m": "1.50", "b": "xyz", "_weight": 1}


def test_a_folder_of_crown_open_can_be_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with crown.open("SELECT a FROM r", tmp_path / "v", {"r": {"a": "int64"}}) as view:
        view.update({"r": [(1,), (2,)]})
    assert command(check, str(tmp_path / "v")) == 0
    assert "sound; batches: 1, results: 2" in capsys.readouterr().out
    assert command(check, str(tmp_path / "v"), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sound"], found["results"], found["query"]) == (True, 2, "SELECT a FROM r")


def test_the_doctor_finds_this_machine_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(doctor, "--json") == 0
    found = {one["what"]: one["state"] for one in json.loads(capsys.readouterr().out)}
    assert found["kernels"] == found["durable view"] == found["memory"] == "ok"
    assert "broken" not in found.values()


def test_the_doctor_says_what_is_broken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> str:
        raise CrownError("there is no memory; buy some")

    monkeypatch.setattr(doctor, "_memory", fails)
    assert command(doctor) == 1
    assert "broken   memory: there is no memory; buy some" in capsys.readouterr().out


def test_the_doctor_does_not_call_kernels_ok_that_nothing_can_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crown.compiling.library.library", lambda: None)
    monkeypatch.delitem(sys.modules, "crown.compiling.dispatch", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    found = doctor._looked("kernels", doctor._kernels)
    assert found.state == "broken"
    assert found.said.endswith("needs numba: pip install 'crown-ivm[jit]'")


def test_the_first_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "first"
    assert command(init, str(folder)) == 0
    with pytest.raises(CrownError, match="already exists and is not empty"):
        command(init, str(folder))
    capsys.readouterr()
    inputs = [word for name in ("customers", "orders") for word in ("--input", f"{name}={folder / name}.csv")]
    words = [str(folder / "query.sql"), "--schema", str(folder / "schema.json"), *inputs, "--batch-rows", "2"]
    assert command(run, *words, "--output", "-", "--json", "--quiet") == 0
    deltas = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"country": "NL", "orders": 2, "total": "27.25", "_weight": 1} in deltas
    assert sum(row["_weight"] for row in deltas) == 2
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    done = subprocess.run(
        [sys.executable, folder / "example.py"], capture_output=True, text=True, check=True, env=environment
    )
    assert "after 2 batches: [" in done.stdout
    runpy.run_path(str(folder / "example.py"), run_name="__main__")
    assert "after 3 batches: [" in capsys.readouterr().out


@pytest.mark.parametrize("emit", ["weights", "cdc", "rowkind", "debezium"])
def test_run_writes_deltas_in_the_words_of_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], emit: str
) -> None:
    """The lines are those of ``crown.changes`` for the same batches; the updates of a key are paired."""
    (tmp_path / "r.csv").write_text("a,b\n1,5\n1,6\n2,7\n")
    query, schema = "SELECT a, SUM(b) AS s FROM r GROUP BY a", {"r": {"a": "int64", "b": "int64"}}
    words = [
        query,
        "--schema",
        "r(a int64, b int64)",
        "--input",
        f"r={tmp_path / 'r.csv'}",
        "--batch-rows",
        "1",
        "--json",
    ]
    key = [] if emit == "weights" else ["--key", "a"]
    assert command(run, *words, "--output", "-", "--quiet", "--emit", emit, *key) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    view, wanted = crown.view(query, schema), []
    for number, row in enumerate([(1, 5), (1, 6), (2, 7)]):
        delta = view.apply({"r": [row]})
        wanted += crown.changes.emitted(delta, emit, ["a"] if key else None, number).to_pylist()
    assert told == wanted
    assert len(wanted) == (3 if emit == "debezium" else 4)
    name = str(tmp_path / "out.parquet")
    assert command(run, *words, "--output", name, "--quiet", "--emit", emit, *key) == 0
    assert pq.read_table(name).to_pylist() == wanted


def test_run_refuses_keys_and_files_that_do_not_go_with_what_is_emitted(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("a\n1\n")
    words = ["SELECT a FROM r", "--schema", "r(a int64)", "--input", f"r={tmp_path / 'r.csv'}", "--quiet"]
    for more, told in (
        (["--key", "a"], "weights need none"),
        (["--emit", "cdc", "--key", "z"], "--key names 'z', but the output has: a"),
        (["--emit", "debezium", "--output", str(tmp_path / "out.csv")], "CSV cannot hold"),
    ):
        with pytest.raises(CrownError, match=told):
            command(run, *words, *more)
