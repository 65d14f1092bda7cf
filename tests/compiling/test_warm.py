"""What is compiled before a first batch, and what is said of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from crown.compiling import warm
from crown.compiling.signatures import variants
from crown.kernels import batches
from ivm_triangle.kernels.warm import ensure_triangle_compiled

compiling = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


ONCE = """
import importlib
from crown.compiling import warm
for module in ("crown.kernels.memory.tables", "crown.kernels.strings"):
    importlib.import_module(module)
few = list(warm.required_variants("crown.kernels.memory.tables", "table_at", "is_full"))
few += warm.required_variants("crown.kernels.strings", "entry_words")
print(warm.ensure_compiled(few), warm.ensure_compiled(few))
"""


@compiling
def test_what_is_missing_is_compiled_once_and_said_once(tmp_path: Path) -> None:
    environment = {**os.environ, "CROWN_JIT": "1", "CROWN_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", ONCE], capture_output=True, text=True, check=True, env=environment)
        for _ in range(2)
    )
    assert first.stdout == "3 0\n"
    assert "crown: compiling 3 kernels, once on this machine (about 5 s) ... done in" in first.stderr
    assert (second.stdout, second.stderr) == ("0 0\n", ""), "they are on disk"


@compiling
def test_with_a_library_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(warm, "library", lambda: object())
    monkeypatch.setattr(warm, "_done", set())
    ensure_triangle_compiled(streaming=True)
    assert capfd.readouterr().err == ""
    assert warm._done == set()


def test_the_kernels_of_a_module_are_compiled_in_one_process() -> None:
    some = [("a.b.c", "w"), ("a.b.d", "w"), ("a.e.f", "w"), ("a.g.h", "w")]
    cost = {"a.b.c": 3.0, "a.b.d": 3.0, "a.e.f": 2.0, "a.g.h": 2.0}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(warm, "_cost", lambda one: cost[one[0]])
        assert warm._shares(some, 2) == [some[:2], some[2:]]
        assert warm._shares(some, 8) == [some[:2], some[2:3], some[3:]]


def test_every_kernel_of_the_product_declares_its_types() -> None:
    undeclared = [
        file
        for package in warm.PACKAGES
        for file in (warm.ROOT / package).rglob("*.py")
        if "\n@kernel\n" in file.read_text()
    ]
    assert undeclared == []
    assert len(warm.all_variants()) > 100


def test_a_signature_is_a_variant_for_each_combination() -> None:
    assert variants("words, const bytes, none | int, table") == ("wBnt", "wBit")
    assert variants("none | int, bool | halves") == ("nl", "nh", "il", "ih")
    with pytest.raises(KeyError):
        variants("words, wrods")


@compiling
def test_an_array_that_may_be_written_to_does_not_compile_a_kernel_again() -> None:
    from crown.compiling.dispatch import compile_variant, dispatcher

    extent = dispatcher(getattr(batches.extent, "py_func", None) or batches.extent.__wrapped__, ("W",))
    compile_variant(extent, "W")
    numbers = np.array([3, 1, 2])
    assert extent(numbers) == (1, 3)
    numbers.flags.writeable = False
    assert extent(numbers) == (1, 3)
    entries = {compiled.entry_point for compiled in extent.overloads.values()}
    assert (len(extent.overloads), len(entries)) == (2, 1)
    with pytest.raises(TypeError, match=r"extent\(\) takes other arguments"):
        extent(np.array([3.0]))
