"""What is compiled before a first batch, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import numba
import pytest

from crown.compiling import cache, folder, warm
from crown.compiling.signatures import variants
from crown.kernels.jit import declared
from ivm_triangle.kernels.warm import ensure_triangle_compiled

TABLES = "crown.kernels.tables"
compiling = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


@pytest.fixture
def without_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "library", lambda: None)
    monkeypatch.setattr(warm, "_done", set())
    monkeypatch.setattr(cache, "cache_folder", lambda: (tmp_path, "the test"))
    monkeypatch.setattr(folder, "cache_folder", lambda: (tmp_path, "the test"))


@compiling
def test_what_is_missing_is_compiled_once_and_said_once(
    without_library: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROWN_JIT", "1")
    few = [*warm.wanted(TABLES, "table_at", "is_full"), *warm.wanted("crown.kernels.strings", "entry_words")]
    if not hasattr(declared[few[0][0]][0], "compile"):
        pytest.skip("the kernels of this process come from a library")
    assert warm.ensure_compiled(few) == 3
    said = capfd.readouterr().err
    assert "crown: compiling 3 kernels, once on this machine (about 5 s) ... done in" in said
    assert warm.ensure_compiled(few) == 0, "it was looked for in this process"
    monkeypatch.setattr(warm, "_done", set())
    assert warm.ensure_compiled(few) == 0, "it is on disk"
    assert capfd.readouterr().err == ""


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
