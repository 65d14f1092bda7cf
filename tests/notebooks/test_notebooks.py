"""Every notebook runs from top to bottom in an empty folder, draws something, and is stored without outputs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(file, as_version=4)
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
