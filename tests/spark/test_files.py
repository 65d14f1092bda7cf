"""Files on Spark are read as the embedded engine reads them: the same grid, and the same refusals."""

import gzip
import os
import time

import pytest

from plans.errors import FileError
from plans.files.rows import RowsFile
from plans.schema import Schema
from spark_jobs.errors import SourceError
from spark_jobs.ingest.rows import check
from spark_jobs.ingest.sources import Input, changes
from spark_jobs.job.failures import failure
from tests.marks import slow
from tests.plans.files.grid import KINDS, PACKINGS, ROWS, TABLE, TEXTS, delimited, json_lines


def read(spark, path, table=TABLE, **options):
    frame = changes(spark, Input(table.name, path, Input.parse(f"r={path}").format, options), table, None, False)
    rows = check(frame, table, [column.name for column in table.columns])
    columns = [rows.columns[column.name].alias(column.name) for column in table.columns]
    return [tuple(row) for row in rows.frame.select(*columns).collect()]


@pytest.mark.parametrize("packing", ["", *(slow(packing) for packing in PACKINGS if packing not in ("", ".zip"))])
@pytest.mark.parametrize(
    ("name", "mark", "quotes", "end", "header"),
    [
        ("r.csv", ",", "needed", "\n", True),
        ("r.csv", ";", "all", "\n", True),
        ("r.tsv", "\t", "needed", "\n", True),
        ("r.csv", ",", "none", "\r\n", True),
        ("r.csv", ",", "all", "\n", False),
    ],
)
def test_text_is_read_as_it_was_written(spark, tmp_path, name, mark, quotes, end, header, packing):
    rows = ROWS + (TEXTS if quotes != "none" else [])
    (tmp_path / (name + packing)).write_bytes(PACKINGS[packing](delimited(rows, mark, quotes, header, end)))
    assert read(spark, tmp_path / (name + packing)) == rows


def test_json_lines_are_read_as_they_were_written(spark, tmp_path):
    (tmp_path / "r.jsonl").write_bytes(json_lines([*ROWS, *TEXTS]))
    assert read(spark, tmp_path / "r.jsonl") == [*ROWS, *TEXTS]


def test_a_folder_has_one_header_in_any_order(spark, tmp_path):
    table = Schema.of({"r": {"a": "int64", "b": "string"}})["r"]
    (tmp_path / "1.csv").write_text("a,b\n1,x\n")
    (tmp_path / "2.csv").write_text('B,a\n"y",2\n')
    (tmp_path / "3.csv.gz").write_bytes(gzip.compress(b"a,b\n3,z\n"))
    assert sorted(read(spark, tmp_path, table)) == [(1, "x"), (2, "y"), (3, "z")]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_file_counts_however_old_it_is(spark, tmp_path, kind):
    table = Schema.of({"r": {"a": "int64"}})["r"]
    (tmp_path / "in").mkdir()
    stream = changes(spark, Input("r", tmp_path / "in", kind, {}), table, None, True)
    for a, days in ((1, 0), (2, 400)):
        file = tmp_path / "in" / f"{a}.{kind}"
        file.write_text(f"a,_weight\n{a},1\n" if kind == "csv" else f'{{"a": {a}}}\n')
        os.utime(file, ns=(time.time_ns() - days * 86_400 * 10**9,) * 2)
        writer = stream.writeStream.format("json").option("checkpointLocation", str(tmp_path / "state"))
        writer.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert spark.read.json(str(tmp_path / "out")).count() == 2


@pytest.mark.parametrize(
    "data",
    [b'i,s\n1,"x\n2,y\n', b'i,s\n1,"x"y\n', b'i,s\n1, "x"\n', b"i,s\n1,caf\xe9\n", gzip.compress(b"i,s\n1,x\n")[:-4]],
    ids=["open", "more", "blank", "latin", "cut"],
)
def test_a_file_that_cannot_be_read_ends_in_the_sentence_of_the_embedded_engine(spark, tmp_path, data):
    table = Schema.of({"r": {"i": "int64", "s": "string"}})["r"]
    path = tmp_path / ("r.csv.gz" if data[:1] == b"\x1f" else "r.csv")
    path.write_bytes(data)
    with pytest.raises(FileError) as embedded:
        RowsFile(path).rows(table)
    with pytest.raises(Exception, match="cannot read") as error:
        read(spark, path, table)
    said = str(error.value) if isinstance(error.value, SourceError) else str(failure(error.value))
    assert str(path) in said
    if path.suffix == ".csv":
        assert str(embedded.value) in said
    assert "\n" not in said


def test_options_of_another_reader_are_refused(spark, tmp_path):
    (tmp_path / "r.csv").write_bytes(delimited(ROWS, ",", "all", True, "\n"))
    with pytest.raises(SourceError, match="CSV has no option escape; crown reads CSV itself, with header, sep"):
        read(spark, tmp_path / "r.csv", escape="x")
    with pytest.raises(SourceError, match=r"sep=\|\|: give one character"):
        read(spark, tmp_path / "r.csv", sep="||")


@pytest.mark.parametrize("text", ["0x1p3", "1d", "1.5f", "1e400", "1_0"])
def test_numbers_of_other_languages_are_bad_rows(spark, tmp_path, text):
    table = Schema.of({"r": {"f": "float64", "s": "string"}})["r"]
    (tmp_path / "r.csv").write_text(f"f,s\n{text},x\n2.5,y\ninf,z\n")
    frame = changes(spark, Input("r", tmp_path, "csv"), table, None, False)
    rows = check(frame, table, ["f"])
    assert [bool(row[0]) for row in rows.frame.select(rows.bad).collect()] == [True, False, False]


def test_a_file_is_read_in_pieces_of_whole_rows(tmp_path):
    from spark_jobs.ingest.text_files import TextFiles

    for end in ("\n", "\r\n"):
        data = delimited([*ROWS, *TEXTS] * 3, ",", "needed", True, end)
        (tmp_path / "r.csv").write_bytes(data)
        files = TextFiles(TABLE, tuple(KINDS), None, True)
        whole = [row for batch in files.rows(tmp_path / "r.csv") for row in batch.to_pylist()]
        assert len(whole) == 3 * len([*ROWS, *TEXTS])
        for size in (120, 150, 1000):
            assert [row for part in files.rows(tmp_path / "r.csv", size) for row in part.to_pylist()] == whole
