"""A PostgreSQL server on loopback, for the tests of a session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg
import pytest


@pytest.fixture(scope="session")
def database():
    """A PostgreSQL server of its own on loopback; skips where there is none to start."""
    binaries = [Path(path).parent for path in [shutil.which("initdb")] if path]
    binaries = [folder.resolve() for folder in binaries] + sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    found = [folder for folder in binaries if (folder / "postgres").exists() and (folder / "initdb").exists()]
    if not found:
        pytest.skip("PostgreSQL is not installed (no initdb): on Debian, apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="crown-postgres-"))
    user = {}
    if os.getuid() == 0:  # initdb refuses root
        import pwd

        names = {entry.pw_name: entry for entry in pwd.getpwall()}
        entry = names.get("postgres") or names.get("nobody")
        if entry is None:
            pytest.skip("PostgreSQL does not run as root, and there is no other user here")
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        user = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    data = folder / "data"
    initdb = [found[0] / "initdb", "-D", data, "-U", "crown", "-A", "trust", "-E", "UTF8", "--no-sync"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["-D", data, "-p", str(port), "-k", folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    server = subprocess.Popen([found[0] / "postgres", *options], cwd=folder, stderr=subprocess.DEVNULL, **user)
    address = f"postgresql://crown@127.0.0.1:{port}/postgres"
    try:
        for _ in range(200):
            try:
                psycopg.connect(address).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
