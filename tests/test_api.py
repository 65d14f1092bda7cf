"""What a user sees of the package: names, types, errors, and what is said where a package is missing."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import crown
from tests import api

ROOT = Path(__file__).parent.parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}


def test_the_public_surface_is_what_it_was() -> None:
    assert api.surface() == api.PAGE.read_text(), "python -m tests.api writes it; read the diff, users will"


def test_every_public_name_is_listed_and_found() -> None:
    assert set(crown.__all__) <= set(dir(crown))
    assert list(crown.__all__) == sorted(crown.__all__)
    for name in crown.__all__:
        assert getattr(crown, name).__doc__, name
    with pytest.raises(AttributeError, match="has no attribute 'veiw'"):
        _ = crown.veiw  # type: ignore[attr-defined]
    for name in crown.spark.__all__:
        assert name in dir(crown.spark)


def test_every_error_is_a_crown_error_and_can_be_imported_from_crown() -> None:
    for name in crown.errors.__all__:
        error = getattr(crown.errors, name)
        assert getattr(crown, name) is error
        assert issubclass(error, (crown.CrownError, UserWarning))
    from ivm_triangle.errors import TriangleError
    from spark_jobs.errors import SparkJobError

    assert issubclass(TriangleError, crown.CrownError)
    assert issubclass(SparkJobError, crown.CrownError)
    with pytest.raises(crown.CrownError, match="z"):
        crown.view("SELECT DISTINCT z FROM r", {"r": {"a": "int64"}})


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=ENVIRONMENT)
    return done.stdout + done.stderr.strip().rpartition("\n")[2]


def test_a_missing_package_is_one_sentence_with_the_command() -> None:
    without = "import sys; sys.modules['pyspark'] = None; sys.modules['duckdb'] = None; import crown\n"
    wanted = "needs pyspark: pip install 'crown-ivm[spark]'"
    assert f"MissingPackageError: crown.spark {wanted}" in run(without + "crown.spark.maintain")
    command = "from crown.commands.main import main; print(main({}))"
    assert f"crown: crown submit {wanted}" in run(without + command.format("['submit', 'q', '--input', 'g=x']"))
    shown = run(without + command.format("['--help']"))
    assert "maintain a query over change files in this process" in shown
    assert "Traceback" not in shown


def test_importing_crown_loads_little_and_a_view_nothing_of_other_parts() -> None:
    code = """
import sys, crown
first = {"numpy", "pyarrow", "numba", "plans"} & set(sys.modules)
view = crown.view("Q(a) :- r(a, b).", {"r": {"a": "int64", "b": "int64"}})
view.apply({"r": [{"a": 1, "b": 2}]})
print(sorted(first), sorted({"pandas", "pyspark", "duckdb", "sqlglot", "polars"} & set(sys.modules)))
"""
    assert run(code).startswith("[] []")


PROGRAM = """
from collections.abc import Iterator
from typing import assert_type

import crown

view = crown.view("Q(a) :- r(a).", {"r": {"a": "int64"}}, threads=1, memory_budget="1 MiB")
assert_type(view, crown.View)
assert_type(view.count(), int)
assert_type(view.explain(), str)
with crown.open(None, "folder") as kept:
    assert_type(kept, crown.DurableView)
    assert_type(kept.batches, int)
assert_type(crown.load("x"), crown.View)
assert_type(crown.plan("Q(a) :- r(a).", {"r": {"a": "int64"}}), crown.Plan | crown.Program)
assert_type(crown.explain("Q(a) :- r(a)."), str)
assert_type(crown.Triangle().count(), int)
try:
    view.apply({})
except crown.BadRowError as error:
    assert_type(error.row, int)
deltas = crown.spark.maintain
"""
MISTAKES = """
import crown

crown.veiw("Q(a) :- r(a).")
crown.view("Q(a) :- r(a).", threads="two")
crown.open("Q(a) :- r(a).").rows
"""


def test_a_type_checker_sees_real_types_in_a_users_program(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    for name, text in (("right", PROGRAM), ("wrong", MISTAKES)):
        (tmp_path / f"{name}.py").write_text(text)
    kept = ROOT / "out" / "types"  # what is known of the package's modules: finding it anew takes 15 s
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", str(kept)]
    done = subprocess.run(
        [*command, "right.py", "wrong.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    found = [line.partition(": error: ")[::2] for line in done.stdout.splitlines() if ": error: " in line]
    places = sorted({place for place, _ in found})
    assert places == ["wrong.py:4", "wrong.py:5", "wrong.py:6"], done.stdout


def test_public_functions_say_what_they_raise_or_return() -> None:
    for name in ("view", "load", "open", "plan", "explain"):
        said = inspect.getdoc(getattr(crown, name)) or ""
        assert said.startswith("Returns ")
        assert "Raises" in said or "See ``plan``" in said
