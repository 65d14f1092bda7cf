"""``crown doctor``: checks that everything that crown needs is installed and works."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version

import crown
from crown.errors import CrownError, needs

HELP = "check this machine: Python, packages, kernels, memory, disk, Java; and maintain a small view"

_NAME = re.compile(r"[\w.-]+")
_EXTRA = re.compile(r"extra\s*==\s*[\"'](\w+)[\"']")
_SHOWN = ("jit", "spark", "graphframes", "bench")


@dataclass(frozen=True)
class Finding:
    """The result of one check. ``state``: ok, missing (an optional part is not installed) or broken."""

    what: str
    state: str
    said: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the findings. Returns exit code 1 if a required part is broken."""
    found = []
    for finding in findings():
        found.append(finding)
        if not args.json:
            print(f"{finding.state:8} {finding.what}: {finding.said}", flush=True)
    if args.json:
        print(json.dumps([asdict(finding) for finding in found]))
    return 1 if any(finding.state == "broken" for finding in found) else 0


def findings() -> Iterator[Finding]:
    """Yields the findings one by one. Compiles the kernels if necessary."""
    yield Finding("crown", "ok", f"{crown.__version__}, Python {platform.python_version()}, {platform.platform()}")
    yield from _packages()
    for what, look in (
        ("memory", _memory),
        ("disk", _disk),
        ("kernels", _kernels),
        ("view", _view),
        ("durable view", _durable),
    ):
        yield _looked(what, look)
    yield _java()


def _looked(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what, "ok", look())
    except (CrownError, OSError, AssertionError, ImportError) as error:
        return Finding(what, "broken", str(error))


def _packages() -> Iterator[Finding]:
    """Yields the required packages, then each optional part."""
    extras: dict[str, list[str]] = {name: [] for name in _SHOWN}
    for line in requires("crown-ivm") or []:
        name, extra = _NAME.match(line), _EXTRA.search(line)
        if name is None:
            continue
        if extra is None:
            there = _version(name[0])
            said = there or f"is not installed: pip install {name[0]}"
            yield Finding(name[0], "ok" if there else "broken", said)
        elif extra[1] in extras:
            extras[extra[1]].append(name[0])
    for part, names in extras.items():
        absent = [package for package in names if _version(package) is None]
        if names and not absent:
            yield Finding(f"[{part}]", "ok", ", ".join(f"{package} {_version(package)}" for package in names))
        elif names:
            yield Finding(f"[{part}]", "missing", f"{', '.join(absent)}: pip install 'crown-ivm[{part}]'")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory() -> str:
    from crown.store.memory import ADDRESSABLE, anonymous
    from crown.store.pieces import limit_of_addresses

    words, space = anonymous(ADDRESSABLE)
    if space is None:
        return f"{8 * len(words) >> 30} GiB of address space can be reserved for a state"
    space.reserve(0, 1)
    limit = limit_of_addresses()
    said = "the system reserves no memory that is not used" if limit is None else f"limited to {limit >> 20} MiB"
    return f"the address space is mapped as a state grows ({said})"


def _disk() -> str:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    assert free > 1 << 30, f"{folder} has {free >> 20} MiB left; make room, or set TMPDIR to another folder"
    return f"{free >> 30} GiB free in {folder}"


def _kernels() -> str:
    from crown.compiling.folder import cache_folder
    from crown.compiling.library import library, library_state

    if library() is not None:
        return f"from {library_state()}"
    with needs(f"compiling kernels ({library_state()})"):
        import crown.compiling.dispatch  # noqa: F401
    folder, reason = cache_folder()
    return f"compiled by Numba ({library_state()}) and kept in {folder} ({reason})"


def _view() -> str:
    started = time.monotonic()
    view = crown.view("SELECT a, COUNT(*) AS n FROM r GROUP BY a", {"r": {"a": "int64"}})
    delta = view.apply({"r": {"a": [1, 1, 2]}})
    assert delta.num_rows == 2, f"a small view gave {delta.to_pylist()}"
    seconds = time.monotonic() - started
    return f"a small view is maintained, after {seconds:.1f} s"


def _durable() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "view")
        with crown.open("SELECT a FROM r", path, {"r": {"a": "int64"}}) as view:
            started = time.monotonic()
            for number in range(20):
                view.update({"r": {"a": [number]}})
            each = 1000 * (time.monotonic() - started) / 20
        with crown.open(None, path) as view:
            assert view.count() == 20, f"a view that was opened again has {view.count()} rows of 20"
    return f"batches are synced to the disk in {each:.1f} ms each, and are read back"


def _java() -> Finding:
    java = shutil.which(
        "java", path=os.path.join(os.environ["JAVA_HOME"], "bin") if "JAVA_HOME" in os.environ else None
    )
    if java is None:
        return Finding("Java", "missing", "not found; Spark needs Java 17 or newer: install one, or set JAVA_HOME")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if match is None or int(match[1]) < 17:
        return Finding("Java", "missing", f"{java} is older than 17, which Spark needs; set JAVA_HOME to a newer one")
    return Finding("Java", "ok", f"{match[1]} ({java})")


if __name__ == "__main__":
    sys.exit(run(argparse.Namespace(json=False)))
