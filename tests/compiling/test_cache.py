"""Kernels on disk: what is there is right for this processor and these sources, and is found by every process."""

from __future__ import annotations

import errno
import logging
import os
from itertools import count
from pathlib import Path
from typing import Any

import numba
import pytest
from numba import int64

from crown.compiling import cache, folder
from crown.kernels.jit import kernel

pytestmark = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")


def double(number):
    return 2 * number


def compiled() -> Any:
    made = kernel(double)
    assert made(21) == 42
    return made


def is_cached(made: Any, signature: tuple[Any, ...]) -> bool:
    return bool(made._cache.file(signature, made.targetctx).is_file())


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cache, "cache_folder", lambda: (tmp_path / "cache", "the test"))
    return tmp_path / "cache"


def files(here: Path) -> list[Path]:
    return sorted(here.glob("*double-*.kernel"))


def test_a_kernel_is_compiled_once_and_then_found(here: Path) -> None:
    assert not is_cached(kernel(double), (int64,))
    assert compiled().stats.cache_hits == {}
    assert len(files(here)) == 1
    assert is_cached(kernel(double), (int64,))
    assert sum(compiled().stats.cache_hits.values()) == 1


def test_other_users_may_read_what_the_umask_lets_them(here: Path) -> None:
    before = os.umask(0o022)
    try:
        compiled()
    finally:
        os.umask(before)
    assert [file.stat().st_mode & 0o777 for file in files(here)] == [0o644]
    assert [file.name for file in here.iterdir()] == [file.name for file in files(here)]


def test_other_types_are_another_file(here: Path) -> None:
    compiled()
    assert not is_cached(kernel(double), (numba.int32,))
    kernel(double).compile((numba.int32,))
    assert len(files(here)) == 2


def test_a_kernel_for_another_processor_is_not_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled()
    codegen = type(made.targetctx.codegen())
    monkeypatch.setattr(codegen, "magic_tuple", lambda self: ("x86_64", "another", ""))
    assert not is_cached(made, (int64,))


def test_a_kernel_of_other_sources_is_not_found(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = compiled()
    monkeypatch.setattr(cache, "digest_of", lambda file: "another")
    assert not is_cached(made, (int64,))


def test_the_files_that_were_not_used_for_longest_are_removed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT", 3)
    for number in range(5):
        monkeypatch.setattr(cache, "digest_of", lambda file, number=number: str(number))
        compiled()
        newest = max(files(here), key=lambda file: file.stat().st_ctime_ns)
        os.utime(newest, (number, number))
    assert [file.stat().st_mtime for file in sorted(files(here), key=lambda file: file.stat().st_mtime)] == [2, 3, 4]


def test_a_folder_that_cannot_be_written_is_said_once(
    here: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache._cannot_be_written.cache_clear()
    here.mkdir(exist_ok=True)

    def refused(*of: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", f"{here}/kernel{next(numbers)}")  # each time another file

    numbers = count()
    monkeypatch.setattr(cache, "open", refused, raising=False)
    with caplog.at_level(logging.WARNING, "crown"):
        compiled()
        compiled()
    assert next(numbers) > 1
    assert len(caplog.records) == 1
    assert "set CROWN_CACHE_DIR to another folder" in caplog.text


def test_the_variable_of_numba_is_not_asked(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "numba"))
    compiled()
    assert not (tmp_path / "numba").exists()
    assert folder.VARIABLE == "CROWN_CACHE_DIR"
