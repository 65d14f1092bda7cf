"""What a pipeline writes down of its runs. Oracle: the reports of the runs added up, and the rows of the tables."""

from __future__ import annotations

import json
import os
import random
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import crown
from crown.commands.main import main
from crown.durable.database import DurableDatabase
from crown.errors import CrownError, RecoveryWarning
from crown.store.words_file import can_be_mapped
from plans.schema import Schema
from spark_jobs.errors import CheckpointError, SourceError
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.state import PipelineState, damage
from spark_jobs.pipelines.vitals import Record, lines, prometheus, vitals
from spark_jobs.tables.results.merge import DeltaResult
from tests.marks import slow
from tests.spark.pipelines.shop import Died, dies, table

VIEWS = {
    "joined": "SELECT r.k, r.x, s.y FROM r JOIN s ON r.k = s.k",
    "sums": "SELECT k, SUM(x) AS x FROM joined GROUP BY k",
    "counted": "SELECT k, BIT_OR(x) OVER (ORDER BY k) AS bits FROM sums WHERE rand() < 2",  # by Spark
}


class Project:
    """A frame and a Delta table that change, and three views of them."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder, self.rng = spark, folder, random.Random(1)
        self.r: list[tuple[int, int]] = [(1, 2)]
        self.s = folder / "s"
        write_deltalake(self.s, pa.table({"k": [1, 2], "y": [10, 20]}))

    def pipeline(self, verify: bool = False) -> Pipeline:
        made = crown.spark.pipeline(self.spark, self.folder / "state", verify=verify)
        made.source("r", lambda: self.spark.createDataFrame(self.r, "k long, x long"))
        made.source("s", f"delta:{self.s}")
        for name, query in VIEWS.items():
            made.view(name, query)
        return made

    def change(self) -> None:
        self.r = [row for row in self.r if self.rng.random() < 0.7]
        self.r += [(self.rng.randrange(4), self.rng.randrange(9)) for _ in range(3)]
        if self.rng.random() < 0.5:
            write_deltalake(
                self.s, pa.table({"k": [self.rng.randrange(4)], "y": [self.rng.randrange(9)]}), mode="append"
            )

    def check(self, pipeline: Pipeline) -> None:
        for name, view in pipeline.status()["views"].items():
            assert view["rows"] == table(self.folder / "state" / "tables" / name).total(), name


@pytest.fixture
def project(spark, tmp_path: Path) -> Project:
    return Project(spark, tmp_path)


def samples(text: str) -> dict[str, float]:
    """The samples of a text in Prometheus' format, without the folder; every metric has one type and meaning."""
    found, typed = {}, Counter(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    assert set(typed.values()) <= {1}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'(\w+)\{folder="[^"]+"(?:,(.*))?\} (\S+)', line)
            assert match is not None, line
            assert match[1] in typed
            found[match[1] + (f" {match[2]}" if match[2] else "")] = float(match[3])
    return found


@pytest.mark.parametrize("how", ["changed", "refreshed"])
def test_the_rows_of_a_view_that_begins_anew_are_counted_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    project.pipeline().run()
    if how == "changed":
        monkeypatch.setitem(VIEWS, "sums", "SELECT k, MAX(x) AS x FROM joined GROUP BY k")
        project.pipeline().run()
    else:
        project.pipeline().full_refresh("sums")
    project.check(project.pipeline())


def test_what_is_written_down_is_what_the_runs_did(project: Project) -> None:
    pipeline = project.pipeline()
    assert pipeline.status() == {}
    assert pipeline.metrics() == ""
    read: Counter[str] = Counter()
    changed: Counter[tuple[str, int]] = Counter()
    for number in range(1, 4):
        report = project.pipeline().run()
        read.update({name: rows for name, (rows, _) in report.read.items()})
        changed.update({(name, i): counts[i] for name, counts in report.changed.items() for i in (0, 1)})
        found = pipeline.status()
        assert (found["version"], found["runs"]) == (report.version, {"succeeded": number, "failed": 0})
        assert set(found["success"]["phases"]) >= {"analyze", "open", "read"}
        assert sum(found["success"]["phases"].values()) <= found["success"]["seconds"] == report.seconds
        assert (found["error"], found["process"]) == (None, 0)
        assert {name: one["rows_total"] for name, one in found["sources"].items()} == read
        for name, view in found["views"].items():
            assert (view["inserted"], view["deleted"]) == report.changed.get(name, (0, 0))
            assert (view["inserted_total"], view["deleted_total"]) == (changed[name, 0], changed[name, 1])
        assert found["views"]["joined"]["read"] == sum(rows for rows, _ in report.read.values())
        assert found["views"]["sums"]["read"] == sum(report.changed.get("joined", (0, 0)))
        project.check(pipeline)
        if number != 2:  # one run finds nothing
            project.change()


def test_it_is_seen_from_outside_while_a_process_watches(project: Project, capsys, tmp_path: Path) -> None:
    rounds = project.pipeline().watch(0.0)
    next(rounds)
    write_deltalake(project.s, pa.table({"k": [3], "y": [4]}), mode="append")
    write_deltalake(project.s, pa.table({"k": [4], "y": [4]}), mode="append")
    found = project.pipeline().status()
    assert found["process"] == os.getpid()
    assert found["sources"]["s"]["behind"]["versions"] == 2
    assert 0 <= found["sources"]["s"]["behind"]["seconds"] < 3600
    numbers = samples(project.pipeline().metrics())
    assert numbers["crown_pipeline_up"] == 1
    assert numbers['crown_pipeline_source_versions_behind source="s"'] == 2
    file = tmp_path / "crown.prom"
    assert main(["top", str(tmp_path / "state"), "--once", "--json", "--prometheus", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 1
    assert samples(file.read_text()).keys() == numbers.keys()
    next(rounds)
    assert project.pipeline().status()["sources"]["s"]["behind"] == {"versions": 0, "seconds": 0.0}
    rounds.close()
    assert samples(project.pipeline().metrics())["crown_pipeline_up"] == 0


def test_opentelemetry_exports_the_numbers_of_prometheus(project: Project) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.metrics")
    reader = sdk.export.InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    pipeline = project.pipeline()
    pipeline.instrument(provider)
    assert reader.get_metrics_data() is None or not exported(reader), "there is no run yet"
    project.pipeline().run()
    time.sleep(1.1)  # numbers are good for a second
    wanted = {name: n for name, n in samples(pipeline.metrics()).items() if "lag_seconds" not in name}
    found = {name: n for name, n in exported(reader).items() if "lag_seconds" not in name}
    assert found == {re.sub(r"_total\b", "", name): n for name, n in wanted.items()}
    assert len(found) > 20
    with pytest.raises(CrownError, match="give a MeterProvider of OpenTelemetry"):
        pipeline.instrument(3)
    provider.shutdown()


def exported(reader: Any) -> dict[str, float]:
    """What a reader of OpenTelemetry gets, as ``samples`` has it."""
    data = reader.get_metrics_data()
    found = {}
    for resource in data.resource_metrics if data is not None else ():
        for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
            for point in metric.data.data_points:
                labels = ",".join(f'{k}="{v}"' for k, v in point.attributes.items() if k != "folder")
                found[metric.name + (f" {labels}" if labels else "")] = point.value
    return found


def test_a_run_that_fails_is_told_until_one_succeeds(project: Project) -> None:
    pipeline = project.pipeline()
    pipeline.source("r", lambda: project.spark.table("not_there"))
    with pytest.raises(Exception, match="not_there"):
        pipeline.run()
    assert not (project.folder / "state").exists(), "there is nothing to tell of"
    project.pipeline().run()
    with pytest.raises(Exception, match="not_there"):
        pipeline.run()
    found = pipeline.status()
    assert found["runs"] == {"succeeded": 1, "failed": 1}
    assert "not_there" in found["error"]["said"]
    assert any("the newest run failed" in line and "not_there" in line for line in lines(found))
    assert samples(pipeline.metrics())["crown_pipeline_failed"] == 1
    with pytest.raises(CrownError, match="version must be a whole number of 0 or more, not True"):
        pipeline.restore(True)
    with pytest.raises(SourceError, match="every must be a number of seconds of 0 or more, not -1"):
        pipeline.watch(-1)
    with pytest.raises(SourceError, match="version 9 cannot be restored"):
        project.pipeline().restore(9)
    for does, said in (
        (lambda made: made.refresh("nothing"), "there is no view called nothing"),
        (lambda made: made.refresh(sources=["nothing"]), "no view reads a source called nothing"),
        (lambda made: made.full_refresh("nothing"), "there is no view called nothing"),
        (lambda made: made.drop("nothing"), "the state has no view called nothing"),
    ):
        with pytest.raises(SourceError, match=said):
            does(project.pipeline())
    assert pipeline.status()["runs"] == {"succeeded": 1, "failed": 1}, "a wrong argument is no failure"
    project.pipeline().run()
    found = pipeline.status()
    assert found["runs"] == {"succeeded": 2, "failed": 1}
    assert samples(pipeline.metrics())["crown_pipeline_failed"] == 0
    assert any("last error" in line and "not_there" in line for line in lines(found))
    read_at = found["sources"]["s"]["at"]
    project.s.rename(project.folder / "away")
    with pytest.raises(SourceError, match="not a Delta table"):
        project.pipeline().run()
    project.pipeline().restore(1)
    project.check(pipeline)
    assert pipeline.status()["sources"]["s"]["at"] == read_at, "restoring reads no source"
    assert pipeline.status()["runs"] == {"succeeded": 3, "failed": 2}


def test_a_state_is_read_whole_where_that_is_asked_for(project: Project) -> None:
    project.pipeline().run()
    project.change()
    rounds = project.pipeline().watch(0.0)
    next(rounds)
    assert "damaged" not in project.pipeline().status()
    found = project.pipeline().status(verify=True)
    assert found["damaged"] == []
    assert "the state is intact" in list(lines(found))
    rounds.close()
    snapshot = max((project.folder / "state" / "crown" / "state").glob("*.snapshot"), key=lambda path: int(path.stem))
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-1] + b"\1")  # behind the last part, where no run looks
    project.pipeline().run()
    found = project.pipeline().status(verify=True)
    assert found["damaged"] == [f"{snapshot} is damaged: its checksum does not match"]
    assert any("the state is damaged" in line and "run --verify" in line for line in lines(found))
    project.change()
    with pytest.warns(RecoveryWarning, match="is damaged: its checksum does not match; it was rebuilt from"):
        project.pipeline(verify=True).run()
    project.check(project.pipeline())
    assert project.pipeline().status(verify=True)["damaged"] == []


def test_no_snapshot_hides_that_the_state_was_mapped_from_a_damaged_one(tmp_path: Path) -> None:
    if not can_be_mapped():
        pytest.skip("this system maps no file over an array")

    def step(rows: list[int], verify: bool = False) -> int:
        schema = Schema.of({"r": {"k": "int64"}})
        with PipelineState(tmp_path, 1, verify).opened(schema) as (database, _):
            database.update({"r": {"k": rows}})
            database.snapshot()
            return database.table("r").num_rows

    step([1, 2])
    (snapshot,) = (tmp_path / "crown" / "state").glob("*.snapshot")
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-1] + b"\1")
    with pytest.raises(CheckpointError, match=r"is damaged: .* no other snapshot is written.*pipelines run --verify"):
        step([3])
    with pytest.warns(RecoveryWarning, match="is damaged: its checksum does not match; it was rebuilt from the log"):
        assert step([4], verify=True) == 4
    assert damage(tmp_path) == []


STEPS = [
    slow(DurableDatabase, "apply"),
    slow(DeltaResult, "apply"),
    slow(PipelineState, "commit"),
    (Record, "succeeded"),
]


@pytest.mark.parametrize(("of", "name"), STEPS, ids=lambda given: given if isinstance(given, str) else given.__name__)
def test_rows_are_counted_right_after_a_run_that_died(project: Project, monkeypatch, of: type, name: str) -> None:
    project.pipeline().run()
    project.change()
    with monkeypatch.context() as patch:
        patch.setattr(of, name, dies(getattr(of, name), 0, before=of is Record))
        with pytest.raises(Died):
            project.pipeline().run()
    project.change()
    project.pipeline().run()
    project.check(project.pipeline())


def test_a_damaged_record_is_said(tmp_path: Path) -> None:
    (tmp_path / "crown").mkdir()
    (tmp_path / "crown" / "vitals.json").write_text("[")
    with pytest.raises(CheckpointError, match=r"vitals\.json is damaged: delete it"):
        vitals(tmp_path)
    assert list(prometheus({})) == []
    assert list(lines({})) == ["no run yet"]


def test_the_command_writes_the_file_also_if_the_run_fails(spark, tmp_path: Path, capsys) -> None:
    text = (
        "name: p\nstorage: storage\nlibraries: [{glob: {include: v.sql}}]\nconfiguration: {crown.source.s: delta:s}\n"
    )
    (tmp_path / "spark-pipeline.yml").write_text(text)
    (tmp_path / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT k, COUNT(*) AS n FROM s GROUP BY k")
    write_deltalake(tmp_path / "s", pa.table({"k": [1, 1, 2]}))
    command = ["pipelines", "run", str(tmp_path), "--prometheus", str(tmp_path / "p.prom")]
    assert main(command) == 0
    first = samples((tmp_path / "p.prom").read_text())
    assert first['crown_pipeline_view_changed_rows_total view="v",change="inserted"'] == 2
    capsys.readouterr()
    assert main(["pipelines", "plan", str(tmp_path), "--cells", "2"]) == 0
    cut = "  s by k\n  a cell gets 1.5 of 3 rows (50%) if their values are even, all cells 3\n"
    cut += "a host with a cell of each group gets 1.5 rows, the single process of a pipeline 3: jobs of maintain() on "
    cut += "several hosts would have less to do\n"
    assert capsys.readouterr().out.endswith(f"group 1, 2 cells: v\n{cut}")
    assert main(["pipelines", "plan", str(tmp_path), "--cells", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["ways"] == {"s": [["k"]]}
    assert main(["pipelines", "run", str(tmp_path), "--cells", "2"]) == 2
    assert "crown pipelines plan takes --cells N, and no other action does" in capsys.readouterr().err
    assert main(["pipelines", "status", str(tmp_path), "--verify"]) == 0
    (snapshot,) = (tmp_path / "storage" / "crown" / "state").glob("*.snapshot")
    whole = snapshot.read_bytes()
    snapshot.write_bytes(whole[:-1] + b"\1")
    assert main(["pipelines", "status", str(tmp_path), "--verify"]) == 1
    assert f"the state is damaged: {snapshot} is damaged" in capsys.readouterr().out
    snapshot.write_bytes(whole)
    (tmp_path / "v.sql").write_text("CREATE MATERIALIZED VIEW v AS SELEC 1")
    assert main(command) == 2
    now = samples((tmp_path / "p.prom").read_text())
    assert (now["crown_pipeline_failed"], now['crown_pipeline_runs_total ended="failed"']) == (1, 1)
    capsys.readouterr()
    assert main(["pipelines", "status", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["history"] == [1]
    assert "v.sql:1" in found["error"]["said"]
    assert DeltaTable(str(tmp_path / "storage" / "tables" / "v")).version() >= 0
