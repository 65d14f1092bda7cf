"""Imports go one way, and each outside library has its place.

plans knows nobody; crown knows plans; ivm_triangle knows crown's ground floor, never the engine; spark_jobs knows those
three; bench and tests know all; nobody knows bench or tests.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests import syntax

ROOT = Path(__file__).parent.parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs", "bench")

MAY_IMPORT = {
    "plans": {"plans"},
    "crown": {"crown", "plans"},
    "ivm_triangle": {"ivm_triangle", "crown"},
    "spark_jobs": {"spark_jobs", "ivm_triangle", "crown", "plans"},
    "bench": {"bench", "spark_jobs", "ivm_triangle", "crown", "plans"},
}
FRONT_DOOR = {"crown/__init__.py", "crown/spark.py", "crown/graph/__init__.py"}
"""Files that show type checkers names of all floors, which they load when a user asks; nobody else imports them."""
_KERNELS = ("jit", "memory.arena", "memory.pointers", "memory.tables", "numbers.limbs")
GROUND_FLOOR = {
    f"crown.{module}" for module in ("errors", "guards", "guards.arguments", "guards.interrupts", "guards.uncopyable")
} | {
    "crown.bags.counts",
    "crown.bags.protocol",
    "crown.compiling.warm",
    "crown.ingest.tables.columns",
    "crown.ingest.conventions",
    *(f"crown.store.{module}" for module in ("budget", "memory", "words_file", "zset")),
    *(f"crown.kernels.{module}" for module in _KERNELS),
}
"""What ivm_triangle may see of crown: memory, tables, files of words, kernels, the bag protocol, arguments, errors."""


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


Import = ast.Import | ast.ImportFrom


@cache
def statements(file: Path) -> list[tuple[Import, bool]]:
    """Every statement of the file that imports, at its top or inside a function, and whether it is for type checkers
    alone."""
    text = file.read_text()
    nodes = [*syntax.statements(ast.parse(text))]
    conditions = [node for node in nodes if isinstance(node, ast.If)] if "TYPE_CHECKING" in text else []
    typed = {id(part) for i in conditions if "TYPE_CHECKING" in ast.unparse(i.test) for part in i.body}
    return [(node, id(node) in typed) for node in nodes if isinstance(node, Import)]


@cache
def imports(file: Path) -> list[str]:
    """Every module that the file imports by its full name."""
    return [*_imports(file)]


def _imports(file: Path) -> Iterator[str]:
    for node, _ in statements(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            assert node.level == 0, f"{file}: imports are absolute here"
            base = node.module or ""
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if is_module(f"{base}.{alias.name}"))


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


FILES = [file for package in PACKAGES for file in modules(package)]


def test_imports_go_one_way() -> None:
    upward, deep = {}, {}
    for file in FILES:
        place, package = str(file.relative_to(ROOT)), file.relative_to(ROOT).parts[0]
        if place in FRONT_DOOR:
            continue
        ours = {name for name in imports(file) if name.split(".")[0] in {*PACKAGES, "tests"}}
        upward[place] = {name for name in ours if name.split(".")[0] not in MAY_IMPORT[package]}
        if package == "ivm_triangle":
            crowns = {name for name in ours if name.split(".")[0] == "crown"}
            deep[place] = {name for name in crowns if not ROOT.joinpath(*name.split(".")).is_dir()} - GROUND_FLOOR
    assert len(upward) > 100
    assert {place: names for place, names in upward.items() if names} == {}, "the floors above"
    assert {place: names for place, names in deep.items() if names} == {}, "more than crown's ground floor"


def test_each_outside_library_has_its_place() -> None:
    wrong = {}
    for file in FILES:
        place = file.relative_to(ROOT)
        outside = {name.split(".")[0] for name in imports(file)}
        wrong[place] = [
            *({"sqlglot"} & outside if place.parts[:3] != ("plans", "frontends", "sql") else ()),
            *({"pyspark"} & outside if place.parts[0] not in {"spark_jobs", "bench"} else ()),
            *({"numba", "llvmlite"} & outside if not {"kernels", "compiling"} & {*place.parts, place.stem} else ()),
            *({"duckdb", "hypothesis"} & outside if place.parts[0] != "bench" else ()),
        ]
    assert {str(place): names for place, names in wrong.items() if names} == {}


@pytest.mark.parametrize(
    ("package", "absent"),
    [
        ("plans", ["numba", "pyspark", "pandas", "crown"]),
        ("crown", ["pyspark", "sqlglot", "numba", "spark_jobs"]),
        ("ivm_triangle", ["pyspark", "sqlglot"]),
    ],
)
def test_importing_a_lower_floor_does_not_load_the_upper_ones(package: str, absent: list[str]) -> None:
    code = f"import {package}, sys; print(*[name for name in {absent} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []


_BATCHES = """
import sys
import numpy as np
import pyarrow as pa
import crown

def column(*values):
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.array(values))])

edges = {"g": {"src": "int64", "dst": "int64"}}
hops = "SELECT DISTINCT x.src, x.dst, y.dst AS far FROM g x, g y WHERE x.dst = y.src"
counts = "SELECT src, COUNT(*) AS n FROM g GROUP BY src"
table = pa.Table.from_arrays([column(1, 2, 3), column(2, 3, 1), column(1, 1, 1)], names=["src", "dst", "_weight"])
nulls = pa.Table.from_arrays([column(4, 5), pa.nulls(2, pa.int64())], names=["src", "dst"])
for query, rows in ((hops, 3), (counts, 3)):
    view = crown.view(query, edges)
    assert view.apply({"g": table}).num_rows == rows
    view.apply({"g": nulls})
    view.apply({"g": [{"src": 1, "dst": 2, "_weight": -1}]})
    assert view.to_table().num_rows == view.count()
people = crown.view("SELECT name, COUNT(*) AS n FROM p GROUP BY name", {"p": {"name": "string", "height": "float64"}})
people.apply({"p": [("Ann", 1.5), (None, None)]})
people.apply({"p": [{"name": "Ann", "height": 1.5, "_weight": -1}]})
assert list(people) == [{"name": None, "n": 1}]
print(*[name for name in %r if name in sys.modules])
"""


def test_a_view_and_its_batches_load_no_library_that_they_do_not_need() -> None:
    """Neither a solver nor file formats and what reads them from afar, nor pandas, which is there for others here."""
    absent = ["highspy", "pandas", "pyarrow.parquet", "pyarrow.fs", "ssl", "duckdb", "pyspark", "matplotlib"]
    code = _BATCHES % absent
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == []


def test_functions_that_only_kernels_call_are_not_prepared_before_something_is_compiled() -> None:
    code = (
        "import gc, crown.views\n"
        "from crown.kernels.jit import _Device\n"
        "found = [one for one in gc.get_objects() if isinstance(one, _Device)]\n"
        "print(len(found), sum('_dispatcher' in vars(one) for one in found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    there, prepared = map(int, done.stdout.split())
    assert there > 100
    assert prepared == 0


def imported(package: str) -> dict[str, set[str]]:
    """What each module of a package imports of it, at its top or inside its functions.

    Imports for type checkers alone do not count: they never run.
    """
    found: dict[str, set[str]] = {}
    for file in modules(package):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        found[name] = {
            other
            for node, typed in statements(file)
            if not typed
            for other in _named(node)
            if other.split(".")[0] == package and other != name
        }
    return found


def _named(node: Import) -> Iterator[str]:
    """The modules that a statement names; of `from package import module` the module alone."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    for alias in node.names:
        full = f"{node.module}.{alias.name}"
        yield full if is_module(full) else node.module or ""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_of_a_package_import_each_other_in_a_circle(package: str) -> None:
    """Neither at their top nor inside their functions: CycleError names the circle."""
    order = list(TopologicalSorter(imported(package)).static_order())
    assert len(order) >= len(modules(package))
