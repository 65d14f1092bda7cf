"""The command line of the embedded engine, as a user meets it: output, exit codes, one sentence per mistake."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.commands.main import main
from crown.commands.parser import Parser
from ivm_triangle import Triangle
from tests.marks import slow

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


def test_a_file_without_rows_has_the_row_of_an_aggregate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "g.csv"
    file.write_text("src,dst\n")
    query = "SELECT COUNT(*) AS n, SUM(src) AS s FROM g"
    assert main(["run", query, *SCHEMA, "--input", f"g={file}", "--output", "-", "--results", "5", "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines() == ["+ n=0, s=NULL", "result: 1 rows", "n=0, s=NULL"]


def test_a_saved_run_is_checked_and_goes_on(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = str(tmp_path / "state.crown")
    inserts = tmp_path / "first.csv"
    inserts.write_text("src,dst\n1,2\n2,3\n")
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={inserts}", "--save", state, "--quiet"]) == 0
    assert main(["check", state]) == 0
    assert "sound; batches: 1, results: 1" in capsys.readouterr().out
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


def test_a_full_disk_and_an_unusable_folder_are_named(
    changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = tmp_path / "full.csv"
    full.symlink_to("/dev/full")
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--quiet", "--output", str(full)]) == 2
    assert capsys.readouterr().err == f"crown: cannot write {full}: No space left on device\n"
    assert main(["init", str(changes / "new")]) == 2
    told = f"crown: cannot write {changes / 'new'}: Not a directory; name a folder that can be written\n"
    assert capsys.readouterr().err == told


def test_bad_rows_stop_or_are_put_aside(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with changes.open("a") as file:
        file.write("x,3,1\n")
    run = ["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--quiet"]
    for batch_rows in ("1", "2", "10"):
        assert main([*run, "--batch-rows", batch_rows]) == 2
        assert capsys.readouterr().err == (
            f"crown: relation 'g', row 5 of {changes}: column 'src': 'x' does not fit int64; fix the row, or set bad "
            "rows aside with --quarantine DIR\n"
        )
    assert main([*run, "--quarantine", str(tmp_path / "aside")]) == 0
    [aside] = pq.read_table(tmp_path / "aside").to_pylist()
    assert aside["reason"] == "column 'src': 'x' does not fit int64"
    assert '"src": "x"' in aside["data"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "g"], "crown: --input 'g': write NAME=FILE"),
        (["--input", "g=nowhere.csv"], "crown: cannot read nowhere.csv"),
        (["--input", "h=-"], "crown: the query does not use a relation called h"),
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "g={}/deep.jsonl"], "crown: cannot read {}/deep.jsonl: it is nested too deeply"),
        (["--input", "g={}/g.csv", "--load", ""], "crown: --load must be a path"),
        (["--input", "g={}/g.csv", "--output", "\udcff.csv"], "crown: --output='\\udcff.csv' is not valid UTF-8"),
        (["--input", "g={}/g.csv", "--schema", "{}/deep.json"], "crown: cannot read the schema {}/deep.json: maximum"),
    ],
)
def test_what_nobody_writes_on_purpose_is_said_too(
    arguments: list[str], message: str, changes: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = changes.parent
    (folder / "deep.jsonl").write_text('{"src": ' + "[" * 100_000)
    (folder / "deep.json").write_text("[" * 100_000)
    assert main(["run", QUERY, *SCHEMA, *(text.format(folder) for text in arguments)]) == 2
    assert capsys.readouterr().err.startswith(message.format(folder))


def test_more_results_than_there_can_be_are_those_there_are(changes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--batch-rows", "9" * 20, "--quiet", "--results", "9" * 20]
    assert main(["run", "Q(a) :- g(a, _).", *SCHEMA, "--input", f"g={changes}", *words]) == 0
    assert capsys.readouterr().out.splitlines() == ["result: 1 rows", "a=2"]


@pytest.mark.parametrize(
    ("query", "closed", "code", "said"),
    [
        slow("-", "<&-", 2, "crown: cannot read standard input: it is closed"),
        ("Q(a) :- g(a, _).", "<&-", 2, "crown: cannot read standard input: it is closed; give a file"),
        ("Q(a) :- g(a, _).", ">&-", 0, ""),
        slow("Q(a) :- g(a, _).", "2>&-", 0, ""),
    ],
)
def test_a_stream_that_the_shell_has_closed_is_no_traceback(
    query: str, closed: str, code: int, said: str, changes: Path
) -> None:
    source = "-" if query != "-" and closed == "<&-" else str(changes)
    words = [sys.executable, "-m", "crown", "run", query, *SCHEMA, "--input", f"g={source}", "--output", "-"]
    done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *words], capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(said)
    assert "Traceback" not in done.stderr


def test_a_damaged_state_is_an_error_message(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.crown"
    assert main(["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--save", str(state), "--quiet"]) == 0
    data = bytearray(state.read_bytes())
    data[-100] ^= 0xFF
    state.write_bytes(bytes(data))
    capsys.readouterr()
    assert main(["check", str(state)]) == 2
    assert "is damaged: its checksum does not match" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["edges.csv", "edges.parquet", "edges.jsonl"])
def test_a_window_slides_over_every_file_of_inserts(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [(i, i + 1) for i in range(20)]
    path = tmp_path / name
    if name.endswith(".csv"):
        path.write_text("src,dst\n" + "".join(f"{a},{b}\n" for a, b in rows))
    elif name.endswith(".jsonl"):
        path.write_text("".join(f'{{"src": {a}, "dst": {b}}}\n' for a, b in rows))
    else:
        pq.write_table(pa.table({"src": [a for a, _ in rows], "dst": [b for _, b in rows]}), path)
    run = ["run", QUERY, *SCHEMA, "--input", f"g={path}", "--window", "4", "--batch-rows", "7", "--results", "1"]
    assert main([*run, "--output", "-"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "result: 0 rows"
    assert out.count("+ ") == out.count("- ") > 0
    assert "40 rows in" in err


def test_a_window_over_changes_is_refused(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "deltas.csv"
    output.write_text("what was there")
    run = ["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--output", str(output)]
    assert main([*run, "--window", "4"]) == 2
    assert "the file of 'g' has a column _weight; leave the window out" in capsys.readouterr().err
    assert output.read_text() == "what was there"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "1"], "leave out --threads"),
        (["--on-missing", "ignore", "--quarantine", "aside"], "leave out --on-missing and --quarantine"),
    ],
)
def test_options_that_a_saved_state_has_already_are_refused(
    arguments: list[str], message: str, changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", QUERY, *SCHEMA, "--input", f"g={changes}", "--quiet"]
    state = str(tmp_path / "state.crown")
    assert main([*run, "--save", state]) == 0
    capsys.readouterr()
    assert main([*run, "--load", state, *arguments]) == 2
    assert message in capsys.readouterr().err
    assert main([*run, "--load", state, "--save", state]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--input", "G=more.csv"], "g has a file already"),
        (["--batch-rows", "0"], "--batch-rows must be a whole number of 1 or more, not 0"),
        (["--results", "-1"], "--results must be a whole number of 0 or more, not -1"),
        (["--threads", "0"], "threads must be a whole number"),
        (["--save", "."], "--save='.' is a folder"),
        (["--save", "absent/state"], "there is no folder 'absent'"),
        (["--output", "absent/deltas.csv"], "there is no folder 'absent'"),
        (["--output", "g.csv"], "--output would overwrite g.csv, which --input g reads"),
        (["--save", "./g.csv"], "--save would overwrite g.csv, which --input g reads"),
        (["--save", "new.csv", "--output", "new.csv"], "--output and --save are both new.csv"),
        (["--output", "deltas.txt"], "name a .parquet or .csv file"),
        (["--window", "none"], "window 'none' is not a number"),
        (["--quarantine", "g.csv"], "is a file; name a folder"),
    ],
)
def test_what_would_fail_or_be_ignored_later_is_refused_first(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("g.csv").write_text("src,dst\n1,2\n")
    assert main(["run", QUERY, *SCHEMA, "--input", "g=g.csv", *arguments]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert err.startswith("crown: ")
    assert err.count("\n") == 1
    assert out == ""
    assert [file.name for file in tmp_path.iterdir()] == ["g.csv"]


def test_a_plan_has_its_tables_and_rates(changes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", QUERY, *SCHEMA]) == 0
    made = tmp_path / "plan.json"
    made.write_text(capsys.readouterr().out)
    run = ["run", str(made), "--input", f"g={changes}", "--quiet"]
    assert main(run) == 0
    for option, value in (("--schema", SCHEMA[1]), ("--rate", "g=5")):
        capsys.readouterr()
        assert main([*run, option, value]) == 2
        assert f"leave out {option}" in capsys.readouterr().err


def test_a_relation_without_a_file_is_mentioned(changes: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schema = ["--schema", "g(src int64, dst int64)", "--schema", "h(dst int64, x int64)"]
    assert main(["run", "Q(a,b,c) :- g(a,b), h(b,c).", *schema, "--input", f"G={changes}"]) == 0
    assert "no --input for h: no changes are read" in capsys.readouterr().err


def crown_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "crown", *arguments]


@pytest.mark.parametrize("both", [slow(False), True])
def test_a_reader_that_has_enough_ends_the_command_quietly(both: bool, tmp_path: Path) -> None:
    path, state = tmp_path / "g.csv", tmp_path / "state"
    path.write_text("src,dst\n" + "".join(f"{i},{i + 1}\n" for i in range(20_000)))
    command = crown_command("run", QUERY, *SCHEMA, "--input", f"g={path}", "--output", "-", "--save", str(state))
    errors = subprocess.STDOUT if both else subprocess.PIPE
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        said = "" if process.stderr is None else process.stderr.read()
    assert process.returncode == 141
    assert "Error" not in said
    assert "Traceback" not in said
    assert not state.exists(), "what was still to be done was not done, as the exit code says"


def test_a_reader_that_is_gone_at_the_end_is_noticed(changes: Path) -> None:
    command = crown_command("run", QUERY, *SCHEMA, "--input", f"g={changes}", "--results", "5", "--quiet")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode == 141
    assert "Exception" not in said


def test_check_says_what_a_file_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    view = crown.view(QUERY, {"g": {"src": "int64", "dst": "int64"}})
    view.save(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    Triangle(memory="1 MiB").save(tmp_path / "triangle")
    (tmp_path / "foreign").write_bytes(b"PK\x03\x04 and so on")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut").write_bytes(data[:-8])
    (tmp_path / "flipped").write_bytes(data.replace(b'"query"', b'"qverz"', 1))
    (tmp_path / "folder").mkdir()
    capsys.readouterr()  # the first triangle and the first view on a machine say that kernels are compiled
    for name, message in (
        ("foreign", "is not a snapshot of this version of crown: it begins with b'PK"),
        ("triangle", "it begins with b'ivm_triangle snapshot 1"),
        ("empty", "it is empty"),
        ("cut", "is truncated"),
        ("flipped", "is damaged: its header cannot be read"),
        ("folder", "this is a folder; name the file that save wrote"),
        ("absent", "cannot read the snapshot"),
    ):
        assert main(["check", str(tmp_path / name)]) == 2, name
        out, err = capsys.readouterr()
        assert message in err
        assert err.count("\n") == 1
        assert out == ""
    assert main(["check", str(tmp_path / "whole")]) == 0


def test_a_query_without_inputs_says_how_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUERY]) == 2
    assert "--input NAME=FILE names the file with the changes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (
            ["explain", QUERY, "--window", "5"],
            "crown explain: unrecognized arguments: --window 5",
            "crown explain --help lists",
        ),
        (["explain", QUERY, "--shema=x"], "crown explain: unrecognized arguments: --shema=x", "did you mean --schema?"),
        (["expain", QUERY], "crown: argument COMMAND: invalid choice: 'expain'", "did you mean explain?"),
        (
            ["run", QUERY, "--input", "g=x", "--emit", "cdcc"],
            "crown run: argument --emit: invalid",
            "did you mean cdc?",
        ),
    ],
)
def test_arguments_that_a_command_does_not_take_are_said_in_a_sentence(
    arguments: list[str], said: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(said)
    assert second.startswith(f"hint: {hint}")


@pytest.mark.parametrize("words", [["run"], ["run", "folder"], ["run", "folder", "more", "most"]])
def test_options_may_stand_anywhere_between_words(words: list[str]) -> None:
    parser = Parser()
    parser.add_argument("action", choices=["run"])
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("more", nargs="*")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--every", type=int)
    expected = parser.parse_args([*words, "--json", "--every", "3"])
    assert [expected.action, expected.folder, *expected.more] == (words if len(words) > 1 else ["run", "."])
    places = range(min(len(words), 2) + 1)  # the last argument's words stand in one piece
    for first in places:
        for second in places[first:]:
            given = [*words[:first], "--json", *words[first:second], "--every", "3", *words[second:]]
            assert parser.parse_args(given) == expected, given
