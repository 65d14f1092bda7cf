"""``python -m crown.compiling.build [FOLDER]``: compiles all kernels, for each processor, into libraries. Needs Numba.

For each processor Numba compiles as it would on a machine with that processor. Each variant is emitted as an object,
with an entry that takes its arguments as words (see ``native.c``). The linker makes a library of the objects, which
exports the two symbols that ``native.c`` reads and needs only the C library.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crown.compiling.library import FOLDER
from crown.compiling.warm import processors

X86, ARM = ("x86-64-v2", "x86-64-v3", "x86-64-v4"), ("aarch64",)
_SHARE = "import sys; from crown.compiling.emit import emit_share; emit_share(*sys.argv[1:])"
_TABLE = "import sys; from crown.compiling.emit import emit_table; emit_table(*sys.argv[1:])"
_VISIBLE = "{ global: crown_stamp; crown_entries; local: *; };\n"


def main(folder: Path = FOLDER) -> None:
    """Builds the libraries for this kind of processor, and prints how long it took."""
    folder.mkdir(parents=True, exist_ok=True)
    for processor in ARM if platform.machine() == "aarch64" else X86:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as objects:
            emit(processor, Path(objects))
            library = link(Path(objects), folder / f"{processor}.so")
        seconds = time.monotonic() - started
        print(f"{library.name}: {library.stat().st_size >> 10} KiB in {seconds:.0f} s", flush=True)


def emit(processor: str, folder: Path, target: str = "") -> None:
    """Writes the objects of all kernels to a folder, in one process per processor of this machine.

    ``target``: emits code for this processor that was optimized for ``processor``.
    """
    count = processors()
    name = "generic" if processor in ARM else processor
    environment = {**os.environ, "CROWN_JIT": "1", "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features(processor)}
    words = [str(folder), target or processor]
    children = [
        subprocess.Popen([sys.executable, "-c", _SHARE, *words, str(share), str(count)], env=environment)
        for share in range(count)
    ]
    ended = [child.wait() for child in children]
    if any(ended):
        raise RuntimeError(f"the kernels could not be compiled for {processor}")
    subprocess.run([sys.executable, "-c", _TABLE, *words], env=environment, check=True)


def features(processor: str) -> str:
    """Returns the features that LLVM shall assume beside those of a processor.

    One instruction that gathers eight words from memory takes several times as long as eight that load one, on
    processors of AMD, and on those of Intel that are protected against Downfall.
    """
    return "" if processor in ARM else "+prefer-no-gather,+prefer-no-scatter"


def link(objects: Path, library: Path) -> Path:
    """Links the objects in a folder into a library. The linker checks that no symbol is undefined."""
    script = objects / "visible"
    script.write_text(_VISIBLE)
    files = sorted(map(str, objects.glob("*.o")))
    options = ["-shared", "-nostartfiles", "-Wl,-z,defs", "-Wl,-z,text", "-Wl,--gc-sections", "-Wl,-s"]
    words = [os.environ.get("CC", "cc"), *options, f"-Wl,--version-script={script}", "-o", str(library), *files, "-lm"]
    subprocess.run(words, check=True)
    return library


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
