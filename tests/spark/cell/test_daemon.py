"""The process from which workers are forked has everything loaded, so that a new worker has nothing to do."""

import importlib
import sys
import zipfile
from zipimport import zipimporter

from spark_jobs.cell.daemon import forget_archives


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
