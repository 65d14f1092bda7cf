"""All kernels as objects for another kind of processor than this one: what they define, and what they need."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from crown.compiling.build import emit
from crown.compiling.warm import all_variants

C_LIBRARY = {"memset", "memcpy", "memmove", "exp2", "ldexp", "log2", "pow", "numba_ldexp"}


def symbols(folder: Path, which: str) -> set[str]:
    files = sorted(map(str, folder.glob("*.o")))
    done = subprocess.run(["nm", which, *files], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in done.stdout.splitlines() if re.search(r" [A-Za-z] \S+$", line)}


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("nm") is None, reason="not for this processor")
def test_all_kernels_are_emitted_for_arm(tmp_path: Path) -> None:
    emit("x86-64-v2", tmp_path, "aarch64")
    count = len(all_variants())
    assert len([*tmp_path.glob("*.entry")]) == count > 100
    made = symbols(tmp_path, "--defined-only")
    assert {f"crown_entry_{number}" for number in range(count)} | {"crown_entries", "crown_stamp"} <= made
    assert symbols(tmp_path, "--undefined-only") - made <= C_LIBRARY
