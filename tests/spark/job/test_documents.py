"""The pages with blocks that need Spark run as they stand; ``tests/pages/test_blocks.py`` runs the others."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.marks import slow
from tests.pages import blocks

PAGES = [page for page in blocks.PAGES if blocks.on_spark(page.read_text())]
EVERY = [slow(page) if page.name == "backfill.md" else page for page in PAGES]  # test_delta hands over, too


@pytest.fixture
def folder(spark, tmp_path, monkeypatch):
    """An empty folder, which Spark takes for the current one, too."""
    java = spark.sparkContext._jvm
    files = java.org.apache.hadoop.fs.FileSystem.get(spark.sparkContext._jsc.hadoopConfiguration())
    before = java.System.getProperty("user.dir")

    def enter(path: str) -> None:
        """Spark asks its file system, and for checkpoints the JVM."""
        files.setWorkingDirectory(java.org.apache.hadoop.fs.Path(path))
        java.System.setProperty("user.dir", path)

    enter(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for stream in spark.streams.active:
        stream.stop()
    enter(before)


@pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(blocks.ROOT)))
def test_the_blocks_of_a_page_run_on_spark(spark, folder: Path, page: Path) -> None:
    text = page.read_text()
    assert blocks.refreshed(text, page.name, spark=True, names={"spark": spark}) == text
    assert Path(os.getcwd()).is_relative_to(folder)
