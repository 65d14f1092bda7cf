"""Servers of object stores on loopback, each in a process of its own, with conditional writes: moto's of S3, Azurite,
which is Azure's own, and ours of Google Cloud Storage (``gcs``)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate

from tests.spark.storage import gcs

BUCKET = "bucket"
SECRET = "hunter2-and-more"
ACCOUNT, KEY = "account", base64.b64encode(SECRET.encode()).decode()
AZURITE = os.environ.get("AZURITE") or shutil.which("azurite-blob")
"""The program ``azurite-blob`` (npm install azurite); None if it is not there."""


@contextmanager
def s3_server() -> Iterator[dict[str, str]]:
    """Starts the server with an empty bucket, and stops it; yields what obstore must know to reach it."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with _serving([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], port):
        urllib.request.urlopen(urllib.request.Request(f"{url}/{BUCKET}", method="PUT")).close()
        yield options(url)


@contextmanager
def azure_server() -> Iterator[dict[str, str]]:
    """Does the same with Azure's emulator, which has to be there (``AZURITE``)."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}/{ACCOUNT}"
    quiet = ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    command = [str(AZURITE), "--blobHost", "127.0.0.1", "--blobPort", str(port), *quiet]
    with _serving(command, port, {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}):
        urllib.request.urlopen(_new_container(url)).close()
        yield {
            "azure_storage_account_name": ACCOUNT,
            "azure_storage_account_key": KEY,
            "azure_storage_endpoint": url,
            "azure_allow_http": "true",
        }


@contextmanager
def gcs_server() -> Iterator[dict[str, str]]:
    """Does the same with the server of Google Cloud Storage's XML API that is beside this file."""
    port = _free_port()
    with _serving([sys.executable, gcs.__file__, str(port), SECRET, BUCKET], port):
        yield gcs_options(f"http://127.0.0.1:{port}")


def gcs_options(url: str) -> dict[str, str]:
    """What obstore and deltalake must know to reach a server of Google Cloud Storage at ``url``."""
    account = {"gcs_base_url": url, "disable_oauth": True, "client_email": "", "private_key": SECRET}
    key = json.dumps({**account, "private_key_id": ""})
    return {"google_service_account_key": key, "google_allow_http": "true"}


def _new_container(url: str) -> urllib.request.Request:
    """Returns the signed request that makes a container: obstore makes none."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    signed = "PUT" + "\n" * 12 + f"{named}/{ACCOUNT}/{ACCOUNT}/{BUCKET}\nrestype:container"
    proof = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(proof).decode()}"
    return urllib.request.Request(f"{url}/{BUCKET}?restype=container", method="PUT", headers=headers)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _serving(command: list[str], port: int, more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Runs a server until the end of the block; ``more``: variables of its environment."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env={**os.environ, **(more or {})}, **silent) as server:
        try:
            _wait_for(port, server)
            yield
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


def url_of(given: dict[str, str]) -> str:
    """Returns where the server is that is reached by these options."""
    key = given.get("google_service_account_key")
    return str(json.loads(key)["gcs_base_url"]) if key else given["aws_endpoint"]


def through(url: str, given: dict[str, str]) -> dict[str, str]:
    """Returns the options by which the same is reached at another address."""
    return gcs_options(url) if "google_service_account_key" in given else {**given, "aws_endpoint": url}


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
