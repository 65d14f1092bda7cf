"""The sources of a kernel: its file and what it imports of kernels, at any depth, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from crown.compiling import sources
from crown.compiling.sources import digest_of, sources_of

FILES = {
    "__init__.py": "",
    "kernels/__init__.py": "",
    "kernels/sums.py": "from package.kernels.one import words\nimport numpy\n",
    "kernels/one/__init__.py": "",
    "kernels/one/words.py": "from package.kernels.one.deep import (\n    first,\n)\nfrom package import plain\n",
    "kernels/one/deep.py": "def first():\n    import package.kernels.unused\n",
    "kernels/unused.py": "",
    "plain.py": "from package import more\n",
    "more.py": "",
}
READ = {"kernels/sums.py", "kernels/one/words.py", "kernels/one/deep.py", "plain.py"}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with kernels in two folders, in a checkout that is called ``kernels`` itself."""
    root = tmp_path / "kernels" / "package"
    for name, text in FILES.items():
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)
    return root


def forget() -> None:
    """Makes this process read all files again."""
    for read in (digest_of, sources._source_of, sources._text_of, sources._imported):
        read.cache_clear()


def test_the_sources_are_what_is_imported_of_kernels(package: Path) -> None:
    found = sources_of(package / "kernels" / "sums.py")
    assert set(found.values()) == {package / name for name in READ}
    assert "package.kernels.one.deep" in found


@pytest.mark.parametrize("name", sorted(FILES.keys() - {"__init__.py"}))
def test_a_change_of_a_source_changes_the_digest_and_a_change_of_another_file_does_not(
    package: Path, name: str
) -> None:
    def digest() -> str:
        forget()
        return digest_of(package / "kernels" / "sums.py")

    before = digest()
    (package / name).write_text(FILES[name] + "ONE = 1\n")
    assert (digest() != before) == (name in READ)


def test_the_digest_is_the_same_in_every_folder(package: Path, tmp_path: Path) -> None:
    package.rename(tmp_path / "package")
    moved = digest_of(tmp_path / "package" / "kernels" / "sums.py")
    for name, text in FILES.items():
        (package / name).parent.mkdir(exist_ok=True, parents=True)
        (package / name).write_text(text)
    forget()
    assert digest_of(package / "kernels" / "sums.py") == moved
