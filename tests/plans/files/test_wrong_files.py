"""Files that cannot be read, or not as rows of their relation: each is refused in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from crown.commands.main import main
from plans.errors import FileError
from plans.files.rows import RowsFile, rows_of
from plans.schema import Schema
from tests.plans.files.grid import PACKINGS, ROWS, arrow_file, delimited, json_lines, parquet
from tests.plans.files.grid import TABLE as GRID
from tests.plans.files.grid import TEXTS as TEXTED

TABLE = Schema.of({"g": {"src": "int64", "dst": "int64"}})["g"]
TEXTS = Schema.of({"g": {"name": "string", "city": "string"}})["g"]
CSV = b"src,dst\n" + b"".join(b"%d,%d\n" % (i, 7 * i) for i in range(5000))
ZSTD = bytes(pa.compress(CSV, "zstd", asbytes=True))
RUBBISH = np.random.default_rng(7).bytes(3000)


def _zip(files: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return sink.getvalue()


def _tar(data: bytes) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        info = tarfile.TarInfo("g.csv")
        info.size = len(data)
        archive.addfile(info, io.BytesIO(data))
    return sink.getvalue()


WRONG: list[tuple[str, bytes, str]] = [
    ("g.csv.gz", gzip.compress(CSV)[:-100], "its gzip data is damaged or truncated"),
    ("g.csv.gz", gzip.compress(CSV)[:-4], "its gzip data is damaged or truncated"),
    ("g.csv.gz", gzip.compress(CSV) + b"more", "its gzip data is damaged or truncated"),
    ("g.csv.bz2", bz2.compress(CSV)[:-100], "its bz2 data is damaged or truncated"),
    ("g.csv.zst", ZSTD[:-100], "its zstd data is damaged or truncated"),
    ("g.csv.zip", _zip({"g.csv": CSV})[:-100], "its zip data is damaged or truncated"),
    ("g.csv.gz", CSV, "its suffix means gzip, but it is not compressed"),
    ("g.csv.gz", ZSTD, "its suffix means gzip, but it is compressed with zstd"),
    ("g.csv.gz", b"", "its suffix means gzip, but it is empty"),
    ("g.zip", _zip({"a.csv": CSV, "b.csv": CSV}), "it contains 2 files; unpack it and name the one to read"),
    ("g.zip", _zip({}), "it contains 0 files"),
    ("g.tar", _tar(CSV), "it is a tar archive: unpack it"),
    ("g.tar.gz", gzip.compress(_tar(CSV)), "it is a tar archive: unpack it"),
    ("g.csv.xz", b"\xfd7zXZ\x00" + RUBBISH, "it is compressed with xz"),
    ("g.db", b"SQLite format 3\x00" + RUBBISH, "it is an SQLite database"),
    ("g.txt", b"%%MatrixMarket matrix coordinate\n3 3 2\n1 2\n2 3\n", "it is a Matrix Market file"),
    ("g.csv", RUBBISH, "it is neither Parquet, Arrow nor text"),
    ("g.txt", RUBBISH, "it is neither Parquet, Arrow nor text"),
    ("g.jsonl", RUBBISH, "it is neither Parquet, Arrow nor text"),
    ("g.csv", bytes(100), "it is neither Parquet, Arrow nor text"),
    ("g.parquet", RUBBISH, "its suffix means parquet, but it has another format"),
    ("g.parquet", b"", "its suffix means parquet, but it is empty"),
    ("g.parquet", b"PAR1" + RUBBISH + b"PAR1", "it is damaged or truncated, or not a file of parquet"),
    ("g.arrow", b"ARROW1" + RUBBISH, "it is damaged or truncated, or not a file of arrow"),
    ("g.arrow", b"\xff\xff\xff\xff" + RUBBISH, "it is damaged or truncated, or not a file of arrow"),
    ("g.csv", "src,dst\n1,2\n".encode("utf-16"), "it is text in UTF-16"),
    ("g.csv", b"src,dst\n1,2\n1,caf\xe9\n", "line 3 is not UTF-8 text"),
    ("g.jsonl", b'{"src":1,"dst":2}\n{"src":"\xe9"}\n', "line 2 is not UTF-8 text"),
    ("g.csv", b"src,dst\n1,2\n3,4,5\n6\n", r"the line has 3 fields instead of 2: '3,4,5' \(2 such lines\)"),
    ("g.csv", b"src,dst\n1,2,\n", "the line has 3 fields instead of 2"),
    ("g.txt", b"1\t2\n3\n", "the line has 1 fields instead of 2"),
    ("g.csv", b'src,dst\n1,2\n3,"4\n5,6\n', "line 3: quotes must enclose"),
    ("g.csv", b'src,dst\r\n1,2\r\n3,"4"x\r\n', "line 3: quotes must enclose"),
    ("g.csv", b'src,dst\n1, "2"\n', "line 2: quotes must enclose"),
    ("g.csv", b'"src,dst\n1,2\n', "line 1: quotes must enclose"),
    ("g.csv", b"src,dst\n1,2\n3,4\r5,6\n", "line 3 has another line ending than the first line"),
    ("g.csv", b"src,dst\r1,2\r3,4\n5,6\r", "line 3 has another line ending than the first line"),
    ("g.txt", b'1 2\n3 "4"\r', "line 2 has another line ending than the first line"),
    ("g.txt", b"1\n", "the first line, '1', has 1 field, but relation 'g' has the columns src, dst"),
    ("g.csv", b"a,b\n1,2\n", "neither names the columns src, dst of relation 'g' nor is a row of them"),
    ("g.txt", b"from to\n1 2\n", "neither names the columns src, dst of relation 'g' nor is a row of them"),
    ("g.csv", b"1,2,-1\n3,4,1\n", "is not a header; put one with the columns src, dst"),
    ("g.csv.gz", gzip.compress(b"6,2,4,1289241911\n"), "or declare a column for each of its fields"),
    ("g.jsonl", b'{"src":1,"dst":2}\n{"src":1,\n', "line 3 is not JSON, or is truncated"),
    ("g.jsonl", b'{"src":1,"dst":2}\n5\n', "line 2 has a row that is not a JSON object: 5"),
    ("g.jsonl", b'{"src":1,"dst":2,"src":3}\n', "line 1 has the member 'src' twice"),
    ("g.jsonl", b'{"src":"\\ud800","dst":2}\n', "a text in it has half of a surrogate pair"),
    ("g.json", b"[" * 100_000, "it is nested too deeply"),
    ("g.json", b"src,dst\n1,2\n", "line 1 is not JSON"),
]


@pytest.mark.parametrize(("name", "data", "said"), WRONG, ids=[f"{i} {name}" for i, (name, _, _) in enumerate(WRONG)])
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(
    name: str, data: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(FileError, match=said) as caught:
        RowsFile(path).rows(TABLE)
    assert str(caught.value).startswith(f"cannot read {path}: ")
    assert "\n" not in str(caught.value)
    run = ["run", "Q(a, c) :- g(a, b), g(b, c).", "--schema", "g(src int64, dst int64)", "--quiet", "--input"]
    assert main([*run, f"g={path}"]) == 2
    assert capsys.readouterr().err == f"crown: {caught.value}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [("r.csv", "who,where\nann,paris\n"), ("r.txt", "who,where\nann,paris\n"), ("r.tsv", "a\tb\nc\td\n")],
)
def test_a_header_of_other_names_is_no_row_of_texts(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FileError, match="is not a header; put one with the columns name, city of relation 'g' on top"):
        RowsFile(tmp_path / name).rows(TEXTS)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"# none\r\n"])
@pytest.mark.parametrize("name", ["g.csv", "g.tsv", "g.txt", "g.jsonl"])
def test_a_file_without_lines_has_no_rows(name: str, data: bytes, tmp_path: Path) -> None:
    data = data if name != "g.jsonl" else data.replace(b"# none", b"")
    (tmp_path / name).write_bytes(data)
    assert RowsFile(tmp_path / name).rows(TABLE).num_rows == 0
    (tmp_path / "more.csv").write_text("src,dst,_weight\n1,2,-1\n")
    assert RowsFile(tmp_path).rows(TABLE).num_rows == 1


def test_a_folder_that_cannot_be_read_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        RowsFile(tmp_path / "none").rows(TABLE)
    with pytest.raises(FileError, match="the folder is empty"):
        RowsFile(tmp_path).rows(TABLE)
    (tmp_path / "1.csv").write_text("src,dst,_weight\n1,2,-1\n")
    (tmp_path / "2.csv").write_text("src,dst\n1,2\n")
    with pytest.raises(FileError, match=r"1\.csv has a column '_weight', but 2\.csv has none"):
        RowsFile(tmp_path).rows(TABLE)
    (tmp_path / "2.csv").write_text("src\n1\n")
    with pytest.raises(FileError, match="the same columns"):
        RowsFile(tmp_path).rows(TABLE)
    (tmp_path / "date=1").mkdir()
    with pytest.raises(FileError, match="there is a folder in it, date=1"):
        RowsFile(tmp_path).rows(TABLE)


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("r.csv", delimited([*ROWS, *TEXTED], ",", "needed", True, "\n")),
        ("r.jsonl", json_lines(ROWS)),
        ("r.parquet", parquet(ROWS)),
        ("r.arrow", arrow_file(ROWS, False)),
        ("r.arrows", arrow_file(ROWS, True)),
    ],
)
def test_a_damaged_file_is_refused_or_read_and_ends_in_no_other_error(name: str, data: bytes, packing: str) -> None:
    whole = PACKINGS[packing](data)
    rng = np.random.default_rng(7)
    said = []
    for round_ in range(20):
        damaged = bytearray(whole)
        if round_ % 2:
            del damaged[rng.integers(len(whole)) :]
        else:
            damaged[rng.integers(len(whole))] ^= int(rng.integers(1, 256))
        try:
            rows_of(bytes(damaged), name + packing, GRID).validate(full=True)
        except FileError as error:
            said.append(str(error))
    assert len(said) > 3
    assert not any("\n" in text for text in said)
