"""Refresh policies, refreshes of some views, and views that are dropped. Oracle: the rows of the sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import crown
from crown.commands.main import main
from spark_jobs.errors import SourceError
from spark_jobs.pipelines.definitions.dbt import project_of
from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session
from spark_jobs.pipelines.maker import Maker
from spark_jobs.pipelines.pipeline import Pipeline
from spark_jobs.pipelines.state import PipelineState
from tests.marks import slow
from tests.spark.pipelines.shop import Died, dies, table
from tests.spark.pipelines.test_dbt import manifest, model

VIEWS = {
    "of_r": "SELECT k, COUNT(*) AS n FROM r GROUP BY k",
    "of_s": "SELECT k, COUNT(*) AS n FROM s GROUP BY k",
    "both": "SELECT a.k, a.n, b.n AS m FROM of_r a JOIN of_s b ON a.k = b.k",
    "bits": "SELECT k, BIT_OR(n) OVER (ORDER BY k) AS bits FROM of_s WHERE rand() < 2",  # by Spark
}


class Two:
    """Two Delta tables and views of them."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.rows: dict[str, list[int]] = {"r": [], "s": []}
        for name in self.rows:
            self.add(name, 1, 1, 2)

    def add(self, name: str, *rows: int) -> None:
        self.rows[name] += rows
        write_deltalake(self.folder / name, pa.table({"k": list(rows)}), mode="append")

    def pipeline(
        self, views: Mapping[str, str] = VIEWS, refresh: str = "auto", policies: Mapping[str, str] | None = None
    ) -> Pipeline:
        made = crown.spark.pipeline(self.spark, self.folder / "state", refresh=refresh)
        for name in self.rows:
            made.source(name, f"delta:{self.folder / name}")
        for name, query in views.items():
            made.view(name, query, refresh=(policies or {}).get(name))
        return made

    def check(self, s: list[int] | None = None, **found: Counter[tuple[object, ...]]) -> None:
        """Compares the tables of the views with what they are of these rows of the sources."""
        of_r, of_s = Counter(self.rows["r"]), Counter(self.rows["s"] if s is None else s)
        bits, up_to = Counter[tuple[object, ...]](), 0
        for k in sorted(of_s):
            up_to |= of_s[k]
            bits[k, up_to] += 1
        wanted: dict[str, Counter[tuple[object, ...]]] = {
            "of_r": Counter(of_r.items()),
            "of_s": Counter(of_s.items()),
            "both": Counter((k, of_r[k], of_s[k]) for k in of_r if k in of_s),
            "bits": bits,
        }
        for name, rows in {**wanted, **found}.items():
            assert table(self.folder / "state" / "tables" / name) == rows, name


@pytest.fixture
def two(spark, tmp_path: Path) -> Two:
    made = Two(spark, tmp_path)
    made.pipeline().run()
    return made


def test_a_refresh_reads_what_its_views_need_and_the_next_run_the_rest(two: Two) -> None:
    before = list(two.rows["s"])
    two.add("r", 2, 3)
    two.add("s", 2)
    report = two.pipeline().refresh("OF_R")
    assert set(report.read) == {"r"}
    assert not report.computed, "Spark's view reads no r"
    two.check(s=before)
    status = two.pipeline().status()
    assert status["sources"]["s"]["how"] == "not read"
    assert status["sources"]["s"]["at"] < status["sources"]["r"]["at"]
    assert not two.pipeline().refresh("of_r").changed, "nothing has changed"
    report = two.pipeline().refresh("both")
    assert (set(report.read), list(report.computed)) == ({"r", "s"}, [])
    held = table(two.folder / "state" / "tables" / "bits")
    two.check(bits=held)
    report = two.pipeline().run()
    assert list(report.computed) == ["bits"], "it was left as it was"
    two.check()
    assert not two.pipeline().run().changed
    two.add("s", 4)
    assert list(two.pipeline().refresh("bits").computed) == ["bits"]
    two.check()


def test_a_refresh_computes_views_that_are_new_and_reads_sources_that_were_never_read(two: Two) -> None:
    write_deltalake(two.folder / "t", pa.table({"k": [5]}))
    views = {
        **VIEWS,
        "more": "SELECT k, BIT_OR(n) OVER (ORDER BY k) AS b FROM of_s WHERE rand() < 2",
        "of_t": "SELECT k FROM t",
    }
    made = two.pipeline(views)
    made.source("t", f"delta:{two.folder / 't'}")
    report = made.refresh("of_r")
    assert set(report.read) == {"r", "t"}
    two.check(more=table(two.folder / "state" / "tables" / "bits"), of_t=Counter([(5,)]))


def test_a_restored_version_has_the_views_that_were_left_behind_then(two: Two) -> None:
    made = two.pipeline()
    two.add("s", 2)
    made.refresh("of_s")
    left = two.pipeline().status()["version"]
    two.pipeline().run()
    two.check()
    two.pipeline().restore(left)
    two.pipeline().run()
    two.check()


def test_a_view_is_dropped_when_its_definition_is_gone(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two.add("r", 7)
    with pytest.raises(SourceError, match="view bits: the view bits is still defined"):
        two.pipeline().drop("bits")
    few = {name: VIEWS[name] for name in ("of_r", "of_s")}
    with pytest.raises(crown.PlanError, match="both"):
        two.pipeline({"of_r": VIEWS["of_r"], "both": VIEWS["both"]}).drop("of_s")
    with pytest.raises(SourceError, match="the state has no view called nothing; it has: of_r, of_s, both, bits"):
        two.pipeline(few).drop("nothing")
    with pytest.raises(SourceError, match="drop needs names of views"):
        two.pipeline(few).drop()
    monkeypatch.setattr(Maker, "make", None)  # no source is read
    report = two.pipeline(few).drop("BOTH", "bits")
    monkeypatch.undo()
    assert not report.read
    assert {folder.name for folder in (two.folder / "state" / "tables").iterdir()} == {"of_r", "of_s"}
    assert table(two.folder / "state" / "tables" / "of_r") == Counter({(1, 2): 1, (2, 1): 1})
    assert set(two.pipeline(few).status()["views"]) == {"of_r", "of_s"}
    two.pipeline(few).run()
    two.pipeline().run()
    two.check()


def test_there_is_nothing_to_drop_before_the_first_run(spark, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no view to drop: this pipeline has not run yet"):
        crown.spark.pipeline(spark, tmp_path / "state").drop("v")
    with pytest.raises(SourceError, match="refresh takes the names of views"):
        crown.spark.pipeline(spark, tmp_path / "state").refresh()


@pytest.mark.parametrize("before", [True, slow(False)])
def test_a_drop_that_dies_is_finished_by_the_next_run(two: Two, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    few = {name: VIEWS[name] for name in ("of_r", "of_s", "bits")}
    with monkeypatch.context() as patch:
        patch.setattr(PipelineState, "commit", dies(PipelineState.commit, 0, before))
        with pytest.raises(Died):
            two.pipeline(few).drop("both")
    two.add("r", 1)
    two.pipeline(few).run()
    assert not (two.folder / "state" / "tables" / "both").exists()
    two.pipeline().run()
    two.check()


def test_spark_computes_a_view_whose_policy_is_full_and_the_others_read_it(two: Two) -> None:
    policies = {"of_r": "full"}
    report = two.pipeline(policies=policies).run()
    assert set(report.computed) == {"of_r", "bits"}
    two.check()
    steps = {step.name: (step.how, step.why) for step in two.pipeline(policies=policies).plan()}
    assert steps["of_r"] == ("full", "this is its refresh policy")
    assert steps["both"] == ("incremental", "")
    two.add("r", 2, 5)
    two.pipeline(policies=policies).run()
    two.check()
    two.pipeline().run()
    assert {step.how for step in two.pipeline().plan() if step.name != "bits"} == {"incremental"}
    two.add("r", 6)
    assert set(two.pipeline(refresh="full").run().computed) == set(VIEWS)
    two.check()


@pytest.mark.parametrize("policy", [slow("incremental"), "incremental_strict"])
def test_a_policy_refuses_a_view_that_cannot_be_maintained(two: Two, policy: str) -> None:
    two.pipeline(refresh=policy, policies={"bits": "auto"}).run()
    for made in (two.pipeline(refresh=policy), two.pipeline(policies={"bits": policy})):
        with pytest.raises(crown.PlanError, match="view bits cannot be maintained"):
            made.run()


def test_a_strict_policy_refuses_a_table_whose_history_is_gone(two: Two) -> None:
    for _ in range(2):
        two.add("s", 3)
        DeltaTable(two.folder / "s").optimize.compact()
    DeltaTable(two.folder / "s").delete("k = 3")
    two.rows["s"] = [k for k in two.rows["s"] if k != 3]
    DeltaTable(two.folder / "s").vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    strict = {"both": "incremental_strict"}
    with pytest.raises(
        SourceError,
        match="source s: versions that were not read yet were removed, and the policy of the view both is "
        "incremental_strict: run once under the policy incremental",
    ):
        two.pipeline(policies=strict).run()
    two.pipeline(policies={"of_r": "incremental_strict"}).run()
    two.check()
    assert two.pipeline(policies=strict).run().read["s"] == (0, "no new version")
    two.check()


def test_a_project_says_the_policies_of_its_views(two: Two, capsys: pytest.CaptureFixture[str]) -> None:
    sources = "".join(f"  crown.source.{name}: delta:{name}\n" for name in two.rows)
    text = f"name: p\nstorage: of_project\nlibraries: [{{glob: {{include: v.sql}}}}]\nconfiguration:\n{sources}"
    file = two.folder / "spark-pipeline.yml"
    file.write_text(f"{text}  crown.refresh.OF_R: full\n")
    (two.folder / "v.sql").write_text(
        "".join(f"CREATE MATERIALIZED VIEW {name} AS {query};\n" for name, query in VIEWS.items())
    )
    steps = {step.name: step.how for step in Pipeline.of(two.spark, Project.of(two.folder)).plan()}
    assert steps == {"of_r": "full", "of_s": "incremental", "both": "incremental", "bits": "full"}
    for more, said in (
        ("crown.refresh.nothing: full", "there is no view called nothing"),
        ("crown.refresh.of_r: often", r"v\.sql:1: refresh='often': give one of auto, incremental"),
    ):
        file.write_text(f"{text}  {more}\n")
        with pytest.raises(crown.CrownError, match=said):
            Pipeline.of(two.spark, Project.of(two.folder))
    file.write_text(text)
    capsys.readouterr()
    for words, said in (
        (["refresh"], "crown pipelines refresh takes --view NAME, once or more often"),
        (["drop"], "crown pipelines drop takes --view NAME"),
        (["run", "--view", "of_r"], "crown pipelines run takes no --view: refresh, drop, full-refresh do"),
        (["run", "--source", "r"], "crown pipelines run takes no --source: refresh does"),
        (["drop", "--view", "of_r"], "is still defined"),
    ):
        assert main(["pipelines", words[0], str(two.folder), *words[1:]]) == 2
        assert said in capsys.readouterr().err


def test_a_model_of_dbt_says_its_policy(tmp_path: Path) -> None:
    for policy in ("full", "sometimes"):
        config = {"materialized": "table", "meta": {"crown": policy}}
        project = project_of(manifest(tmp_path / policy, [model("v", "SELECT 1 AS x", [], "table", config=config)]))
        if policy == "full":
            project.load(Session(lambda: None, dict), {})  # type: ignore[arg-type,return-value]
            assert [of.refresh for of in project.definitions] == ["full"]
        else:
            with pytest.raises(SourceError, match=r"models/v\.sql: refresh='sometimes': give one of auto"):
                project.load(Session(lambda: None, dict), {})  # type: ignore[arg-type,return-value]
