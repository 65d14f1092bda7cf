"""An S3 server in a process of its own on loopback: moto's, with conditional writes."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

BUCKET = "bucket"
SECRET = "hunter2-and-more"


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Starts the server with an empty bucket, and stops it; yields what obstore must know to reach it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_for(port, server)
            urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
            yield options(url)
        finally:
            server.terminate()


def options(url: str) -> dict[str, str]:
    """What obstore must know to reach an S3 server at ``url``."""
    return {
        "aws_endpoint": url,
        "aws_access_key_id": "user",
        "aws_secret_access_key": SECRET,
        "aws_region": "us-east-1",
        "aws_allow_http": "true",
    }


def environment(given: dict[str, str]) -> dict[str, str]:
    """The same as variables of the environment."""
    return {name.upper(): value for name, value in given.items()}


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
