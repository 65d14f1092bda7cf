"""The recipe for a container in docs/howto/embed.md, carried out line by line without a registry and without a runtime.

The base image is the file system of this machine, under an overlay that takes what is written, with an environment for
its Python in front of the path. All else is the recipe's: what RUN says runs in there as root, COPY copies, CMD runs as
USER, in WORKDIR, where everything but VOLUME is read-only. What is not tried is what a runtime for containers adds.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "embed.md"
_ENVIRONMENT, _WHEELS = "/opt/base", "/wheels"


def possible() -> str:
    """Returns why the recipe cannot be carried out here; "" if it can."""
    if os.geteuid():
        return "only root can mount an overlay"
    words = ["unshare", "--mount", "sh", "-c", _overlay("true")]
    with tempfile.TemporaryDirectory() as layer:
        done = subprocess.run([*words, "-", layer], capture_output=True, text=True, check=False)
    return done.stderr.strip()


def recipe() -> list[tuple[str, str]]:
    """Returns the lines of the recipe: the word, and what follows."""
    found = re.search(r"```text\n(FROM .*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in found[1].splitlines()]


def build(python: str, wheel: Path, layer: Path) -> None:
    """Carries out RUN and COPY; what they write is in ``layer`` afterwards."""
    wheels = layer / "upper" / _WHEELS.lstrip("/")
    wheels.mkdir(parents=True)
    shutil.copy(wheel, wheels)
    (wheels / "constraints").write_text(f"crown-ivm @ file://{_WHEELS}/{wheel.name}\n")
    (layer / "upper").chmod(0o755)
    _inside(layer, f"{python} -m venv {_ENVIRONMENT}")
    code = re.search(r"```python\n(import json\n.*?FastAPI.*?)```", PAGE.read_text(), re.DOTALL)
    assert code is not None
    for word, rest in recipe():
        if word == "RUN":
            _inside(layer, rest)
        elif word == "COPY":
            name, target = rest.split()
            assert name == "service.py"
            _inside(layer, f"mkdir -p {target} && cat > {target}{name}", code[1])


@contextmanager
def serving(layer: Path, volume: Path, port: int) -> Iterator[str]:
    """Yields the address at which CMD serves, read-only but for the volume; ends it as a runtime does."""
    said = dict(recipe())
    command = [*json.loads(said["CMD"]), "--port", str(port), "--log-level", "warning"]
    start = f"""
        mount --bind {shlex.quote(str(volume))} "$1/root{said["VOLUME"]}"
        chown $(chroot "$1/root" id -u {said["USER"]}) "$1/root{said["VOLUME"]}"
        mount -o remount,ro "$1/root"
        if touch "$1/root/srv/written" 2>/dev/null; then echo "the image can be written" >&2; exit 1; fi
        exec chroot --userspec={said["USER"]} "$1/root" env -C {said["WORKDIR"]} {_path()} {shlex.join(command)}"""
    words = ["unshare", "--mount", "sh", "-c", _overlay(textwrap.dedent(start)), "-", str(layer)]
    with subprocess.Popen(words, env=_environment()) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            assert process.wait(60) in (0, -15, 143)


def ask(address: str, path: str, body: object = None) -> object:
    """Returns what the service answers, as soon as it listens."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, {"Content-Type": "application/json"})
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except ConnectionError:
            raise
        except OSError as error:
            if time.monotonic() > deadline or not isinstance(getattr(error, "reason", None), ConnectionError):
                raise
            time.sleep(0.1)


def attempt(python: str, wheel: Path) -> str:
    """Builds the image, runs it twice over one volume, and returns what was tried."""
    why = possible()
    if why:
        return f"the recipe for a container was not tried: {why}"
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        layer, volume = Path(folder, "layer"), Path(folder, "volume")
        layer.mkdir()
        volume.mkdir()
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        build(python, wheel, layer)
        with serving(layer, volume, port) as address:
            assert ask(address, "/orders", [{"id": 1, "shop": "a", "amount": 5}]) is None
            assert ask(address, "/totals/a") == {"shop": "a", "total": 5}
        with serving(layer, volume, port) as address:
            assert ask(address, "/totals/a") == {"shop": "a", "total": 5}, "the volume outlives the container"
        kept = {path.name for path in (volume / "totals").iterdir()}
        assert "meta.json" in kept
    return "the recipe for a container was carried out, and served twice over one volume, read-only and not as root"


def _inside(layer: Path, command: str, given: str = "") -> None:
    """Runs a command as root over the layer."""
    script = _overlay(f'exec chroot "$1/root" env {_path()} sh -c {shlex.quote(command)}')
    words = ["unshare", "--mount", "sh", "-c", script, "-", str(layer)]
    done = subprocess.run(words, input=given, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def _overlay(then: str) -> str:
    """Returns a script that mounts the file system of this machine under a layer, "$1", at "$1/root"."""
    mount = """
        set -e; mkdir -p "$1/root" "$1/upper" "$1/work"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
        mount --bind /dev "$1/root/dev"; mount -t proc proc "$1/root/proc"; mount -t tmpfs tmpfs "$1/root/tmp"
    """
    return textwrap.dedent(mount) + then


def _path() -> str:
    return f"PATH={_ENVIRONMENT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent"


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "CROWN_"))}
    return {**kept, "PIP_CONSTRAINT": f"{_WHEELS}/constraints", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


if __name__ == "__main__":
    print(attempt(sys.argv[1], Path(sys.argv[2]).resolve()))
