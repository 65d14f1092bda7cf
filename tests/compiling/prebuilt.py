"""The library of kernels that tests call, as users of a wheel do: made once for all processes, by ``ensure_library``.

A process that gets its kernels from Numba takes 0.8 s more of the processor, and tests start some hundred. Objects of
kernels are kept beside those of Numba: after a change, only the kernels that depend on it are compiled.
``python -m tests.compiling.prebuilt`` makes the library.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

from crown.compiling import emit, library
from crown.compiling.build import ARM, features, link
from crown.compiling.folder import cache_folder
from crown.compiling.modes import COMPILING, PLAIN
from crown.compiling.warm import ROOT, Variant, _shares, all_variants, processors
from crown.kernels.jit import declared

_KEPT_S = 30 * 24 * 3600


def ensure_library() -> bool:
    """Makes the library of these sources for this processor, unless there is one. Returns False if it cannot be made:
    where Numba is to compile, or where there is no compiler of C.
    """
    if library.library() is not None:
        return True
    if COMPILING or PLAIN or shutil.which(os.environ.get("CC", "cc")) is None or not _processor():
        return False
    environment = {
        **os.environ,
        "CROWN_JIT": "1",
        "CROWN_CACHE_DIR": str(cache_folder()[0]),
        "NUMBA_CPU_NAME": "generic" if _processor() in ARM else _processor(),
        "NUMBA_CPU_FEATURES": features(_processor()),
    }
    subprocess.run([sys.executable, "-m", __name__], cwd=ROOT, env=environment, check=True)
    return True


def _processor() -> str:
    """Returns the newest kind of processor that a library can be for, and this one is; none without the extension."""
    try:
        from crown.compiling.native import processors as kinds
    except ImportError:
        return ""
    return str(kinds()[0])


def _objects(variants: list[Variant]) -> dict[Variant, Path]:
    """Returns where the object of each variant is, or will be. Its name has a digest of all that it depends on."""
    from crown.compiling.dispatch import numba_types

    folder = cache_folder()[0] / "objects"
    folder.mkdir(parents=True, exist_ok=True)
    tools = zlib.crc32(Path(emit.__file__).read_bytes() + features(_processor()).encode())
    found = {}
    for name, variant in variants:
        kernel = declared[name][0]
        kept = kernel._cache.file(numba_types(variant), kernel.targetctx)
        found[name, variant] = folder / f"{kept.stem}-{variant}-{tools:08x}.o"
    return found


def _emit(variants: list[Variant]) -> None:
    """Writes the objects of some variants, and beside each the line for the table of entries."""
    from crown.compiling.dispatch import compiled_alone

    emitter = emit.Emitter(_processor())
    for (name, variant), file in _objects(variants).items():
        compiled = compiled_alone(declared[name][0], variant)
        entry = f"crown_entry_{zlib.crc32(file.name.encode()):08x}"
        letters = emit.letters_of(compiled.signature.return_type)
        _write(file.with_suffix(".entry"), f"{name} {variant} {letters} {entry}".encode())
        _write(file, emitter.kernel(compiled, entry))


def _write(file: Path, held: bytes) -> None:
    """Writes a file so that no process reads a part of it."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}")
    temporary.write_bytes(held)
    temporary.replace(file)


def main() -> None:
    """Compiles what is missing, in a process per processor, and links the library."""
    started, objects = time.monotonic(), _objects(all_variants())
    missing = [variant for variant, file in objects.items() if not file.exists()]
    shares = [share for share in _shares(missing, processors()) if share]
    words = [[":".join(one) for one in share] for share in shares]
    children = [subprocess.Popen([sys.executable, "-m", __spec__.name, *share], cwd=ROOT) for share in words]
    ended = [child.wait() for child in children]
    if any(ended):
        raise SystemExit("the kernels could not be compiled")
    for file in objects.values():
        os.utime(file)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file in objects.values():
            for part in (file, file.with_suffix(".entry")):
                (folder / part.name).symlink_to(part)
        emit.emit_table(name, _processor())
        made = link(folder, folder / "made.so")
        library.FOLDER.mkdir(exist_ok=True)
        _write(library.FOLDER / f"{_processor()}.so", made.read_bytes())
    for old in cache_folder()[0].joinpath("objects").glob("*.o"):
        if old.stat().st_mtime < time.time() - _KEPT_S:
            old.unlink(missing_ok=True)
            old.with_suffix(".entry").unlink(missing_ok=True)
    print(
        f"{len(missing)} of {len(objects)} kernels compiled for tests in {time.monotonic() - started:.0f} s",
        file=sys.stderr,
    )


if __name__ == "__main__":
    if sys.argv[1:]:
        everything = set(all_variants())
        _emit([one for one in everything if ":".join(one) in sys.argv[1:]])
    else:
        main()
