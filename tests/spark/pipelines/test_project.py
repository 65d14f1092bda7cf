"""The files of a project: what its definitions import, and when one of them has changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from spark_jobs.pipelines.definitions.project import Project
from spark_jobs.pipelines.definitions.sessions import Session

VIEW = """
from pyspark import pipelines as dp
from {module} import TEXT

@dp.materialized_view
def v():
    return TEXT
"""


def project_in(folder: Path, module: str, text: str) -> Project:
    """Returns a project whose view returns what a module of it says."""
    file = folder / f"{module.replace('.', '/')}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"TEXT = {text!r}\n")
    (folder / "v.py").write_text(VIEW.format(module=module))
    specification = "name: p\nstorage: storage\nlibraries: [{glob: {include: v.py}}]\n"
    if not (folder / "spark-pipeline.yml").exists():
        (folder / "spark-pipeline.yml").write_text(specification)
    return Project.of(folder)


def said(project: Project) -> object:
    """Returns what the view of a project returns, when its files have been read."""
    project.load(Session(lambda: None, dict), {})  # type: ignore[arg-type,return-value]
    (definition,) = project.definitions
    assert callable(definition.query)
    return definition.query()


@pytest.mark.parametrize("module", ["said_here", "parts.said_there", "parts.deep.said_below"])
def test_a_module_that_has_changed_makes_a_project_another_one_and_is_read_again(tmp_path: Path, module: str) -> None:
    made = project_in(tmp_path, module, "a")
    for now, then in ("ab", "bc"):
        assert said(made) == now
        assert made.is_current()
        again = project_in(tmp_path, module, then)
        assert not made.is_current()
        made = again
    assert said(made) == "c"
    (tmp_path / f"{module.replace('.', '/')}.py").unlink()
    assert not made.is_current(), "it is gone"


def test_a_specification_and_definitions_that_change_make_a_project_another_one(tmp_path: Path) -> None:
    for file in ("spark-pipeline.yml", "v.py"):
        made = project_in(tmp_path, "said_here", "a")
        assert said(made) == "a"
        (tmp_path / file).write_text((tmp_path / file).read_text() + "# more\n")
        assert not made.is_current(), file


def test_two_projects_of_a_process_have_each_its_own_modules(tmp_path: Path) -> None:
    made = {text: project_in(tmp_path / text, "said_here", text) for text in "ab"}
    assert {text: said(project) for text, project in made.items()} == {"a": "a", "b": "b"}


def test_packages_of_others_are_neither_read_again_nor_hidden_by_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "others" / "said_by_others").mkdir(parents=True)
    (tmp_path / "others" / "said_by_others" / "__init__.py").write_text("TEXT = 'theirs'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "others"))
    made = project_in(tmp_path / "project", "said_here", "a")
    (tmp_path / "project" / "v.py").write_text(VIEW.format(module="said_by_others"))
    (tmp_path / "project" / "said_by_others").mkdir()
    assert said(made) == "theirs"
    known = sys.modules["said_by_others"]
    assert said(Project.of(tmp_path / "project")) == "theirs"
    assert sys.modules.pop("said_by_others") is known
