"""``python -m tests.wheels FOLDER``: builds both, installs the wheel, tries it, adds [spark], tries that.

What is printed says how long each step took. The environment is made in FOLDER, anew every time. Compiling the kernels
of an environment takes most of the time, so there is one, and not one for each part.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs", "bench")
BASE = {"crown-ivm", "numpy", "numba", "llvmlite", "pyarrow", "sqlglot", "highspy"}
_TOOLS = {"pip", "setuptools", "wheel"}


def main(folder: Path) -> None:
    """Does it all; the first thing that is wrong ends it with an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with took("built the archives"):
        wheel, sources = build(folder / "dist")
    look_into(wheel, sources)
    home = folder / "environment"
    run(sys.executable, "-m", "venv", "--clear", home)
    for extra, smoke in (("", "smoke.py"), ("[spark]", "smoke_spark.py")):  # the second brings the rest to the first
        with took(f"installed {wheel.name}{extra}"):
            run(home / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extra}")
        brought = installed(home)
        if extra:  # what PySpark and pandas bring is theirs to decide
            assert brought >= BASE | {"pyspark", "pandas"}
        else:
            assert brought == BASE, f"the base brings {sorted(brought ^ BASE)} more or less than it says"
        with took(f"tried {smoke}"), tempfile.TemporaryDirectory() as empty:
            path = os.pathsep.join([str(home / "bin"), os.environ["PATH"]])
            run(home / "bin" / "python", "-I", HERE / smoke, cwd=empty, PATH=path)


def build(folder: Path) -> tuple[Path, Path]:
    """Returns the wheel, made from the source archive and not from this folder, and that archive."""
    for old in folder.glob("*"):
        old.unlink()
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (sources,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sources


def look_into(wheel: Path, sources: Path) -> None:
    """Compares what the archives hold with what they should."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    here = {str(file.relative_to(ROOT)) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    there = {name for name in names if name.endswith(".py")}
    assert there == here, f"the wheel differs from the packages in {sorted(there ^ here)[:5]}"
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert any(name.endswith("LICENSE") for name in names)
    assert "License-Expression: Apache-2.0" in metadata or "License: Apache-2.0" in metadata
    assert "# crown" in metadata, "the page of the package is the README"
    with tarfile.open(sources) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    needed = {
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "setup.cfg",
        "Makefile",
        "mkdocs.yml",
        "docs/index.md",
        "tests/conftest.py",
    }
    assert needed <= inside, f"the source archive lacks {sorted(needed - inside)}"


def installed(home: Path) -> set[str]:
    """Returns the names of what is installed in an environment."""
    code = "import importlib.metadata as m; print(*{d.metadata['Name'].lower() for d in m.distributions()})"
    done = subprocess.run([home / "bin" / "python", "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split()) - _TOOLS


def run(*words: str | Path, cwd: str | None = None, **variables: str) -> None:
    """Runs a command without this project on its path; its words are shown if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env={**environment, **variables})
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )


@contextmanager
def took(what: str) -> Iterator[None]:
    """Says how long a step took."""
    start = time.monotonic()
    yield
    print(f"{what} in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
