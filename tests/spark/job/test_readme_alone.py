"""The README, with its Spark, as the user nobody: no home, one folder to write to, compiled kernels that are there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from crown.compiling.folder import VARIABLE
from tests import alone
from tests.pages import blocks

README = """
import sys
from tests.pages import blocks
text = (blocks.ROOT / "README.md").read_text()
spark = sys.argv[1:] == ["spark"]
names = None
if spark:
    from spark_jobs import local_session
    names = {"spark": local_session("readme", cores=2, memory="1g")}
assert blocks.refreshed(text, "README.md", spark=spark, names=names) == text
print("as it stands")
"""


def run(words: list[str], variables: dict[str, str], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, env=variables, cwd=folder, capture_output=True, text=True, timeout=550, check=False)


@pytest.mark.slow  # `make wheels` runs the examples as nobody, too; `test_documents.py` the pages with Spark
@pytest.mark.skipif(alone.impossible() is not None, reason=str(alone.impossible()))
@pytest.mark.skipif(alone.python() is None, reason="there is no Python of this version that every user may run")
def test_the_readme_runs_for_nobody_where_one_folder_can_be_written(tmp_path: Path) -> None:
    python, kernels = str(alone.python()), blocks.ROOT / "out" / "cache"
    packages = [entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]
    variables = {
        "PATH": os.environ["PATH"],
        "HOME": "/nonexistent",
        "PYTHONPATH": os.pathsep.join([str(blocks.ROOT), *packages]),
        VARIABLE: str(kernels.resolve()),
    }
    if java := os.environ.get("JAVA_HOME"):
        variables["JAVA_HOME"] = java
    warm = run([python, "-c", README], variables, tmp_path)  # the kernels, as an image would bring them
    assert warm.returncode == 0, warm.stderr[-3000:]
    with tempfile.TemporaryDirectory() as folder:  # the folders above that of pytest are of one user
        done = run(alone.command(folder, python, "-c", README, "spark"), variables, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "as it stands"
    assert "cannot be kept" not in done.stderr, "nobody compiled what is there"


@pytest.mark.skipif(alone.impossible() is not None, reason=str(alone.impossible()))
@pytest.mark.skipif(alone.python() is None, reason="there is no Python of this version that every user may run")
def test_nobody_has_no_home_and_can_write_nothing_else(tmp_path: Path) -> None:
    code = "import os; print(os.getuid() > 0, *[os.access(folder, os.W_OK) for folder in ('/', '/tmp', '.')])"
    with tempfile.TemporaryDirectory() as folder:
        done = run(alone.command(folder, str(alone.python()), "-c", code), {"PATH": os.environ["PATH"]}, tmp_path)
    assert done.stdout.split() == ["True", "False", "False", "True"], done.stderr
