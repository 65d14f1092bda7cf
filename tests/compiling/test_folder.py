"""Where compiled kernels are kept when some folders cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from crown.compiling import folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installation outside of a checkout, a home and a folder for temporary files."""
    for name in ("home", "temporary"):
        (tmp_path / name).mkdir()
    for variable in (folder.VARIABLE, "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(folder, "_CHECKOUT", tmp_path / "site-packages")
    folder.cache_folder.cache_clear()
    yield
    folder.cache_folder.cache_clear()


def test_the_variable_is_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folder.VARIABLE, str(tmp_path / "named"))
    assert folder.cache_folder() == (tmp_path / "named", "CROWN_CACHE_DIR")


def test_a_checkout_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "pyproject.toml").touch()
    assert folder.cache_folder() == (tmp_path / "site-packages" / "out" / "cache", "the checkout")


def test_an_installed_package_takes_the_folder_of_the_user(tmp_path: Path) -> None:
    assert folder.cache_folder() == (tmp_path / "home" / ".cache" / "crown", "the user's cache folder")


def test_without_a_home_it_is_one_folder_of_the_user_for_all_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / ".cache").write_text("a file, so that no folder can be made")
    found, reason = folder.cache_folder()
    assert found == tmp_path / "temporary" / f"crown-{os.getuid()}"
    assert found.stat().st_mode & 0o777 == 0o700
    assert reason.startswith("temporary files")
    folder.cache_folder.cache_clear()
    assert folder.cache_folder()[0] == found


def test_what_others_can_write_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "home" / ".cache").write_text("")
    shared = tmp_path / "temporary" / f"crown-{os.getuid()}"
    shared.mkdir()
    shared.chmod(0o777)
    found, reason = folder.cache_folder()
    assert found != shared
    assert found.is_dir()
    assert reason.startswith("temporary files of this process")
