"""The source files of a kernel, and a digest over them.

A kernel depends on its own file and on the files of kernels that it imports, at any depth. A change of one file
recompiles only the kernels that depend on it.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_IMPORT = re.compile(r"^(?:from +([\w.]+) +import +(\([^)]*\)|[^\n]*)|import +([\w.]+))", re.MULTILINE)
_NAME = re.compile(r"\w+")
_CROWN = Path(__file__).parents[2]
_MACHINERY = ("crown.kernels.lowered", "crown.compiling.dispatch")
"""The modules that ``crown.kernels.jit`` imports when it compiles."""


@cache
def digest_of(file: Path) -> str:
    """Returns the digest over the sources of the kernels in ``file``."""
    digest = hashlib.sha256()
    for module, source in sorted(sources_of(file).items()):
        digest.update(module.encode())
        digest.update(_text_of(source))
    return digest.hexdigest()


def sources_of(file: Path) -> dict[str, Path]:
    """Returns ``file`` and the modules of its project that it imports, followed to any depth through folders
    ``kernels``.
    """
    top = file.parent
    while (top.parent / "__init__.py").is_file():
        top = top.parent
    roots = {top.name: top.parent, "crown": _CROWN}
    module = ".".join(file.relative_to(top.parent).with_suffix("").parts)
    found, todo = {module: file}, [file]
    while todo:
        for module in _imported(todo.pop()):
            root = roots.get(module.partition(".")[0])
            source = None if root is None or module in found else _source_of(module, root)
            if source is not None:
                found[module] = source
                if "kernels" in module.split(".")[:-1]:
                    todo.append(source)
    if "crown.kernels.jit" in found:
        found |= {module: _CROWN.joinpath(*module.split(".")).with_suffix(".py") for module in _MACHINERY}
    return found


@cache
def _source_of(module: str, root: Path) -> Path | None:
    """Returns the file of a module below a folder, or None if there is none."""
    source = root.joinpath(*module.split(".")).with_suffix(".py")
    return source if source.is_file() else None


@cache
def _text_of(file: Path) -> bytes:
    return file.read_bytes()


@cache
def _imported(file: Path) -> frozenset[str]:
    """Returns the names of modules that a file may import at its top."""
    found = set()
    for package, names, module in _IMPORT.findall(_text_of(file).decode()):
        found.add(module or package)
        found |= {f"{package}.{name}" for name in _NAME.findall(names)}
    return frozenset(found)
