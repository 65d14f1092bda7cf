"""What a user gets with the packages: the licence, types for type checkers, and a command that needs no PATH."""

from __future__ import annotations

import configparser
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import crown
from crown.commands.main import main

ROOT = Path(__file__).parent.parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs")
BENCH = tomllib.loads((ROOT / "bench" / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def test_the_licence_that_the_metadata_name_is_there(setup: configparser.ConfigParser) -> None:
    assert setup["metadata"]["license"] == "Apache-2.0"
    text = (ROOT / setup["metadata"]["license_files"]).read_text()
    assert "Apache License" in text.splitlines()[0]
    assert "Version 2.0" in text.splitlines()[1]
    assert "END OF TERMS AND CONDITIONS" in text


def test_a_wheel_has_no_module_that_an_earlier_build_left(tmp_path: Path) -> None:
    old = tmp_path / "lib" / "crown" / "removed.py"
    old.parent.mkdir(parents=True)
    old.touch()
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "lib" / "crown" / "__init__.py").exists()
    assert not old.exists()


def names(requirements: str) -> set[str]:
    return {re.split(r"[<>=]", line)[0] for line in requirements.split()}


def test_the_base_is_slim_and_every_part_brings_what_it_imports(setup: configparser.ConfigParser) -> None:
    base = {"numpy", "pyarrow", "sqlglot", "highspy", "typing_extensions"}
    assert names(setup["options"]["install_requires"]) == base
    extras = setup["options.extras_require"]
    assert names(extras["spark"]) == {"pyspark", "pandas", "deltalake", "obstore", "pyyaml"}
    for extra in ("graphframes", "test"):
        assert names(extras["spark"]) <= names(extras[extra]), extra
    assert "duckdb" in names(extras["test"])
    assert {"mkdocs-material", "mkdocstrings[python]"} <= names(extras["docs"])


def test_the_benchmarks_are_a_package_of_their_own(setup: configparser.ConfigParser) -> None:
    project, tools = BENCH["project"], BENCH["tool"]["setuptools"]
    assert setup["options.extras_require"]["bench"].split() == [f"{project['name']}=={project['version']}"]
    assert project["version"] == crown.__version__
    assert f"crown-ivm[spark,jit]=={crown.__version__}" in project["dependencies"]
    folders = {file.parent for file in (ROOT / "bench").rglob("__init__.py") if "build" not in file.parts}
    assert sorted(tools["packages"]) == sorted(".".join(folder.relative_to(ROOT).parts) for folder in folders)
    assert not [line for line in setup["options.packages.find"]["include"].split() if line.startswith("bench")]


def test_the_command_says_how_the_benchmarks_are_installed(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    found = metadata.entry_points(group="crown.commands")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [one for one in found if one.name != "bench"])
    assert main(["bench", "run"]) == 2
    assert capsys.readouterr().err == "crown: crown bench is in a separate package: pip install 'crown-ivm[bench]'\n"
    assert "bench" in parsers_of(capsys)


def parsers_of(capsys: Any) -> str:
    with pytest.raises(SystemExit):
        main(["--help"])
    return str(capsys.readouterr().out)


def test_a_view_needs_nothing_but_the_base() -> None:
    code = """
import sys
absent = {"pandas", "pyspark", "py4j", "scipy", "duckdb", "matplotlib", "tqdm", "graphframes", "hypothesis"}
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
import crown
cycle = "Q(a, b, c, d) :- g(a, b), g(b, c), g(c, d), g(d, a)."
assert "width" in crown.explain(cycle, {"g": {"a": "int64", "b": "int64"}})
view = crown.view(cycle, {"g": {"a": "int64", "b": "int64"}})
view.apply({"g": [(1, 2), (2, 3), (3, 4), (4, 1)]})
sums = crown.view("SELECT a, AVG(b) AS m FROM g GROUP BY a", {"g": {"a": "int64", "b": "float64"}})
sums.apply({"g": [(1, 2.0)]})
print(view.count(), sums.get({"a": 1}), crown.Triangle().count())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout == "4 {'a': 1, 'm': 2.0} 0\n", done.stderr


@pytest.mark.parametrize("package", ["plans", "ivm_triangle"])
def test_another_module_that_is_called_as_one_of_ours_is_named(package: str, tmp_path: Path) -> None:
    (tmp_path / f"{package}.py").write_text("")
    code = "import crown\ncrown.view\ncrown.Triangle"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    said = done.stderr.splitlines()[-1]
    assert said == (
        f"ImportError: crown has a module {package}, which {tmp_path / package}.py hides: rename that file, or "
        "move it into a package"
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_has_types(package: str, setup: configparser.ConfigParser) -> None:
    assert (ROOT / package / "py.typed").is_file()
    assert setup["options.package_data"]["*"].split(", ") == ["py.typed", "*.pyi"]
    assert f"{package}*" in setup["options.packages.find"]["include"].split()
