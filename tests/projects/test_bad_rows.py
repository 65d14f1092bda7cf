"""Rows of files that cannot be used: they stop a run, or are kept once, until their file is corrected."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import crown
from crown.commands.main import main
from crown.projects.quarantine import Quarantine, Refused, counts

BAD = {
    "another number of fields": ("csv", "n,s\n1,a\n2\n", "the line has 1 fields instead of 2: '2'"),
    "a value of another type": ("csv", "n,s\n1,a\nx,b\n", r"row 2: column 'n': 'x' does not fit int64"),
    "too many digits": ("csv", 'n,s,d\n1,a,"1,1"\n', "row 1: column 'd': '1,1' does not fit"),
    "null": ("csv", "n,s\n,a\n", "row 1: column 'n' is NULL, and declared NOT NULL"),
    "an open quote": ("csv", 'n,s\n1,"a\n2,b\n', "cannot read .*: line 2: quotes must"),
    "no column": ("csv", "n\n1\n", "has no column s; name the columns in its first line"),
    "not text": ("csv", b"n,s\n1,\xff\n", "line 2 is not UTF-8 text"),
    "two objects": ("json", '{"n": 1}\n{"n": 2} {"n": 3}\n{"n": \n', "line 2 is not exactly one JSON object"),
    "no object": ("json", '{"n": 1}\n7\n', "line 2 is not a JSON object"),
    "no json": ("json", '{"n": 1}\n{"n": 2\n', "line 2 is not exactly one JSON object"),
    "a member twice": ("json", '{"n": 1, "n": 2}\n', "line 1 has the member 'n' twice"),
    "half of a pair": ("json", '{"n": 1}\n{"n": 2, "s": "\\ud800"}\n', "line 2 cannot be read: a text in it has half"),
    "no known member": ("json", '{"n": 1}\n{"s": [\n{"m": 1}\n]\n', "line 2 is not exactly one JSON object"),
    "a fraction": ("json", '{"n": 1.5}\n', r"row 1: column 'n': '1\.5' does not fit int64"),
    "an array that ends": ("json", '[{"n": 1}, {"n"', "is not JSON, or is truncated"),
}


def project(folder: Path, kind: str, how: str = "fail", read: str = "r") -> Path:
    columns = "n BIGINT NOT NULL, s STRING" + (", d DECIMAL(9,2)" if kind == "d" else "")
    folder.mkdir(exist_ok=True)
    (folder / "spark-pipeline.yml").write_text(
        "name: p\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\nconfiguration:\n"
        f'  crown.on_bad_row: {how}\n  crown.source.r: "{kind.replace("d", "csv")}:in?columns={columns}"\n'
    )
    made = "MATERIALIZED VIEW" if read == "r" else "STREAMING TABLE"
    (folder / "views.sql").write_text(f"CREATE {made} v AS SELECT n, s FROM {read};\n")
    (folder / "in").mkdir(exist_ok=True)
    return folder / "in"


@pytest.mark.parametrize("which", BAD)
def test_a_bad_row_stops_a_run_before_anything_has_changed(tmp_path: Path, which: str) -> None:
    kind, text, said = BAD[which]
    files = project(tmp_path, "d" if "d\n" in str(text)[:6] else kind)
    good = "n,s,d\n0,z,1\n" if which == "too many digits" else "n,s\n0,z\n" if kind == "csv" else '{"n": 0, "s": "z"}\n'
    (files / f"0.{kind}").write_text(good)
    with crown.database(tmp_path) as db:
        db.run()
        (files / f"1.{kind}").write_bytes(text if isinstance(text, bytes) else text.encode())
        for _ in range(2):
            with pytest.raises(crown.CrownError, match=said):
                db.run()
        assert [tuple(row.values()) for row in db["v"]] == [(0, "z")]
        assert db.note["version"] == 2
    assert counts(tmp_path / "storage" / "embedded" / "quarantine") == {}
    project(tmp_path, "d" if which == "too many digits" else kind, "quarantine")
    with crown.database(tmp_path) as db:
        for _ in range(2):
            assert db.run().quarantined["r"] >= 1
        assert {row["n"] for row in db["v"]} <= {0, 1}
    kept = tmp_path / "storage" / "embedded" / "quarantine" / "r" / f"1.{kind}.jsonl"
    row = json.loads(kept.read_text().splitlines()[0])
    assert row["file"] == f"1.{kind}"
    assert row["data"] is not None or which in ("an open quote", "no column", "not text", "an array that ends")


def test_a_stream_reads_a_file_once_and_keeps_its_bad_rows(tmp_path: Path) -> None:
    files = project(tmp_path, "json", "quarantine", "STREAM(r)")
    (files / "1.json").write_text('{"n": 1}\n{"n"\n')
    with crown.database(tmp_path) as db:
        assert db.run().quarantined == {"r": 1}
        (files / "1.json").write_text('{"n": 1}\n')
        assert db.run().quarantined == {"r": 1}
        (files / "1.json").unlink()
        assert db.run().quarantined == {"r": 1}
        assert [row["n"] for row in db["v"]] == [1]


def test_a_file_that_the_system_cannot_open_stops_a_run(tmp_path: Path) -> None:
    files = project(tmp_path, "csv", "quarantine")
    (files / "1.csv").write_text("n,s\n1,a\n")
    with crown.database(tmp_path) as db:
        assert db.run().quarantined == {}
        (files / "2.csv").symlink_to(files / "2.csv")  # a circle
        with pytest.raises(crown.CrownError, match="cannot be read: Too many levels of symbolic links"):
            db.run()
        assert [row["n"] for row in db["v"]] == [1]


def test_the_command_and_its_json_count_the_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = project(tmp_path, "csv", "quarantine")
    (files / "1.csv").write_text("n,s\nx,a\ny,b\n")
    assert main(["run", str(tmp_path)]) == 0
    assert "source r  2 rows are in the quarantine\n" in capsys.readouterr().out
    assert main(["run", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["quarantined"] == {"r": 2}


def test_rows_of_files_with_any_names_are_kept_apart(tmp_path: Path) -> None:
    kept = Quarantine(tmp_path / "r")
    names = ["a", "b/a", "b%2Fa", "é" * 100, "é" * 101, "x" * 250, "x" * 251, "..", "."]
    for name in names:
        kept.put(name, [Refused(name)])
        kept.put(name, [Refused(name)])
    assert counts(tmp_path) == {"r": len(names)}
    kept.keep(names[:4])
    assert counts(tmp_path) == {"r": 4}
    kept.put("a", [])
    assert counts(tmp_path) == {"r": 3}
