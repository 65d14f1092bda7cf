"""Rows of files that cannot be used: a project refuses the same on Spark and in one process, once, and goes on."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import crown
from crown.commands.main import main
from crown.projects.quarantine import counts
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.pipeline import Pipeline
from tests.spark.pipelines.shop import table

COLUMNS = "n BIGINT NOT NULL, d DECIMAL(9,2), said STRING"
CSV = {
    "1.csv": 'n,d,said\n1,1.5,"a\nb"\nx,1,b\n2,"1,1",c\n3,1,c,4\n,1,d\n',
    "2.csv": 'n,d,said\n4,1,"open\n5,1,e\n',
    "3.csv": "n,said\n6,f\n",
    "4.csv": "n,d,said\n7,0.25,g\n",
}
JSON = {
    "1.json": '{"n": 1, "d": 1.5, "said": "a"}\n{"n": 2, "d": "1,1"}\n{"n": 3}{"n": 33}\n{"n": 4, "d": 1\n[5]\n'
    '{"n": "x"}\n{"d": 7}\n{"n": 8, "n": 9}\n{"m": 1}\n{"n": 10, "said": {"m": 1}}\n',
    "2.json": '[{"n": 11}, {"n": 12',
    "3.json": '{"n": 13}\n',
}
GOOD = {"csv": {1, 7}, "json": {1, 10, 13}}
REFUSED = {"csv": {"1.csv": 4, "2.csv": 1, "3.csv": 1}, "json": {"1.json": 8, "2.json": 1}}


def written(folder: Path, kind: str, stream: bool, how: str = "quarantine") -> None:
    read = "STREAM(r)" if stream else "r"
    made = "STREAMING TABLE" if stream else "MATERIALIZED VIEW"
    (folder / "spark-pipeline.yml").write_text(
        "name: p\nstorage: storage\nlibraries: [{glob: {include: views.sql}}]\nconfiguration:\n"
        f'  crown.on_bad_row: {how}\n  crown.source.r: "{kind}:in?columns={COLUMNS}"\n'
    )
    (folder / "views.sql").write_text(
        f"CREATE {made} kept AS SELECT * FROM {read};\nCREATE MATERIALIZED VIEW v AS SELECT n, d, said FROM kept;\n"
    )
    (folder / "in").mkdir()
    for name, text in (CSV if kind == "csv" else JSON).items():
        (folder / "in" / name).write_text(text)


def quarantined(folder: Path) -> dict[str, list[dict[str, object]]]:
    files = sorted((folder / "quarantine" / "r").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return {name: [row for row in rows if row["file"] == name] for name in sorted({row["file"] for row in rows})}


@pytest.mark.parametrize("kind", ["csv", "json"])
@pytest.mark.parametrize("stream", [False, True])
def test_spark_and_one_process_refuse_the_same_rows(spark, tmp_path: Path, kind: str, stream: bool) -> None:
    written(tmp_path, kind, stream)
    with crown.database(tmp_path) as db:
        report = db.run()
        wanted = Counter(tuple(row.values()) for row in db["v"])
        assert db.run().quarantined == report.quarantined
    assert {row[0] for row in wanted} == GOOD[kind]
    found = quarantined(tmp_path / "storage" / "embedded")
    assert {name: len(rows) for name, rows in found.items()} == REFUSED[kind]
    assert report.quarantined == {"r": sum(REFUSED[kind].values())}
    assert all(
        row["reason"] and (row["data"] or row["reason"].startswith(("cannot", "source")))
        for of in found.values()
        for row in of
    )
    report = Pipeline.of(spark, Project.of(tmp_path)).run()
    assert table(tmp_path / "storage" / "tables" / "v") == wanted
    assert report.quarantined == {"r": sum(REFUSED[kind].values())}
    assert quarantined(tmp_path / "storage") == found


def test_a_row_that_was_corrected_leaves_the_quarantine(spark, tmp_path: Path, capsys) -> None:
    written(tmp_path, "csv", False)
    assert main(["run", str(tmp_path)]) == 0
    assert "source r  6 rows are in the quarantine" in capsys.readouterr().out
    assert Pipeline.of(spark, Project.of(tmp_path)).run().quarantined == {"r": 6}
    (tmp_path / "in" / "1.csv").write_text("n,d,said\n1,1.5,a\n2,1.1,c\n")
    (tmp_path / "in" / "2.csv").unlink()
    (tmp_path / "in" / "3.csv").write_text("n,d,said\n6,,f\n8,,f,9\n")
    pipeline = Pipeline.of(spark, Project.of(tmp_path))
    assert pipeline.run().quarantined == {"r": 1}
    assert pipeline.status()["quarantined"] == {"r": 1}
    assert 'crown_pipeline_quarantined_rows{folder="' in pipeline.metrics()
    assert {row[0] for row in table(tmp_path / "storage" / "tables" / "v")} == {1, 2, 6, 7}
    pipeline.restore(1)
    assert pipeline.status()["quarantined"] == {"r": 1}
    assert pipeline.run().quarantined == {"r": 1}
    assert pipeline.full_refresh().quarantined == {"r": 1}
    with crown.database(tmp_path) as db:
        assert db.run().quarantined == {"r": 1}


def test_files_that_spark_lists_are_read_alike(spark, tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / "in" / f"p={part}").mkdir(parents=True)
        for name, text in CSV.items():
            (tmp_path / "in" / f"p={part}" / name).write_text(text)
    pipeline = crown.spark.pipeline(spark, tmp_path / "state", on_bad_row="quarantine")
    pipeline.source("r", f"csv:{tmp_path}/in?columns={COLUMNS}")
    pipeline.view("v", "SELECT p, n FROM r")
    for _ in range(2):
        assert pipeline.run().quarantined == {"r": 12}
        assert table(tmp_path / "state" / "tables" / "v") == Counter([(1, 1), (1, 7), (2, 1), (2, 7)])
    assert pipeline.run().read["r"] == (0, "no new file")
    (tmp_path / "in" / "p=3").mkdir()
    (tmp_path / "in" / "p=3" / "5.csv").write_text("n,d,said\n8,1,h\nx,1,i\n")
    report = pipeline.run()
    assert report.read["r"] == (1, "1 new files")
    assert report.quarantined == {"r": 13}
    assert table(tmp_path / "state" / "tables" / "v")[3, 8] == 1
    (tmp_path / "in" / "p=3" / "5.csv").unlink()
    for name in ("1.csv", "2.csv", "3.csv"):
        (tmp_path / "in" / "p=1" / name).unlink()
    assert pipeline.run().quarantined == {"r": 6}
    strict = crown.spark.pipeline(spark, tmp_path / "strict")
    strict.source("r", f"csv:{tmp_path}/in?columns={COLUMNS}")
    strict.view("v", "SELECT p, n FROM r")
    with pytest.raises(crown.CrownError, match=r"^source r: .*/in/p=2/[123]\.csv.* \(crown\.on_bad_row: quarantine"):
        strict.run()


def test_local_text_files_need_no_session_and_spark_computes_views_of_their_good_rows(spark, tmp_path: Path) -> None:
    written(tmp_path, "csv", False)
    Pipeline.of(spark, Project.of(tmp_path)).run()
    settings = json.loads(json.dumps(Session.of(spark).settings()))

    def start() -> None:
        raise AssertionError("a session is started")

    (tmp_path / "in" / "5.csv").write_text("n,d,said\n8,1,h\nx,1,h\n")
    report = Pipeline.of(Session(start, lambda: settings), Project.of(tmp_path)).run()  # type: ignore[arg-type]
    assert report.read["r"] == (1, "1 new files")
    assert report.quarantined == {"r": 7}
    pipeline = crown.spark.pipeline(spark, tmp_path / "state", refresh="full", on_bad_row="quarantine")
    pipeline.source("r", f"csv:{tmp_path}/in?columns={COLUMNS}")
    pipeline.view("v", "SELECT n FROM r")
    assert set(pipeline.run().computed) == {"v"}
    assert table(tmp_path / "state" / "tables" / "v") == Counter([(1,), (7,), (8,)])


@pytest.mark.parametrize("given", ["", "Quarantine", "drop"])
def test_another_choice_is_refused(spark, tmp_path: Path, given: str) -> None:
    written(tmp_path, "csv", False, f"'{given}'")
    with pytest.raises(crown.CrownError, match=r"crown\.on_bad_row: .*: write one of fail, quarantine"):
        crown.database(tmp_path)
    with pytest.raises(crown.CrownError, match=r"crown\.on_bad_row: .*: write one of fail, quarantine"):
        Pipeline.of(spark, Project.of(tmp_path))
    with pytest.raises(crown.CrownError, match=r"on_bad_row=.*: give one of fail, quarantine"):
        crown.spark.pipeline(spark, tmp_path / "state", on_bad_row=given)


def test_a_quarantine_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    written(tmp_path, "csv", False)
    (tmp_path / "storage" / "embedded").mkdir(parents=True)
    (tmp_path / "storage" / "embedded" / "quarantine").write_text("")
    with crown.database(tmp_path) as db, pytest.raises(crown.CrownError, match="quarantine/r cannot be written"):
        db.run()
    (tmp_path / "storage" / "embedded" / "quarantine").unlink()
    with crown.database(tmp_path) as db:
        assert db.run().version == 2
    assert sum(counts(tmp_path / "storage" / "embedded" / "quarantine").values()) == 6
