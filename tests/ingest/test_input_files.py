"""Files and standard input of `crown run`, end to end: no header is a row, no weight is ignored, no value changes."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crown
from crown.commands.main import main
from crown.ingest.streams.inputs import piped
from plans.schema import Schema

PEOPLE = ["--schema", "people(name string, age int64)"]
COUNTS = "SELECT name, COUNT(*) AS n FROM people GROUP BY name"
CHANGES = [("ann, of x", 30, 1), ('"bob"', 40, 1), ("ann, of x", 30, 1), ('"bob"', 40, -1), ("carl", None, 1)]
LEFT = [{"name": "ann, of x", "n": 2}, {"name": "carl", "n": 1}]


def _text(mark: str) -> bytes:
    def field(value: object) -> str:
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    lines = [("name", "age", "_weight"), *CHANGES]
    return "".join(mark.join(map(field, line)) + "\n" for line in lines).encode()


JSON = "".join(json.dumps({"name": n, "age": a, "_weight": w}) + "\n" for n, a, w in CHANGES).encode()
FILES = {
    "p.csv": _text(","), "p.csv.gz": gzip.compress(_text(",")), "p.tsv": _text("\t"), "p.txt": _text(","),
    "p.tsv.bz2": bz2.compress(_text("\t")), "p.gz": gzip.compress(_text(";")), "p": _text("|"), "p.jsonl": JSON,
    "p.jsonl.gz": gzip.compress(JSON), "p.txt.gz": gzip.compress(JSON), "p.ndjson.bz2": bz2.compress(JSON),
}  # fmt: skip


def results(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["run", *words, "--results", "100", "--json", "--quiet"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return sorted(rows, key=json.dumps)


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "inferred"])
@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize("name", FILES)
def test_headers_quotes_and_weights_are_read_in_every_file(
    name: str, source: str, declared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (tmp_path / name).write_bytes(FILES[name])
    if source == "stdin":
        if not declared:
            return  # a stream has no end at which its types are known
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILES[name])))
    given = "-" if source == "stdin" else str(tmp_path / name)
    words = [*(PEOPLE if declared else []), "--input", f"people={given}", "--batch-rows", "1"]
    assert results(capsys, COUNTS, *words) == LEFT


@pytest.mark.parametrize("name", ["e.txt", "e.txt.gz", "e.gz", "e.edges", "e.txt.bz2"])
@pytest.mark.parametrize("mark", ["\t", " ", "   ", ",", ";"])
def test_an_edge_list_has_no_header(mark: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# a graph\n# FromNodeId\tToNodeId\n" + "".join(f"{i}{mark}{i + 1}\n" for i in range(5))
    packed = {".gz": gzip.compress, ".bz2": bz2.compress}.get(Path(name).suffix, bytes)
    (tmp_path / name).write_bytes(packed(text.encode()))
    query = "Q(a, c) :- g(a, b), g(b, c)."
    for schema in ([], ["--schema", "g(src int64, dst int64)"]):
        found = results(capsys, query, *schema, "--input", f"g={tmp_path / name}")
        assert found == [{"a": i, "c": i + 2} for i in range(4)]


def test_further_fields_of_an_edge_list_are_said_to_be_ignored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.txt").write_text("% bip\n1 2 0.5 1000\n2 3 0.7 1001\n")
    assert main(["run", "Q(a, b) :- g(a, b).", "--input", f"g={tmp_path / 'e.txt'}"]) == 0
    assert f"{tmp_path / 'e.txt'}: 2 further fields of each line are ignored\n" in capsys.readouterr().err


def test_csv_without_a_header_keeps_its_first_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.csv").write_text("1,2\n2,3\n")
    assert results(capsys, "Q(a, c) :- g(a, b), g(b, c).", "--input", f"g={tmp_path / 'g.csv'}") == [{"a": 1, "c": 3}]
    assert main(["run", "SELECT a FROM g", "--input", f"g={tmp_path / 'g.csv'}"]) == 2
    assert "declare it: --schema 'g(" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("12345678901234567890\n12345678901234567891\n", "SELECT COUNT(DISTINCT v) AS n FROM t", [{"n": 2}]),
        ("01234\n1234\n", "SELECT COUNT(DISTINCT v) AS n FROM t", [{"n": 2}]),
        ("0x1F\n31\n", "SELECT COUNT(DISTINCT v) AS n FROM t", [{"n": 2}]),
        ("30\nNA\n", "SELECT COUNT(DISTINCT v) AS n FROM t", [{"n": 2}]),
        ("9007199254740993\n9007199254740992\n", "SELECT COUNT(DISTINCT v) AS n FROM t", [{"n": 2}]),
        ("12345678901234567890\n1\n", "SELECT SUM(v) AS s FROM t", [{"s": "12345678901234567891"}]),
        ("1\n2.5\n", "SELECT SUM(v) AS s FROM t", [{"s": 3.5}]),
    ],
)
def test_a_file_whose_types_are_inferred_keeps_its_values(
    text: str, query: str, found: list[dict[str, object]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{number},{value}" for number, value in enumerate(text.split())]
    (tmp_path / "t.csv").write_text("\n".join(["id,v", *lines, ""]))
    assert results(capsys, query, "--input", f"t={tmp_path / 't.csv'}") == found


def test_a_number_in_another_base_is_a_bad_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("id\n31\n0x1F\n")
    assert main(["run", "SELECT id FROM t", "--schema", "t(id int64)", "--input", f"t={tmp_path / 't.csv'}"]) == 2
    assert "column 'id': '0x1F' does not fit int64; fix the row" in capsys.readouterr().err
    view = crown.view("SELECT id FROM t", {"t": {"id": "int64"}})
    with pytest.raises(crown.ChangeError, match="'0x1F' does not fit int64"):
        view.apply({"t": {"id": ["0x1F"]}})


def test_change_codes_are_no_column_of_a_relation_that_nobody_declared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("id,_change_type,_commit_version\n1,insert,1\n2,insert,1\n1,delete,2\n")
    assert results(capsys, "SELECT id FROM t", "--input", f"t={tmp_path / 't.csv'}") == [{"id": 2}]
    frame = pa.table({"id": [1, 2, 1], "_change_type": ["insert", "insert", "delete"]})
    view = crown.view("SELECT id FROM t", tables={"t": frame})
    assert [row["id"] for row in view] == [2]


def test_a_column_that_may_say_how_a_row_changes_is_refused_unless_the_query_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("id,weight\n1,-1\n")
    given = ["--input", f"t={tmp_path / 't.csv'}"]
    assert main(["run", "SELECT id FROM t", *given]) == 2
    assert "the batch has a column 'weight'; rename it to '_weight' if it holds" in capsys.readouterr().err
    assert results(capsys, "SELECT id, weight FROM t", *given) == [{"id": 1, "weight": -1}]
    assert results(capsys, "SELECT * FROM t", *given) == [{"id": 1, "weight": -1}]
    assert results(capsys, "Q(a, b) :- t(a, b).", *given) == [{"a": 1, "b": -1}]


def test_a_folder_of_files_is_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "1.csv").write_text("id,v\n1,x\n")
    (tmp_path / "2.jsonl.gz").write_bytes(gzip.compress(b'{"id": 2, "v": "y"}\n'))
    pq.write_table(pa.table({"id": [3], "v": ["z"]}), tmp_path / "3.parquet")
    found = results(capsys, "SELECT id, v FROM t", "--input", f"t={tmp_path}")
    assert found == [{"id": 1, "v": "x"}, {"id": 2, "v": "y"}, {"id": 3, "v": "z"}]


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("data", "taken"),
    [
        (b'a,s\n1,"two\n\nlines"\n2,y\n', [(1, "two\n\nlines"), (2, "y")]),
        (b"\xef\xbb\xbf# a comment\n\na\ts\r\n1\tx\r\n2\ty\r\n", [(1, "x"), (2, "y")]),
        (b"1 x\n2 y\n", [(1, "x"), (2, "y")]),
        (b'\xef\xbb\xbf[{"a": 1, "s": "x"},\n{"a": 2, "s": "y"}]\n', [(1, "x"), (2, "y")]),
        (b'\n{"a": 1, "s": "x"}\n\n{"a": 2, "s": "y"}', [(1, "x"), (2, "y")]),
        (b"", []),
        (b"\n\n", []),
        (gzip.compress(b"a,s\n1,x\n2,y\n", mtime=0), [(1, "x"), (2, "y")]),
    ],
    ids=["quoted", "comment", "list", "array", "lines", "empty", "blank", "packed"],
)
def test_standard_input_is_cut_between_rows(
    data: bytes, taken: list[tuple[int, str]], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    table = Schema.of({"t": {"a": "int64", "s": "string"}})["t"]
    found = list(piped(rows, table))
    assert [(row["a"], row["s"]) for part in found for row in part.to_pylist()] == taken
    assert all(part.num_rows <= rows for part in found)


def test_parquet_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": list(range(10))}), sink)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sink.getvalue())))
    found = list(piped(4, Schema.of({"t": {"a": "int64"}})["t"]))
    assert [part.column("a").to_pylist() for part in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'a,s\n1,x\n2,"y\n', "cannot read standard input: line 3: quotes must enclose"),
        (b"a,s\n1,x\n2\n", "cannot read standard input: the line has 1 fields instead of 2: '2'"),
        (b"a,s\n1,x\n2,caf\xe9\n", "cannot read standard input: line 3 is not UTF-8 text"),
        (b"b,c\n1,x\n", "cannot read standard input: the first line, .'b', 'c'., neither names the columns a, s"),
        (b'{"a": 1}\n{"a": 2\n', "cannot read standard input: line 3 is not JSON"),
        (
            gzip.compress(b"a,s\n1,x\n", mtime=0)[:-4],
            "cannot read standard input: its gzip data is damaged or truncated",
        ),
        (bytes(10), "cannot read standard input: "),
    ],
)
def test_a_line_of_standard_input_that_is_wrong_is_said(
    data: bytes, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    with pytest.raises(crown.CrownError, match=said):
        list(piped(1, Schema.of({"t": {"a": "int64", "s": "string"}})["t"]))
