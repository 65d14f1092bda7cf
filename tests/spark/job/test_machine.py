"""A machine that lacks something is told so in one sentence; scratch folders of the dead are swept."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_jobs import scratch, session
from spark_jobs.errors import SessionError
from spark_jobs.session import require_java

ROOT = Path(__file__).parents[3]


def fake(folder, name, script):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "there is no"),
        ('echo openjdk version \\"11.0.2\\" >&2', "is Java 11"),
        ('echo java version \\"1.8.0_402\\" >&2', "is Java 8"),
        ("echo something else", "does not answer like Java"),
    ],
)
def test_java_that_is_missing_or_too_old_is_a_sentence(tmp_path, monkeypatch, answer, said):
    if answer is not None:
        fake(tmp_path / "bin", "java", answer)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match=f"{said}.*install a Java 17"):
        require_java()


def test_java_on_the_path_is_found_too(tmp_path, monkeypatch):
    fake(tmp_path / "bin", "java", 'echo openjdk version \\"21.0.2\\" >&2')
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert require_java() == 21
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match="no java on the PATH"):
        require_java()


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")
@pytest.mark.parametrize(
    ("python", "java", "said"),
    [
        ("exit 1", 'echo openjdk version \\"17.0.2\\" >&2', "Python 3.11 or newer"),
        ('exec {python} "$@"', 'echo openjdk version \\"11.0.2\\" >&2', "this is Java 11"),
        ('exec {python} "$@"', "exit 127", "install a Java runtime"),
    ],
)
@pytest.mark.parametrize("target", ["demo", "test"])
def test_make_says_what_to_install_and_exits(tmp_path, target, python, java, said):
    package = ("setup.cfg", "setup.py", "pyproject.toml", "crown/compiling/native.c", "bench/pyproject.toml")
    for name in ("Makefile", *package):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    fake(tmp_path / "bin", "python3", python.format(python=sys.executable))
    fake(tmp_path / "bin", "java", java)
    found = subprocess.run(
        ["make", target],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHON": "python3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode != 0
    lines = [line for line in found.stderr.splitlines() if not line.startswith("make")]
    assert len(lines) == 1
    assert said in lines[0]


def test_the_scratch_folder_of_a_dead_driver_is_swept_and_that_of_a_living_one_is_not(tmp_path):
    for name in ("dead", "alive"):
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.alive").touch()
    with open(tmp_path / "alive.alive") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        mine = scratch.claim(str(tmp_path), "mine")
        assert scratch.claim(str(tmp_path), "mine") == mine
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["alive", "mine"]
    scratch.release(mine)
    scratch.release(mine)
    assert not mine.exists()


def test_a_jvm_that_ends_before_it_is_ready_is_a_sentence(tmp_path):
    code = (
        "from crown.errors import CrownError\nfrom spark_jobs import local_session\n"
        "try:\n    local_session(conf={'spark.driver.extraJavaOptions': '-agentlib:nosuch'})\n"
        "except CrownError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    *before, told = done.stdout.splitlines()
    assert "initialization of VM" in before[0]
    assert told.startswith("the JVM of Spark ended before it was ready: its output is above; check its")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            [b"WARNING: cannot be read", b" WARN Utils: cannot bind", b"ERROR: no folder /x", b"\tat a.b"],
            "ERROR: no folder /x",
        ),
        ([b"Killed"], "Killed"),
        ([], "its output is above"),
    ],
)
def test_of_what_a_jvm_says_the_first_error_is_told(said, reason):
    assert session._reason(said).startswith(reason)
