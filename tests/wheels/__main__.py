"""``python -m tests.wheels FOLDER``: builds both, installs the wheel, tries it, adds [spark], tries that.

What is printed says how long each step took. The environment is made in FOLDER, anew every time. Compiling the kernels
of an environment takes most of the time, so there is one, and not one for each part; and while it is used without
[spark], what that brings is fetched and made ready to be installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
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
    home, house = folder / "environment", folder / "packages"
    shutil.rmtree(house, ignore_errors=True)
    run(sys.executable, "-m", "venv", "--clear", home)
    with took(f"installed {wheel.name}"):
        run(*_pip(home), "install", wheel)
    brought = installed(home)
    assert brought == BASE, f"the base brings {sorted(brought ^ BASE)} more or less than it says"
    with fetching(home, f"{wheel}[spark]", house) as fetched:
        attempt(home, "smoke.py")
        with took(f"installed {wheel.name}[spark]"):  # to the base
            fetched()
            run(*_pip(home), "install", "--no-index", f"--find-links={house}", f"{wheel}[spark]")
    assert installed(home) >= BASE | {"pyspark", "pandas"}, "what these bring is theirs to decide"
    attempt(home, "smoke_spark.py")


def attempt(home: Path, smoke: str) -> None:
    """Runs a script of this folder in an environment and an empty folder."""
    with took(f"tried {smoke}"), tempfile.TemporaryDirectory() as empty:
        path = os.pathsep.join([str(home / "bin"), os.environ["PATH"]])
        run(home / "bin" / "python", "-I", HERE / smoke, cwd=empty, PATH=path)


@contextmanager
def fetching(home: Path, what: str, house: Path) -> Iterator[Callable[[], None]]:
    """Fetches packages into a folder meanwhile; yields what waits for them, and shows what went wrong."""
    words = [*_pip(home), "wheel", f"--wheel-dir={house}", what]
    pip = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=_environment())

    def fetched() -> None:
        said, _ = pip.communicate()
        if pip.returncode:
            sys.exit(f"{' '.join(words)} ended with {pip.returncode}:\n{said[-4000:]}")

    with pip:
        try:
            yield fetched
        finally:
            pip.kill()


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


def _pip(home: Path) -> list[str]:
    return [str(home / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]


def installed(home: Path) -> set[str]:
    """Returns the names of what is installed in an environment."""
    code = "import importlib.metadata as m; print(*{d.metadata['Name'].lower() for d in m.distributions()})"
    done = subprocess.run([home / "bin" / "python", "-I", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split()) - _TOOLS


def run(*words: str | Path, cwd: str | None = None, **variables: str) -> None:
    """Runs a command without this project on its path; its words are shown if it fails."""
    environment = {**_environment(), **variables}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout[-4000:]}{done.stderr[-4000:]}"
        )


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@contextmanager
def took(what: str) -> Iterator[None]:
    """Says how long a step took."""
    start = time.monotonic()
    yield
    print(f"{what} in {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
