"""Every notebook runs from top to bottom in an empty folder, draws something, and is stored without outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.marks import slow

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    assert {notebook.stem for notebook in NOTEBOOKS} == {"fraud_rings", "live_tpch", "social_feed"}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_is_stored_without_outputs(file: Path) -> None:
    cells = nbformat.read(file, as_version=4).cells
    assert not [cell.id for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)]
    assert cells[0].source.startswith("# "), "it begins with what it is about"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("name", ["fraud_rings", slow("live_tpch"), slow("social_feed")])
def test_a_notebook_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", as_version=4)
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in data for data in shown), "it draws something"
    html = [data["text/html"] for data in shown if "text/html" in data]
    assert any("<summary>plan</summary>" in page for page in html), "a view shows itself"
    assert any("background:rgba" in page for page in html), "a delta is coloured"
    said = [
        output.text for cell in notebook.cells for output in cell.get("outputs", []) if output.get("name") == "stderr"
    ]
    assert not said


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_batch_that_takes_long_has_a_bar_in_its_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    source = """
import time, crown
from crown.results import progress_bar
progress_bar.PATIENCE = 0.3
view = crown.view("SELECT a FROM r", {"r": {"a": "int64"}})
view.update({"r": ((time.sleep(0.5), i)[1:] for i in range(3))})
while progress_bar._pulse._shown is not None:
    time.sleep(0.1)
time.sleep(1)
"""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    seen: list[str] = []
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    take = client.process_message

    def process(message: Any, cell: Any, index: int) -> Any:
        seen.append(message["content"].get("data", {}).get("text/html", ""))
        return take(message, cell, index)

    monkeypatch.setattr(client, "process_message", process)
    client.execute()
    assert any("<progress></progress> crown: applying a batch" in html for html in seen)
    shown = [output.get("data", {}).get("text/html") for output in notebook.cells[0].outputs]
    assert shown == [""], "it is gone when the batch is done"
