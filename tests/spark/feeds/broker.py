"""A broker of Kafka on loopback, and Spark's package for it, both from Maven's jars. None is there without Maven."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

BROKER = ("org.apache.kafka", "kafka_2.13", "4.1.0")
CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")  # the newest there is; fits Spark 4.3, too
_IN_SPARK = ("scala-library", "scala-parallel", "slf4j-api", "snappy-java", "lz4-java", "jsr305", "hadoop-client")
_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>tests</artifactId><version>1</version>
<dependencies><dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies>
</project>"""
_SETTINGS = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
num.partitions=2
"""


def jars(artifact: tuple[str, str, str], folder: Path) -> list[str]:
    """Returns the jars of an artifact and of what it needs, from Maven; none if they cannot be had."""
    if shutil.which("mvn") is None:
        return []
    folder.mkdir(parents=True)
    (folder / "pom.xml").write_text(_POM.format(*artifact))
    told = folder / "jars"
    command = ["mvn", "-q", "-B", "dependency:build-classpath", f"-Dmdep.outputFile={told}", "-DincludeScope=runtime"]
    try:
        subprocess.run(command, cwd=folder, timeout=300, check=True, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return []
    return told.read_text().strip().split(":")


def connector(folder: Path) -> list[str]:
    """Returns the jars that a session of Spark lacks to read Kafka."""
    return [jar for jar in jars(CONNECTOR, folder) if not Path(jar).name.startswith(_IN_SPARK)]


@contextmanager
def broker(classpath: list[str], folder: Path) -> Iterator[str]:
    """Starts a broker with topics of two partitions, and stops it; yields its address."""
    port, controller = _free_ports()
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, logs=folder / "logs"))
    java = ["java", "-Xmx256m", "-cp", ":".join(classpath)]
    form = [*java, "kafka.tools.StorageTool", "format", "--standalone", "-t", "4L6g3nShT-eMCtK--X86sw", "-c"]
    subprocess.run([*form, str(settings)], check=True, capture_output=True)
    with open(folder / "said", "w") as said:
        server = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=said, stderr=said, start_new_session=True
        )
    try:
        _wait_for(port, server)
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(server.pid, signal.SIGKILL)
        server.wait()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker that is there for the tests of a session; skips where there is none to start."""
    pytest.importorskip("confluent_kafka")
    folder = tmp_path_factory.mktemp("kafka")
    found = jars(BROKER, folder / "broker")
    if not found:
        pytest.skip("needs Maven, and its repository or a cache of it")
    with broker(found, folder / "broker") as address:
        yield address


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        for each in (one, two):
            each.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
