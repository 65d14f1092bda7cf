"""The process from which workers are forked has everything loaded, so that a new worker has nothing to do."""

import importlib
import sys
import zipfile
from zipimport import zipimporter

import plans
from crown.programs.pipelines.pipeline import Pipeline
from crown.programs.preparer import BatchPreparer
from spark_jobs.cell.daemon import forget_archives
from spark_jobs.cell.warm import warm_up


def test_an_archive_is_still_imported_from_after_its_reader_was_forgotten(tmp_path, monkeypatch):
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("of_an_archive_one.py", "value = 1")
        made.writestr("of_an_archive_two.py", "value = 2")
    monkeypatch.setattr(sys, "path", [str(archive), *sys.path])
    assert importlib.import_module("of_an_archive_one").value == 1
    forget_archives()
    assert not [path for path, finder in sys.path_importer_cache.items() if isinstance(finder, zipimporter)]
    assert importlib.import_module("of_an_archive_two").value == 2


def test_what_is_warm_has_applied_inserts_and_deletes_by_a_call_and_in_steps(monkeypatch):
    """Otherwise the first batch of a worker would load kernels, or compile them."""
    program = plans.program("SELECT a, COUNT(*) AS warmed FROM r GROUP BY a", {"r": {"a": "int64"}})
    weights = {"call": [], "steps": []}
    run, prepare = Pipeline.run, BatchPreparer.prepare

    def noted_run(pipeline, options, unscanned):
        weights["call"] += unscanned[0].batch.column("_weight").to_pylist()
        return run(pipeline, options, unscanned)

    def noted_prepare(preparer, changes, *arguments, **named):
        weights["steps"] += changes["r"].column("_weight").to_pylist()
        return prepare(preparer, changes, *arguments, **named)

    monkeypatch.setattr(Pipeline, "run", noted_run)
    monkeypatch.setattr(BatchPreparer, "prepare", noted_prepare)
    warm_up(program)
    assert weights == {"call": [1, -1], "steps": [-1, 1]}
