"""The stamp of cached kernels: what may be called from a folder counts, whatever lies beside the package does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from crown.kernels.jit import family_stamp

stamp = family_stamp.__wrapped__  # it remembers, and here sources change


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with kernels in two folders, in a checkout that is called ``kernels`` itself."""
    root = tmp_path / "kernels" / "package"
    for folder in (root, root / "kernels", root / "kernels" / "one", root / "kernels" / "two"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    return root


@pytest.mark.parametrize("place", ["kernels/two/sums.py", "kernels/sums.py", "kernels/one/deep/sums.py"])
def test_a_change_in_any_folder_of_the_kernels_changes_the_stamp(package: Path, place: str) -> None:
    file = package / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("ONE = 1\n")
    before = stamp(package / "kernels" / "one")
    file.write_text("ONE = 2\n")
    assert stamp(package / "kernels" / "one") != before


@pytest.mark.parametrize("place", ["package/plain.py", "tool.py"])
def test_a_change_outside_of_the_kernels_does_not(package: Path, place: str) -> None:
    before = stamp(package / "kernels" / "one")
    (package.parent / place).write_text("ONE = 1\n")
    assert stamp(package / "kernels" / "one") == before
