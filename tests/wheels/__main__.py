"""``python -m tests.wheels FOLDER``: builds the wheel with its kernels, tries it, adds [spark], tries that; then the
source archive.

What is printed says how long each step took. The environments are made in FOLDER, anew every time. The wheel is tried
without Numba, as a user who can write nothing but one folder, and with every version of Python that is here. These open
the views that the first one kept. The source archive is installed where there is no C compiler, with [jit].
"""

from __future__ import annotations

import os
import platform
import re
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

from tests import alone
from tests.wheels import container

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PACKAGES = ("plans", "crown", "ivm_triangle", "spark_jobs")
BASE = {"crown-ivm", "numpy", "pyarrow", "sqlglot", "highspy", "typing_extensions"}
LIBRARIES = {"x86_64": ("x86-64-v2", "x86-64-v3", "x86-64-v4"), "aarch64": ("aarch64",)}
MOST_MEGABYTES, MOST_RESIDENT, MOST_SECONDS = 250, 110, 1.0
"""What the base takes on disk; memory (MiB) and processor time of a first example."""
_TOOLS = {"pip", "setuptools", "wheel"}


def main(folder: Path) -> None:
    """Does it all; the first thing that is wrong ends it with an error."""
    folder.mkdir(parents=True, exist_ok=True)
    with took("built the archives"):
        wheel, sources = build(folder / "dist")
    look_into(wheel, sources)
    home, house = folder / "environment", folder / "packages"
    shutil.rmtree(house, ignore_errors=True)
    python = alone.python() or Path(sys.executable)
    run(python, "-m", "venv", "--clear", home)
    with took(f"installed {wheel.name}"):
        run(*_pip(home), "install", wheel)
    brought = installed(home)
    assert brought == BASE, f"the base brings {sorted(brought ^ BASE)} more or less than it says"
    megabytes = sum(file.stat().st_size for file in _brought(home)) >> 20
    print(f"the base takes {megabytes} MB")
    assert megabytes <= MOST_MEGABYTES
    first_examples(home)
    carried = home / "carried"
    run(home / "bin" / "python", "-I", HERE / "carried.py", carried)
    for another in other_pythons():
        other = folder / f"environment-{another.name}"
        run(another, "-m", "venv", "--clear", other)
        run(*_pip(other), "install", wheel)
        attempt(other, "smoke.py")
        shutil.copytree(carried, other / "carried")
        run(other / "bin" / "python", "-I", HERE / "carried.py", other / "carried")
        print(f"{another} took it, too, and the views that {python} kept")
    with took("tried the recipe for a container"):
        print(container.attempt(str(python), wheel))
    with fetching(home, f"{wheel}[spark]", house) as fetched:
        attempt(home, "smoke.py", nobody=True)
        with took(f"installed {wheel.name}[spark]"):  # to the base
            fetched()
            run(*_pip(home), "install", "--no-index", f"--find-links={house}", f"{wheel}[spark]")
    assert installed(home) >= BASE | {"pyspark", "pandas"}, "what these bring is theirs to decide"
    attempt(home, "smoke_spark.py")
    benchmarks(home, folder / "dist-bench")
    from_sources(folder / "from-sources", sources)


def other_pythons() -> Iterator[Path]:
    """Yields a Python of each other version that the wheel is for: what is on the path, or what pyenv has."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in range(11, 15):
        name = f"python3.{minor}"
        named = [shutil.which(name), *sorted(pyenv.glob(f"3.{minor}.*/bin/{name}"))]
        works = (
            place for place in named if place and not subprocess.run([place, "-c", ""], capture_output=True).returncode
        )
        found = next(works, None)
        if found is not None and minor != sys.version_info.minor:
            yield Path(found)


def attempt(home: Path, smoke: str, nobody: bool = False) -> None:
    """Runs a script of this folder in an environment and an empty folder.

    ``nobody``: as the user nobody, who can write that folder and nothing else, if this process may become that user.
    """
    with took(f"tried {smoke}"), tempfile.TemporaryDirectory() as empty:
        path = os.pathsep.join([str(home / "bin"), os.environ["PATH"]])
        words: list[str | Path] = [home / "bin" / "python", "-I", HERE / smoke]
        if nobody and alone.impossible() is None:
            run(*alone.command(empty, *words), PATH=path, HOME="/nonexistent")
        else:
            run(*words, cwd=empty, PATH=path)


def first_examples(home: Path) -> None:
    """Runs the first two examples of the README, each in a process of its own, and looks at its time and memory."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    examples = [blocks[0], next(f"import crown\n{block}" for block in blocks if "rings = " in block)]
    for number, example in enumerate(examples, 1):
        code = f"{example}\n{_USED}"
        script = home / f"example-{number}.py"
        script.write_text(code)
        subprocess.run([home / "bin" / "python", "-I", script], check=True, capture_output=True)  # writes .pyc files
        found = [_used(home / "bin" / "python", script) for _ in range(5)]
        wall, spent, resident = (min(column) for column in zip(*found, strict=True))
        print(f"example {number}: {wall:.2f} s, of the processor {spent:.2f} s, {resident:.0f} MiB resident")
        assert spent <= MOST_SECONDS
        assert resident <= MOST_RESIDENT


_USED = """
import resource, sys
loaded = {"numba", "llvmlite", "pandas"} & set(sys.modules)
assert not loaded, loaded
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def _used(python: Path, script: Path) -> tuple[float, float, float]:
    """Returns seconds, seconds of the processor and MiB that a process took."""
    started = time.monotonic()
    done = subprocess.run([python, "-I", script], check=True, capture_output=True, text=True)
    wall = time.monotonic() - started
    spent, resident = map(float, done.stdout.splitlines()[-1].split())
    return wall, spent, resident


def benchmarks(home: Path, folder: Path) -> None:
    """Builds the wheel of the benchmarks, and adds it to an environment, where the command finds it."""
    for old in folder.glob("*"):
        old.unlink()
    with took("built the wheel of the benchmarks"):
        run(sys.executable, "-m", "build", "--outdir", folder, ROOT / "bench")
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.endswith(".py")}
    here = {str(file.relative_to(ROOT)) for file in (ROOT / "bench").rglob("*.py")}
    assert there == here, f"the wheel differs from the package in {sorted(there ^ here)[:5]}"
    crown = home / "bin" / "crown"
    told = subprocess.run([crown, "bench", "run"], capture_output=True, text=True, check=False, env=_environment())
    assert "pip install 'crown-ivm[bench]'" in told.stderr, told.stderr
    run(*_pip(home), "install", "--no-deps", wheel)
    run(crown, "bench", "run", "--help")


def from_sources(home: Path, sources: Path) -> None:
    """Installs the source archive where there is no C compiler: what it says without Numba, what it does with it."""
    run(sys.executable, "-m", "venv", "--clear", home)
    with took(f"installed {sources.name}"):
        run(*_pip(home), "install", sources, CC="/nonexistent/cc")
    assert installed(home) == BASE
    code = "import crown; view = crown.view('SELECT a FROM r', {'r': {'a': 'int64'}}); view.apply({'r': [(1,)]})"
    done = subprocess.run([home / "bin" / "python", "-I", "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'crown-ivm[jit]'" in done.stderr.splitlines()[-1], done.stderr
    with took("installed [jit], and compiled a first view"):
        run(*_pip(home), "install", f"{sources}[jit]", CC="/nonexistent/cc")
        run(home / "bin" / "python", "-I", "-c", code, CROWN_CACHE_DIR=str(home / "cache"))


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
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, CROWN_KERNELS="1")
    (wheel,), (sources,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sources


def look_into(wheel: Path, sources: Path) -> None:
    """Compares what the archives hold with what they should."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = next(archive.read(name).decode() for name in names if name.endswith(".dist-info/METADATA"))
    here = {str(file.relative_to(ROOT)) for package in PACKAGES for file in (ROOT / package).rglob("*.py")}
    assert f"-cp311-abi3-manylinux_2_29_{platform.machine()}.whl" in wheel.name, "one for all versions of Python"
    libraries = {f"crown/compiling/libraries/{name}.so" for name in LIBRARIES[platform.machine()]}
    assert {name for name in names if name.endswith(".so")} == {"crown/compiling/native.abi3.so", *libraries}
    _need_no_more_than(wheel, (2, 29))
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


def _need_no_more_than(wheel: Path, wanted: tuple[int, int]) -> None:
    """Looks up of which version of the C library the shared objects of a wheel need symbols."""
    with zipfile.ZipFile(wheel) as archive:
        for name in (name for name in archive.namelist() if name.endswith(".so")):
            for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", archive.read(name)):
                assert (int(found[0]), int(found[1])) <= wanted, f"{name} needs {found}"


def _brought(home: Path) -> Iterator[Path]:
    """Yields the files of an environment that packages brought, and not its tools or what Python compiled."""
    for packages in home.glob("lib/python*/site-packages"):
        for file in packages.rglob("*"):
            tool = file.relative_to(packages).parts[0].partition("-")[0] in {
                *_TOOLS,
                "_distutils_hack",
                "pkg_resources",
            }
            if file.is_file() and not tool and "__pycache__" not in file.parts:
                yield file


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
